"""Which lines of the history go, and when: one rule for every store.

The law: a commit drops at most a bounded number of lines, so that no commit is long, and at least as many
as it adds once the history is full, so that the history stays bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.storage.contract import Retention

PAUSE_US: Final = 1_000_000
"""Ages are looked at once in this time, not with every commit."""
DROP_MIN: Final = 500
"""Lines that any commit may drop, however few it adds."""
SLACK_SHARE: Final = 64
"""A full history makes room for this part of itself at once, so that not every commit has to."""
ANY_AGE_US: Final = (1 << 63) - 1


class Expiry:
    """Remembers when the ages were last looked at. `drop(dead, before_us, lines_max)` is the store's own:
    it takes the oldest lines that ended before a time out of one of the two shelves of the history, the
    dead letters and the rest, and tells how many those were.
    """

    __slots__ = ("_looked_us", "_retention")

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._looked_us = -PAUSE_US

    def due(self, now_us: int, lines: int) -> bool:
        """Is there anything to do with this commit? A clock that was set back counts as a pause."""
        return lines > self._retention.rows_max or abs(now_us - self._looked_us) >= PAUSE_US

    def run(self, drop: Callable[[bool, int, int], int], now_us: int, lines: int, added: int) -> int:
        """Drop what is too old or too much; gives the number dropped. Dead letters go for lack of room
        only when nothing else is left to go.
        """
        retention = self._retention
        budget = DROP_MIN + 2 * added
        left = budget
        left -= drop(False, now_us - retention.age_us, left)
        left -= drop(True, now_us - retention.dead_age_us, left)
        needed = lines - (budget - left) - retention.rows_max
        if needed > 0:
            left -= drop(False, ANY_AGE_US, min(left, needed + retention.rows_max // SLACK_SHARE))
            needed = lines - (budget - left) - retention.rows_max
            if needed > 0:
                left -= drop(True, ANY_AGE_US, min(left, needed))
        self._looked_us = now_us if left > 0 else now_us - PAUSE_US
        return budget - left

    def again(self) -> None:
        """What `run` dropped was not kept: look again with the next commit."""
        self._looked_us = -PAUSE_US
