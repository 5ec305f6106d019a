"""Bugs for the laws to find in auctions, in promises, and in the hire_bus."""

from __future__ import annotations

from typing import Any, Final

from hiringhall.core import ledger
from hiringhall.core.bidding.auctions import Auctions
from hiringhall.core.bidding.hiring import Hiring
from hiringhall.core.bidding.markets import Listing, Offer
from hiringhall.core.leases import PERFORMING
from hiringhall.core.leasing import Leases
from hiringhall.core.matching import Matching
from hiringhall.core.states import FAILED, LOST, QUEUED
from hiringhall.dialects.hire.hire_bus import HireBus
from hiringhall.dialects.hire.relay import ProviderRelay


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing where something must be done."""


def _arrive_early(self: Hiring, engagement: Any) -> bool:
    engagement.begin_us = self._table.now_us
    return _ARRIVE(self, engagement)


def _perform_for_ever(self: Hiring, engagement: Any) -> bool:
    begun = _PERFORM(self, engagement)
    self._table.timers.disarm(engagement)
    return begun


def _hire_and_leave_it_ready(self: Auctions, auction: Any, offer: Any, bids: int) -> None:
    job = auction.job
    if job.state != QUEUED:
        _HIRE(self, auction, offer, bids)
        return
    self._close(auction)
    scheduler = self._scheduler
    promised = scheduler.hiring.promise(job, offer.worker, offer.arrives_us, scheduler.now_us, auction.rules)
    offer.worker.peer.hired(promised)


def _give_promise_back_nowhere(self: Leases, lease: Any, code: int, *, front: bool = True) -> None:
    if lease.promised:
        self._table._end_lease(lease.job)
        lease.job.state = 0
    else:
        _GIVE_BACK(self, lease, code, front=front)


def _lose_what_was_promised(self: Leases, lease: Any, code: int = LOST, reason: bytes = b"") -> None:
    job = lease.job
    if lease.promised:
        job.losses += 1
        if job.terms.losses_max and job.losses >= job.terms.losses_max:
            self._table.end(job, FAILED, LOST, b"its workers were lost")
            return
    _LOSE(self, lease, code, reason)


def _state_as_it_is(job: Any) -> int:
    return int(job.state)


def _introduce_anybody(self: HireBus, uuid: bytes, door: Any, session: Any) -> Any:
    holder = self.participants.get(uuid)
    return holder if holder is not None else _INTRODUCE(self, uuid, door, session)


def _renewed(offer: Offer) -> Offer:
    """The bid, as if it were made now."""
    return Offer(offer.worker, offer.skill, offer.arrives_us, offer.worker.hirings)


def _stand_whatever_they_have(self: Auctions, offer: Any, job: Any, rules: Any) -> bool:
    return _STANDS(self, _renewed(offer), job, rules)


def _stand_while_the_next_place_is_free(self: Auctions, offer: Any, job: Any, rules: Any) -> bool:
    free = offer.worker.promise is None
    return _STANDS(self, _renewed(offer) if free else offer, job, rules)


def _lose_who_quits(self: Hiring, engagement: Any) -> None:
    if engagement.stage == PERFORMING:
        self._leases.count_loss(engagement)
    else:
        _QUIT(self, engagement)


def _uncount_nothing(self: Listing, auction: Any) -> None:
    self.unrest(auction)


def _engage_under_a_clients_key(self: Hiring, *args: Any) -> Any:
    engagement = _ENGAGE_FOR(self, *args)
    job = engagement.job
    if self._table.keys.find(job.queue, job.key) is None:
        self._table.keys.add(job)
    return engagement


_ENGAGE_FOR = Hiring.engage
_QUIT = Hiring.quit
_STANDS = Auctions._is_valid
_ARRIVE = Hiring.arrive
_PERFORM = Hiring.perform
_HIRE = Auctions._hire
_GIVE_BACK = Leases.give_back
_LOSE = Leases.count_loss
_INTRODUCE = HireBus.introduce

BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "two next places": (Auctions, "_is_valid", _stand_whatever_they_have),
    "hired on a void bid": (Auctions, "_is_valid", _stand_while_the_next_place_is_free),
    "promise not kept": (Matching, "keep_promises", _nothing),
    "clients join a provider's job": (Hiring, "engage", _engage_under_a_clients_key),
    "announcements uncounted": (Listing, "uncount", _uncount_nothing),
    "who does not come is waited for": (Leases, "dismiss", _nothing),
    "loss before PERFORMING": (Leases, "count_loss", _lose_what_was_promised),
    "QUIT is a loss": (Hiring, "quit", _lose_who_quits),
    "QUIT ignored": (Hiring, "quit", _nothing),
    "performed for ever": (Hiring, "perform", _perform_for_ever),
    "PERFORMING unasked": (Hiring, "_check_stage", _nothing),
    "performed before it is due": (Hiring, "arrive", _arrive_early),
    "hired and still ready": (Auctions, "_hire", _hire_and_leave_it_ready),
    "promise given back to nobody": (Leases, "give_back", _give_promise_back_nowhere),
    "auction outlives its job": (Auctions, "_close", _nothing),
    "promise stored as an attempt": (ledger, "_state", _state_as_it_is),
    "provider gone, its workers stay": (ProviderRelay, "provider_left", _nothing),
    "UUID of another connection": (HireBus, "introduce", _introduce_anybody),
}
