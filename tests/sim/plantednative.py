"""Bugs for the laws to find in the native protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.flows.flow_verbs import FlowRetry
from hiringhall.core.flows.flows import Flows
from hiringhall.core.leasing import Leases
from hiringhall.core.states import FAILED
from hiringhall.dialects.native.session import NativeSession
from hiringhall.dialects.native.submitting import Submits

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.dialects.session import Session


def _confirm_before_commit(
    self: NativeSession, lease_number: int, number: int, job: Job, *, durable: bool
) -> None:
    del durable
    _LET_GO(self, lease_number, number, job, durable=False)


def _submit_before_commit(self: Session, jobs: list[Any], data: bytes, *, watching: bool = False) -> None:
    del jobs, watching
    self.send(data)


def _find_any_lease(self: NativeSession, lease_number: int) -> Any:
    """The lease of any worker will do."""
    for worker in self._scheduler.workers:
        for lease in worker.leases.values():
            if lease.number == lease_number:
                self._leases[lease_number] = lease
    return _FIND_LEASE(self, lease_number)


def _revoke_silently(self: NativeSession, lease: Any) -> None:
    if self._leases.pop(lease.number, None) is not None:
        self._freed = True


def _free_nothing(self: NativeSession) -> None:
    """A job that is off the worker's hands still takes its slot."""
    worker = self.worker
    if worker is not None:
        self._scheduler.offer(worker, max(self._slots - self._scheduler.leases.last_number, 0))


def _offer_too_much(self: NativeSession) -> None:
    if self.worker is not None:
        self._scheduler.offer(self.worker, self._slots + 1)


def _retry_anyway(self: Leases, lease: Any, code: int = 1, data: bytes = b"", *, retry: bool = True) -> None:
    del retry
    _FAIL(self, lease, code, data)


def _take_back_nothing(self: Submits, *_: Any, **__: Any) -> None:
    """A submit that is refused leaves the jobs before the bad one behind."""


def _tell_before_commit(self: NativeSession, data: bytes) -> None:
    self.send(data)


def _renew_nothing(self: Leases, lease: Any, terms: Any = None) -> None:
    self.check_live(lease)
    if terms is not None:
        _RENEW(self, lease, terms)


def _retry_at_once(self: FlowRetry, job: Any, known: Any) -> list[Any]:
    """Wait for no parent."""
    del self, job, known
    return []


def _end_no_flow(self: Flows, flow: Any, now_us: int) -> None:
    """A flow never ends."""


def _count_no_retry(self: Flows, job: Any, now_us: int) -> None:
    """A job that is retried still counts as failed."""
    job.flow.counts[FAILED] += 1
    _REENTER(self, job, now_us)


_REENTER = Flows.reenter
_FIND_LEASE = NativeSession._find_lease
_LET_GO = NativeSession._let_go
_FAIL = Leases.fail
_RENEW = Leases.renew

FLOW_BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "retried flow forgets parents": (FlowRetry, "_parents_of", _retry_at_once),
    "flow never ends": (Flows, "_end", _end_no_flow),
    "retried job still counts as failed": (Flows, "reenter", _count_no_retry),
}
BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "result confirmed before commit": (NativeSession, "_let_go", _confirm_before_commit),
    "several jobs acknowledged before commit": (NativeSession, "acknowledge_all", _submit_before_commit),
    "lease of another worker accepted": (NativeSession, "_find_lease", _find_any_lease),
    "revoke not sent": (NativeSession, "revoked", _revoke_silently),
    "slot not freed": (NativeSession, "_offer", _free_nothing),
    "more jobs than slots": (NativeSession, "_offer", _offer_too_much),
    "failure retried against the worker's word": (Leases, "fail", _retry_anyway),
    "refused submit leaves jobs behind": (Submits, "_take_back", _take_back_nothing),
    "end told before commit": (NativeSession, "pledge", _tell_before_commit),
    "renewed lease ends too soon": (Leases, "renew", _renew_nothing),
    **FLOW_BUGS,
}
