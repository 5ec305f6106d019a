"""What the hall knows of workers by what they call themselves: for those whose dialect cannot say it.

The law: a rating hangs on a name. A worker that takes another name is what that name says, and no more.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Rating(NamedTuple):
    """What is known of a worker."""

    skills: dict[bytes, int]
    """How good it is at some queues."""
    stays_us: int
    """How long it stays, from when it gave its name; 0: for good."""


class Ratings:
    """Ratings by patterns of names, such as gpu-*."""

    def __init__(self, rows: Iterable[tuple[bytes, Rating]]) -> None:
        self._rows = [(re.compile(fnmatch.translate(_text(pattern))), rating) for pattern, rating in rows]
        self.nameless = self.of(b"")
        """What holds for a worker that has not said its name."""

    def of(self, name: bytes) -> Rating:
        """All that fit count; of two that say the same thing the later one."""
        skills: dict[bytes, int] = {}
        stays_us = 0
        text = _text(name)
        for pattern, rating in self._rows:
            if pattern.match(text) is not None:
                skills.update(rating.skills)
                stays_us = rating.stays_us or stays_us
        return Rating(skills, stays_us)


def _text(name: bytes) -> str:
    """Names are bytes, and nobody promised UTF-8."""
    return name.decode(errors="surrogateescape")
