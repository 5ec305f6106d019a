"""Colours and weights of words on a terminal.

Invariant: Rich is loaded only where something is coloured. Most commands write to pipes and files, and loading
Rich would take them longer than their work.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import rich.style
    from rich.color import ColorSystem

_ASKED_FOR: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""With one of these variables Rich may colour what is no terminal."""


class Style(NamedTuple):
    """How a text looks, in the words of Rich, such as "bold cyan"."""

    definition: str = ""

    def render(self, text: str, *, color_system: ColorSystem | None) -> str:
        """The text with this style, for a terminal with these colours."""
        if color_system is None or not self.definition:
            return text
        return _parsed(self.definition).render(text, color_system=color_system)


PLAIN: Final = Style()
BOLD: Final = Style("bold")
DIM: Final = Style("dim")


def terminal_colours() -> ColorSystem | None:
    """The colours of the terminal; None if stdout is no terminal, or with NO_COLOR."""
    if not sys.stdout.isatty() and not any(name in os.environ for name in _ASKED_FOR):
        return None
    from rich.console import COLOR_SYSTEMS, Console  # noqa: PLC0415 (only for a terminal)

    console = Console()
    name = console.color_system
    return None if name is None or console.no_color else COLOR_SYSTEMS[name]


@cache
def _parsed(definition: str) -> rich.style.Style:
    from rich.style import Style as RichStyle  # noqa: PLC0415 (only for a terminal)

    return RichStyle.parse(definition)
