"""Who may write: the members of a database, and the one that is active.

Invariant: the row `writer` names one incarnation and one backend. Only a commit by both is kept, so whoever is
replaced there, wherever it hangs, can change nothing any more. Incarnations come from one sequence and only
grow; each start and each take-over has a new one, which is also the epoch of job ids.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from hiringhall.storage.postgres.connecting import Connection

IN_USE_S: Final = 3.0
"""A backend whose hall was killed may need this long to end."""
_LOOK_S: Final = 0.05
CHANNEL: Final = "hiringhall"
"""Where changes of the active role are announced."""


def announced(change: str) -> str:
    """A statement that makes a change and announces it to the members, which look at once."""
    return f"WITH changed AS ({change} RETURNING 1) SELECT pg_notify('{CHANNEL}', '') FROM changed"  # noqa: S608 (our own)


ACTIVE_BACKEND: Final = """
SELECT halls.name, writer.backend
FROM writer JOIN halls USING (hall) JOIN pg_stat_activity AS activity ON activity.pid = writer.backend
WHERE activity.datname = current_database()
AND COALESCE(activity.backend_start = writer.backend_start, true)
"""
"""The member that is active, if its backend is connected. Without the right to see when a backend began, one
with the same number counts as the same."""
_JOIN: Final = """
INSERT INTO halls (name, incarnation, address, version) VALUES ($1, nextval('incarnations'), $2, $3)
ON CONFLICT (name) DO UPDATE SET
    incarnation = excluded.incarnation, address = excluded.address, version = excluded.version,
    fenced = false, batch = 0
RETURNING hall, incarnation
"""
_FENCE: Final = """
UPDATE halls SET fenced = true, batch = writer.batch FROM writer
WHERE halls.hall = writer.hall AND halls.incarnation = writer.incarnation
"""
_CLAIM: Final = """
UPDATE writer SET hall = $1, incarnation = $2, backend = activity.pid, backend_start = activity.backend_start
FROM pg_stat_activity AS activity WHERE activity.pid = pg_backend_pid()
RETURNING batch, jobs, job_bytes
"""
_RECLAIM: Final = """
UPDATE writer SET backend = activity.pid, backend_start = activity.backend_start
FROM pg_stat_activity AS activity WHERE activity.pid = pg_backend_pid() AND incarnation = $1
RETURNING batch
"""
LAST_BATCH: Final = "SELECT batch FROM halls WHERE incarnation = $1 AND fenced"
"""The last batch of an incarnation that was fenced."""
RELEASE: Final = announced("UPDATE writer SET backend = 0 WHERE incarnation = $1")
"""The active hall closes: another may open at once."""
_TERMINATE: Final = """
SELECT pg_terminate_backend(writer.backend, 5000)
FROM writer JOIN pg_stat_activity AS activity
ON activity.pid = writer.backend AND activity.backend_start = writer.backend_start
WHERE $1::bigint = 0 OR writer.incarnation = $1
"""
"""Of a certain incarnation, if one is given: another member that was faster must not lose its connection."""
_HOLD_BEAT: Final = """
SELECT incarnation, beat FROM beats WHERE hall = (SELECT hall FROM writer) FOR UPDATE
"""
_BEAT: Final = """
INSERT INTO beats (hall, incarnation, beat) VALUES ($1, $2, 1)
ON CONFLICT (hall) DO UPDATE SET incarnation = excluded.incarnation, beat = beats.beat + 1
RETURNING beat
"""


class Member(NamedTuple):
    """How a process names itself to the others."""

    name: str
    address: str = ""
    version: str = ""


class Predecessor(NamedTuple):
    """The active hall, as a member saw it that decided to take over."""

    incarnation: int
    beat: int | None
    """Of which it was silent for too long; None: it has closed the database."""


class Claim(NamedTuple):
    """What a member that became active goes on from."""

    hall: int
    incarnation: int
    batch: int
    """The last batch that is kept."""
    jobs: int
    job_bytes: int


async def join(connection: Connection, member: Member) -> tuple[int, int]:
    """Become a member, or come back as a new incarnation: number and incarnation."""
    hall, incarnation = await connection.fetchrow(_JOIN, *member)
    return hall, incarnation


async def open_active(connection: Connection, member: Member, place: str) -> Claim:
    """Become active, if no other hall is connected as the active one. Raises StoreError if one is."""
    deadline_s = asyncio.get_running_loop().time() + IN_USE_S
    while (other := await connection.fetchrow(ACTIVE_BACKEND)) is not None:
        if asyncio.get_running_loop().time() > deadline_s:
            raise StoreError(f"hall {other[0]} has {place} open: stop it first, or give another database")
        await asyncio.sleep(_LOOK_S)
    return await _replace(connection, member)


async def take_over(connection: Connection, member: Member, instead_of: Predecessor | None = None) -> Claim:
    """Become active in place of whoever is: end its backend, and fence its incarnation. Raises StoreError if
    that is not as `instead_of` says: another member was faster, or the hall beats again.
    """
    if instead_of is not None:
        await _check_active(connection, instead_of)
    return await _replace(connection, member, instead_of, end_backend=True)


async def reclaim(connection: Connection, incarnation: int) -> int | None:
    """Go on with a new connection: wait for what the old one still does, and keep it from doing more. The last
    batch that is kept; None: another incarnation is active.
    """
    batch: int | None = await connection.fetchval(_RECLAIM, incarnation)
    return batch


async def beat(connection: Connection, hall: int, incarnation: int) -> int:
    """Count up, so that others see that this member lives."""
    count: int = await connection.fetchval(_BEAT, hall, incarnation)
    return count


async def _check_active(connection: Connection, seen: Predecessor) -> None:
    """Inside a transaction no beat of the active hall counts from now on, until it ends."""
    active = await connection.fetchval("SELECT incarnation FROM writer")
    if active != seen.incarnation:
        raise StoreError(
            f"incarnation {seen.incarnation} is not active any more, but {active}: nothing was taken over"
        )
    if seen.beat is not None:
        row = await connection.fetchrow(_HOLD_BEAT)
        beat = row[1] if row is not None and row[0] == active else 0
        if beat != seen.beat:
            raise StoreError(f"incarnation {active} beats again: nothing was taken over")


async def _replace(
    connection: Connection, member: Member, instead_of: Predecessor | None = None, *, end_backend: bool = False
) -> Claim:
    async with connection.transaction():
        if end_backend:
            await connection.execute(_TERMINATE, instead_of.incarnation if instead_of is not None else 0)
        await connection.execute("SELECT 1 FROM writer FOR UPDATE")
        if instead_of is not None:
            await _check_active(connection, instead_of)
        await connection.execute(_FENCE)
        hall, incarnation = await join(connection, member)
        batch, jobs, job_bytes = await connection.fetchrow(_CLAIM, hall, incarnation)
    return Claim(hall, incarnation, batch, jobs, job_bytes)
