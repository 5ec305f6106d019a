"""A job's number: made from epoch and count, read from digits, bounded."""

from __future__ import annotations

import pytest

from hiringhall.core import ids
from hiringhall.core.errors import BrokenLaw


def test_a_number_carries_its_epoch_up_to_the_largest() -> None:
    for epoch in (1, 2, 14_551_916, ids.EPOCH_MAX):
        assert ids.epoch_of(ids.make(epoch, 1)) == epoch
        assert ids.make(epoch, 1) == ids.make(epoch, 0) + 1


def test_a_later_boot_has_larger_numbers() -> None:
    assert ids.make(6, 1) > ids.make(5, (1 << 36) - 1)


@pytest.mark.parametrize("epoch", [0, -1, ids.EPOCH_MAX + 1])
def test_an_epoch_that_gives_no_number_stops_the_hall(epoch: int) -> None:
    with pytest.raises(BrokenLaw):
        ids.make(epoch, 0)


@pytest.mark.parametrize("number", [1, ids.make(1, 1), 10**18 - 1, 10**18, ids.MAX])
def test_every_number_is_read_back(number: int) -> None:
    assert ids.in_bounds(number)
    assert ids.parse(b"%d" % number) == number


@pytest.mark.parametrize(
    "digits", [b"", b"0", b"01", b"-1", b"+1", b" 1", b"1_0", b"1a", b"%d" % (ids.MAX + 1), b"9" * 10_000]
)
def test_what_is_not_written_as_a_number_is_none(digits: bytes) -> None:
    assert ids.parse(digits) == 0


def test_the_bounds_are_those_of_a_signed_64_bit_integer() -> None:
    assert not ids.in_bounds(0)
    assert not ids.in_bounds(1 << 63)
    assert len(str(ids.MAX)) == ids.DIGITS_MAX
