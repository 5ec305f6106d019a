"""Auctions at the native door: the jobs that are announced, their bids, and who was hired."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.bidding.markets import Auction
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.describing import Described
    from hiringhall.dialects.native.session import NativeSession

AUCTIONS_MAX: Final = 200
"""Auctions of one answer."""
BIDS_MAX: Final = 100
"""Bids of one auction that are listed."""


class AuctionRequests:
    """The requests of one connection about auctions."""

    __slots__ = ("_scheduler", "_session")

    def __init__(self, session: NativeSession, scheduler: Scheduler) -> None:
        self._session = session
        self._scheduler = scheduler

    def auctions(self, number: int, body: Raw) -> None:
        # [0, 100]
        position, count = wire.decode(wire.LIST_BODY, body)
        auctions = self._scheduler.auctions.by_job.values()
        page = islice(auctions, position, position + min(count, AUCTIONS_MAX))
        answer = {
            "auctions": [_auction(auction) for auction in page],
            "total": len(auctions),
            "hirings": list(reversed(self._scheduler.hiring.records)),
        }
        self._session.answer(number, answer)


def _auction(auction: Auction) -> Described:
    job = auction.job
    bids = islice(auction.bids.values(), BIDS_MAX)
    return {
        "job": job.id,
        "queue": job.queue.name,
        "key": job.key,
        "open": auction.open,
        "closes_us": auction.due_us,
        "skill": job.terms.skill,
        "needs_us": job.terms.takes_us,
        "policy": auction.rules.name,
        "bids": [(offer.worker.name, offer.skill, offer.arrives_us) for offer in bids],
        "bids_count": len(auction.bids),
    }
