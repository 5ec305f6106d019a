"""Records for people's eyes: a table that is made line by line, and one job in full.

The law: whatever bytes a job has, a terminal shows them and never obeys them.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from hiringhall.cli.harmless import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from rich.color import ColorSystem

    from hiringhall.core.jobs import ParentRef
    from hiringhall.records import Record

HEADINGS: Final = ("id", "when", "state", "queue", "key", "code", "tries", "worker", "result")
SAMPLE_ROWS: Final = 100
"""The widths of the columns follow from so many rows; a longer cell further down moves its line along."""
SHOWN_MAX: Final = 60
"""Characters of a cell."""
RESULT_MIN: Final = 20

_RIGHT: Final = (HEADINGS.index("code"), HEADINGS.index("tries"))
_STATE: Final = HEADINGS.index("state")
_STYLES: Final = {
    "done": Style.parse("green"),
    "failed": Style.parse("red"),
    "cancelled": Style.parse("yellow"),
    "running": Style.parse("cyan"),
}
_PLAIN: Final = Style.null()
_BOLD: Final = Style.parse("bold")


def table_lines(records: Iterable[Record], width: int, colours: ColorSystem | None) -> Iterator[str]:
    """A table's lines; without records there are none."""
    rows = map(_cells, records)
    sample = list(islice(rows, SAMPLE_ROWS))
    if not sample:
        return
    widths = [max(_width(row[column]) for row in (HEADINGS, *sample)) for column in range(len(HEADINGS))]
    widths[-1] = max(RESULT_MIN, width - sum(widths[:-1]) - 2 * (len(HEADINGS) - 1))
    yield _BOLD.render(_line(list(HEADINGS), widths), color_system=colours)
    for row in chain(sample, rows):
        style = _STYLES.get(row[_STATE], _PLAIN)
        yield _line(row, widths, style, colours)


def detail_lines(record: Record, colours: ColorSystem | None) -> Iterator[str]:
    """All that is known of one job."""
    state = _STYLES.get(record.state, _PLAIN).render(record.state, color_system=colours)
    fields: list[tuple[str, str]] = [
        ("job", str(record.id)),
        ("state", f"{state}, code {record.code}" if record.ended is not None else state),
        ("queue", harmless(record.queue)),
        ("key", harmless(record.key)),
        ("priority", record.priority),
        ("created", _moment(record.created)),
        ("due", _moment(record.due)),
        ("started", _moment(record.started)),
        ("ended", _moment(record.ended)),
        ("worker", harmless(record.worker)),
        ("attempts", f"{record.attempts}, {record.losses} of them with a worker that was lost"),
        ("allowed", _allowed(record)),
    ]
    fields += [("parent", _parent(parent)) for parent in record.parents]
    fields += [(f"extra {harmless(name)}", harmless(data)) for name, data in record.extras.items()]
    for name, text in fields:
        if text:
            yield f"{name:<10}{text}"
    for number, attempt in enumerate(record.tries, record.attempts - len(record.tries)):
        ended = _moment(attempt.ended) or "unseen"
        worker = harmless(attempt.worker)
        yield f"{f'try {number}':<10}{_moment(attempt.started)} to {ended}, code {attempt.code}, {worker}"
    for name, data in (("payload", record.payload), ("result", record.result)):
        if data:
            yield f"{name:<10}{len(data)} bytes"
            yield from (f"    {line}" for line in harmless(data, lines=True).split("\n"))


def _line(
    cells: list[str], widths: list[int], style: Style = _PLAIN, colours: ColorSystem | None = None
) -> str:
    shown: list[str] = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blanks = " " * max(0, width - _width(cell))
        if column == len(cells) - 1:
            shown.append(_cut(cell, width))
        elif column == _STATE:
            shown.append(style.render(cell, color_system=colours) + blanks)
        else:
            shown.append(blanks + cell if column in _RIGHT else cell + blanks)
    return "  ".join(shown).rstrip()


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
        _short(record.result, SHOWN_MAX * 4) if record.ended is not None else _outlook(record),
    ]


def _outlook(record: Record) -> str:
    """What a job that has not ended waits for."""
    if record.state == "held":
        waits = _parent(record.parents[0]) if record.parents else "nobody"
        further = len(record.parents) - 1
        return f"waits for {waits}" + (f" and {further} more" if further > 0 else "")
    if record.state == "delayed" and record.due is not None:
        return f"due {record.due.astimezone():%Y-%m-%d %H:%M:%S}"
    return ""


def _allowed(record: Record) -> str:
    lost = f"{record.losses_max or 'any number of'} lost workers"
    return f"{record.retries} retries, {lost}, {record.quits_max or 'any number'} that quit"


def _parent(parent: ParentRef) -> str:
    return str(parent) if isinstance(parent, int) else f"{harmless(parent[0])} {harmless(parent[1])}"


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone().isoformat(" ", "milliseconds")


def _short(data: bytes, length: int = SHOWN_MAX) -> str:
    return _cut(harmless(data[: length * 4]), length)


def _cut(text: str, width: int) -> str:
    return text if _width(text) <= width else set_cell_size(text, width - 1) + "…"


def _width(text: str) -> int:
    """Places that a printable text takes on a screen."""
    return len(text) if text.isascii() else cell_len(text)
