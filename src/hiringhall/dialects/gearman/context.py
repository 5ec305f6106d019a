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
    """How one door treats what comes in by it."""

    exceptions_by_default: bool = False
    """Clients hear WORK_EXCEPTION without asking for the option."""
    round_robin: bool = False
    """Workers take from their functions in turn; otherwise priority goes first, then age."""
    timeout_unit_us: int = 1_000_000
    """What one unit of CAN_DO_TIMEOUT is worth."""
    timeout_min_us: int = 0
    """The shortest CAN_DO_TIMEOUT: a shorter one counts as this."""
    overruns_requeued: bool = False
    """A job that runs longer than its worker's CAN_DO_TIMEOUT goes to another worker; otherwise it has
    failed."""
    shutdown_allowed: bool = True
    """The text command `shutdown` stops the hall."""
    admin_anywhere: bool = False
    """Everybody may use `shutdown`, and cancel the jobs of others; otherwise peers on loopback may."""
    packet_bytes_max: int = wire.PACKET_BYTES_MAX
    timezone: str = "UTC"
    """Where the hours and days of SUBMIT_JOB_SCHED are read."""


class ProcessInfo:
    """What the text protocol tells about, and does to, the process."""

    def __init__(self, version: str, pid: int, verbose: str, stop: Callable[[bool], None]) -> None:
        self.version = version
        self.pid = pid
        self.verbose = verbose
        """The log level as gearmand calls it: "ERROR", "INFO", "DEBUG" and so on."""
        self.stop = stop
        """Called with True to finish what runs first."""


class GearmanContext(Handles):
    """One door."""

    def __init__(self, scheduler: Scheduler, options: GearmanOptions, process: ProcessInfo) -> None:
        super().__init__(options.handle_prefix)
        self.scheduler = scheduler
        self.options = options
        self.process = process
        self.zone = find_zone(options.timezone)
        self.sessions: dict[GearmanSession, None] = {}
        """Who is here, in the order of coming."""
        self.terms: dict[int, Terms] = {}
        """What holds for the jobs of each kind of submit."""
        for packet_type, priority in _PRIORITIES.items():
            self.terms[packet_type] = options.terms(priority, background=False)
        for packet_type, priority in _BACKGROUND_PRIORITIES.items():
            self.terms[packet_type] = options.terms(priority, background=True)
