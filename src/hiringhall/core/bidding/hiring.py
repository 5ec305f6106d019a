"""Hiring: a worker is hired for its next job, arrives, and performs.

Invariants: a worker is hired for one job at a time, and that job is not among its leases until it begins; a
hired worker that does not arrive in time, or quits before it begins, counts no loss; every promise has a
deadline, so that no worker is reserved for ever, unless the job's provider is connected and decides.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core.bidding.markets import HiringRecord
from hiringhall.core.errors import BAD_REQUEST, CLOSING, STALE_LEASE, WRONG_STATE, Refusal
from hiringhall.core.jobs import PROVIDER, QUITS, JobSpec
from hiringhall.core.leases import ARRIVED, CALLED, HIRED, PERFORMING, Engagement
from hiringhall.core.leasing import OVERRUN
from hiringhall.core.states import (
    CALLED_OFF,
    DONE,
    FAILED,
    GIVEN_BACK,
    LEASED,
    QUIT_TOO_OFTEN,
    SUCCESS,
    TIMED_OUT,
)
from hiringhall.core.terms import NO_REQUIREMENT

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Rules
    from hiringhall.core.jobs import Job
    from hiringhall.core.leasing import Leases
    from hiringhall.core.needs import Needs
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable
    from hiringhall.core.watching import Watchers
    from hiringhall.core.workers import Worker

RECORDS_MAX: Final = 200
"""Hirings that are remembered for people."""
BY_PROVIDER: Final = "provider"
"""The policy of a hiring that the job's provider decided."""
_DIGITS_MAX: Final = 10
"""A longer number of quits was not counted by the hall but imported with the job."""


