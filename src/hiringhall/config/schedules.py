"""The settings of a schedule, and the plan made from them."""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from hiringhall.config.quantities import Interval
from hiringhall.config.section import Section
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.plan import LATE_US, NAME_LENGTH_MAX, RETRIES_MAX, Missed, Plan, Priority

LATE_S_MAX: Final = 31_536_000


class ScheduleSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scheduled job. There can be several [[schedule]] tables; more can be added by command, see
    hall schedule --help.
    """

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=NAME_LENGTH_MAX,
            description="The name of the schedule. The hall stores under it which due times have fired.",
        ),
    ]
    queue: Annotated[str, Meta(min_length=1, description="The queue (function) of its jobs.")]
    cron: Annotated[
        str,
        Meta(
            description="When it is due: minute, hour, day, month, weekday, as in 30 3 * * MON; "
            "a sixth field in front is seconds."
        ),
    ] = ""
    every: Annotated[
        Interval | None,
        Meta(description="Or how often it is due: at all multiples of this since the start of 1970 in UTC."),
    ] = None
    timezone: Annotated[
        str, Meta(min_length=1, description="The time zone of cron and of {due}, such as Europe/Vienna.")
    ] = "UTC"
    payload: Annotated[
        str, Meta(description="The job's payload. {due} and {due:%Y-%m-%d} are replaced by the due time.")
    ] = ""
    key: Annotated[
        str,
        Meta(description="The job's key, also with {due}. If a live job has the same key, no job is added."),
    ] = ""
    priority: Annotated[Priority, Meta(description="The job's priority.")] = "normal"
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=RETRIES_MAX,
            description="How many failures reported by a worker are followed by another attempt.",
        ),
    ] = 0
    quits_max: Annotated[
        int,
        Meta(
            ge=0,
            le=RETRIES_MAX,
            description="A job fails after this many workers quit while they perform (hire); 0: no limit.",
        ),
    ] = 0
    limit_key: Annotated[
        str, Meta(description="What the limits of the queue count its jobs by. Default: nothing.")
    ] = ""
    tenant: Annotated[
        str, Meta(description="For whom its jobs are, in a queue that is shared fairly. Default: nobody.")
    ] = ""
    resources: Annotated[
        str,
        Meta(
            description="What its jobs need of the resources of their worker, such as cpus=2 mem=8G. "
            "Default: nothing."
        ),
    ] = ""
    missed: Annotated[
        Missed,
        Meta(description="Which missed due times fire: only the latest, all, or none."),
    ] = "latest"
    late_s: Annotated[
        float,
        Meta(ge=0, le=LATE_S_MAX, description="A due time that is later than this is missed."),
    ] = LATE_US / SECOND_US

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from self.plan().faults()

    def plan(self) -> Plan:
        return Plan(
            name=self.name,
            queue=self.queue,
            cron=self.cron,
            every_us=int(self.every or 0),
            timezone=self.timezone,
            payload=self.payload,
            key=self.key,
            priority=self.priority,
            retries=self.retries,
            quits_max=self.quits_max,
            limit_key=self.limit_key,
            tenant=self.tenant,
            resources=self.resources,
            missed=self.missed,
            late_us=round(self.late_s * SECOND_US),
        )
