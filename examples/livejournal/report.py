"""What the log says of each task, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.records import Record

    Row = dict[str, str | float]

SUMMARY = {
    "mail": ("1 mail", "async+handle"),
    "resize": ("2 gal resize", "async+handle"),
    "thumbgen": ("3 thumb pregen", "async+handle"),
    "pay_updateaccounts": ("4 LJ crons", "async"),
    "clean_caches": ("4 LJ crons", "async"),
    "dirty": ("6 dirty flushing", "async+handle"),
    "weblogscom": ("7 CmdBuffer jobs", "async+throw-away"),
    "rss": ("8 RSS fetching", "async+handle"),
    "captcha": ("9 captcha generation", "async+throw-away"),
    "bday": ("10 birthday emails", "async+handle"),
    "restart_web_nodes": ("11 restart web nodes", "logged only"),
}
"""The draft's task summary, numbered as there: the task and the type of the jobs of each name."""


def rows(records: Iterable[Record]) -> list[Row]:
    """In the order of the summary; jobs of one name in the order of their coming."""
    names = list(SUMMARY)
    return [row(each) for each in sorted(records, key=lambda each: (names.index(each.queue.decode()), each.id))]


def row(record: Record) -> Row:
    name = record.queue.decode()
    task, kind = SUMMARY[name]
    assert record.ended is not None
    return {
        "task": task,
        "name": name,
        "dupkey": record.key.decode(),
        "type": kind,
        "state": record.state,
        "tries": record.attempts,
        "elapsed_s": round((record.ended - record.created).total_seconds(), 3),
        "result": record.result.decode(),
    }


def table(lines: list[Row]) -> Table:
    table = Table(*lines[0], box=None, pad_edge=False, header_style="bold")
    for line in lines:
        table.add_row(*map(str, line.values()))
    return table
