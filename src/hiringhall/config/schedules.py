"""The settings of a schedule, in people's units, and the plan that they are."""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from hiringhall.config.quantities import Interval
from hiringhall.config.section import Section
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.plan import LATE_US, NAME_LENGTH_MAX, RETRIES_MAX, Missed, Plan, Priority

LATE_S_MAX: Final = 31_536_000


class ScheduleSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs that come at their times. There may be several [[schedule]] tables; others are added by command,
    see hall schedule --help.
    """

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=NAME_LENGTH_MAX,
            description="What it is called; the hall remembers by it how far the schedule has come.",
        ),
    ]
    queue: Annotated[str, Meta(min_length=1, description="The queue (function) that its jobs are for.")]
    cron: Annotated[
        str,
        Meta(
            description="When: minute, hour, day, month, weekday, as in 30 3 * * MON; "
            "a sixth field in front is seconds."
        ),
    ] = ""
    every: Annotated[
        Interval | None,
        Meta(description="Or how often: at all multiples of this, counted from the beginning of 1970 in UTC."),
    ] = None
    timezone: Annotated[
        str, Meta(min_length=1, description="The time zone of cron and of {due}, such as Europe/Vienna.")
    ] = "UTC"
    payload: Annotated[
        str, Meta(description="The job's payload; {due} and {due:%Y-%m-%d} stand for the due time.")
    ] = ""
    key: Annotated[
        str,
        Meta(description="The job's key, with {due} likewise; a live job with the same key is not doubled."),
    ] = ""
    priority: Annotated[Priority, Meta(description="The job's priority.")] = "normal"
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=RETRIES_MAX,
            description="Failures reported by a worker that are followed by another try.",
        ),
    ] = 0
    quits_max: Annotated[
        int,
        Meta(
            ge=0,
            le=RETRIES_MAX,
            description="Workers that quit while they perform (hire) after which a job has failed; 0: any.",
        ),
    ] = 0
    missed: Annotated[
        Missed,
        Meta(description="What fires of due times that were missed: the latest of them, all, or none."),
    ] = "latest"
    late_s: Annotated[
        float,
        Meta(ge=0, le=LATE_S_MAX, description="A due time that is over for no longer is late, not missed."),
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
            missed=self.missed,
            late_us=round(self.late_s * SECOND_US),
        )
