"""Times counted in fixed buckets.

Invariant: adding a time is two additions, and the number of buckets never changes.
"""

from __future__ import annotations

from typing import Final

BOUNDS_US: Final[tuple[int, ...]] = (
    100,
    316,
    1_000,
    3_162,
    10_000,
    31_623,
    100_000,
    316_228,
    1_000_000,
    3_162_278,
    10_000_000,
    31_622_777,
    100_000_000,
    316_227_766,
    1_000_000_000,
    3_600_000_000,
)
"""The upper bounds of all buckets but the last, which has none: two for each power of ten, up to an hour.
Compiled code would copy a tuple of known length at each look-up: hence the type."""
BUCKETS: Final = len(BOUNDS_US) + 1


def _first_buckets() -> list[int]:
    """For each length in bits, the bucket of the shortest time of that length. A bound is more than twice the
    one before it, so the longest time of that length is in the same bucket or in the next.
    """
    longest_bits = BOUNDS_US[-1].bit_length()
    shortest = [0, *[1 << bits for bits in range(longest_bits)]]
    return [sum([bound < us for bound in BOUNDS_US]) for us in shortest]


_FIRST: Final = _first_buckets()
_LAST_US: Final = BOUNDS_US[-1]


def bucket_of(us: int) -> int:
    """The bucket of a time that is not negative."""
    if us > _LAST_US:
        return BUCKETS - 1
    bucket = _FIRST[us.bit_length()]
    return bucket + 1 if us > BOUNDS_US[bucket] else bucket


class Histogram:
    """How many times fell into each bucket, and their sum."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_us = 0

    def add(self, us: int) -> None:
        """Count a time. A negative one counts as none: clocks of other machines may differ."""
        us = max(us, 0)
        self.counts[bucket_of(us)] += 1
        self.sum_us += us

    def merge(self, other: Histogram) -> None:
        """Add all that another has counted."""
        for bucket, count in enumerate(other.counts):
            self.counts[bucket] += count
        self.sum_us += other.sum_us
