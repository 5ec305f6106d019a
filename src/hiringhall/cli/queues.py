"""`hall queues`, `hall pause`, `hall resume` and `hall doors`."""

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
from hiringhall.cli.wording import age, duration, now, rules_text, short, style_of
from hiringhall.dialects.native import wire

COLUMNS: Final = (
    Column("queue", least=12),
    Column("ready", right=True),
    Column("running", right=True),
    Column("waiting", right=True),
    Column("failed", right=True),
    Column("workers", right=True),
    Column("oldest", right=True),
    Column("takes", right=True, rank=1),
    Column("done", right=True, rank=2),
    Column("note"),
)
_FAILED: Final = [column.heading for column in COLUMNS].index("failed")
DOOR_COLUMNS: Final = (Column("door"), Column("address", least=12), Column("connections", right=True))
QueueNames = Annotated[list[str], typer.Argument(metavar="QUEUE...", help="The names of the queues.")]


def queues(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", show_default=False, help="Only queues whose names contain this.")
    ] = "",
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """List the queues: how many jobs are ready, running, waiting and failed, and the number of workers.

    waiting: for parents, until later, or parked by a limit. oldest: how long the oldest ready job has
    waited. takes: the average time of a job. failed: dead letters in the memory of the hall. done: since
    the hall started.
    """
    with connected(hall) as remote:
        found = list(remote.positions(wire.QUEUES, *([name_of(text)] if text else [])))
    if as_json:
        print_json(map(_shape, found))
        return 0
    if not found:
        print_error("hall: there are no queues" + (f' whose names contain "{text}"' if text else ""))
        return 0
    now_us = now()
    rows = [_row(described, now_us) for described in sorted(found, key=lambda each: each["name"])]
    show(table(COLUMNS, rows, terminal_width(), terminal_colours()), paged=True)
    return 0


def pause(names: QueueNames, hall: HallFlag = None, as_json: JsonFlag = False) -> int:
    """Pause queues: no job of them starts. Jobs that run go on. A pause survives a restart."""
    return _change(wire.PAUSE, "is paused", names, hall, as_json=as_json)


def resume(names: QueueNames, hall: HallFlag = None, as_json: JsonFlag = False) -> int:
    """Resume paused queues: their jobs start again."""
    return _change(wire.RESUME, "is not paused", names, hall, as_json=as_json)


def doors(hall: HallFlag = None, as_json: JsonFlag = False) -> int:
    """List the doors of a hall: where it listens, for which dialect, and how many connections are open."""
    with connected(hall) as remote:
        found = remote.ask(wire.DOORS, None)
    if as_json:
        print_json(
            {name: each[name] for name in ("dialect", "role", "address", "connections")} for each in found
        )
        return 0
    rows = [
        plain(
            escaped(f"{each['dialect']} {each['role']}".rstrip()), escaped(each["address"]), each["connections"]
        )
        for each in found
    ]
    show(table(DOOR_COLUMNS, rows, terminal_width(), terminal_colours()), paged=False)
    return 0


def _change(kind: str, done: str, names: list[str], hall: str | None, *, as_json: bool) -> int:
    with connected(hall) as remote:
        for written in names:
            name = name_of(written)
            remote.ask(kind, (name,))
            if as_json:
                print_json([_shape(_found(remote, name))])
            else:
                show([f"queue {short(name)} {done}"], paged=False)
    return 0


def _found(remote: Remote, name: bytes) -> dict[str, Any]:
    found: dict[str, Any] = remote.ask(wire.QUEUE, (name,))
    return found


def _shape(described: dict[str, Any]) -> dict[str, Any]:
    """A queue as the HTTP API answers it, without its rate, which a single look does not tell."""
    from msgspec import to_builtins  # noqa: PLC0415 (only with --json)

    from hiringhall.web.describing import queue  # noqa: PLC0415 (it loads a part of the web)

    shape: dict[str, Any] = to_builtins(queue(described, 0.0))
    del shape["done_s"]
    return shape


def _row(described: dict[str, Any], now_us: int) -> Row:
    paused = "paused" if described["paused"] else ""
    nobody = "no_workers" if described["ready"] and not described["workers"] else ""
    parked = f"{described['parked']} parked" if described.get("parked") else ""
    state = paused or nobody
    limits = rules_text(described["rules"]) if described.get("rules") else ""
    note = ", ".join(filter(None, (state.replace("_", " "), parked, limits)))
    average_us = described.get("average_run_us", 0)
    cells = plain(
        short(described["name"]),
        described["ready"],
        described["running"],
        described["waiting"],
        described["failed"],
        described["workers"],
        age(described.get("oldest_us", 0), now_us),
        duration(average_us) if average_us else "",
        described.get("done_total", 0),
    )
    if described["failed"]:
        cells[_FAILED] = Cell(cells[_FAILED].text, style_of("failed"))
    return [*cells, Cell(note, style_of(state or ("parked" if parked else "")))]
