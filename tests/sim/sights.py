"""What can be known of a job from outside: who asked for it, who has it, how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hiringhall.core.terms import NORMAL

from .world import SECOND

if TYPE_CHECKING:
    from hiringhall.core.jobs import ParentRef

    from .taps import Holder, Tap


LAPSE_BOUND_US: Final = SECOND
"""A job is taken from a silent worker at most so long after its time."""
AHEAD: Final = b"part"
"""What workers send ahead of a result."""
MADE_FOR: Final = b" for "


def tag_of(payload: bytes) -> bytes:
    """The part of a payload that no other has."""
    return payload.partition(b".")[0]


def is_made_for(result: bytes, payload: bytes) -> bool:
    """The result says that it was made for the job of this payload."""
    return result.partition(MADE_FOR)[2] == tag_of(payload)


class Submit:
    """One submit as the hall heard it. Each has a payload of its own, which begins with its tag."""

    def __init__(
        self,
        tap: Tap,
        queue: bytes,
        key: bytes,
        payload: bytes,
        *,
        watched: bool,
        priority: int = NORMAL,
        due_us: int = 0,
        parents: tuple[ParentRef, ...] = (),
        **terms: Any,
    ) -> None:
        self.tap = tap
        self.queue = queue
        self.key = key
        """Empty also for Gearman's "-": no two payloads are the same, so nothing is joined by it."""
        self.payload = payload
        self.watched = watched
        self.priority = priority
        self.due_us = due_us
        self.parents = parents
        self.durable: bool = terms.get("durable", False)
        self.detached: bool = terms.get("detached", False)
        self.failures_max: int = terms.get("failures_max", 0)
        self.backoff_us: int = terms.get("backoff_us", 1_000_000)
        self.losses_max: int = terms.get("losses_max", 3)
        self.lease_us: int = terms.get("lease_us", 0)
        self.run_us: int = terms.get("run_us", 0)
        self.on_parent_failure: int = terms.get("on_parent_failure", 0)
        self.order = 0
        """Grows with each thing that the hall hears or says."""
        self.acknowledged = False

    @property
    def plain(self) -> bool:
        """It is ready from the first moment on."""
        return not self.due_us and not self.parents


class Holding:
    """A worker was told that it has a job."""

    def __init__(self, tap: Holder, since_us: int, run_us: int, lease_us: int) -> None:
        self.tap = tap
        self.since_us = since_us
        self.run_us = run_us
        self.lease_us = lease_us
        self.run_from_us = since_us
        """When the limit of its run began."""
        self.begun = True
        """It is at work: to lose it now is a loss."""
        self.done = False
        """Its work is done when its time is up, and it is."""
        self.doubtful = False
        """The hall may have taken it away, or not: from outside it cannot be known."""
        self.taken_us = since_us
        """When it was taken away, at the earliest."""
        self.until_us = 0
        """The hall must have taken it away by then; 0: its time has not run out."""
        self.lost = False
        """Its time ran out because the worker was silent, which counts as a loss."""

    def lapse(self, now_us: int) -> None:
        """See whether time has run out by now."""
        if self.until_us:
            return
        heard_us = self.tap.heard_us
        silent = self.tap.silence_us and heard_us + self.tap.silence_us <= now_us
        if silent or (self.lease_us and max(self.since_us, heard_us) + self.lease_us <= now_us):
            self.until_us = now_us + LAPSE_BOUND_US
            # What the hall may have taken away before cannot be known to be lost now.
            self.lost = not self.doubtful
        if self.run_us and self.run_from_us + self.run_us <= now_us:
            self.until_us = now_us + LAPSE_BOUND_US
            self.lost = False
        if self.until_us and not self.doubtful:
            self.doubtful = True
            self.taken_us = now_us


class Early(NamedTuple):
    """A report on a job that its sender did not have, as far as was known."""

    tap: Holder
    job_id: int
    result: bytes | None
    """None: it does not say that the job is done."""
    may_have_job: bool
    """Its sender waited for the answer to a request for a job, and it may have been given this one."""


class Sight:
    """One job, known by its id."""

    def __init__(self, job_id: int) -> None:
        self.id = job_id
        self.queue = b""
        self.key = b""
        self.submit: Submit | None = None
        """The submit that made it; unknown while only those that joined were seen."""
        self.acknowledged = False
        self.promised = False
        """A durable submit of it was acknowledged."""
        self.watchers: list[Tap] = []
        self.holding: Holding | None = None
        self.assignments = 0
        self.returned_us = 0
        """When its worker lost it or gave it back; it is next from then on."""
        self.returned_attempts = 0
        """How many attempts there had been then. Whoever has it since may not have been told yet."""
        self.losses = 0
        self.failures = 0
        self.not_before_us = 0
        """The pause after a failure."""
        self.results: dict[bytes, None] = {}
        """What those who had it at the time sent as its result."""
        self.mixed_up: dict[bytes, None] = {}
        """Results that may have been made for another job, by no fault of the hall."""
        self.succeeded = False
        """A result may have counted."""
        self.succeeded_surely = False
        self.ended_order = 0
        """When its end was certain; 0: it was not."""
        self.retried = False
        """Somebody asked for another life of it."""
        self.retried_alone = False
        """Somebody asked so for this job, and not for its flow: it does not wait for its parents."""
        self.further_parents: dict[ParentRef, None] = {}
        """Those that somebody added to the ones of its submit, and was told so."""
        self.tangled: dict[ParentRef, int] = {}
        """Those that somebody asked for, with the order of the latest time: it may wait for them, and its place
        in the queue may be another."""
        self.declined = False
        """Its worker gave it back as if it were created then: it comes after those that were ready."""
        self.hired = False
        """Somebody was hired for it, and may have given it back: its place in the queue may be another."""
        self.perhaps_us = 0
        """It may have to wait until then, if it was its worker's to put off."""
        self.hastened = False
        """Since it was handed out last, somebody asked that it does not wait for its time."""
        self.waived = False
        """Somebody has asked so before: the time of its submit does not count."""
        self.gone = False
        """It was not on disk when the hall died."""

    @property
    def running(self) -> bool:
        """Somebody certainly has it."""
        return self.holding is not None and not self.holding.doubtful

    @property
    def earliest_us(self) -> int:
        """It is not handed out before."""
        waived = self.retried or self.waived or self.submit is None
        due_us = 0 if waived or self.submit is None else self.submit.due_us
        return max(due_us, 0 if self.hastened else self.not_before_us)

    def made_by(self, submit: Submit) -> None:
        self.submit = submit
        self.queue = submit.queue
        self.key = submit.key

    @property
    def parents(self) -> tuple[ParentRef, ...]:
        """All that it is known to wait for."""
        return (*(self.submit.parents if self.submit is not None else ()), *self.further_parents)

    def revive(self, losses: int, failures: int, not_before_us: int) -> None:
        """It starts anew from what is on disk: what happened since counts for nothing."""
        self.holding = None
        self.returned_us = 0
        self.declined = False
        self.losses = losses
        self.failures = failures
        self.not_before_us = not_before_us
        self.results = {}
        self.succeeded = self.succeeded_surely = False
        self.ended_order = 0


def without_ahead(data: bytes) -> bytes:
    """The result alone: some dialects put what was sent ahead of it in front."""
    while data.startswith(AHEAD):
        data = data[len(AHEAD) :]
    return data