class Hiring:
    """The verbs of hired workers and of providers, and the deadlines of engagements."""

    def __init__(self, table: JobTable, leases: Leases, needs: Needs, watchers: Watchers) -> None:
        self._table = table
        self._watchers = watchers
        self._leases = leases
        self._needs = needs
        self.records: deque[HiringRecord] = deque(maxlen=RECORDS_MAX)
        """The latest hirings, the newest at the end."""
        self.expectant: list[Worker] = []
        """Workers with a promised job that may be waiting for work; served at the end of the turn."""

    def arrive(self, engagement: Engagement) -> bool:
        """START: the worker is there. True: it can be told to perform now; otherwise `called` comes later."""
        self._check_stage(engagement, HIRED)
        engagement.worker.heard_us = self._table.now_us
        engagement.stage = ARRIVED
        if engagement.provider is not None:
            self.hear_provider(engagement)
            return False
        if engagement.begin_us > self._table.now_us:
            self._table.timers.arm(engagement, engagement.begin_us)
            return False
        return self.call(engagement, self.time_of(engagement.job, engagement.rules))

    def dismiss_promised(self) -> None:
        """The hall closes: dismiss every hired worker that has not begun."""
        for worker in list(self._table.workers):
            if worker.promise is not None:
                self._leases.dismiss(worker.promise)

    def call(self, engagement: Engagement, perform_us: int) -> bool:
        """PERFORM: the worker is told to begin, and for how long. False: it is dismissed, because it has too
        little time left.
        """
        self._check_stage(engagement, ARRIVED)
        engagement.perform_us = perform_us
        if self._lacks_time(engagement):
            self._leases.dismiss(engagement)
            return False
        engagement.stage = CALLED
        self._table.timers.arm(engagement, self._table.now_us + engagement.rules.answer_us)
        return True

    def _lacks_time(self, engagement: Engagement) -> bool:
        until_us = engagement.worker.until_us
        return until_us > 0 and self._table.now_us + engagement.perform_us > until_us

    def perform(self, engagement: Engagement) -> bool:
        """PERFORMING: the worker has begun. The job is done when its time is up, or when its provider says so.
        False: the worker is dismissed, because it began too late for the time it has left.
        """
        self._check_stage(engagement, CALLED)
        engagement.worker.heard_us = self._table.now_us
        if self._lacks_time(engagement):
            self._leases.dismiss(engagement)
            return False
        self._begin(engagement)
        engagement.expected_us = self._table.now_us + engagement.perform_us
        if engagement.provider is None:
            self._table.timers.arm(engagement, engagement.expected_us)
        else:
            self.hear_provider(engagement)
        if self._table.announcer is not None:
            self._table.announcer.worker_free(engagement.worker)
        return True

    def _begin(self, engagement: Engagement) -> None:
        job = engagement.job
        worker = engagement.worker
        worker.promise = None
        worker.hold(engagement)
        engagement.stage = PERFORMING
        engagement.started_us = job.started_us = self._table.now_us
        job.worker_name = worker.name
        job.dialect = worker.dialect
        job.numerator = job.denominator = 0
        job.attempts += 1
        if job.terms.durable:
            self._table.ledger.note_start(job)

    def quit(self, engagement: Engagement) -> None:
        """The worker gives the job up. That is no loss: the job is announced again, unless too many workers
        quit after they had begun (`quits_max`).
        """
        self._leases.check_live(engagement)
        engagement.worker.heard_us = self._table.now_us
        self._table.counters.released += 1
        quits_max = engagement.job.terms.quits_max
        if quits_max and engagement.stage == PERFORMING and self._count_quit(engagement.job) >= quits_max:
            self._table.end(engagement.job, FAILED, QUIT_TOO_OFTEN, b"its workers quit %d times" % quits_max)
        else:
            self._leases.give_back(engagement, GIVEN_BACK)

    def _count_quit(self, job: Job) -> int:
        """Add one to the number of quits, which is stored among the job's extras."""
        extras = dict(job.extras) if job.extras is not None else {}
        before = extras.get(QUITS, b"")
        quits = int(before) + 1 if before.isdigit() and len(before) < _DIGITS_MAX else 1
        extras[QUITS] = b"%d" % quits
        job.extras = extras
        return quits

    def engage(
        self,
        spec: JobSpec,
        worker: Worker,
        promised_us: int,
        provider: Peer,
        rules: Rules,
        provider_silence_us: int = 0,
    ) -> Engagement:
        """A provider has chosen a worker: its job becomes a job of the hall, promised to that worker.

        The session of a worker that bids tells it. Any other worker receives the job when it asks for one, or
        at once if it offered slots. A provider whose disconnect cannot be seen may be silent for
        `provider_silence_us` longer than it said; see `hear_provider`. The key is for the provider only:
        clients that use the same key mean another job; they do not join this one, and do not find it as a
        parent.
        """
        if self._table.closing:
            raise Refusal(CLOSING, "the hall is closing and hires no worker")
        if worker not in self._table.workers or worker.promise is not None:
            raise Refusal(WRONG_STATE, "the worker is gone, or was hired for another job")
        if spec.terms.durable:
            raise Refusal(BAD_REQUEST, "a provider's job cannot be durable: it ends with its provider")
        self._table.check_key(spec.key)
        queue = self._table.queue(spec.queue)
        if queue.paused_us:
            raise Refusal(WRONG_STATE, "the queue is paused")
        if queue.closed:
            raise Refusal(WRONG_STATE, "a limit of the queue is reached; hire again later")
        if not self._qualifies(worker, queue):
            raise Refusal(WRONG_STATE, "the worker lacks the queue, the skill or the time for this job")
        # `jobs_max` does not count here: a worker has one promise at most, and a provider that is refused while
        # the hall is full would announce and hire in a busy loop.
        extras = {PROVIDER: b"", **(spec.extras or {})}
        keyless = JobSpec(spec.queue, spec.payload, b"", spec.terms, extras=extras)
        job = self._table.admit(keyless, queue, self._table.now_us)
        job.key = spec.key
        self._watchers.watch(job, provider)
        self._table.move(job, LEASED)
        engagement = self.promise(job, worker, promised_us, self._table.now_us, rules)
        engagement.provider = provider
        engagement.provider_silence_us = provider_silence_us
        self.record(engagement, worker.skill(queue.name), 0, BY_PROVIDER)
        self.expectant.append(worker)
        return engagement

    def _qualifies(self, worker: Worker, queue: Queue) -> bool:
        """Whether it may get a provider's job. The provider has seen the skill of a worker that bids."""
        skill, takes_us, _ = self._needs.by_queue.get(queue.name, NO_REQUIREMENT)
        if worker.bids:
            skill = 0
        elif queue not in worker.abilities:
            return False
        return worker.fits(queue.name, (skill, takes_us, ()), self._table.now_us)

    def pass_on(self, engagement: Engagement, worker: Worker) -> None:
        """Move the promise of a worker that delegates to its stand-in."""
        engagement.worker.promise = None
        engagement.worker = worker
        worker.promise = engagement

    def begin_booked(self, engagement: Engagement) -> bool:
        """A worker of another dialect begins the job that a provider promised it. False: it no longer
        qualifies.
        """
        if not self._qualifies(engagement.worker, engagement.job.queue):
            self._leases.dismiss(engagement)
            return False
        self._begin(engagement)
        run_us = engagement.worker.abilities.get(engagement.job.queue, 0)
        if run_us:
            engagement.run_until_us = self._table.now_us + run_us
        assert engagement.provider is not None
        engagement.provider.joined(engagement)
        self.hear_provider(engagement)
        return True

    def complete(self, engagement: Engagement) -> None:
        """The provider is satisfied with a job that is being performed: it is done, and its worker may stop."""
        self._leases.finish(engagement, b"")
        self._table.revoke(engagement)

    def set_time(self, engagement: Engagement, perform_us: int) -> None:
        """The provider says how long a job that has begun takes."""
        engagement.perform_us = perform_us
        engagement.expected_us = self._table.now_us + perform_us
        self.hear_provider(engagement)

    def hear_provider(self, engagement: Engagement) -> None:
        """The provider of a job shows life: its allowed silence starts now, or when the job should be done."""
        if engagement.stage not in (ARRIVED, PERFORMING):
            return
        due_us = engagement.run_until_us
        if engagement.provider_silence_us:
            silent_us = max(self._table.now_us, engagement.expected_us) + engagement.provider_silence_us
            due_us = min(due_us, silent_us) if due_us else silent_us
        if due_us:
            self._table.timers.arm(engagement, due_us)
        else:
            self._table.timers.disarm(engagement)

    def promise(self, job: Job, worker: Worker, promised_us: int, begin_us: int, rules: Rules) -> Engagement:
        """Reserve the worker: it arrives when it promised to, or when the job is due."""
        job.queue.leased += 1
        if job.queue.limiter is not None:
            job.queue.limiter.spend(job)
        self._leases.last_number += 1
        engagement = Engagement(self._leases.last_number, job, worker, self._table.now_us, promised_us, rules)
        engagement.begin_us = begin_us
        job.lease = worker.promise = engagement
        worker.hirings += 1
        self._table.counters.hired += 1
        arrives_us = max(promised_us, begin_us, self._table.now_us)
        self._table.timers.arm(engagement, arrives_us + max(rules.buffer_us, 1))
        return engagement

    def record(self, engagement: Engagement, skill: int, bids: int, policy: str) -> None:
        """Remember for a while who was hired, and by which policy."""
        job, worker = engagement.job, engagement.worker
        at_us, arrives_us = self._table.now_us, engagement.promised_us
        self.records.append(
            HiringRecord(at_us, job.id, job.queue.name, worker.name, skill, arrives_us, bids, policy)
        )

    def engagement_due(self, engagement: Engagement) -> None:
        """The deadline of its stage has passed."""
        job = engagement.job
        if engagement.run_until_us and engagement.run_until_us <= self._table.now_us:
            self._table.counters.expired += 1
            self._table.revoke(engagement)
            self._leases.fail(engagement, TIMED_OUT, OVERRUN)
        elif engagement.provider is not None and engagement.stage in (ARRIVED, PERFORMING):
            self._table.cancel_as(job, CALLED_OFF, b"its provider is silent")
        elif engagement.stage == PERFORMING:
            self._table.end(job, DONE, SUCCESS, b"")
            self._table.revoke(engagement)
        elif engagement.stage != ARRIVED:
            self._leases.dismiss(engagement)
        elif self.call(engagement, self.time_of(job, engagement.rules)):
            engagement.worker.peer.called(engagement)

    def time_of(self, job: Job, rules: Rules) -> int:
        """How long a worker is told that a job takes."""
        return job.terms.takes_us or job.queue.average_run_us or rules.perform_us

    def _check_stage(self, engagement: Engagement, stage: int) -> None:
        self._leases.check_live(engagement)
        if engagement.stage != stage:
            self._table.counters.stale += 1
            raise Refusal(STALE_LEASE, "the engagement is in another stage")
