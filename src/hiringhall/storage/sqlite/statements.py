"""One statement for many rows.

Python releases the GIL around every step of a statement. If another thread is busy, it may wait milliseconds
to get it back. So the number of statements matters more than the time per row: one statement takes up to
`ROWS_MAX` rows. There is one SQL text for each power of two, so that SQLite compiles few of them; unused rows
are filled with zeros, which have no effect.

Two notes on binding values. `bytes` and `None` go through the adapters of the `sqlite3` module, which costs
five times as much as a `bytearray`, so bytes are copied into one. A compiled statement keeps the values that
were bound last, so large values are overwritten with zeros at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS_MAX: Final = 1024
CHUNK_BYTES_MAX: Final = 1 << 20
"""Payload bytes after which a statement is executed, and its values overwritten."""

Value = int | str | bytearray | None


class Statement(NamedTuple):
    """SQL and its values."""

    sql: str
    values: list[Value]
    content_bytes: int = 0
    """Size of the payloads, results and output among the values."""


class Bulk:
    """A kind of statement: its SQL with a placeholder for the rows, and the number of values in a row."""

    def __init__(self, template: str, width: int) -> None:
        self._template = template
        self._width = width
        self._texts: dict[int, str] = {}
        self.values_max = width * ROWS_MAX

    def statements(self, values: list[Value], content_bytes: int) -> Iterator[Statement]:
        """The statement for complete rows, given as one flat list, which is modified. Large values are followed
        by the same statement without rows.
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
