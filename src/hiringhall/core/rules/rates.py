"""A token bucket in whole numbers: how many jobs may start now, and when the next one may.

Invariant: in any time t, at most burst + rate * t tokens are spent. A new bucket is empty: nobody knows what
was spent before it was made.
"""

from __future__ import annotations

from typing import Final

_TOKEN: Final = 1_000_000_000
"""One token in units of the level: a start in 1000 seconds is one unit in a microsecond."""


class TokenBucket:
    """Tokens that come at a rate, up to a number that is kept."""

    __slots__ = ("_filled_us", "_full", "_level", "_rate")

    def __init__(self, starts_per_1000s: int, burst: int, now_us: int) -> None:
        self._rate = starts_per_1000s
        self._full = burst * _TOKEN
        self._level = 0
        self._filled_us = now_us

    def tokens(self, now_us: int) -> int:
        """How many tokens there are."""
        if now_us > self._filled_us:
            self._level = min(self._full, self._level + (now_us - self._filled_us) * self._rate)
            self._filled_us = now_us
        return max(self._level // _TOKEN, 0)

    def spend(self, now_us: int) -> bool:
        """Take a token; whether another is left. If there was none, it is paid back by the next."""
        self.tokens(now_us)
        self._level -= _TOKEN
        return self._level >= _TOKEN

    def next_us(self, now_us: int) -> int:
        """When there is one token more than now, if the bucket is not full."""
        missing = (self.tokens(now_us) + 1) * _TOKEN - self._level
        return now_us + -(-missing // self._rate)

    def is_full(self, now_us: int) -> bool:
        """It holds as many tokens as it may."""
        self.tokens(now_us)
        return self._level >= self._full
