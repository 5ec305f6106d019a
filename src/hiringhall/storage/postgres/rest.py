"""What a hall loads beside the live jobs and the lines of the history: it is small."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hiringhall.core.changes import Firing, FlowRow, WindowRow
from hiringhall.storage.rule_rows import decode_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.core.rules.queue_rules import QueueRules
    from hiringhall.storage.postgres.connecting import Database


class Rest(NamedTuple):
    """The fields of `Loaded` behind the ended jobs, in their order."""

    fired: dict[str, Firing]
    paused: list[bytes]
    flows: list[FlowRow]
    rules: dict[bytes, QueueRules]
    windows: list[WindowRow]


async def read_rest(database: Database) -> tuple[Rest, list[bytes]]:
    """All of it, and the queues whose rules cannot be read."""
    fetch = database.fetch
    fired = await fetch("SELECT name, due_us, plan FROM schedules")
    paused = await fetch("SELECT queue FROM paused ORDER BY queue")
    flows = await fetch("SELECT * FROM flows ORDER BY created_us, name")
    rules, unreadable = _rules_of(await fetch("SELECT queue, rules FROM queue_rules ORDER BY queue"))
    windows = await fetch("SELECT queue, key, job, until_us FROM windows ORDER BY queue, key")
    rest = Rest(
        {name.decode(): Firing(due_us, plan) for name, due_us, plan in fired},
        [queue for (queue,) in paused],
        [FlowRow(*row) for row in flows],
        rules,
        [WindowRow(*row) for row in windows],
    )
    return rest, unreadable


def _rules_of(rows: Iterable[tuple[bytes, bytes]]) -> tuple[dict[bytes, QueueRules], list[bytes]]:
    """The rules that were set at run time, by queue."""
    found: dict[bytes, QueueRules] = {}
    unreadable: list[bytes] = []
    for queue, data in rows:
        rules = decode_rules(data)
        if rules is None:
            unreadable.append(queue)
        else:
            found[queue] = rules
    return found, unreadable
