"""What the jobs of a queue need, and what is known of workers by their names, in people's units."""

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
    """What the jobs of a queue need of a worker, where they do not say it themselves. There may be several
    [[queue]] tables.
    """

    name: Annotated[str, Meta(min_length=1, description="The queue (function) whose jobs need something.")]
    skill: Annotated[
        int,
        Meta(ge=0, le=_SKILL_MAX, description="Only workers with at least this skill are given its jobs."),
    ] = 0
    time: Annotated[
        Interval | None,
        Meta(description="How long its jobs take: who has less time left is given none; left out: unknown."),
    ] = None

    def faults(self) -> Iterator[tuple[str, str]]:
        if not self.skill and self.time is None:
            yield "name", f'"{self.name}" needs nothing; give it a skill or a time'

    @property
    def needs(self) -> tuple[int, int]:
        """The skill, and the time in microseconds."""
        return self.skill, int(self.time or 0)


class WorkerSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of workers that call themselves so. There may be several [[worker]] tables; all that fit
    a name count, the later before the earlier.
    """

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=_NAME_LENGTH_MAX,
            description="What the workers call themselves; * stands for anything, ? for one character.",
        ),
    ]
    skills: Annotated[
        Words, Meta(description="How good they are at some queues, such as render=9; else they have skill 0.")
    ] = Words()
    stays: Annotated[
        Interval | None,
        Meta(description="How long they stay from when they give their name; left out: for good."),
    ] = None

    def faults(self) -> Iterator[tuple[str, str]]:
        for word in self.skills:
            queue, _, skill = word.rpartition("=")
            if not queue or _SKILL.fullmatch(skill) is None or int(skill) > _SKILL_MAX:
                yield "skills", f'"{word}" is no queue with a skill from 0 to {_SKILL_MAX}, such as render=9'

    @property
    def ratings(self) -> dict[str, int]:
        """The skill in each queue."""
        parts = [word.rpartition("=") for word in self.skills]
        return {queue: int(skill) for queue, _, skill in parts}
