"""What all draft sessions of one Gearman door share: options, handles, the terms of each kind of job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms
from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.handles import Handles

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.session import Session

_PRIORITIES: Final = {wire.FLAG_NORMAL: NORMAL, wire.FLAG_HIGH: HIGH, wire.FLAG_LOW: LOW}
"""By the flags of job_create_req."""


@dataclass(frozen=True)
class DraftOptions:
    """How one door treats what comes in by it."""

    handle_prefix: bytes = b"H:hall"
    """How every handle starts; see `Handles`."""
    background_durable: bool = True
    """A job of one of the two async types is on disk before job_create_res is sent."""
    lease_us: int = 0
    """Silence after which a worker has lost its job; 0: only a closed connection loses it."""
    losses_max: int = 3
    quits_max: int = 0
    """Hired workers that may quit a job after they have begun; 0: any number."""
    failures_max: int = 0
    """How often a result code other than 0 is followed by another attempt."""
    backoff_us: int = 1_000_000
    backoff_max_us: int = 3_600_000_000
    expire_us: int = 0
    """An async job that no worker takes for so long is cancelled; 0: never."""
    log_all: bool = False
    """The end of every job goes to the history, and not only that of durable ones."""
    packet_bytes_max: int = wire.PACKET_BYTES_MAX


class DraftDoor(Handles):
    """One door."""

    def __init__(self, hall: Scheduler, options: DraftOptions, look_up: Callable[[Session, int], None]) -> None:
        super().__init__(options.handle_prefix)
        self.hall = hall
        self.options = options
        self.look_up = look_up
        """Asks the history for one job: the session's `looked_up` is called in a later turn."""
        self.reported = Terms(durable=True, detached=True)
        """What holds for tasks that run outside the hall: they cannot be lost or repeated here."""
        self._terms: dict[tuple[int, int], Terms] = {}
        for job_type in range(wire.JOB_TYPES):
            for flags, priority in _PRIORITIES.items():
                terms = _terms(options, priority, background=job_type != wire.SYNC_WAIT)
                self._terms[job_type, flags] = terms

    def terms(self, job_type: int, flags: int) -> Terms:
        """What holds for the jobs of a type and a priority; both are checked by now."""
        return self._terms[job_type, flags]


def _terms(options: DraftOptions, priority: int, *, background: bool) -> Terms:
    return Terms(
        priority=priority,
        durable=background and options.background_durable,
        detached=background,
        failures_max=options.failures_max,
        backoff_us=options.backoff_us,
        backoff_max_us=options.backoff_max_us,
        losses_max=options.losses_max,
        quits_max=options.quits_max,
        lease_us=options.lease_us,
        expire_us=options.expire_us if background else 0,
        logged=options.log_all,
    )
