"""Reads what the file holds beside jobs and lines: terms, schedules, paused queues, rules, windows, flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import Firing, FlowRow, WindowRow
from hiringhall.storage.rows import TERMS_COLUMNS, decode_terms
from hiringhall.storage.rule_rows import decode_rules

if TYPE_CHECKING:
    import sqlite3

    from hiringhall.core.rules.queue_rules import QueueRules
    from hiringhall.core.terms import Terms

_FLOW_SHAPE: Final = (bytes, int, int, int, int, int)
_WINDOW_SHAPE: Final = (bytes, bytes, int, int)


def read_terms(connection: sqlite3.Connection) -> dict[int, Terms]:
    """All valid terms by id. A job whose terms are not among them is a bad row."""
    return decode_terms(connection.execute(f"SELECT {TERMS_COLUMNS} FROM terms"))  # noqa: S608, our own names


def read_firings(connection: sqlite3.Connection, bad: list[str]) -> dict[str, Firing]:
    """The latest firing of each schedule. The names of those that cannot be read are added to `bad`."""
    found: dict[str, Firing] = {}
    for name, due_us, plan in connection.execute("SELECT name, due_us, plan FROM schedules"):
        text = name.decode(errors="replace") if isinstance(name, bytes | bytearray) else str(name)
        if (type(name), type(due_us), type(plan)) == (bytearray, int, bytes):
            found[text] = Firing(due_us, plan)
        else:
            bad.append(text)
    return found


def read_paused(connection: sqlite3.Connection) -> list[bytes]:
    """The names of the paused queues. What is not a name is ignored."""
    rows = connection.execute("SELECT queue FROM paused ORDER BY queue")
    return [bytes(queue) for (queue,) in rows if type(queue) is bytes]


def read_rules(connection: sqlite3.Connection, bad: list[str]) -> dict[bytes, QueueRules]:
    """The rules that were set at run time, by queue. Queues whose rules cannot be read are added to `bad`."""
    found: dict[bytes, QueueRules] = {}
    for queue, data in connection.execute("SELECT queue, rules FROM queue_rules ORDER BY queue"):
        rules = decode_rules(data) if (type(queue), type(data)) == (bytes, bytes) else None
        if rules is None:
            bad.append(queue.decode(errors="replace") if isinstance(queue, bytes) else str(queue))
        else:
            found[queue] = rules
    return found


def read_windows(connection: sqlite3.Connection) -> list[WindowRow]:
    """The keys that are throttled. A row that cannot be read is ignored."""
    rows = connection.execute("SELECT queue, key, job, until_us FROM windows ORDER BY queue, key")
    return [WindowRow._make(row) for row in rows if tuple(map(type, row)) == _WINDOW_SHAPE]


def read_flows(connection: sqlite3.Connection) -> list[FlowRow]:
    """All flows, the oldest first. A row that cannot be read is ignored: the flow counts its live jobs only."""
    rows = connection.execute(
        "SELECT name, created_us, ended_us, done, failed, cancelled FROM flows ORDER BY created_us, name"
    )
    return [FlowRow._make(row) for row in rows if tuple(map(type, row)) == _FLOW_SHAPE]
