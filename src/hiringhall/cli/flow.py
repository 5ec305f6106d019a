"""`hall flow list`, `show`, `cancel` and `retry`: flows of a running hall."""

from __future__ import annotations

import gc
from itertools import islice
from pathlib import Path  # noqa: TC003 (Typer reads the annotations)
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hiringhall.cli.escaping import escaped
from hiringhall.cli.flow_drawing import draw
from hiringhall.cli.flow_nodes import as_graph, read_nodes
from hiringhall.cli.grid import Cell, Column, Row, plain, table
from hiringhall.cli.help_texts import completing
from hiringhall.cli.layout import labelled, terminal_width
from hiringhall.cli.paging import show as show_lines
from hiringhall.cli.remote import HallFlag, JsonFlag, connected, name_of, print_json
from hiringhall.cli.reporting import FAILURE, WRONG_USE, CommandError, print_error, print_result
from hiringhall.cli.styling import BOLD, terminal_colours
from hiringhall.cli.wording import age, counted, duration, moment, now, short, style_of
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.color import ColorSystem

    from hiringhall.cli.flow_nodes import FlowNode

LIMIT: Final = 50
LIMIT_MAX: Final = 1_000_000
WIDTH: Final = 100
"""Without a terminal."""
STATES: Final = ("running", "stuck", "done", "failed", "cancelled")
COUNTS: Final = ("done", "failed", "cancelled", "running", "ready", "delayed", "held")
BLOCKING_SHOWN: Final = 3
COLUMNS: Final = (
    Column("flow", least=8),
    Column("state"),
    Column("jobs", right=True),
    Column("done", right=True),
    Column("failed", right=True),
    Column("running", right=True),
    Column("ready", right=True, rank=2),
    Column("waiting", right=True, rank=1),
    Column("age", right=True),
    Column("took", right=True, rank=3),
)

FlowName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the flow.")]


def listing(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", show_default=False, help="Only flows with this in their name.")
    ] = "",
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            autocompletion=completing(STATES),
            help=f"Only flows in this state: {', '.join(STATES)}.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, max=LIMIT_MAX, help="At most this many."),
    ] = LIMIT,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """List the flows, newest first: their state, and how their jobs stand."""
    filters: dict[str, Any] = {"text": name_of(text)} if text else {}
    if state is not None:
        if state not in STATES:
            raise CommandError(f'--state: "{state}" is not allowed; it takes {", ".join(STATES)}', WRONG_USE)
        filters["state"] = state
    with connected(hall) as remote:
        found = remote.pages(wire.FLOWS, filters, "before", limit + 1)
        listed = list(islice(found, limit))
        more = next(found, None) is not None
    if as_json:
        print_json(_shape(described) for described in listed)
    elif listed:
        now_us = now()
        rows = [_row(described, now_us) for described in listed]
        show_lines(table(COLUMNS, rows, terminal_width(), terminal_colours()), paged=True)
    else:
        print_error("hall: no flow matches" if filters else "hall: there are no flows")
    if more:
        print_error("hall: there are more flows (see --limit)")
    return 0


def show(
    name: FlowName,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the graph to this file as SVG.")
    ] = None,
    no_graph: Annotated[bool, typer.Option("--no-graph", help="Only the state and the counts.")] = False,
    no_pager: Annotated[bool, typer.Option("--no-pager", help="Print without a pager.")] = False,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Show a flow: its state, what the rest of it waits for, and its graph.

    Tasks of a wide layer are shown as one, with how many of them are done. With --json there is a line for the
    flow, and then one for each job.
    """
    flow = name_of(name)
    # A large flow is a million small objects that all stay until the end: looking for garbage finds none.
    gc.disable()
    with connected(hall) as remote:
        described = remote.ask(wire.FLOW, (flow,))
        nodes = [] if no_graph and svg is None else read_nodes(remote, flow)
    if svg is not None:
        _write_svg(svg, described, nodes)
    if as_json:
        print_json(_documents(described, nodes))
    if svg is not None or as_json:
        return 0
    width = terminal_width() or WIDTH
    show_lines(_lines(described, nodes, width, terminal_colours()), paged=not no_pager)
    return 0


def cancel(
    name: FlowName,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it becomes the result of the jobs.")
    ] = "",
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Cancel a flow: all of its jobs that wait or run. Workers that have one are told to stop."""
    flow = name_of(name)
    with connected(hall) as remote:
        count = remote.ask(wire.CANCEL_FLOW, (flow, name_of(reason)))
    if as_json:
        print_json([{"cancelled": count}])
    else:
        print_result(f"flow {short(flow)}: {counted(count, 'job')} cancelled\n")
    return 0


