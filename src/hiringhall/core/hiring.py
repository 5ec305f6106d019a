"""Promises: a worker is hired for its next place, comes, and performs.

The laws: a worker has one next place, and works on nothing that it was only promised; a hired worker that does
not come in time, or quits before it performs, costs the job nothing; whatever is promised has a deadline, so
that nobody is reserved for ever, unless a provider is there who sees to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import (
    BAD_REQUEST,
    CLOSING,
    HALL_FULL,
    STALE_LEASE,
    TOO_LARGE,
    WRONG_STATE,
    Refusal,
)
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
from hiringhall.core.terms import PLAIN

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leasing import Leases
    from hiringhall.core.markets import Rules
    from hiringhall.core.needs import Needs
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable
    from hiringhall.core.workers import Worker

_DIGITS_MAX: Final = 10
"""A longer number of quits was not counted here, but imported with the job."""


class Hiring:
    """The verbs of those who are hired and of those who hire, and the deadlines of engagements."""

    def __init__(self, table: JobTable, leases: Leases, needs: Needs) -> None:
        self._table = table
        self._leases = leases
        self._needs = needs
        self.expectant: list[Worker] = []
        """Workers that wait, or may do so, and to whom something was promised."""

    def arrive(self, engagement: Engagement) -> bool:
        """START: the worker is there. True: it can be told to perform now; else it hears `called` in time."""
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
        """The hall closes: whoever was hired and has not begun need not come."""
        for worker in list(self._table.workers):
            if worker.promise is not None:
                self._leases.dismiss(worker.promise)

    def call(self, engagement: Engagement, perform_us: int) -> bool:
        """PERFORM: the worker is told to begin, and for how long. False: its time has become too short for it,
        and it is dismissed.
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
        """PERFORMING: the worker has begun. The hall is satisfied when the time is up; a provider says so.
        False: it has come to that so late that its time is too short, and is dismissed.
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
        worker.leases[job.id] = engagement
        engagement.stage = PERFORMING
        engagement.started_us = job.started_us = self._table.now_us
        job.worker_name = worker.name
        job.numerator = job.denominator = 0
        job.attempts += 1
        if job.terms.durable:
            self._table.ledger.note_start(job)

    def quit(self, engagement: Engagement) -> None:
        """The worker will not do it, or does it no more. That is no loss: the job is announced again, unless it
        has a bound for those who quit after they had begun.
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
        """One more; stored with the job, as all of its extras are."""
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
        """A provider has chosen a worker itself: its job becomes one of the hall's, promised to that worker.

        A worker that bids is told by its session. Any other is given the job when it asks for one, or at once
        where it takes what is pushed. A provider whose going cannot be seen may be silent for
        `provider_silence_us` longer than it said; see `hear_provider`. The key names the job to its provider
        only: clients who use the same one mean another job. They do not join this one, and do not find it as a
        parent.
        """
        if self._table.closing:
            raise Refusal(CLOSING, "the hall is closing; nobody is hired any more")
        if worker not in self._table.workers or worker.promise is not None:
            raise Refusal(WRONG_STATE, "the worker is gone, or has a next job already")
        if spec.terms.durable:
            raise Refusal(
                BAD_REQUEST, "a provider's job lives as long as its provider wants it, and is not durable"
            )
        if len(spec.key) > self._table.limits.key_bytes_max:
            raise Refusal(TOO_LARGE, f"a key may have {self._table.limits.key_bytes_max} bytes (key_bytes_max)")
        queue = self._table.queue(spec.queue)
        if not self._is_good(worker, queue):
            raise Refusal(WRONG_STATE, "the worker does not do such jobs, or has not the skill or the time")
        if len(self._table.jobs) >= self._table.limits.jobs_max:
            raise Refusal(HALL_FULL, f"the hall holds {self._table.limits.jobs_max} jobs (jobs_max)")
        extras = {PROVIDER: b"", **(spec.extras or {})}
        keyless = JobSpec(spec.queue, spec.payload, b"", spec.terms, extras=extras)
        job = self._table.admit(keyless, queue, self._table.now_us)
        job.key = spec.key
        self._table.watch(job, provider)
        self._table.move(job, LEASED)
        engagement = self.promise(job, worker, promised_us, self._table.now_us, rules)
        engagement.provider = provider
        engagement.provider_silence_us = provider_silence_us
        self.expectant.append(worker)
        return engagement

    def _is_good(self, worker: Worker, queue: Queue) -> bool:
        """Whether it may be given a provider's job. Of one that bids the provider has heard its skill."""
        skill, takes_us = self._needs.by_queue.get(queue.name, PLAIN)
        if worker.bids:
            skill = 0
        elif queue not in worker.abilities:
            return False
        return worker.fits(queue.name, (skill, takes_us), self._table.now_us)

    def pass_on(self, engagement: Engagement, worker: Worker) -> None:
        """What was promised to a worker that delegates is kept by the worker that stands for it."""
        engagement.worker.promise = None
        engagement.worker = worker
        worker.promise = engagement

    def begin_booked(self, engagement: Engagement) -> bool:
        """A worker of another dialect comes for what a provider has promised it. False: it is good for that no
        more.
        """
        if not self._is_good(engagement.worker, engagement.job.queue):
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

    def set_time(self, engagement: Engagement, perform_us: int) -> None:
        """The provider says how long a job takes that was begun."""
        engagement.perform_us = perform_us
        engagement.expected_us = self._table.now_us + perform_us
        self.hear_provider(engagement)

    def hear_provider(self, engagement: Engagement) -> None:
        """The provider of a job shows life: its silence counts from now, or from when it will speak."""
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
        """The worker comes at the time that it promised, or when the job is due."""
        job.queue.leased += 1
        self._leases.last_number += 1
        engagement = Engagement(self._leases.last_number, job, worker, self._table.now_us, promised_us, rules)
        engagement.begin_us = begin_us
        job.lease = worker.promise = engagement
        worker.hirings += 1
        self._table.counters.hired += 1
        arrives_us = max(promised_us, begin_us, self._table.now_us)
        self._table.timers.arm(engagement, arrives_us + max(rules.buffer_us, 1))
        return engagement

    def engagement_due(self, engagement: Engagement) -> None:
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
        return job.terms.takes_us or job.queue.typical_us or rules.perform_us

    def _check_stage(self, engagement: Engagement, stage: int) -> None:
        self._leases.check_live(engagement)
        if engagement.stage != stage:
            self._table.counters.stale += 1
            raise Refusal(STALE_LEASE, "this is not the moment to say so")
