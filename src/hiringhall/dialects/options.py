"""The settings for jobs that both Gearman dialects have, and the terms that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from hiringhall.core.terms import Terms


@dataclass(frozen=True)
class JobOptions:
    """How one door treats the jobs that are submitted at it."""

    handle_prefix: bytes = b"H:hall"
    """The start of every handle; see `Handles`."""
    background_durable: bool = True
    """A background job is on disk before it is acknowledged."""
    lease_us: int = 0
    """If a worker is silent for this long, it loses its job; 0: only a closed connection does that."""
    losses_max: int = 3
    quits_max: int = 0
    """After this many hired workers have quit a job that they had begun, it has failed; 0: never."""
    failures_max: int = 0
    """How often a job is retried after a failure."""
    backoff_us: int = 1_000_000
    backoff_max_us: int = 3_600_000_000
    expire_us: int = 0
    """A background job that no worker takes for this long is cancelled; 0: never."""
    log_all: bool = False
    """Whether the end of every job goes to the history, not only that of durable ones."""

    def terms(self, priority: int, *, background: bool) -> Terms:
        """The terms of jobs with a priority."""
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
