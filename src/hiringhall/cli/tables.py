"""A table, or several lines for each row where the terminal is too narrow for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hiringhall.cli.layout import stacked
from hiringhall.cli.styling import terminal_colours

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE_WIDTH_MAX: Final = 100_000
"""More columns than any table has."""


def as_table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """The first cell of a row is its name. `width` is that of the terminal; None: any."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(Text(row[0], style="bold"), *map(Text, row[1:]))
    measured = Console(width=TABLE_WIDTH_MAX).measure(table).maximum
    if width is None or measured <= width:
        styled = None if terminal_colours() is not None else False
        console = Console(highlight=False, width=measured, force_terminal=styled)
        with console.capture() as captured:
            console.print(table)
        return captured.get()
    shown: list[str] = []
    for row in rows:
        shown.append(row[0])
        shown += stacked(zip(headings[1:], row[1:], strict=True), width)
    return "\n".join(shown) + "\n"
