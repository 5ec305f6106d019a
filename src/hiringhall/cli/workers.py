"""`hall workers`: the workers of a hall, and which of them get no more jobs."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from hiringhall.cli.escaping import escaped
from hiringhall.cli.grid import Cell, Column, Row, plain, table
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.paging import show
from hiringhall.cli.remote import HallFlag, JsonFlag, Remote, connected, name_of, print_json
from hiringhall.cli.reporting import print_error
from hiringhall.cli.styling import terminal_colours
from hiringhall.cli.wording import age, now, short, style_of
from hiringhall.dialects.native import wire

COLUMNS: Final = (
    Column("number", right=True),
    Column("name", least=10),
    Column("state"),
    Column("jobs", right=True),
    Column("slots", right=True),
    Column("queues", least=12),
    Column("dialect", rank=1),
    Column("address", least=15, rank=2),
    Column("since", right=True, rank=3),
    Column("heard", right=True, rank=3),
)
QUEUES_SHOWN: Final = 20

Numbers = Annotated[
    list[int] | None,
    typer.Option(
        "--drain", metavar="NUMBER", help="Give this worker no more jobs. Can be given several times."
    ),
]


def workers(
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Only workers that can do this queue.")
    ] = None,
    drain: Numbers = None,
    undrain: Annotated[
        list[int] | None,
        typer.Option("--undrain", metavar="NUMBER", help="Give this worker jobs again after --drain."),
    ] = None,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """List the workers. With --drain, some of them finish what they have and get no more jobs.

    A worker is working (it has a job), hired (for a job that it has not begun), waiting (it is told when there
    is a job) or idle (it has not asked for work). A worker that connects again is a new one.
    """
    with connected(hall) as remote:
        if drain or undrain:
            found = _change(remote, drain or [], undrain or [])
        else:
            found = list(remote.positions(wire.WORKERS, *([name_of(queue)] if queue is not None else [])))
    if as_json:
        from hiringhall.web.describing import worker  # noqa: PLC0415 (only with --json)

        print_json(map(worker, found))
    elif found:
        now_us = now()
        rows = [_row(described, now_us) for described in found]
        show(table(COLUMNS, rows, terminal_width(), terminal_colours()), paged=True)
    else:
        print_error("hall: there are no workers" + (f' for the queue "{queue}"' if queue else ""))
    return 0


def _change(remote: Remote, drain: list[int], undrain: list[int]) -> list[dict[str, Any]]:
    """The workers that were changed, as they are now."""
    for kind, numbers in ((wire.DRAIN, drain), (wire.UNDRAIN, undrain)):
        for number in numbers:
            remote.ask(kind, (number,))
    return [remote.ask(wire.WORKER, (number,)) for number in dict.fromkeys([*drain, *undrain])]


def _row(described: dict[str, Any], now_us: int) -> Row:
    state = "draining" if described.get("draining") else str(described.get("state", ""))
    names = described["queues"]
    queues = ", ".join(short(name) for name in names[:QUEUES_SHOWN])
    if len(names) > QUEUES_SHOWN:
        queues += f" and {len(names) - QUEUES_SHOWN} more"
    number, name, *rest = plain(
        described["number"],
        short(described["name"]),
        len(described["jobs"]),
        described.get("slots", ""),
        queues,
        escaped(described.get("dialect", "")),
        escaped(described.get("address", "")),
        age(described.get("since_us", 0), now_us),
        age(described["heard_us"], now_us),
    )
    return [number, name, Cell(state, style_of(state)), *rest]
