"""What all sessions of one Gearman door share: its options, its handles, the terms of each kind of submit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.schedule import find_zone
from hiringhall.dialects.handles import Handles
from hiringhall.dialects.options import JobOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.gearman.session import GearmanSession

_PRIORITIES: Final = {
    wire.SUBMIT_JOB: NORMAL,
    wire.SUBMIT_JOB_HIGH: HIGH,
    wire.SUBMIT_JOB_LOW: LOW,
    wire.SUBMIT_REDUCE_JOB: NORMAL,
}
_BACKGROUND_PRIORITIES: Final = {
    wire.SUBMIT_JOB_BG: NORMAL,
    wire.SUBMIT_JOB_HIGH_BG: HIGH,
    wire.SUBMIT_JOB_LOW_BG: LOW,
    wire.SUBMIT_JOB_SCHED: NORMAL,
    wire.SUBMIT_JOB_EPOCH: NORMAL,
    wire.SUBMIT_REDUCE_JOB_BACKGROUND: NORMAL,
}


@dataclass(frozen=True)
class GearmanOptions(JobOptions):
    """The settings of one Gearman door."""

    exceptions_by_default: bool = False
    """Clients are sent WORK_EXCEPTION without setting the option."""
    round_robin: bool = False
    """Workers take from their functions in turn; otherwise the priority decides, then the age."""
    timeout_unit_us: int = 1_000_000
    """The unit of CAN_DO_TIMEOUT."""
    timeout_min_us: int = 0
    """The shortest CAN_DO_TIMEOUT; a shorter one is raised to it."""
    overruns_requeued: bool = False
    """A job that runs longer than the CAN_DO_TIMEOUT of its worker is given to another worker; otherwise it has
    failed."""
    shutdown_allowed: bool = True
    """The text command `shutdown` stops the hall."""
    admin_anywhere: bool = False
    """Every peer may use `shutdown` and cancel the jobs of others; otherwise only peers on loopback may."""
    packet_bytes_max: int = wire.PACKET_BYTES_MAX
    timezone: str = "UTC"
    """The time zone of SUBMIT_JOB_SCHED."""


class ProcessInfo:
    """What the text protocol shows of the process, and how it stops it."""

    def __init__(self, version: str, pid: int, verbose: str, stop: Callable[[bool], None]) -> None:
        self.version = version
        self.pid = pid
        self.verbose = verbose
        """The log level, by gearmand's name for it: "ERROR", "INFO", "DEBUG" and so on."""
        self.stop = stop
        """Stops the hall. Its argument tells whether running jobs are finished first."""


class GearmanContext(Handles):
    """One for each door."""

    def __init__(self, scheduler: Scheduler, options: GearmanOptions, process: ProcessInfo) -> None:
        super().__init__(options.handle_prefix)
        self.scheduler = scheduler
        self.options = options
        self.process = process
        self.zone = find_zone(options.timezone)
        self.sessions: dict[GearmanSession, None] = {}
        """All sessions of the door, the oldest first."""
        self.terms: dict[int, Terms] = {}
        """The terms of jobs, by the type of the submit packet."""
        for packet_type, priority in _PRIORITIES.items():
            self.terms[packet_type] = options.terms(priority, background=False)
        for packet_type, priority in _BACKGROUND_PRIORITIES.items():
            self.terms[packet_type] = options.terms(priority, background=True)
