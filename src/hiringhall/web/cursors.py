"""Cursors: where the next page of a list begins. Opaque to clients, checked when they come back."""

from __future__ import annotations

from hiringhall.web.problems import Problem


def read_position(cursor: str) -> int:
    """The position that a cursor names; 0 for none. Raises Problem."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 19 and int(cursor) < 1 << 63):
        raise Problem("bad_request", f"cursor: {cursor[:40]!r} was not given out by this list")
    return int(cursor)
