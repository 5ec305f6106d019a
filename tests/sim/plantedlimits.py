"""Bugs for the laws to find where a queue has limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.ledger import Ledger
from hiringhall.core.queues import Queue
from hiringhall.core.rules.limiter import Limiter
from hiringhall.core.rules.parking import Parking
from hiringhall.core.rules.rates import TokenBucket
from hiringhall.core.rules.tenants import Tenants
from hiringhall.core.rules.throttling import ThrottleWindows

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

_FILL = TokenBucket.__init__
_TOKENS = TokenBucket.tokens
_GET = Tenants._get
_BALANCE = Parking.balance
_TAKE_OUT = Queue.take_out_all


def _begin_full(self: TokenBucket, starts_per_1000s: int, burst: int, now_us: int) -> None:
    """What was spent before the restart is forgotten."""
    _FILL(self, starts_per_1000s, burst, now_us)
    self._level = self._full


def _count_twice(self: TokenBucket, now_us: int) -> int:
    """The time that has passed gives its tokens twice."""
    filled_us = self._filled_us
    _TOKENS(self, now_us)
    self._filled_us = filled_us
    return _TOKENS(self, now_us)


def _admit_nobody(self: Parking, name: bytes) -> None:
    """The next of a key stays parked when one of them ends."""
    key = self.keys.get(name)
    if key is not None and key.running:
        _BALANCE(self, name)


def _weigh_nothing(self: Tenants, name: bytes) -> Any:
    tenant = _GET(self, name)
    tenant.step = 720_720
    return tenant


def _note_no_payload(self: Ledger, job: Job) -> None:
    """A debounced job is stored with its first payload."""
    self.note(job)


def _forget_windows(self: ThrottleWindows, rows: object) -> None:
    del self, rows


def _forget_parked(self: Queue) -> list[Job]:
    """A change of rules loses the jobs that are parked."""
    parked = {job.id for job in self.parked_jobs()}
    return [job for job in _TAKE_OUT(self) if job.id not in parked]


def _never_full(self: Limiter) -> bool:
    return False


BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "limit lost at restart": (TokenBucket, "__init__", _begin_full),
    "token counted twice": (TokenBucket, "tokens", _count_twice),
    "parked job forgotten": (Parking, "balance", _admit_nobody),
    "weight ignored": (Tenants, "_get", _weigh_nothing),
    "full queue starts jobs": (Limiter, "full", property(_never_full)),
    "debounced payload lost at restart": (Ledger, "note_payload", _note_no_payload),
    "throttle window forgotten at restart": (ThrottleWindows, "restore", _forget_windows),
    "rule change forgets a parked job": (Queue, "take_out_all", _forget_parked),
}
