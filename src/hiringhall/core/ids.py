"""Job ids: the number of the hall's start in the high bits, a count in the low bits.

Invariant: ids grow with time and none is used twice. Only this module makes an id, parses one, or knows its
bounds.
"""

from __future__ import annotations

from typing import Final

from hiringhall.core.errors import invariant

_EPOCH_SHIFT: Final = 36
"""68 billion jobs per start."""
MAX: Final = (1 << 63) - 1
"""A signed 64-bit integer: what SQLite keeps in a column."""
EPOCH_MAX: Final = MAX >> _EPOCH_SHIFT
DIGITS_MAX: Final = 19
"""Decimal digits of the largest id."""


def make(epoch: int, count: int) -> int:
    """The id of the job with this count, from 1; with 0 the value before the first id."""
    invariant(0 < epoch <= EPOCH_MAX, "the epoch is out of bounds")
    return epoch << _EPOCH_SHIFT | count


def epoch_of(job_id: int) -> int:
    """The start of the hall in which the id was made."""
    return job_id >> _EPOCH_SHIFT


def in_bounds(number: int) -> bool:
    """Whether the number can be an id."""
    return 0 < number <= MAX


def parse(digits: bytes) -> int:
    """The id from decimal digits; 0 if they are not exactly how an id is written."""
    if not digits.isdigit() or len(digits) > DIGITS_MAX or digits.startswith(b"0"):
        return 0
    number = int(digits)
    return number if number <= MAX else 0
