"""Debounce and throttle: how jobs that are submitted with the same queue and key are spaced.

A debounced job waits until no further submit has come for a while; each one replaces its payload and terms, and
starts the wait anew. It holds its key until it starts, so that what is submitted later is another job. A
throttled key stays with its first job for a while, even if that has ended: it is the answer to further submits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.errors import BAD_REQUEST, Refusal

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, JobSpec

DEBOUNCED: Final = "debounced"
"""The extra of a debounced job: its quiet time in microseconds; empty once it has started."""


_DIGITS_MAX: Final = 19
"""A longer number was not written by the hall but imported with the job."""


class Spacing(NamedTuple):
    """What a submit asks for. 0: not asked for."""

    debounce_us: int = 0
    """The job starts after this time without a further submit of its key."""
    debounce_max_us: int = 0
    """It waits no longer than this in total; 0: no bound."""
    throttle_us: int = 0
    """Submits of its key within this time after its creation are answered with it."""


def check_spacing(spec: JobSpec, spacing: Spacing) -> None:
    """Refuse what cannot be kept."""
    word = "debounce" if spacing.debounce_us else "throttle"
    problem = ""
    if spacing.debounce_max_us and not spacing.debounce_us:
        problem = "debounce_max needs debounce"
    elif spacing.debounce_max_us and spacing.debounce_max_us < spacing.debounce_us:
        problem = "debounce_max must not be shorter than debounce"
    elif spacing.debounce_us and spacing.throttle_us:
        problem = "a job can have debounce or throttle, not both"
    elif not spec.key:
        problem = f"a job with {word} must have a key"
    elif spacing.debounce_us and (spec.parents or spec.flow or spec.due_us):
        problem = "a job with debounce can have no parents, no flow and no delay"
    if problem:
        raise Refusal(BAD_REQUEST, problem)


def is_debounced(job: Job) -> bool:
    """It waits for quiet, or for its first worker: a further submit replaces it."""
    return job.extras is not None and len(job.extras.get(DEBOUNCED, b"")) > 0


def holds_key(job: Job) -> bool:
    """Whether a live job is found by its key. A debounced one is not, once it has started."""
    return len(job.key) > 0 and (job.extras is None or job.extras.get(DEBOUNCED) != b"")


def quiet_us_of(job: Job) -> int:
    """The quiet time that a debounced job waits for; 0: it is not debounced, or has started."""
    data = job.extras.get(DEBOUNCED, b"") if job.extras is not None else b""
    return int(data) if data.isdigit() and len(data) <= _DIGITS_MAX else 0
