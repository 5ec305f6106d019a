"""Bugs for the laws to find in auctions, in promises, and in the village."""

from __future__ import annotations

from typing import Any, Final

from hiringhall.core import ledger
from hiringhall.core.auctions import PERFORMING
from hiringhall.core.bidding import Bidding
from hiringhall.core.hiring import Hiring
from hiringhall.core.leasing import Leasing
from hiringhall.core.queues import Queue
from hiringhall.dialects.hire.switchboard import Switchboard
from hiringhall.dialects.hire.village import Village


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing where something must be done."""


def _arrive_early(self: Hiring, engagement: Any) -> bool:
    engagement.begin_us = self.now_us
    return _ARRIVE(self, engagement)


def _perform_for_ever(self: Hiring, engagement: Any) -> bool:
    begun = _PERFORM(self, engagement)
    self.timers.disarm(engagement)
    return begun


def _hire_and_leave_it_ready(self: Bidding, job: Any, worker: Any, promised_us: int, rules: Any) -> Any:
    engagement = _ENGAGE(self, job, worker, promised_us, rules)
    if engagement.begin_us <= self.now_us:
        job.queue.put(job, front=True)
        self._unsettle(job.queue)
    return engagement


def _give_promise_back_nowhere(self: Hiring, lease: Any, code: int, *, front: bool = True) -> None:
    if getattr(lease, "stage", PERFORMING) == PERFORMING:
        _GIVE_BACK(self, lease, code, front=front)
    else:
        self._unlease(lease)
        lease.job.state = 0


def _state_as_it_is(job: Any) -> int:
    return int(job.state)


def _introduce_anybody(self: Village, uuid: bytes, door: Any, session: Any) -> Any:
    holder = self.speakers.get(uuid)
    return holder if holder is not None else _INTRODUCE(self, uuid, door, session)


def _stand_whatever_they_have(self: Bidding, offer: Any, job: Any, rules: Any) -> bool:
    return _STANDS(self, offer._replace(hirings=offer.worker.hirings), job, rules)


def _stand_while_the_next_place_is_free(self: Bidding, offer: Any, job: Any, rules: Any) -> bool:
    free = offer.worker.promise is None
    return _STANDS(self, offer._replace(hirings=offer.worker.hirings) if free else offer, job, rules)


def _lose_who_quits(self: Hiring, engagement: Any) -> None:
    if engagement.stage == PERFORMING:
        self._lose(engagement)
    else:
        _QUIT(self, engagement)


def _uncount_nothing(self: Queue, auction: Any) -> None:
    self.unrest(auction)


def _engage_under_a_clients_key(self: Hiring, *args: Any) -> Any:
    engagement = _ENGAGE_FOR(self, *args)
    job = engagement.job
    if self.keys.find(job.queue, job.key) is None:
        self.keys.add(job)
    return engagement


_ENGAGE_FOR = Hiring.engage
_QUIT = Hiring.quit
_STANDS = Bidding._stands
_ARRIVE = Hiring.arrive
_PERFORM = Hiring.perform
_ENGAGE = Bidding._engage
_GIVE_BACK = Hiring._give_back
_INTRODUCE = Village.introduce

BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "two next places": (Bidding, "_stands", _stand_whatever_they_have),
    "hired on a void bid": (Bidding, "_stands", _stand_while_the_next_place_is_free),
    "promise not kept": (Hiring, "_keep_promises", _nothing),
    "clients join a provider's job": (Hiring, "engage", _engage_under_a_clients_key),
    "announcements uncounted": (Queue, "uncount", _uncount_nothing),
    "who does not come is waited for": (Hiring, "_dismiss", _nothing),
    "loss before PERFORMING": (Hiring, "_lose", Leasing._lose),
    "QUIT is a loss": (Hiring, "quit", _lose_who_quits),
    "QUIT ignored": (Hiring, "quit", _nothing),
    "performed for ever": (Hiring, "perform", _perform_for_ever),
    "PERFORMING unasked": (Hiring, "_check_stage", _nothing),
    "performed before it is due": (Hiring, "arrive", _arrive_early),
    "hired and still ready": (Bidding, "_engage", _hire_and_leave_it_ready),
    "promise given back to nobody": (Hiring, "_give_back", _give_promise_back_nowhere),
    "auction outlives its job": (Bidding, "_unlist", _nothing),
    "promise stored as an attempt": (ledger, "_state", _state_as_it_is),
    "provider gone, its workers stay": (Switchboard, "part", _nothing),
    "UUID of another connection": (Village, "introduce", _introduce_anybody),
}
