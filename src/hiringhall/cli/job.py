"""`hall job ID`: everything about one job, and why it is not running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.cells import chop_cells

from hiringhall.cli.escaping import escaped
from hiringhall.cli.layout import labelled, terminal_width
from hiringhall.cli.paging import show
from hiringhall.cli.remote import HallFlag, JsonFlag, Remote, connected, job_id, print_json
from hiringhall.cli.styling import BOLD, DIM, PLAIN, Style, terminal_colours
from hiringhall.cli.wording import age, counted, duration, moment, now, situation_of, style_of
from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HALL_CODES
from hiringhall.sdk.failures import decode_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.color import ColorSystem

WIDTH: Final = 100
"""Without a terminal."""
SHOWN_BYTES: Final = 4000
"""Of a payload and a result, unless all is wanted."""
LINES_SHOWN: Final = 200
"""Lines of the output, the latest, unless all are wanted."""
LISTED_MAX: Final = 20
_KINDS: Final = ("", "warning", "log")
_WORDS: Final = {
    "held": "it waits for its parents",
    "delayed": "it is due later, as was asked",
    "backoff": "its latest attempt failed, and it is tried again",
    "paused": "it is ready, and its queue is paused",
    "parked": "it is ready, and as many jobs of its limit key run as may",
    "limited": "it is ready, and its queue has reached a limit",
    "announced": "it is ready, and announced to workers that bid",
    "no_workers": "it is ready, and no worker that is connected can do its queue",
    "promised": "a worker was hired for it and has not begun",
}
"""For a hall that gives no reason."""


def job(
    number: Annotated[str, typer.Argument(metavar="ID", help="The id of the job.")],
    full: Annotated[
        bool, typer.Option("--full", help="Show all of the payload, the result and the output.")
    ] = False,
    no_pager: Annotated[bool, typer.Option("--no-pager", help="Do not use a pager.")] = False,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Show everything about a job: why it is not running, its attempts, its output and its result.

    It works for live jobs, and for ended ones that the history has. The situations of a live job: held (it
    waits for parents), delayed, backoff (it is tried again later), paused, parked (by the limit of its key),
    limited (by its queue), announced (to workers that bid), no_workers, promised (to a worker that has not
    begun), ready and running.
    """
    wanted = job_id(number)
    with connected(hall) as remote:
        return show_job(remote, wanted, as_json=as_json, paged=not no_pager, full=full)


def show_job(remote: Remote, wanted: int, *, as_json: bool, paged: bool, full: bool) -> int:
    """Print everything about a job."""
    described = remote.ask(wire.JOB, (wanted,))
    output = list(_output(remote, wanted))
    if as_json:
        print_json([_shape(described, output)])
        return 0
    lines = _lines(described, output, terminal_width() or WIDTH, terminal_colours(), full=full)
    show(lines, paged=paged)
    return 0


def _output(remote: Remote, wanted: int) -> Iterator[tuple[int, int, bytes]]:
    position = 0
    while True:
        lines, position = remote.ask(wire.OUTPUT, (wanted, position))
        if not lines:
            return
        yield from lines


def _shape(described: dict[str, Any], output: list[tuple[int, int, bytes]]) -> dict[str, Any]:
    """As the HTTP API answers it, with the lines of its output."""
    from msgspec import to_builtins  # noqa: PLC0415 (only with --json)

    from hiringhall.web import describing  # noqa: PLC0415 (it loads a part of the web)

    shape: dict[str, Any] = to_builtins(describing.job(described))
    shape["output"] = [to_builtins(describing.output_line(*line)) for line in output]
    return shape


def _lines(
    described: dict[str, Any],
    output: list[tuple[int, int, bytes]],
    width: int,
    colours: ColorSystem | None,
    *,
    full: bool,
) -> Iterator[str]:
    page = _Page(width, colours)
    situation = situation_of(described)
    yield BOLD.render(f"job {described['id']}", color_system=colours)
    yield from page.field("state", _state(described, situation), style_of(situation))
    if not described.get("ended_us"):
        yield from page.field("why", escaped(described.get("why", "") or _WORDS.get(situation, "")))
    for label, text in _facts(described):
        yield from page.field(label, text)
    yield from page.field("parents", _parents(described))
    yield from page.field(
        "children", _listed(described.get("children", ()), described.get("children_count", 0))
    )
    yield from page.attempts(described)
    yield from page.data("payload", described["payload"], described["payload_bytes"], full=full)
    if described.get("ended_us"):
        yield from _result(page, described, full=full)
    yield from page.output(output, full=full)


def _state(described: dict[str, Any], situation: str) -> str:
    words = situation.replace("_", " ")
    code = described.get("code", 0)
    if code:
        words += f", code {code}"
        if code in HALL_CODES:
            words += f" ({HALL_CODES[code]})"
    done, whole = described.get("progress") or (0, 0)
    if whole:
        words += f", {done} of {whole}"
    return words