def retry(name: FlowName, hall: HallFlag = None, as_json: JsonFlag = False) -> int:
    """Run what failed of a flow again, and what waits for it.

    The jobs run as they were submitted. To change a command, change the file and run it again: hall flow run.
    The exit code is 1 if some jobs cannot run again, such as those behind a job that was cancelled.
    """
    flow = name_of(name)
    with connected(hall) as remote:
        retried, refused = remote.ask(wire.RETRY_FLOW, (flow,))
    if as_json:
        print_json([{"retried": retried, "refused": refused}])
    else:
        print_result(f"flow {short(flow)}: {counted(retried, 'job')} retried\n")
        if refused:
            text = "they wait for jobs that were cancelled, or another live job has their key"
            print_error(f"hall: {counted(refused, 'job')} cannot run again: {text}")
    return FAILURE if refused else 0


# --- as text


def _row(described: dict[str, Any], now_us: int) -> Row:
    state = described["state"]
    ended_us = described["ended_us"]
    name, *counts = plain(
        short(described["name"]),
        f"{described['jobs']:,}",
        f"{described['done']:,}",
        f"{described['failed']:,}",
        f"{described['running']:,}",
        f"{described['ready']:,}",
        f"{described['held'] + described['delayed']:,}",
        age(described["created_us"], now_us),
        duration(ended_us - described["created_us"]) if ended_us else "",
    )
    return [name, Cell(state, style_of(state)), *counts]


def _lines(
    described: dict[str, Any], nodes: list[FlowNode], width: int, colours: ColorSystem | None
) -> Iterator[str]:
    name: bytes = described["name"]
    state = described["state"]
    created_us, ended_us = described["created_us"], described["ended_us"]
    yield from labelled("flow", escaped(name), width, colours, BOLD)
    yield from labelled("state", state, width, colours, style_of(state))
    yield from labelled("jobs", f"{described['jobs']:,}: {_counts(described)}", width, colours)
    yield from labelled("began", f"{moment(created_us)}, {age(created_us, now())} ago", width, colours)
    if ended_us:
        took = duration(ended_us - created_us)
        yield from labelled("ended", f"{moment(ended_us)}, took {took}", width, colours)
    for _, _, key, blocked_by, waiting in described.get("blocking", ())[:BLOCKING_SHOWN]:
        if waiting:
            waits = "1 waits" if waiting == 1 else f"{waiting:,} wait"
            text = f"{escaped(key.removeprefix(name + b'/'))} ({blocked_by or 'unknown'}): {waits} for it"
            yield from labelled("blocking", text, width, colours)
    if nodes:
        yield ""
        yield from draw(as_graph(nodes), width, colours)


def _counts(described: dict[str, Any]) -> str:
    return ", ".join(f"{described[word]:,} {word}" for word in COUNTS if described[word])


# --- as SVG


def _write_svg(file: Path, described: dict[str, Any], nodes: list[FlowNode]) -> None:
    from hiringhall.flows.svg import svg_lines  # noqa: PLC0415 (only with --svg)

    name: bytes = described["name"]
    words = f"{described['state']}: {_counts(described)}; {moment(now())}"
    lines = svg_lines(as_graph(nodes), escaped(name), words)
    try:
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror or error}") from error


# --- as JSON


def _shape(described: dict[str, Any]) -> Any:
    from hiringhall.web.describing import flow  # noqa: PLC0415 (only with --json)

    return flow(described)


def _documents(described: dict[str, Any], nodes: list[FlowNode]) -> Iterator[Any]:
    yield _shape(described)
    graph = as_graph(nodes)
    for node, drawn in zip(nodes, graph, strict=True):
        yield {
            "id": str(node.id),
            "task": drawn.name,
            "queue": escaped(node.queue),
            "state": node.state,
            "parents": [str(nodes[parent].id) for parent in drawn.parents],
        }
