"""Faults of the hall that the simulator has found and that are not mended yet.

Each switch makes one law lenient, so that the others stay strict. Mend the fault, turn its switch off.
"""

from __future__ import annotations

from typing import Final

RECALLED_END_IS_TOLD: Final = True
"""A durable, watched job that came and ended before its commit failed: its submit is refused, and its end,
which was pledged already, is told all the same."""
