"""Skills and times of workers, configured by name, for dialects that cannot state them.

Invariant: a rating belongs to a name. A worker that changes its name gets the rating of the new name.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Rating(NamedTuple):
    """The skills and the time of a worker."""

    skills: dict[bytes, int]
    """Skill by queue name."""
    stays_us: int
    """How long it stays after it gave its name; 0: it does not leave."""


class Ratings:
    """Ratings by patterns of names, such as gpu-*."""

    def __init__(self, rows: Iterable[tuple[bytes, Rating]]) -> None:
        self._rows = [(re.compile(fnmatch.translate(_text(pattern))), rating) for pattern, rating in rows]
        self.nameless = self.of(b"")
        """The rating of workers without a name."""

    def of(self, name: bytes) -> Rating:
        """The merged rating of all patterns that match; later ones override earlier ones."""
        skills: dict[bytes, int] = {}
        stays_us = 0
        text = _text(name)
        for pattern, rating in self._rows:
            if pattern.match(text) is not None:
                skills.update(rating.skills)
                stays_us = rating.stays_us or stays_us
        return Rating(skills, stays_us)


def _text(name: bytes) -> str:
    """Names are bytes and need not be UTF-8."""
    return name.decode(errors="surrogateescape")
