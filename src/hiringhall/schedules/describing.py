"""A schedule as it is listed: by `hall schedule list --json`, and at the native door."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from hiringhall.config.quantities import Age
from hiringhall.core.changes import Firing  # noqa: TC001 (a NamedTuple looks its types up)
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.calendar import find_zone
from hiringhall.schedules.pauses import Pause  # noqa: TC001 (as above)
from hiringhall.schedules.plan import Plan  # noqa: TC001 (as above)

NEXT_SHOWN: Final = 3
CATCH_UP_MAX: Final = 1000
"""How many missed due times `missed = "all"` fires at once: the latest ones."""


class Known(NamedTuple):
    """A schedule, what defines it, and its progress."""

    plan: Plan
    defined: str
    """A file, or a word for what is not in a file."""
    firing: Firing | None
    pause: Pause | None = None
    """Its latest pause; None: it had none."""
    last_id: int | None = None
    """The latest job that it has submitted; None: unknown."""
    last_state: str | None = None
    """The state of that job; None: unknown."""

    @property
    def paused(self) -> bool:
        return self.pause is not None and not self.pause.until_us


def describe(known: Known, now_us: int, pid: int | None) -> dict[str, Any]:
    """Everything about one schedule. `pid` is the process of its hall; None: no hall is running."""
    plan, firing = known.plan, known.firing
    begun = firing if firing is not None and firing.plan == plan.digest else None
    # A job is submitted before it is due: then its due time counts as the last one, not the next.
    upcoming = [now_us if begun is None else max(now_us, begun.due_us)]
    for _ in range(0 if known.paused else NEXT_SHOWN):
        upcoming.append(plan.next_due_us(upcoming[-1]))
    return {
        "name": plan.name,
        "cron": plan.cron or None,
        "every": Age(plan.every_us).text.strip('"') if plan.every_us else None,
        "timezone": plan.timezone,
        "queue": plan.queue,
        "key": plan.key,
        "payload": plan.payload,
        "priority": plan.priority,
        "retries": plan.retries,
        "quits_max": plan.quits_max,
        "terms": plan.further_terms(),
        "missed": plan.missed,
        "late_s": plan.late_us / SECOND_US,
        "defined": known.defined,
        "begun": begun is not None,
        "last": in_zone(plan, begun.due_us) if begun is not None and plan.is_due(begun.due_us) else None,
        "behind": _behind(known, begun, now_us) if begun is not None else 0,
        "next": [in_zone(plan, due_us) for due_us in upcoming[1:]],
        "hall": pid,
        "paused": known.paused,
        "paused_since": in_zone(plan, known.pause.since_us) if known.pause and known.paused else None,
        "last_id": known.last_id,
        "last_state": known.last_state,
    }


def _behind(known: Known, begun: Firing, now_us: int) -> int:
    """How many due times have passed and not fired. Those within a pause do not count."""
    if known.paused:
        return 0
    from_us = begun.due_us if known.pause is None else max(begun.due_us, known.pause.until_us)
    return len(known.plan.latest_due(from_us, now_us, CATCH_UP_MAX))


def in_zone(plan: Plan, at_us: int) -> str:
    """A time in the time zone of the plan, in ISO 8601."""
    return datetime.fromtimestamp(at_us / SECOND_US, UTC).astimezone(find_zone(plan.timezone)).isoformat()
