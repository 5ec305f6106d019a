"""What all sessions of one Gearman door share: its options, its handles, the terms of each kind of submit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.schedule import find_zone
from hiringhall.dialects.handles import Handles

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
class GearmanOptions:
    """How one door treats what comes in by it."""

    handle_prefix: bytes = b"H:hall"
    """How every handle starts; see `Handles`."""
    background_durable: bool = True
    """A background job is on disk before JOB_CREATED is sent."""
    lease_us: int = 0
    """Silence after which a worker has lost its job; 0: only a closed connection loses it."""
    losses_max: int = 3
    quits_max: int = 0
    """Hired workers that may quit a job after they have begun; 0: any number."""
    failures_max: int = 0
    """How often a WORK_FAIL or WORK_EXCEPTION is followed by another attempt."""
    backoff_us: int = 1_000_000
    backoff_max_us: int = 3_600_000_000
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
    expire_us: int = 0
    """A background job that no worker takes for so long is cancelled; 0: never."""
    log_all: bool = False
    """The end of every job goes to the history, and not only that of durable ones."""
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


class GearmanDoor(Handles):
    """One door."""

    def __init__(self, hall: Scheduler, options: GearmanOptions, process: ProcessInfo) -> None:
        super().__init__(options.handle_prefix)
        self.hall = hall
        self.options = options
        self.process = process
        self.zone = find_zone(options.timezone)
        self.sessions: dict[GearmanSession, None] = {}
        """Who is here, in the order of coming."""
        self.terms: dict[int, Terms] = {}
        """What holds for the jobs of each kind of submit."""
        for packet_type, priority in _PRIORITIES.items():
            self.terms[packet_type] = _terms(options, priority, background=False)
        for packet_type, priority in _BACKGROUND_PRIORITIES.items():
            self.terms[packet_type] = _terms(options, priority, background=True)


def _terms(options: GearmanOptions, priority: int, *, background: bool) -> Terms:
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
