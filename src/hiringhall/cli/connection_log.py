"""What the connection of a command logs, such as that it was lost, as lines of the command itself."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOG: Final = logging.getLogger("hiringhall")


class _Lines(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(f"hall: {record.getMessage()}")


@contextmanager
def logging_as_lines(tell: Callable[[str], None]) -> Iterator[None]:
    """`tell` gets each line. Otherwise Python would write it to stderr, wherever the cursor is."""
    handler = _Lines(tell)
    _LOG.addHandler(handler)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
