"""What all draft sessions of one Gearman door share: its options, its handles, the terms of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms
from hiringhall.dialects.collecting import Collection
from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.handles import Handles
from hiringhall.dialects.options import JobOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.session import Session

_PRIORITIES: Final = {wire.FLAG_NORMAL: NORMAL, wire.FLAG_HIGH: HIGH, wire.FLAG_LOW: LOW}
"""By the flags of job_create_req."""


@dataclass(frozen=True)
class DraftOptions(JobOptions):
    """The settings of one door."""

    packet_bytes_max: int = wire.PACKET_BYTES_MAX


class DraftContext(Handles):
    """One for each door."""

    def __init__(
        self, scheduler: Scheduler, options: DraftOptions, look_up: Callable[[Session, int], None]
    ) -> None:
        super().__init__(options.handle_prefix)
        self.scheduler = scheduler
        self.options = options
        self.ahead = Collection()
        """What workers of other dialects send ahead of the results that applications wait for."""
        self.look_up = look_up
        """Looks up one job in the history: the session's `looked_up` is called in a later turn."""
        self.reported = Terms(durable=True, detached=True)
        """The terms of tasks that run outside the hall: they are never lost or retried here."""
        self._terms: dict[tuple[int, int], Terms] = {}
        for job_type in range(wire.JOB_TYPES):
            for flags, priority in _PRIORITIES.items():
                terms = options.terms(priority, background=job_type != wire.SYNC_WAIT)
                self._terms[job_type, flags] = terms

    def terms(self, job_type: int, flags: int) -> Terms:
        """The terms of jobs with a type and a priority, which must be valid."""
        return self._terms[job_type, flags]
