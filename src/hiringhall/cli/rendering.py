"""Shows records as text: a table that is made line by line, and one job in full.

Invariants: control characters in a job's data are escaped and never reach the terminal. A line is never wider
than the terminal; if a table would be, each record takes several lines.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from hiringhall.cli.escaping import escaped
from hiringhall.cli.layout import GAP, cut, stacked, width_of
from hiringhall.cli.styling import BOLD, PLAIN, Style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from rich.color import ColorSystem

    from hiringhall.core.jobs import ParentRef
    from hiringhall.records import Record

HEADINGS: Final = ("id", "when", "state", "queue", "key", "code", "tries", "worker", "result")
STACKED_COLUMNS: Final = 4
"""Columns in the first line of a record that takes several lines; the others follow with their names."""
SAMPLE_ROWS: Final = 100
"""The first rows decide the widths of the columns. A later row that is wider takes several lines."""
SHOWN_MAX: Final = 60
"""Maximum characters of a cell."""
RESULT_MIN: Final = 20
UNKNOWN_WIDTH: Final = 160
"""The width of a table without a terminal, such as in a pipe: one line for each record."""

_CODE: Final = HEADINGS.index("code")
"""Empty for a job that has not ended."""
_RIGHT: Final = (_CODE, HEADINGS.index("tries"))
_STATE: Final = HEADINGS.index("state")
_STYLES: Final = {
    "done": Style("green"),
    "failed": Style("red"),
    "cancelled": Style("yellow"),
    "running": Style("cyan"),
}


def table_lines(records: Iterable[Record], width: int | None, colours: ColorSystem | None) -> Iterator[str]:
    """The lines of a table; none without records. If `width` is too small, each record takes several lines."""
    rows = map(_cells, records)
    sample = list(islice(rows, SAMPLE_ROWS))
    if not sample:
        return
    widths = [max(width_of(row[column]) for row in (HEADINGS, *sample)) for column in range(len(HEADINGS))]
    room = (width or UNKNOWN_WIDTH) - sum(widths[:-1]) - len(GAP) * (len(HEADINGS) - 1)
    is_stacked = width is not None and room < RESULT_MIN
    widths[-1] = max(RESULT_MIN, room)
    headings = HEADINGS[:STACKED_COLUMNS] if is_stacked else HEADINGS
    heading = _line(list(headings), widths)
    yield BOLD.render(heading if width is None else cut(heading, width), color_system=colours)
    for row in chain(sample, rows):
        if width is not None and (is_stacked or width_of(_line(row, widths)) > width):
            yield from _stacked_lines(row, widths, width, colours)
        else:
            yield _line(row, widths, _STYLES.get(row[_STATE], PLAIN), colours)


def _stacked_lines(row: list[str], widths: list[int], width: int, colours: ColorSystem | None) -> Iterator[str]:
    first = row[:STACKED_COLUMNS]
    while len(first) > 1 and width_of(_line(first, widths)) > width:
        first.pop()  # Such as the queue's name: it follows on a line of its own.
    yield _line(first, widths, _STYLES.get(row[_STATE], PLAIN), colours)
    names = HEADINGS if row[_CODE] else (*HEADINGS[:-1], "pending")
    fields = zip(names[len(first) :], row[len(first) :], strict=True)
    yield from stacked(fields, width, colours, cut_last=True)


def detail_lines(record: Record, colours: ColorSystem | None) -> Iterator[str]:
    """Everything about one job."""
    state = _STYLES.get(record.state, PLAIN).render(record.state, color_system=colours)
    fields: list[tuple[str, str]] = [
        ("job", str(record.id)),
        ("state", f"{state}, code {record.code}" if record.ended is not None else state),
        ("queue", escaped(record.queue)),
        ("key", escaped(record.key)),
        ("flow", escaped(record.flow)),
        ("priority", record.priority),
        ("created", _moment(record.created)),
        ("due", _moment(record.due)),
        ("started", _moment(record.started)),
        ("ended", _moment(record.ended)),
        ("worker", escaped(record.worker)),
        ("attempts", f"{record.attempts}, {record.losses} of them lost with their worker"),
        ("allowed", _allowed(record)),
    ]
    fields += [("parent", _parent(parent)) for parent in record.parents]
    fields += [(f"extra {escaped(name)}", escaped(data)) for name, data in record.extras.items()]
    for name, text in fields:
        if text:
            yield f"{name:<10}{text}"
    for number, attempt in enumerate(record.tries, record.attempts - len(record.tries)):
        ended = _moment(attempt.ended) or "unknown"
        worker = escaped(attempt.worker)
        yield f"{f'try {number}':<10}{_moment(attempt.started)} to {ended}, code {attempt.code}, {worker}"
    for name, data in (("payload", record.payload), ("result", record.result)):
        if data:
            whole = max(len(data), record.payload_bytes) if name == "payload" else len(data)
            cut_text = f", the first {len(data)} of them are kept" if whole > len(data) else ""
            yield f"{name:<10}{whole} bytes{cut_text}"
            yield from (f"    {line}" for line in escaped(data, lines=True).split("\n"))
    if record.output:
        yield f"{'output':<10}{len(record.output)} lines"
        for said in record.output:
            first, *rest = escaped(said.data.removesuffix(b"\n"), lines=True).split("\n")
            yield f"    {_moment(said.at)} {said.kind:<8}{first}"
            yield from (f"        {line}" for line in rest)


def _line(cells: list[str], widths: list[int], style: Style = PLAIN, colours: ColorSystem | None = None) -> str:
    shown: list[str] = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=False)):
        blanks = " " * max(0, width - width_of(cell))
        if column == len(HEADINGS) - 1:
            shown.append(cut(cell, width))
        elif column == _STATE:
            shown.append(style.render(cell, color_system=colours) + blanks)
        else:
            shown.append(blanks + cell if column in _RIGHT else cell + blanks)
    return GAP.join(shown).rstrip()


def _cells(record: Record) -> list[str]:
    return [
        str(record.id),
        f"{record.latest.astimezone():%Y-%m-%d %H:%M:%S}",
        record.state,
        _short(record.queue),
        _short(record.key),
        str(record.code) if record.ended is not None else "",
        str(record.attempts),
        _short(record.worker),
        _short(record.result, SHOWN_MAX * 4) if record.ended is not None else _waiting_for(record),
    ]


def _waiting_for(record: Record) -> str:
    """What an unfinished job waits for."""
    if record.state == "held":
        waits = _parent(record.parents[0]) if record.parents else "nothing"
        further = len(record.parents) - 1
        return f"waits for {waits}" + (f" and {further} more" if further > 0 else "")
    if record.state == "delayed" and record.due is not None:
        return f"due {record.due.astimezone():%Y-%m-%d %H:%M:%S}"
    return ""


def _allowed(record: Record) -> str:
    lost = f"{record.losses_max or 'any number of'} lost workers"
    return f"{record.retries} retries, {lost}, {record.quits_max or 'any number'} that quit"


def _parent(parent: ParentRef) -> str:
    return str(parent) if isinstance(parent, int) else f"{escaped(parent[0])} {escaped(parent[1])}"


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone().isoformat(" ", "milliseconds")


def _short(data: bytes, length: int = SHOWN_MAX) -> str:
    return cut(escaped(data[: length * 4]), length)
