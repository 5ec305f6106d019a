"""Gearman doors: their settings, the options that follow from these, and what opens the doors."""

import dataclasses
import zoneinfo
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall import __version__
from hiringhall.config.fields import YEAR_S, ListenAddress, LossesMax, QuitsMax, Retries
from hiringhall.config.quantities import Address, Size
from hiringhall.config.schema import TcpDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.dialects.gearman.context import GearmanContext, GearmanOptions, ProcessInfo
from hiringhall.dialects.gearman.schedule import find_zone
from hiringhall.dialects.gearman.session import GearmanSession
from hiringhall.dialects.gearman_draft.context import DraftContext, DraftOptions
from hiringhall.dialects.gearman_draft.session import DraftSession
from hiringhall.dialects.gearman_draft.wire import MAGIC
from hiringhall.dialects.handles import PREFIX_BYTES_MAX
from hiringhall.dialects.options import JobOptions
from hiringhall.doors.dialect import Dialect, DialectDoors, reachable_host
from hiringhall.endpoints import Endpoint, TcpEndpoint

GEARMAND_VERSION: Final = "1.1.20"
"""The version of gearmand that the door can replace."""
_OPTIONS = GearmanOptions()


class GearmanDoorSettings(TcpDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for Gearman clients and workers. There may be several [[door]] tables."""

    dialect: Annotated[Literal["gearman"], Meta(description="The protocol spoken at this door.")] = "gearman"
    address: ListenAddress = Address("127.0.0.1:4730")
    background: Annotated[
        Literal["durable", "memory"],
        Meta(description="Whether background jobs are on disk before they are acknowledged."),
    ] = "durable"
    lease_s: Annotated[
        float,
        Meta(
            ge=0, le=YEAR_S, description="A worker silent about a job for this long has lost it; 0: no limit."
        ),
    ] = 0.0
    losses_max: LossesMax = 3
    quits_max: QuitsMax = 0
    retries: Retries = 0
    backoff_s: Annotated[
        float,
        Meta(ge=0, le=YEAR_S, description="The delay before the first retry; it doubles with each retry."),
    ] = 1.0
    backoff_max_s: Annotated[float, Meta(ge=0, le=YEAR_S, description="The longest delay before a retry.")] = (
        3600.0
    )
    expire_s: Annotated[
        float,
        Meta(
            ge=0,
            le=YEAR_S,
            description="A background job that no worker takes within this time is cancelled; 0: never.",
        ),
    ] = 0.0
    draft: Annotated[
        bool,
        Meta(description="Also speak the first draft of Gearman, to peers that begin with its magic bytes."),
    ] = True
    exceptions: Annotated[
        bool, Meta(description="Forward exceptions to all clients, not only to those that ask for it.")
    ] = False
    round_robin: Annotated[
        bool,
        Meta(description="Serve the functions of a worker in turn; otherwise by priority, then by age."),
    ] = False
    timeout_unit: Annotated[Literal["s", "ms"], Meta(description="The unit of CAN_DO_TIMEOUT.")] = "s"
    timeout_min_s: Annotated[
        float,
        Meta(ge=0, le=YEAR_S, description="The shortest CAN_DO_TIMEOUT; shorter ones are raised to this."),
    ] = 0.0
    on_timeout: Annotated[
        Literal["fail", "requeue"],
        Meta(
            description="What happens to a job that runs longer than the CAN_DO_TIMEOUT of its worker: it "
            "fails, or it goes to another worker and counts as a loss (losses_max)."
        ),
    ] = "fail"
    timezone: Annotated[
        str, Meta(min_length=1, description="The time zone of SUBMIT_JOB_SCHED, such as Europe/Vienna.")
    ] = "UTC"
    shutdown: Annotated[bool, Meta(description="Obey the admin command `shutdown`.")] = True
    admin_from: Annotated[
        Literal["loopback", "anywhere"],
        Meta(
            description="From where peers may use `shutdown`, and `cancel job` for jobs that they do not "
            "wait for."
        ),
    ] = "loopback"
    handle_prefix: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=PREFIX_BYTES_MAX,
            description="The beginning of every job handle; after a change, older handles are unknown.",
        ),
    ] = _OPTIONS.handle_prefix.decode()
    packet_bytes_max: Annotated[
        Size, Meta(description="The longest packet; longer ones are refused before they are read.")
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
            **dataclasses.asdict(self._job_options()),
            exceptions_by_default=self.exceptions,
            round_robin=self.round_robin,
            timeout_unit_us=SECOND_US if self.timeout_unit == "s" else SECOND_US // 1000,
            timeout_min_us=round(self.timeout_min_s * SECOND_US),
            overruns_requeued=self.on_timeout == "requeue",
            shutdown_allowed=self.shutdown,
            admin_anywhere=self.admin_from == "anywhere",
            packet_bytes_max=int(self.packet_bytes_max),
            timezone=self.timezone,
        )

    def draft_options(self) -> DraftOptions:
        return DraftOptions(
            **dataclasses.asdict(self._job_options()), packet_bytes_max=int(self.packet_bytes_max)
        )

    def _job_options(self) -> JobOptions:
        """The options that both Gearman protocols have."""
        return JobOptions(
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
        )


class GearmanDoors(DialectDoors[GearmanDoorSettings]):
    """The Gearman doors of one hall. They share nothing."""

    def endpoints(self, settings: GearmanDoorSettings) -> list[Endpoint]:
        driver = self.hall.driver
        version = f"{GEARMAND_VERSION}+hiringhall-{__version__}"
        info = ProcessInfo(version, self.hall.pid, self.hall.log_level.upper(), self.hall.shut_down)
        context = GearmanContext(driver.scheduler, settings.options(), info)
        draft = DraftContext(driver.scheduler, settings.draft_options(), driver.look_up)
        guests = {MAGIC: lambda caller: DraftSession(caller, draft)} if settings.draft else {}
        return [TcpEndpoint(settings, lambda caller: GearmanSession(caller, context), guests)]

    def first_job(self, address: Address) -> str:
        at = f"gearman -h {reachable_host(address)} -p {address.port} -f rev"
        return f"({at} -w -c 1 -- rev &) ; {at} hello"


GEARMAN: Final = Dialect({"gearman": GearmanDoorSettings}, GearmanDoors)
