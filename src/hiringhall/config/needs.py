"""Settings of a queue, for what its jobs need and how they may start, and of workers by their names."""

import re
from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from hiringhall.config.quantities import Interval, Words
from hiringhall.config.section import Section
from hiringhall.core.rules.queue_rules import RATE_MAX, RUNNING_MAX, WEIGHT_MAX, QueueRules

_SKILL_MAX: Final = 1_000_000
_NAME_LENGTH_MAX: Final = 512
_SKILL: Final = re.compile(r"[0-9]{1,7}")
_WEIGHT: Final = re.compile(r"[0-9]{1,4}")
_Count = Annotated[int, Meta(ge=1, le=RUNNING_MAX)]
_Rate = Annotated[float, Meta(ge=0.001, le=RATE_MAX // 1000)]


class QueueSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the jobs of a queue need from a worker, unless they say it themselves, and how many of them may run
    and start. There can be several [[queue]] tables.
    """

    name: Annotated[str, Meta(min_length=1, description="The name of the queue (function).")]
    skill: Annotated[
        int,
        Meta(ge=0, le=_SKILL_MAX, description="Only workers with at least this skill get its jobs."),
    ] = 0
    time: Annotated[
        Interval | None,
        Meta(description="How long its jobs take. Workers with less time left get none. Default: unknown."),
    ] = None

    running_max: Annotated[
        _Count | None, Meta(description="Its jobs that may run at the same time. Default: no limit.")
    ] = None
    key_running_max: Annotated[
        _Count | None,
        Meta(description="Its jobs with the same limit_key that may run at the same time. Default: no limit."),
    ] = None
    starts_per_second: Annotated[
        _Rate | None,
        Meta(description="Its jobs that may start in a second, in steps of 0.001. Default: no limit."),
    ] = None
    burst: Annotated[
        int,
        Meta(
            ge=1,
            le=RUNNING_MAX,
            description="With starts_per_second: starts that are saved up while none is used.",
        ),
    ] = 1
    fair: Annotated[
        bool, Meta(description="Its tenants take turns. Otherwise the oldest job of any tenant goes first.")
    ] = False
    tenant_weights: Annotated[
        Words,
        Meta(description="With fair: starts of some tenants in a turn, such as acme=3. All others have 1."),
    ] = Words()
    age_max: Annotated[
        Interval | None,
        Meta(description="A ready job that no worker takes within this time is cancelled. Default: never."),
    ] = None

    def faults(self) -> Iterator[tuple[str, str]]:
        if not self.skill and self.time is None and self.rules.empty:
            yield "name", f'"{self.name}" has no other setting; set its skill, its time or a limit'
        if self.burst > 1 and self.starts_per_second is None:
            yield "burst", "is used only with starts_per_second"
        if self.tenant_weights and not self.fair:
            yield "tenant_weights", "are used only with fair = true"
        for word in self.tenant_weights:
            tenant, _, weight = word.rpartition("=")
            right = tenant and _WEIGHT.fullmatch(weight) is not None
            if not right or not 1 <= int(weight) <= WEIGHT_MAX:
                yield "tenant_weights", f'"{word}" is not a tenant with a weight from 1 to {WEIGHT_MAX}'

    @property
    def rules(self) -> QueueRules:
        """How its jobs may start."""
        parts = [word.rpartition("=") for word in self.tenant_weights]
        return QueueRules(
            self.running_max or 0,
            self.key_running_max or 0,
            round((self.starts_per_second or 0) * 1000),
            self.burst,
            self.fair,
            {tenant.encode(): int(weight) for tenant, _, weight in parts if weight.isdigit()},
            int(self.age_max or 0),
        )

    @property
    def needs(self) -> tuple[int, int]:
        """The skill, and the time in microseconds."""
        return self.skill, int(self.time or 0)


class WorkerSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known about workers by their names. There can be several [[worker]] tables; all that match a
    name apply, and later tables win.
    """

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=_NAME_LENGTH_MAX,
            description="The name that the workers give; * matches any text, ? one character.",
        ),
    ]
    skills: Annotated[
        Words, Meta(description="Their skill in some queues, such as render=9. In all others it is 0.")
    ] = Words()
    stays: Annotated[
        Interval | None,
        Meta(description="How long they stay after they give their name. Default: forever."),
    ] = None

    def faults(self) -> Iterator[tuple[str, str]]:
        for word in self.skills:
            queue, _, skill = word.rpartition("=")
            if not queue or _SKILL.fullmatch(skill) is None or int(skill) > _SKILL_MAX:
                yield "skills", f'"{word}" is not a queue with a skill from 0 to {_SKILL_MAX}, such as render=9'

    @property
    def ratings(self) -> dict[str, int]:
        """The skill in each queue."""
        parts = [word.rpartition("=") for word in self.skills]
        return {queue: int(skill) for queue, _, skill in parts}
