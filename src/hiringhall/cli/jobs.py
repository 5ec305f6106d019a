"""`hall jobs`: the live jobs of a hall."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hiringhall.cli.filters import KeyFlag, QueueFlag, SinceFlag, StateFlag, TextFlag, UntilFlag, live_filters
from hiringhall.cli.grid import Cell, Column, Row, plain, table
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.paging import show
from hiringhall.cli.remote import HallFlag, JsonFlag, connected, job_id, print_json
from hiringhall.cli.reporting import print_error, print_result
from hiringhall.cli.styling import terminal_colours
from hiringhall.cli.wording import age, moment, now, short, situation_of, style_of
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT: Final = 50
LIMIT_MAX: Final = 1_000_000_000
COLUMNS: Final = (
    Column("id"),
    Column("situation"),
    Column("queue", least=8),
    Column("key", least=8),
    Column("age", right=True),
    Column("tries", right=True),
    Column("worker", least=8),
    Column("due", rank=1),
)

LimitFlag = Annotated[
    int,
    typer.Option("--limit", metavar="N", min=1, max=LIMIT_MAX, help="At most this many."),
]


def jobs(
    queue: QueueFlag = None,
    key: KeyFlag = None,
    text: TextFlag = None,
    state: StateFlag = None,
    worker: Annotated[
        int | None,
        typer.Option("--worker", metavar="NUMBER", min=1, help="Only jobs of this worker; see hall workers."),
    ] = None,
    since: SinceFlag = None,
    until: UntilFlag = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Only jobs newer than this one: the next page.")
    ] = None,
    limit: LimitFlag = LIMIT,
    count: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """List the live jobs: those that wait or run, oldest first. For ended jobs see hall history.

    --since and --until are about the time when a job was created.
    """
    filters = live_filters(queue, key, text, state, since, until)
    if worker is not None:
        filters["worker"] = worker
    with connected(hall) as remote:
        if count:
            return _count(*remote.ask(wire.COUNT, filters), as_json=as_json)
        if after is not None:
            filters["after"] = job_id(after)
        found = remote.pages(wire.JOBS, filters, "after", limit + 1)
        listed = list(islice(found, limit))
        more = next(found, None) is not None
    if as_json:
        print_json(shapes(listed))
    elif listed:
        now_us = now()
        rows = [_row(described, now_us) for described in listed]
        show(table(COLUMNS, rows, terminal_width(), terminal_colours()), paged=True)
    else:
        print_error("hall: no live job matches" if filters else "hall: there are no live jobs")
    if more:
        print_error(f"hall: there are more jobs (see --limit); next page: --after {listed[-1]['id']}")
    return 0


def shapes(listed: Iterable[dict[str, Any]]) -> Iterable[Any]:
    """Jobs as the HTTP API lists them."""
    from hiringhall.web.describing import job_line  # noqa: PLC0415 (only with --json)

    return map(job_line, listed)


def _count(count: int, complete: bool, *, as_json: bool) -> int:
    if as_json:
        print_json([{"count": count, "complete": complete}])
    else:
        print_result(f"{count}\n" if complete else f"{count} or more\n")
    return 0


def _row(described: dict[str, Any], now_us: int) -> Row:
    situation = situation_of(described)
    due_us = described.get("due_us", 0)
    number, queue, key, *rest = plain(
        described["id"],
        short(described["queue"]),
        short(described["key"]),
        age(described["created_us"], now_us),
        described["attempts"],
        short(described["worker"]),
        moment(due_us),
    )
    return [number, Cell(situation.replace("_", " "), style_of(situation)), queue, key, *rest]
