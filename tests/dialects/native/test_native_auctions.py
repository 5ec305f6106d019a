"""Auctions and settings at the native door."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.peer import Peer
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from stage.native import NativeGuest, NativeHall

WINDOW_US = 100_000


def open_market(hall: NativeHall) -> None:
    with hall.turn():
        market = hall.scheduler.auctions.open_market(Peer(), Rules(soonest, "soonest", WINDOW_US), None)
        hall.scheduler.auctions.set_audience(market, 1)


def test_an_auction_tells_its_bids_and_then_who_was_hired(guest: NativeGuest, hall: NativeHall) -> None:
    open_market(hall)
    jobs = [(b"q", b"", {"skill": 3, "takes_us": 7_000_000}, b"k", 0, [])]
    ((_, _, (job,)),) = guest.says_numbered(wire.SUBMIT, (0, jobs))
    bidder = Peer()
    with hall.turn():
        worker = hall.scheduler.worker(bidder)
        hall.scheduler.introduce(worker, b"bob")
        hall.scheduler.auctions.bid(worker, job, 5_000, 4)
        arrives_us = hall.now_us + 5_000
    told = guest.asks(wire.AUCTIONS, (0, 10))
    closes_us = hall.scheduler.auctions.by_job[job].due_us
    assert told == {
        "auctions": [
            {
                "job": job,
                "queue": b"q",
                "key": b"k",
                "open": True,
                "closes_us": closes_us,
                "skill": 3,
                "needs_us": 7_000_000,
                "policy": "soonest",
                "bids": [[b"bob", 4, arrives_us]],
                "bids_count": 1,
            }
        ],
        "total": 1,
        "hirings": [],
    }
    assert guest.asks(wire.AUCTIONS, (1, 10))["auctions"] == []
    hall.wait(2 * WINDOW_US)
    told = guest.asks(wire.AUCTIONS, (0, 10))
    ((at_us, *hiring),) = told["hirings"]
    assert (told["auctions"], told["total"]) == ([], 0)
    assert hiring == [job, b"q", b"bob", 4, arrives_us, 1, "soonest"]
    assert at_us >= closes_us
    assert guest.asks(wire.JOB, (job,))["situation"] == "promised"


def test_without_a_market_nothing_is_announced(guest: NativeGuest) -> None:
    guest.submits(b"a")
    assert guest.asks(wire.AUCTIONS, (0, 10)) == {"auctions": [], "total": 0, "hirings": []}


@pytest.mark.parametrize("body", [None, (0,), (-1, 10), (0, b"10"), (0, 10, b"q")])
def test_bad_bodies_are_refused(guest: NativeGuest, body: object) -> None:
    assert guest.asks(wire.AUCTIONS, body) == "bad_request"


def test_settings_are_those_of_the_hall(guest: NativeGuest, hall: NativeHall) -> None:
    assert guest.asks(wire.SETTINGS, None) == []
    hall.context.services.settings = lambda: [("hall.name", "one", "hall.toml", "Its name.")]
    assert guest.asks(wire.SETTINGS, None) == [["hall.name", "one", "hall.toml", "Its name."]]
    assert guest.asks(wire.SETTINGS, (1,)) == "bad_request"
