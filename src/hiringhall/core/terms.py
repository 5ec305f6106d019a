"""What holds for a whole kind of jobs: priority, durability, retries, time limits, and what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

HIGH: Final = 0
NORMAL: Final = 1
LOW: Final = 2
PRIORITIES: Final = 3

FAIL_WITH_PARENT: Final = 0
RUN_ANYWAY: Final = 1
HOLD: Final = 2

Amounts = tuple[tuple[bytes, int], ...]
"""Amounts of resources by name, sorted, in thousandths."""
Requirement = tuple[int, int, Amounts]
"""What a job requires of its worker: a skill, the time in us that the job takes, and free resources."""
NO_REQUIREMENT: Final[Requirement] = (0, 0, ())
"""The requirement of jobs that any worker can do; their terms have None instead."""

TERMS_FIELDS: Final = (
    "priority",
    "durable",
    "detached",
    "failures_max",
    "backoff_us",
    "backoff_max_us",
    "losses_max",
    "lease_us",
    "run_us",
    "on_parent_failure",
    "expire_us",
    "logged",
    "skill",
    "takes_us",
    "quits_max",
    "key_is_work",
    "keep_us",
)
"""What terms are made of: the parameters of `Terms`, in the order in which stores keep them."""
_FLAGS: Final = ("durable", "detached", "logged", "key_is_work")


class Terms:
    """What holds for a whole kind of jobs; one object is shared by all jobs submitted alike."""

    __slots__ = (*TERMS_FIELDS, "requirement", "resources")

    def __init__(
        self,
        *,
        priority: int = NORMAL,
        durable: bool = False,
        detached: bool = False,
        failures_max: int = 0,
        backoff_us: int = 1_000_000,
        backoff_max_us: int = 3_600_000_000,
        losses_max: int = 3,
        lease_us: int = 0,
        run_us: int = 0,
        on_parent_failure: int = FAIL_WITH_PARENT,
        expire_us: int = 0,
        logged: bool = False,
        skill: int = 0,
        takes_us: int = 0,
        quits_max: int = 0,
        key_is_work: bool = False,
        keep_us: int = 0,
        resources: Amounts = (),
    ) -> None:
        self.priority = priority
        self.durable = durable
        """It is on disk before it is acknowledged, and its end goes to the history."""
        self.detached = detached
        """It lives on when nobody watches it."""
        self.failures_max = failures_max
        """Failures reported by workers that are followed by another attempt."""
        self.backoff_us = backoff_us
        """The wait before the first retry; it doubles with each."""
        self.backoff_max_us = backoff_max_us
        self.losses_max = losses_max
        """Workers that may be lost while they hold the job; at this count the job fails. 0: no limit."""
        self.lease_us = lease_us
        """Silence after which its worker counts as lost; 0: only a closed connection does."""
        self.run_us = run_us
        """An attempt that runs longer than this fails, whether or not the worker shows life; 0: no limit."""
        self.on_parent_failure = on_parent_failure
        self.expire_us = expire_us
        """A ready job that no worker takes within this time is cancelled; 0: it waits for ever."""
        self.logged = logged
        """Its end goes to the history even if it is not durable."""
        self.skill = skill
        """Only workers with at least this skill in its queue get it; 0: any worker."""
        self.takes_us = takes_us
        """How long it is expected to take. Only workers with that much time left get it; 0: unknown."""
        self.quits_max = quits_max
        """Hired workers that may quit after they have begun; at this count the job fails. 0: no limit."""
        self.key_is_work = key_is_work
        """Workers receive its key instead of its payload. Only its own dialect reads the payload."""
        self.keep_us = keep_us
        """Its line leaves the history this long after its end, unless it FAILED; 0: only by the rules."""
        self.resources = resources
        """What it needs of the resources of its worker while it runs. Stores keep it among the extras of the
        job, see `resourcing`, so it is no field of stored terms."""
        self.requirement: Requirement | None = (
            (skill, _rounded_up(takes_us), resources) if skill or takes_us or resources else None
        )
        """Jobs with the same requirement fit the same workers; None: any worker fits."""

    def as_tuple(self) -> tuple[int, ...]:
        """The values of `TERMS_FIELDS`, for comparing and for storing."""
        return tuple([getattr(self, name) for name in TERMS_FIELDS])

    def replace(self, **changes: int) -> Terms:
        """The same terms but for some fields."""
        fields: dict[str, Any] = dict(zip(TERMS_FIELDS, self.as_tuple(), strict=True))
        fields.update(changes)
        return Terms(**fields, resources=self.resources)

    def with_resources(self, resources: Amounts) -> Terms:
        """The same terms, but for the resources."""
        fields: dict[str, Any] = dict(zip(TERMS_FIELDS, self.as_tuple(), strict=True))
        return Terms(**fields, resources=resources)


def terms_of(values: Sequence[int]) -> Terms:
    """The terms with these values of `TERMS_FIELDS`, as numbers."""
    fields: dict[str, Any] = dict(zip(TERMS_FIELDS, values, strict=True))
    for name in _FLAGS:
        fields[name] = bool(fields[name])
    return Terms(**fields)


def _rounded_up(takes_us: int) -> int:
    """Round to whole seconds, and longer times to a sixteenth, so that jobs of similar length share one
    requirement. Always up: a worker with that much time left can finish any of them.
    """
    seconds = -(-takes_us // 1_000_000)
    step = 1 << max(seconds.bit_length() - 5, 0)
    return -(-seconds // step) * step * 1_000_000


DEFAULT_TERMS: Final = Terms()
