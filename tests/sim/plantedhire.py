"""Bugs for the laws to find in auctions, in promises, and in the village."""

from __future__ import annotations

from typing import Any, Final

from hiringhall.core import hiring, ledger
from hiringhall.core.auctions import PERFORMING
from hiringhall.core.hiring import Hiring
from hiringhall.core.leasing import Leasing
from hiringhall.dialects.hire.switchboard import Switchboard
from hiringhall.dialects.hire.village import Village


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing where something must be done."""


def _arrive_early(self: Hiring, engagement: Any) -> bool:
    engagement.begin_us = self.now_us
    return _ARRIVE(self, engagement)


def _perform_for_ever(self: Hiring, engagement: Any) -> None:
    _PERFORM(self, engagement)
    self.timers.disarm(engagement)


def _hire_and_leave_it_ready(self: Hiring, job: Any, worker: Any, promised_us: int, rules: Any) -> Any:
    engagement = _ENGAGE(self, job, worker, promised_us, rules)
    if engagement.begin_us <= self.now_us:
        job.queue.put(job, front=True)
        self._unsettle(job.queue)
    return engagement


def _give_promise_back_nowhere(self: Hiring, lease: Any, code: int) -> None:
    if getattr(lease, "stage", PERFORMING) == PERFORMING:
        _GIVE_BACK(self, lease, code)
    else:
        self._unlease(lease)
        lease.job.state = 0


def _state_as_it_is(job: Any) -> int:
    return int(job.state)


def _introduce_anybody(self: Village, uuid: bytes, door: Any, session: Any) -> Any:
    holder = self.speakers.get(uuid)
    return holder if holder is not None else _INTRODUCE(self, uuid, door, session)


_ARRIVE = Hiring.arrive
_PERFORM = Hiring.perform
_ENGAGE = Hiring._engage
_GIVE_BACK = Hiring._give_back
_INTRODUCE = Village.introduce

BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "two next places": (hiring, "next_place", _nothing),
    "who does not come is waited for": (Hiring, "_dismiss", _nothing),
    "loss before PERFORMING": (Hiring, "_lose", Leasing._lose),
    "QUIT ignored": (Hiring, "quit", _nothing),
    "performed for ever": (Hiring, "perform", _perform_for_ever),
    "PERFORMING unasked": (Hiring, "_check_stage", _nothing),
    "performed before it is due": (Hiring, "arrive", _arrive_early),
    "hired and still ready": (Hiring, "_engage", _hire_and_leave_it_ready),
    "promise given back to nobody": (Hiring, "_give_back", _give_promise_back_nowhere),
    "auction outlives its job": (Hiring, "_unlist", _nothing),
    "promise stored as an attempt": (ledger, "_state", _state_as_it_is),
    "provider gone, its workers stay": (Switchboard, "part", _nothing),
    "UUID of another connection": (Village, "introduce", _introduce_anybody),
}
