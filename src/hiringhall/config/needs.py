"""Settings for the needs of a queue's jobs, and for workers by their names."""

import re
from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from hiringhall.config.quantities import Interval, Words
from hiringhall.config.section import Section

_SKILL_MAX: Final = 1_000_000
_NAME_LENGTH_MAX: Final = 512
_SKILL: Final = re.compile(r"[0-9]{1,7}")


class QueueSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the jobs of a queue need from a worker, unless they say it themselves. There can be several
    [[queue]] tables.
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

    def faults(self) -> Iterator[tuple[str, str]]:
        if not self.skill and self.time is None:
            yield "name", f'"{self.name}" needs nothing; set its skill or time'

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
