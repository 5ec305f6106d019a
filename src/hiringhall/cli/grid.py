"""Tables for the terminal, with columns that give way where it is narrow.

Invariant: a line is never wider than the terminal. A cell that is cut ends with "…". Cells are printable: who
makes one has escaped it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.cli.layout import GAP, cut, stacked, width_of
from hiringhall.cli.styling import BOLD, PLAIN, Style

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.color import ColorSystem

CELL_MAX: Final = 60
"""Columns of a cell where the terminal has room."""


class Column(NamedTuple):
    """One column of a table."""

    heading: str
    right: bool = False
    usual: int = 0
    """It is at least so wide, so that a table that is shown again and again does not move."""
    least: int = 0
    """It may be cut to this width; 0: it is not cut."""
    rank: int = 0
    """Where columns may be left out, those with the highest rank go first; 0: it stays."""


class Cell(NamedTuple):
    """A text in a table, and how it looks."""

    text: str
    style: Style = PLAIN


Row = list[Cell]


def plain(*texts: object) -> Row:
    return [Cell(str(text)) for text in texts]


def table(
    columns: Sequence[Column], rows: Sequence[Row], width: int | None, colours: ColorSystem | None
) -> Iterator[str]:
    """The lines of a table. Where the terminal is narrow, columns with a rank are left out; where it is too
    narrow for the rest, each row takes several lines, with all of its columns.
    """
    shown, cells, widths = _chosen(columns, rows, width)
    if width is not None and _total(widths) > width:
        yield from _stack(columns, rows, width, colours)
        return
    yield _line([Cell(column.heading, BOLD) for column in shown], shown, widths, colours)
    for row in cells:
        yield _line(row, shown, widths, colours)


def fitting(
    columns: Sequence[Column], rows: Sequence[Row], width: int, colours: ColorSystem | None
) -> list[str]:
    """The lines of a table that is never stacked. The first line is the heading."""
    shown, cells, widths = _chosen(columns, rows, width)
    heading = [Cell(column.heading, BOLD) for column in shown]
    return [_line(row, shown, widths, colours, width) for row in [heading, *cells]]


def _chosen(
    columns: Sequence[Column], rows: Sequence[Row], width: int | None
) -> tuple[list[Column], list[Row], list[int]]:
    """The columns that fit, with their cells and widths."""
    kept = list(range(len(columns)))
    while True:
        shown = [columns[index] for index in kept]
        cells = [[row[index] for index in kept] for row in rows]
        widths = _widths(shown, cells, width)
        rank = max(column.rank for column in shown)
        if width is None or rank == 0 or _total(widths) <= width:
            return shown, cells, widths
        kept = [index for index in kept if columns[index].rank != rank]


def _widths(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> list[int]:
    widths = [
        max(
            [
                width_of(column.heading),
                column.usual,
                *(min(width_of(row[place].text), CELL_MAX) for row in rows),
            ]
        )
        for place, column in enumerate(columns)
    ]
    if width is None:
        return widths
    excess = _total(widths) - width
    while excess > 0:
        # The widest of those that may be cut gives way first.
        place = max(range(len(columns)), key=lambda each: widths[each] if columns[each].least else 0)
        room = widths[place] - max(columns[place].least, 1)
        if not columns[place].least or room <= 0:
            return widths
        others = [widths[each] for each, column in enumerate(columns) if column.least and each != place]
        step = min(excess, room, max(1, widths[place] - max(others, default=0)))
        widths[place] -= step
        excess -= step
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _line(
    row: Row,
    columns: Sequence[Column],
    widths: Sequence[int],
    colours: ColorSystem | None,
    width: int | None = None,
) -> str:
    shown: list[str] = []
    used = 0
    last = len(row) - 1
    for place, (cell, column, wanted) in enumerate(zip(row, columns, widths, strict=True)):
        room = wanted if width is None else min(wanted, width - used)
        if room <= 0:
            break
        text = cut(cell.text, room)
        blanks = " " * (room - width_of(text))
        styled = cell.style.render(text, color_system=colours) if text else ""
        shown.append(blanks + styled if column.right else styled + ("" if place == last else blanks))
        used += room + len(GAP)
    return GAP.join(shown).rstrip()


def _stack(
    columns: Sequence[Column], rows: Sequence[Row], width: int, colours: ColorSystem | None
) -> Iterator[str]:
    for row in rows:
        yield BOLD.render(cut(row[0].text, width), color_system=colours)
        fields = [(column.heading, cell.text) for column, cell in zip(columns[1:], row[1:], strict=True)]
        yield from stacked(fields, width, colours)
