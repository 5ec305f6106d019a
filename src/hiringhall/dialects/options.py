"""What every Gearman wire can be told about its jobs, and the terms that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from hiringhall.core.terms import Terms


@dataclass(frozen=True)
class JobOptions:
    """How one door treats the jobs that come in by it."""

    handle_prefix: bytes = b"H:hall"
    """How every handle starts; see `Handles`."""
    background_durable: bool = True
    """A background job is on disk before its client is told so."""
    lease_us: int = 0
    """Silence after which a worker has lost its job; 0: only a closed connection loses it."""
    losses_max: int = 3
    quits_max: int = 0
    """Hired workers that may quit a job after they have begun; 0: any number."""
    failures_max: int = 0
    """How often a reported failure is followed by another attempt."""
    backoff_us: int = 1_000_000
    backoff_max_us: int = 3_600_000_000
    expire_us: int = 0
    """A background job that no worker takes for so long is cancelled; 0: never."""
    log_all: bool = False
    """The end of every job goes to the history, and not only that of durable ones."""

    def terms(self, priority: int, *, background: bool) -> Terms:
        """What holds for the jobs of one priority."""
        return Terms(
            priority=priority,
            durable=background and self.background_durable,
            detached=background,
            failures_max=self.failures_max,
            backoff_us=self.backoff_us,
            backoff_max_us=self.backoff_max_us,
            losses_max=self.losses_max,
            quits_max=self.quits_max,
            lease_us=self.lease_us,
            expire_us=self.expire_us if background else 0,
            logged=self.log_all,
        )
