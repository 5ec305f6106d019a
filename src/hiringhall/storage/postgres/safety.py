"""Settings of the server with which it would lose commits that it acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiringhall.storage.postgres.connecting import Connection

_SETTINGS: Final = """
SELECT name, setting FROM pg_settings
WHERE name IN ('synchronous_commit', 'synchronous_standby_names', 'fsync', 'full_page_writes')
"""


async def find_risks(connection: Connection) -> list[str]:
    """What an operator should know, a line each."""
    settings = dict(await connection.fetch(_SETTINGS))
    return risks_of(settings, await connection.fetchval("SELECT count(*) FROM pg_stat_replication"))


def risks_of(settings: Mapping[str, str], replicas: int) -> list[str]:
    """The same, of a server with these settings and so many replicas."""
    found: list[str] = []
    if settings["synchronous_commit"] == "off":
        found.append("synchronous_commit is off: a crash of the server loses acknowledged jobs; set it to on")
    if settings["fsync"] == "off" or settings["full_page_writes"] == "off":
        found.append(
            "fsync or full_page_writes is off: a crash of its machine loses everything; set both to on"
        )
    if replicas and not settings["synchronous_standby_names"]:
        found.append(
            "it has replicas, and synchronous_standby_names is empty: a fail-over loses acknowledged jobs;"
            " name the replicas that must have a commit before it is acknowledged"
        )
    elif replicas and settings["synchronous_commit"] == "local":
        found.append(
            "synchronous_commit is local: a commit does not wait for the replicas, and a fail-over loses"
            " acknowledged jobs; set it to on"
        )
    return found
