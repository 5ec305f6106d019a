"""A Gearman door: its settings, in people's units and words, and the options that its sessions work with."""

import zoneinfo
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall import __version__
from hiringhall.config.quantities import Address, Size
from hiringhall.config.schema import TcpDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.core.scheduler import Scheduler
from hiringhall.dialects.gearman.context import GearmanContext, GearmanOptions, ProcessInfo
from hiringhall.dialects.gearman.schedule import find_zone
from hiringhall.dialects.gearman.session import GearmanSession
from hiringhall.dialects.gearman_draft.context import DraftContext, DraftOptions
from hiringhall.dialects.gearman_draft.session import DraftSession
from hiringhall.dialects.gearman_draft.wire import MAGIC
from hiringhall.dialects.handles import PREFIX_BYTES_MAX
from hiringhall.doors.dialect import Dialect, Endpoint, Process, reachable_host

GEARMAND_VERSION: Final = "1.1.20"
"""The gearmand that the door can stand in for."""
_YEAR_S: Final = 31_536_000
_OPTIONS = GearmanOptions()


class GearmanDoorSettings(TcpDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for Gearman clients and workers. There may be several [[door]] tables."""

    dialect: Annotated[Literal["gearman"], Meta(description="The protocol spoken at this door.")] = "gearman"
    address: Annotated[Address, Meta(description="Where to listen; port 0 lets the system choose.")] = Address(
        "127.0.0.1:4730"
    )
    background: Annotated[
        Literal["durable", "memory"],
        Meta(description="Whether background jobs are on disk before they are acknowledged."),
    ] = "durable"
    lease_s: Annotated[
        float,
        Meta(ge=0, le=_YEAR_S, description="Silence on a job after which its worker counts as lost; 0: never."),
    ] = 0.0
    losses_max: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Lost workers after which a job has failed; 0: no limit.")
    ] = 3
    quits_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Workers that quit while they perform (hire) after which a job has failed; 0: any.",
        ),
    ] = 0
    retries: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="Failures reported by a worker that are followed by another try."),
    ] = 0
    backoff_s: Annotated[
        float, Meta(ge=0, le=_YEAR_S, description="The wait before the first retry; it doubles with each.")
    ] = 1.0
    backoff_max_s: Annotated[float, Meta(ge=0, le=_YEAR_S, description="The longest wait before a retry.")] = (
        3600.0
    )
    expire_s: Annotated[
        float,
        Meta(
            ge=0,
            le=_YEAR_S,
            description="A background job that no worker takes for so long is cancelled; 0: never.",
        ),
    ] = 0.0
    draft: Annotated[
        bool, Meta(description="Speak Gearman's first draft as well, to those who begin with its magic.")
    ] = True
    exceptions: Annotated[
        bool, Meta(description="Forward exceptions to all clients, not only to those that ask for it.")
    ] = False
    round_robin: Annotated[
        bool,
        Meta(description="Take from a worker's functions in turn; otherwise priority goes first, then age."),
    ] = False
    timeout_unit: Annotated[Literal["s", "ms"], Meta(description="The unit of CAN_DO_TIMEOUT.")] = "s"
    timeout_min_s: Annotated[
        float, Meta(ge=0, le=_YEAR_S, description="The shortest CAN_DO_TIMEOUT: a shorter one counts as this.")
    ] = 0.0
    on_timeout: Annotated[
        Literal["fail", "requeue"],
        Meta(
            description="A job that runs longer than its worker's CAN_DO_TIMEOUT has failed, or goes to "
            "another worker and counts one more in losses_max."
        ),
    ] = "fail"
    timezone: Annotated[
        str, Meta(min_length=1, description="The time zone of SUBMIT_JOB_SCHED, such as Europe/Vienna.")
    ] = "UTC"
    shutdown: Annotated[bool, Meta(description="Obey the admin command `shutdown`.")] = True
    admin_from: Annotated[
        Literal["loopback", "anywhere"],
        Meta(
            description="Whence peers may use `shutdown`, and `cancel job` for jobs that they do not wait for."
        ),
    ] = "loopback"
    handle_prefix: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=PREFIX_BYTES_MAX,
            description="How job handles begin; changing it makes handles given out before unknown.",
        ),
    ] = _OPTIONS.handle_prefix.decode()
    packet_bytes_max: Annotated[
        Size, Meta(description="The longest packet; a longer one is refused before it is read.")
    ] = Size(_OPTIONS.packet_bytes_max)

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        try:
            find_zone(self.timezone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            yield (
                "timezone",
                f'"{self.timezone}" is not a known time zone; it takes a name such as Europe/Vienna',
            )
        if (
            not self.handle_prefix.isascii()
            or not self.handle_prefix.isprintable()
            or " " in self.handle_prefix
        ):
            yield "handle_prefix", "takes printable ASCII characters without blanks"

    def options(self) -> GearmanOptions:
        return GearmanOptions(
            handle_prefix=self.handle_prefix.encode(),
            background_durable=self.background == "durable",
            lease_us=round(self.lease_s * SECOND_US),
            losses_max=self.losses_max,
            quits_max=self.quits_max,
            failures_max=self.retries,
            backoff_us=round(self.backoff_s * SECOND_US),
            backoff_max_us=round(self.backoff_max_s * SECOND_US),
            exceptions_by_default=self.exceptions,
            round_robin=self.round_robin,
            timeout_unit_us=SECOND_US if self.timeout_unit == "s" else SECOND_US // 1000,
            timeout_min_us=round(self.timeout_min_s * SECOND_US),
            overruns_requeued=self.on_timeout == "requeue",
            shutdown_allowed=self.shutdown,
            admin_anywhere=self.admin_from == "anywhere",
            packet_bytes_max=int(self.packet_bytes_max),
            expire_us=round(self.expire_s * SECOND_US),
            log_all=self.log == "all",
            timezone=self.timezone,
        )

    def draft_options(self) -> DraftOptions:
        return DraftOptions(
            handle_prefix=self.handle_prefix.encode(),
            background_durable=self.background == "durable",
            lease_us=round(self.lease_s * SECOND_US),
            losses_max=self.losses_max,
            quits_max=self.quits_max,
            failures_max=self.retries,
            backoff_us=round(self.backoff_s * SECOND_US),
            backoff_max_us=round(self.backoff_max_s * SECOND_US),
            expire_us=round(self.expire_s * SECOND_US),
            log_all=self.log == "all",
            packet_bytes_max=int(self.packet_bytes_max),
        )


def _endpoints(scheduler: Scheduler, settings: GearmanDoorSettings, process: Process) -> list[Endpoint]:
    version = f"{GEARMAND_VERSION}+hiringhall-{__version__}"
    info = ProcessInfo(version, process.pid, process.log_level.upper(), process.stop)
    context = GearmanContext(scheduler, settings.options(), info)
    draft = DraftContext(scheduler, settings.draft_options(), process.look_up)
    guests = {MAGIC: lambda caller: DraftSession(caller, draft)} if settings.draft else {}
    return [Endpoint(settings.address, lambda caller: GearmanSession(caller, context), guests=guests)]


def _first_job(address: Address) -> str:
    at = f"gearman -h {reachable_host(address)} -p {address.port} -f rev"
    return f"({at} -w -c 1 -- rev &) ; {at} hello"


GEARMAN: Final = Dialect(GearmanDoorSettings, _endpoints, _first_job)
