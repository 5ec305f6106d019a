"""Cursors: where the next page of a list begins. Opaque to clients, checked when they come back."""

from __future__ import annotations

from typing import Final

from hiringhall.web.problems import Problem

DIGITS_MAX: Final = 19
POSITION_MAX: Final = (1 << 63) - 1
PLACE_MAX: Final = 1_000_000_000
"""The last place in a list that the hall can be asked for."""


def read_place(cursor: str) -> int:
    """The place in a list that a cursor names; 0 for none. Raises Problem."""
    return min(read_position(cursor), PLACE_MAX)


def read_position(cursor: str) -> int:
    """The id or the position that a cursor names; 0 for none. Raises Problem."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= DIGITS_MAX):
        raise Problem("bad_request", f"cursor: {cursor[:40]!r} was not given out by this list")
    return min(int(cursor), POSITION_MAX)
