"""Bugs for the laws to find in the beanstalkd protocol."""

from __future__ import annotations

from typing import Any, Final

from hiringhall.core.leasing import Leases
from hiringhall.core.scheduler import Scheduler
from hiringhall.dialects.beanstalkd.session import BeanstalkdSession


def _confirm_before_commit(self: BeanstalkdSession, job: Any, reply: bytes) -> None:
    del job
    self.send(reply)


def _release_at_once(self: Scheduler, lease: Any, *, front: bool = True, delay_us: int = 0) -> None:
    del delay_us
    _RELEASE(self, lease, front=front)


def _touch_nothing(self: Scheduler, lease: Any, terms: Any = None) -> None:
    self.leases.check_live(lease)
    if terms is not None:
        _RENEW(self, lease, terms)


def _delete_of_anybody(self: BeanstalkdSession, job: Any) -> None:
    if job.lease is not None and not job.lease.promised:
        self._scheduler.finish(job.lease, b"")
        self._confirm(job, b"DELETED\r\n")
    else:
        _DELETE(self, job)


def _bury_without_a_trace(self: Leases, lease: Any, code: int = 1, data: bytes = b"", **how: Any) -> None:
    if data == b"buried":
        self.release(lease)
    else:
        _FAIL(self, lease, code, data, **how)


def _wait_without_an_offer(self: BeanstalkdSession, timeout_us: int) -> None:
    _RESERVE(self, timeout_us)
    if self.worker is not None:
        self._scheduler.offer(self.worker, 0)


def _wait_for_ever(self: BeanstalkdSession, worker: Any) -> None:
    until_us, self._until_us = self._until_us, 0
    _WAIT(self, worker)
    self._until_us = until_us


_RELEASE = Scheduler.release
_RENEW = Scheduler.renew
_DELETE = BeanstalkdSession._delete
_FAIL = Leases.fail
_RESERVE = BeanstalkdSession._reserve
_WAIT = BeanstalkdSession._wait

BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "deleted before commit": (BeanstalkdSession, "_confirm", _confirm_before_commit),
    "release loses its delay": (Scheduler, "release", _release_at_once),
    "touch does not renew": (Scheduler, "renew", _touch_nothing),
    "job of another worker deleted": (BeanstalkdSession, "_delete", _delete_of_anybody),
    "buried job handed out again": (Leases, "fail", _bury_without_a_trace),
    "reserve that waits is forgotten": (BeanstalkdSession, "_reserve", _wait_without_an_offer),
    "reserve never times out": (BeanstalkdSession, "_wait", _wait_for_ever),
}