def _facts(described: dict[str, Any]) -> Iterator[tuple[str, str]]:
    now_us = now()
    started_us, ended_us = described.get("started_us", 0), described.get("ended_us", 0)
    yield "queue", escaped(described["queue"])
    yield "key", escaped(described["key"])
    yield "flow", escaped(described.get("flow", b""))
    yield "created", f"{moment(described['created_us'])}, {age(described['created_us'], now_us)} ago"
    yield "due", _due(described.get("due_us", 0), now_us)
    if started_us:
        spent = f", took {duration(ended_us - started_us)}" if ended_us else f", {age(started_us, now_us)} ago"
        yield "started", moment(started_us) + spent
    yield "ended", f"{moment(ended_us)}, {age(ended_us, now_us)} ago" if ended_us else ""
    dialect = escaped(described.get("dialect", ""))
    worker = escaped(described.get("worker", b""))
    yield "worker", f"{worker} ({dialect})" if worker and dialect else worker or dialect
    most = described.get("attempts_max", 0)
    tried = f"{described['attempts']} of {most}" if most > 1 else str(described["attempts"])
    lost = described.get("losses", 0)
    yield "attempts", tried + (f", {lost} of them lost with their worker" if lost else "")
    yield "terms", ", ".join(_terms(described.get("terms", {})))


def _due(due_us: int, now_us: int) -> str:
    if not due_us:
        return ""
    return f"{moment(due_us)}, in {duration(due_us - now_us)}" if due_us > now_us else moment(due_us)


def _terms(terms: dict[str, Any]) -> Iterator[str]:
    for name, value in terms.items():
        if name.endswith("_us"):
            yield f"{name.removesuffix('_us')} {duration(value)}"
        elif isinstance(value, bool):
            yield name if value else f"not {name}"
        elif name != "flow":
            yield f"{name} {escaped(value if isinstance(value, bytes) else str(value))}"


def _parents(described: dict[str, Any]) -> str:
    named = [
        f"{number or escaped(queue) + ' ' + escaped(key)} ({escaped(state)})"
        for number, queue, key, state in described.get("parents", ())
    ]
    return _listed(named, described.get("parents_count", len(named)))


def _listed(things: Iterable[object], count: int) -> str:
    shown = [str(thing) for thing in things][:LISTED_MAX]
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return ", ".join(shown) + more


def _result(page: _Page, described: dict[str, Any], *, full: bool) -> Iterator[str]:
    """The result, or the exception of a job function."""
    result: bytes = described.get("result", b"")
    error = decode_failure(described["id"], "", described.get("code", 0), result)
    if described["state"] != "failed" or not error.type:
        yield from page.data("result", result, len(result), full=full, cut=described.get("truncated", False))
        return
    yield from page.field("error", escaped(f"{error.type}: {error.text}"), style_of("failed"))
    if error.traceback:
        yield from page.block(error.traceback.encode())


class _Page:
    """Labelled values in two columns."""

    def __init__(self, width: int, colours: ColorSystem | None) -> None:
        self._width = width
        self._colours = colours

    def field(self, label: str, text: str, style: Style = PLAIN) -> Iterator[str]:
        """A label and its value, wrapped; nothing if it is empty."""
        return labelled(label, text, self._width, self._colours, style)

    def block(self, data: bytes, indent: int = 2) -> Iterator[str]:
        """Lines of data, indented and wrapped."""
        for line in escaped(data.removesuffix(b"\n"), lines=True).split("\n"):
            for piece in chop_cells(line, max(1, self._width - indent)) or [""]:
                yield " " * indent + piece

    def data(self, label: str, data: bytes, whole: int, *, full: bool, cut: bool = False) -> Iterator[str]:
        """How large it is, and its beginning."""
        if not whole:
            return
        shown = data if full else data[:SHOWN_BYTES]
        more = "" if len(shown) == whole else f", the first {len(shown):,} are shown"
        kept = "; the hall no longer has all of it" if cut else ""
        yield from self.field(label, f"{counted(whole, 'byte')}{more}{kept}")
        if shown:
            yield from self.block(shown)

    def attempts(self, described: dict[str, Any]) -> Iterator[str]:
        """The attempts that did not end the job."""
        tries = described.get("tries", ())
        for number, (started_us, ended_us, worker, code, *rest) in enumerate(
            tries, max(1, described["attempts"] - len(tries))
        ):
            dialect = escaped(rest[0]) if rest else ""
            by = f" by {escaped(worker)}" if worker else ""
            spoken = f" ({dialect})" if dialect else ""
            took = f", took {duration(ended_us - started_us)}" if ended_us > started_us > 0 else ""
            yield from self.field(f"try {number}", f"{moment(started_us)}{took}, code {code}{by}{spoken}")

    def output(self, output: list[tuple[int, int, bytes]], *, full: bool) -> Iterator[str]:
        """What the workers said, each line with its time."""
        if not output:
            return
        shown = output if full else output[-LINES_SHOWN:]
        more = "" if len(shown) == len(output) else f", the latest {len(shown)} are shown"
        yield from self.field("output", f"{counted(len(output), 'line')}{more}")
        for at_us, kind, data in shown:
            word = _KINDS[kind] if 0 < kind < len(_KINDS) else ""
            stamp = " ".join(part for part in (moment(at_us)[-8:], word) if part)
            yield "  " + DIM.render(stamp, color_system=self._colours)
            yield from self.block(data, 4)
