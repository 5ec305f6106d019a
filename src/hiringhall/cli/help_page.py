"""The help of a command, or of a group of commands such as `hall` itself, as panels of text.

Typer would draw it with Rich. Loading that takes longer than everything else that `hall --help` does.
Invariant: no line is wider than the terminal, and nothing is cut.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.cli.styling import BOLD, DIM, Style

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.color import ColorSystem

GAP: Final = 2
EDGES: Final = 4
"""Columns of the two edges of a panel, each with a blank."""
TEXT_MIN: Final = 26
"""A name that leaves its text less room stands on a line of its own."""
_NAME: Final = Style("bold cyan")


class Panel(NamedTuple):
    """Names, each with its text, below a title."""

    title: str
    rows: Sequence[tuple[str, str]]


class Page(NamedTuple):
    """The help of a command or a group."""

    usage: str
    paragraphs: Sequence[str]
    panels: Sequence[Panel]

    def lines(self, width: int, colours: ColorSystem | None) -> Iterator[str]:
        yield ""
        for line in _wrapped(self.usage, width - 2):
            yield f" {BOLD.render(line, color_system=colours)}"
        yield ""
        for paragraph in self.paragraphs:
            yield from (f" {line}" for line in _wrapped(paragraph, width - 2))
            yield ""
        # The texts of all panels begin in one column.
        most = width - EDGES - GAP - TEXT_MIN
        lengths = [len(name) for panel in self.panels for name, _ in panel.rows]
        column = max(length for length in lengths if length <= most) + GAP
        for panel in self.panels:
            yield from _drawn(panel, column, width, colours)
        yield ""


def _drawn(panel: Panel, column: int, width: int, colours: ColorSystem | None) -> Iterator[str]:
    def line(name: str, rest: str) -> str:
        edge = DIM.render("│", color_system=colours)
        shown = _NAME.render(name, color_system=colours) if name else ""
        return f"{edge} {shown}{rest}{' ' * (width - EDGES - len(name) - len(rest))} {edge}"

    yield DIM.render(f"╭─ {panel.title} {'─' * (width - len(panel.title) - 5)}╮", color_system=colours)
    for name, text in panel.rows:
        pieces = _wrapped(text, width - EDGES - column)
        head, *others = _wrapped(name, width - EDGES)
        while others:
            yield line(head, "")
            head, *others = others
        if len(head) + GAP > column:
            yield line(head, "")
        else:
            yield line(head, " " * (column - len(head)) + (pieces.pop(0) if pieces else ""))
        yield from (line("", " " * column + piece) for piece in pieces)
    yield DIM.render(f"╰{'─' * (width - 2)}╯", color_system=colours)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)
