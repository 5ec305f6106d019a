"""Text that fits the terminal: how wide it is, and records that are stacked where a table would be too wide.

Invariant: a value is wrapped, or ends with "…" where it was cut. Nothing is cut without that mark.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, chop_cells, set_cell_size

from hiringhall.cli.styling import DIM, PLAIN, Style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.color import ColorSystem

GAP: Final = "  "
INDENT: Final = "    "
LABEL: Final = 10
"""Columns of a label before its value."""
WIDTH_MIN: Final = 24
"""Narrower terminals get lines of this width."""


def terminal_width() -> int | None:
    """Columns of the terminal, or $COLUMNS; None if stdout is no terminal and the variable is not set."""
    columns = shutil.get_terminal_size((0, 0)).columns
    return max(columns, WIDTH_MIN) if columns else None


def width_of(text: str) -> int:
    """Columns that a printable text takes on a screen."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, width: int) -> str:
    """The text, or its beginning and "…" if it is wider."""
    return text if width_of(text) <= width else set_cell_size(text, width - 1) + "…"


def labelled(
    label: str, text: str, width: int, colours: ColorSystem | None, style: Style = PLAIN
) -> Iterator[str]:
    """A label and its value, wrapped; nothing if it is empty."""
    if not text:
        return
    pieces = [style.render(piece, color_system=colours) for piece in chop_cells(text, max(1, width - LABEL))]
    yield DIM.render(label, color_system=colours) + " " * max(1, LABEL - len(label)) + pieces[0]
    yield from (" " * LABEL + piece for piece in pieces[1:])


def stacked(
    fields: Iterable[tuple[str, str]], width: int, colours: ColorSystem | None = None, *, cut_last: bool = False
) -> Iterator[str]:
    """Indented lines with `name: value` pairs, as many on a line as fit. Empty values are left out.

    A value that is wider than a line, or has line ends in it, is wrapped. With `cut_last` the last value is cut
    to one line instead.
    """
    room = width - len(INDENT)
    shown = [(name, value) for name, value in fields if value]
    line: list[str] = []
    used = 0
    for number, (name, value) in enumerate(shown, 1):
        label = f"{name}: "
        value_room = room - len(label)
        text = cut(value, value_room) if cut_last and number == len(shown) else value
        pieces = [piece for part in text.split("\n") for piece in chop_cells(part, value_room)]
        needed = len(label) + max(map(width_of, pieces))
        if line and (used + len(GAP) + needed > room or len(pieces) > 1):
            yield INDENT + GAP.join(line)
            line, used = [], 0
        line.append(DIM.render(label, color_system=colours) + f"\n{INDENT}{' ' * len(label)}".join(pieces))
        used += needed + (len(GAP) if used else 0)
        if len(pieces) > 1:
            used = room
    if line:
        yield INDENT + GAP.join(line)
