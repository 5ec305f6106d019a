"""One statement for many rows.

Python gives up its lock around every step of a statement, and where another thread is busy it may wait for
milliseconds to get it back. So what counts is not how fast a row is but how few statements there are: up to
`ROWS_MAX` rows go into one. There is one text for each power of two, so that SQLite compiles few of them;
a statement that is larger than its rows is filled up with rows of zeros, which have no effect.

Two things about binding values: `bytes` and `None` go through the adapters of Python's module, which costs
five times as much as a `bytearray`, so bytes are copied into those; and a compiled statement keeps what was
bound to it last, so large values are bound over with zeros at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS_MAX: Final = 1024
CHUNK_BYTES_MAX: Final = 1 << 20
"""Payload bytes after which a statement is sent, and bound over afterwards."""

Value = int | str | bytearray | None


class Statement(NamedTuple):
    """SQL and its values."""

    sql: str
    values: list[Value]
    content_bytes: int = 0
    """Payloads and results among the values."""


class Bulk:
    """A kind of statement: its SQL with a place for the rows, and how many values a row has."""

    def __init__(self, template: str, width: int) -> None:
        self._template = template
        self._width = width
        self._texts: dict[int, str] = {}
        self.values_max = width * ROWS_MAX

    def statements(self, values: list[Value], content_bytes: int) -> Iterator[Statement]:
        """The statement for whole rows laid end to end; it takes the list over. After large values comes
        the same statement without rows.
        """
        rows = len(values) // self._width
        size = 1 << (rows - 1).bit_length()
        values += [0] * ((size - rows) * self._width)
        text = self._text(size)
        yield Statement(text, values, content_bytes)
        if content_bytes >= CHUNK_BYTES_MAX:
            yield Statement(text, [0] * len(values))

    def _text(self, size: int) -> str:
        text = self._texts.get(size)
        if text is None:
            row = "(" + ", ".join("?" * self._width) + ")"
            text = self._template.replace("{rows}", ", ".join([row] * size))
            self._texts[size] = text
        return text
