"""Draining workers at the native door."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from stage.native import NativeGuest, NativeHall


def number_of(guest: NativeGuest) -> int:
    (worker,) = guest.asks(wire.WORKERS, (0, 10))
    return int(worker["number"])


def test_a_worker_is_told_and_gets_no_more_jobs(guest: NativeGuest, hall: NativeHall) -> None:
    worker = hall.guest()
    guest.submits(b"a", b"b")
    ((_, _, (lease, *_)),) = worker.works()
    number = number_of(guest)
    assert guest.asks(wire.DRAIN, (number,)) is None
    assert worker.hears() == [(wire.DRAIN, 0, True)]
    assert guest.asks(wire.WORKER, (number,))["draining"] is True
    assert worker.says_numbered(wire.FINISH, (lease, b"")) == [(wire.OK, worker.number, None)]
    assert guest.asks(wire.QUEUE, (b"q",))["ready"] == 1
    assert guest.asks(wire.UNDRAIN, (number,)) is None
    drained, (kind, *_) = worker.hears()
    assert (drained, kind) == ((wire.DRAIN, 0, False), wire.ASSIGN)
    assert guest.asks(wire.WORKER, (number,))["draining"] is False


def test_a_worker_can_drain_itself(guest: NativeGuest) -> None:
    guest.works()
    assert guest.says(wire.DRAIN, (number_of(guest),)) == [(wire.DRAIN, 0, True)]
    assert guest.submits(b"a")[0][0] == wire.OK


def test_a_worker_that_offers_anew_still_drains(guest: NativeGuest, hall: NativeHall) -> None:
    worker = hall.guest()
    worker.works()
    guest.asks(wire.DRAIN, (number_of(guest),))
    worker.hears()
    guest.submits(b"a")
    assert worker.works(slots=4) == []
    assert guest.asks(wire.WORKERS, (0, 10))[0]["draining"] is True


@pytest.mark.parametrize("kind", [wire.DRAIN, wire.UNDRAIN])
def test_bad_numbers_are_refused(guest: NativeGuest, kind: str) -> None:
    assert guest.asks(kind, (7,)) == wire.UNKNOWN_WORKER
    assert guest.asks(kind, (b"bob",)) == "bad_request"
    assert guest.asks(kind, None) == "bad_request"
