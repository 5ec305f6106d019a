"""A job's number: the boot epoch above, a count below.

The law: numbers grow with time and none is used twice. This is the only place that makes one, reads one from
text, or knows how large it may be.
"""

from __future__ import annotations

from typing import Final

from hiringhall.core.errors import invariant

_EPOCH_SHIFT: Final = 36
"""68 billion jobs a boot."""
MAX: Final = (1 << 63) - 1
"""A signed 64-bit integer: what SQLite keeps in a column."""
EPOCH_MAX: Final = MAX >> _EPOCH_SHIFT
DIGITS_MAX: Final = 19
"""Decimal digits of the largest number."""


def make(epoch: int, count: int) -> int:
    """The number of a boot's job, counted from 1; with 0 the number before the first."""
    invariant(0 < epoch <= EPOCH_MAX, "the boot epoch is out of bounds")
    return epoch << _EPOCH_SHIFT | count


def epoch_of(job_id: int) -> int:
    """The boot in which the number was given out."""
    return job_id >> _EPOCH_SHIFT


def in_bounds(number: int) -> bool:
    """Whether the number can be a job's."""
    return 0 < number <= MAX


def parse(digits: bytes) -> int:
    """The number that was written as decimal digits; 0 if they are no job's number exactly as we write it."""
    if not digits.isdigit() or len(digits) > DIGITS_MAX or digits.startswith(b"0"):
        return 0
    number = int(digits)
    return number if number <= MAX else 0
