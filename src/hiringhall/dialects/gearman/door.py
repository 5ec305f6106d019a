"""What all sessions of one Gearman door share: its options, its handles, the terms of each kind of submit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.jobs import HIGH, LOW, NORMAL, Terms
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.schedule import find_zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.gearman.session import GearmanSession

HANDLE_BYTES_MAX: Final = 63
_ID_DIGITS_MAX: Final = 20
PREFIX_BYTES_MAX: Final = HANDLE_BYTES_MAX - 1 - _ID_DIGITS_MAX

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
    """Every handle starts with it, a colon follows, then the job's number."""
    background_durable: bool = True
    """A background job is on disk before JOB_CREATED is sent."""
    lease_us: int = 0
    """Silence after which a worker has lost its job; 0: only a closed connection loses it."""
    losses_max: int = 3
    failures_max: int = 0
    """How often a WORK_FAIL or WORK_EXCEPTION is followed by another attempt."""
    backoff_us: int = 1_000_000
    backoff_max_us: int = 3_600_000_000
    exceptions_by_default: bool = False
    """Clients hear WORK_EXCEPTION without asking for the option."""
    round_robin: bool = False
    """Workers take from their functions in turn; otherwise the oldest job goes first."""
    timeout_unit_us: int = 1_000_000
    """What one unit of CAN_DO_TIMEOUT is worth."""
    shutdown_allowed: bool = True
    """The text command `shutdown` stops the hall."""
    packet_bytes_max: int = wire.PACKET_BYTES_MAX
    timezone: str = "UTC"
    """Where the hours and days of SUBMIT_JOB_SCHED are read."""


class House:
    """What the text protocol tells about, and does to, the process."""

    def __init__(self, version: str, pid: int, verbose: str, stop: Callable[[bool], None]) -> None:
        self.version = version
        self.pid = pid
        self.verbose = verbose
        """The log level as gearmand calls it: "ERROR", "INFO", "DEBUG" and so on."""
        self.stop = stop
        """Called with True to finish what runs first."""


class GearmanDoor:
    """One door."""

    def __init__(self, hall: Scheduler, options: GearmanOptions, house: House) -> None:
        prefix = options.handle_prefix
        if not 0 < len(prefix) <= PREFIX_BYTES_MAX or b"\0" in prefix or b"\n" in prefix or b" " in prefix:
            raise ValueError(f"a handle's prefix has 1 to {PREFIX_BYTES_MAX} bytes, no NUL, space or line end")
        self.hall = hall
        self.options = options
        self.house = house
        self.prefix = prefix + b":"
        self.zone = find_zone(options.timezone)
        self.sessions: dict[GearmanSession, None] = {}
        """Who is here, in the order of coming."""
        self.terms: dict[int, Terms] = {}
        """What holds for the jobs of each kind of submit."""
        for packet_type, priority in _PRIORITIES.items():
            self.terms[packet_type] = _terms(options, priority, background=False)
        for packet_type, priority in _BACKGROUND_PRIORITIES.items():
            self.terms[packet_type] = _terms(options, priority, background=True)

    def handle(self, job_id: int) -> bytes:
        """The name of a job on the wire."""
        return self.prefix + b"%d" % job_id

    def job_id(self, handle: bytes) -> int:
        """The job a handle names; 0 when it is not one of ours, to the letter."""
        prefix = self.prefix
        digits = handle[len(prefix) :]
        if (
            not handle.startswith(prefix)
            or not digits.isdigit()
            or len(digits) > _ID_DIGITS_MAX
            or digits.startswith(b"0")
        ):
            return 0
        return int(digits)


def _terms(options: GearmanOptions, priority: int, *, background: bool) -> Terms:
    return Terms(
        priority=priority,
        durable=background and options.background_durable,
        detached=background,
        failures_max=options.failures_max,
        backoff_us=options.backoff_us,
        backoff_max_us=options.backoff_max_us,
        losses_max=options.losses_max,
        lease_us=options.lease_us,
    )
