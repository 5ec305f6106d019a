"""Compares what was seen with what the table of losses says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .losses import expected

if TYPE_CHECKING:
    from .cells import Cell, Seen


def complaints(seen: dict[Cell, Seen]) -> list[str]:
    """One for each cell that is not as expected."""
    found: list[str] = []
    for cell, was in seen.items():
        lacks = expected(cell) - was.facts
        surplus = was.facts - expected(cell)
        if was.trouble:
            found.append(f"{cell}: after {was.took_s:.1f} s\n{was.trouble}")
        elif lacks or surplus:
            texts = [f"does not hold and is not explained: {', '.join(sorted(lacks))}"] if lacks else []
            texts += (
                [f"holds, and losses.py says that it is lost: {', '.join(sorted(surplus))}"] if surplus else []
            )
            found.append(f"{cell}: {'; '.join(texts)}")
    return found
