"""Taking jobs in: new ones, joined ones, dead letters, tasks that run elsewhere, and what schedules bring.

The law: a verb checks all that it has to refuse before it changes anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import (
    BAD_REQUEST,
    CLOSING,
    HALL_FULL,
    QUEUE_FULL,
    STORE_DOWN,
    TOO_LARGE,
    WRONG_STATE,
    Refusal,
)
from hiringhall.core.graph import Plan, name_of
from hiringhall.core.hiring import Hiring
from hiringhall.core.jobs import QUITS, Job
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import (
    DELAYED,
    DONE,
    FAILED,
    HELD,
    LEASED,
    PARENT_FAILED,
    QUEUED,
    STATE_NAMES,
    SUCCESS,
    WITHDRAWN,
)
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY, Terms

if TYPE_CHECKING:
    from hiringhall.core.changes import Firing
    from hiringhall.core.jobs import JobSpec, ParentRef
    from hiringhall.core.leases import Lease
    from hiringhall.core.peer import Peer

NEEDY_MAX: Final = 1000
"""Terms with a queue's needs that are kept for the next job submitted alike."""

REPORTED: Final = "reported"
"""The mark, among a job's extras, of a task of which the hall is only told."""


class Submitting(Hiring):
    """The submitting verbs."""

    def submit(self, spec: JobSpec, watcher: Peer | None) -> Job:
        """Take a job in, or join a live one with the same queue and key."""
        limits = self.limits
        if watcher is None and not spec.terms.detached:
            raise Refusal(BAD_REQUEST, "a job that nobody watches must be detached")
        if len(spec.payload) > limits.payload_bytes_max:
            raise Refusal(TOO_LARGE, f"a payload may have {limits.payload_bytes_max} bytes (payload_bytes_max)")
        if spec.terms.durable:
            if self.store_trouble:
                raise Refusal(STORE_DOWN, self.store_trouble)
        elif self.closing:
            raise Refusal(CLOSING, "the hall is closing; submit to another one, or in the background")
        queue = self.queues.get(spec.queue)
        if queue is None:
            queue = self.queue(spec.queue)
        key = spec.key
        if key:
            if len(key) > limits.key_bytes_max:
                raise Refusal(TOO_LARGE, f"a key may have {limits.key_bytes_max} bytes (key_bytes_max)")
            job = self.keys.find(queue, key)
            if job is not None:
                self._join(job, spec, watcher)
                return job
        if len(self.jobs) >= limits.jobs_max:
            raise Refusal(HALL_FULL, f"the hall holds {limits.jobs_max} jobs (jobs_max)")
        maximum = queue.maxima[spec.terms.priority]
        if 0 <= maximum <= queue.live:
            raise Refusal(QUEUE_FULL, f"the queue holds {maximum} jobs, as many as maxqueue allows")
        parents: list[Job | ParentRef] | None = None
        if spec.parents:
            name = (queue.name, key) if key else None
            parents = self._resolve(spec.parents, name, spec.terms)
            if name is not None:
                waiting = self.graph.expected.get(name)
                self.graph.refuse_cycle(waiting, _live(parents), limits.graph_walk_max)

        job = self._admit(spec, queue, self.now_us)
        if self.needs and job.terms.shape is None:
            job.terms = self._with_needs(job.terms, queue.name)
        if watcher is not None:
            self.watch(job, watcher)
        self.graph.adopt(job)
        if parents is not None:
            self._hold(job, parents)
        if job.parents is not None:
            self.move(job, HELD)
            job.due_us = spec.due_us
        elif spec.due_us > self.now_us:
            self.move(job, DELAYED, due_us=spec.due_us)
        else:
            self.move(job, QUEUED)
        if spec.terms.durable:
            self.ledger.note(job)
        return job

    def report_start(self, spec: JobSpec, who: bytes, started_us: int) -> Job:
        """A task has begun outside the hall: a durable job that is with a resident from its first moment."""
        terms = spec.terms
        if not spec.key or not terms.durable or terms.lease_us or terms.run_us:
            raise Refusal(BAD_REQUEST, "a task that is reported has a key, is durable, and has no timeout")
        if len(spec.key) > self.limits.key_bytes_max:
            raise Refusal(TOO_LARGE, f"a key may have {self.limits.key_bytes_max} bytes (key_bytes_max)")
        if self.store_trouble:
            raise Refusal(STORE_DOWN, self.store_trouble)
        if len(self.jobs) >= self.limits.jobs_max:
            raise Refusal(HALL_FULL, f"the hall holds {self.limits.jobs_max} jobs (jobs_max)")
        queue = self.queue(spec.queue)
        if self.keys.find(queue, spec.key) is not None:
            raise Refusal(WRONG_STATE, "a job with this queue and key is under way already")
        worker = self._reside(spec.queue, OUTSIDE)
        if not 0 < started_us < self.now_us:
            started_us = self.now_us
        job = self._admit(spec, queue, started_us)
        self.move(job, LEASED)
        job.attempts = 1
        job.started_us = started_us
        job.worker_name = who
        job.extras = {**(spec.extras or {}), REPORTED: b""}
        self._attach_lease(job, worker, 0)
        self.graph.adopt(job)
        self.ledger.note(job)
        return job

    def report_end(self, job: Job, ended_us: int, code: int, result: bytes) -> None:
        """A task whose start was reported has ended, outside the hall."""
        lease = job.lease
        if lease is None or lease.worker.resident is None or lease.worker.name != OUTSIDE:
            raise Refusal(WRONG_STATE, "a worker of the hall has this job, or will have it")
        if not job.terms.durable:
            # Its start was taken back, and lives on for those who wait: its end is a promise all the same.
            if self.store_trouble:
                raise Refusal(STORE_DOWN, self.store_trouble)
            job.before = job.terms
            job.terms = job.terms.replace(durable=True, detached=True)
        if not job.started_us <= ended_us < self.now_us:
            ended_us = self.now_us
        self._end(job, DONE if code == SUCCESS else FAILED, code, result, ended_us)

    def fire(self, name: str, firing: Firing, spec: JobSpec) -> Job:
        """A schedule's time has come: its job, and that it has fired, are stored together or not at all."""
        job = self.submit(spec, None)
        self.mark(name, firing)
        return job

    def mark(self, name: str, firing: Firing | None) -> None:
        """A schedule has come this far without a job, or is forgotten."""
        if firing is None:
            self.firings.pop(name, None)
        else:
            self.firings[name] = firing
        self.ledger.note_fired(name, firing)

    def _join(self, job: Job, spec: JobSpec, watcher: Peer | None) -> None:
        if watcher is not None:
            self.watch(job, watcher)
        terms = spec.terms
        if (
            (terms.durable and not job.terms.durable)
            or (terms.detached and not job.terms.detached)
            or (terms.logged and not job.terms.logged)
        ):
            if not job.terms.durable and terms.durable:
                job.before = job.terms
            job.terms = job.terms.replace(
                durable=job.terms.durable or terms.durable,
                detached=job.terms.detached or terms.detached,
                logged=job.terms.logged or terms.logged,
            )
            if job.terms.durable:
                self.ledger.note(job)
        self.counters.joined += 1

    def _with_needs(self, terms: Terms, name: bytes) -> Terms:
        """The same terms with what the queue needs; jobs submitted alike share them."""
        shape = self.needs.get(name)
        if shape is None:
            return terms
        key = (shape, terms)
        needy = self._needy.get(key)
        if needy is None:
            if len(self._needy) >= NEEDY_MAX:
                self._needy.clear()
            skill, takes_us = shape
            needy = self._needy[key] = terms.replace(skill=skill, takes_us=takes_us)
        return needy

    def retry(self, job: Job) -> None:
        """Give a dead letter another life, with its counts at nought."""
        if job.state != FAILED or not job.terms.durable or self.archive.find(job.id) is not job:
            raise Refusal(WRONG_STATE, "only a durable job that failed, and is still kept, can be retried")
        if job.extras is not None and REPORTED in job.extras:
            raise Refusal(WRONG_STATE, "the task ran outside the hall, and is run again there")
        if self.store_trouble:
            raise Refusal(STORE_DOWN, self.store_trouble)
        if len(self.jobs) >= self.limits.jobs_max:
            raise Refusal(HALL_FULL, f"the hall holds {self.limits.jobs_max} jobs (jobs_max)")
        queue = self.queue(job.queue.name)
        if job.key and self.keys.find(queue, job.key) is not None:
            raise Refusal(WRONG_STATE, "another job with its key is live; that one stands for it")
        self.archive.discard(job)
        if job.started_us and job.code != PARENT_FAILED:
            self._remember_try(job, job.code, job.ended_us)
        if job.queue is not queue:
            job.in_lane = False
        job.failures = job.losses = job.ended_us = 0
        if job.extras is not None and QUITS in job.extras:
            job.extras = {name: data for name, data in job.extras.items() if name != QUITS} or None
        job.code = SUCCESS
        job.result = b""
        if not job.terms.detached:
            job.terms = job.terms.replace(durable=True, detached=True)
        self.jobs[job.id] = job
        job.queue = queue
        queue.live += 1
        if job.key:
            self.keys.add(job)
        self.move(job, QUEUED)
        self.graph.adopt(job)
        self.ledger.note(job)

    def depend(self, job: Job, parents: tuple[ParentRef, ...]) -> None:
        """A job that no worker has yet waits for further parents; one that a worker has may be told of parents
        that are met.
        """
        plan = Plan()
        self.plan(plan, job, parents)
        self.carry_out(plan)

    def defer(self, lease: Lease, parents: tuple[ParentRef, ...]) -> None:
        """Given back, nobody's fault: the job comes after all that are ready, once these parents are met."""
        self._check_live(lease)
        plan = Plan()
        self.plan(plan, lease.job, parents, returned=True)
        self.release(lease, front=False)
        self.carry_out(plan)

    def plan(
        self, plan: Plan, job: Job, parents: tuple[ParentRef, ...], *, returned: bool = False
    ) -> list[Job | ParentRef]:
        """Plan that a job waits for further parents: those of them that are not met. One that a worker has can
        wait for none, unless it will be given back before. Changes nothing yet.
        """
        if job.terms.durable and self.store_trouble:
            raise Refusal(STORE_DOWN, self.store_trouble)
        name = (job.queue.name, job.key) if job.key else None
        known = plan.count(job) + (len(job.parents) if job.parents is not None else 0)
        found = self._resolve(parents, name, job.terms, known)
        self.graph.refuse_cycle({job.id: job}, _live(found), self.limits.graph_walk_max, plan)
        if job.state >= DONE or (found and job.state == LEASED and not returned):
            raise Refusal(WRONG_STATE, f"it is {STATE_NAMES[job.state]} already, and waits for nothing more")
        plan.add(job, found)
        return found

    def carry_out(self, plan: Plan) -> None:
        """All that was planned happens; nothing else has happened since, but what the plan was made for."""
        for job, parents in plan.edges:
            # A job that was given back may have ended with that.
            if parents and job.state < LEASED:
                self._wait_for(job, parents)

    def take_back(self, job: Job) -> None:
        """A submit of this turn, which nobody has heard of, is refused after all: the job was never there."""
        self._withdraw(job)
        if job.children is not None:
            self.graph.forget(job)
            if not self.archive.complete:
                # Those who waited for the name may have asked the history for it before the job came.
                self.graph.inquiries.add(name_of(job))
        self._cancel(job, WITHDRAWN, b"it was refused together with another")

    def _withdraw(self, job: Job) -> None:
        """The job is no business of the store's any more, and nobody was promised that it would be."""
        self.ledger.forget(job)
        self.counters.withdrawn += 1
        job.terms = job.before or job.terms.replace(durable=False, detached=False, logged=False)
        job.before = None

    def _wait_for(self, job: Job, parents: list[Job | ParentRef]) -> None:
        self._hold(job, parents)
        if job.parents is None:
            return
        if job.state != HELD:
            self.move(job, HELD)
            job.ready_us = 0
        self._note(job)

    def _resolve(
        self, refs: tuple[ParentRef, ...], name: ParentRef | None, terms: Terms, known: int = 0
    ) -> list[Job | ParentRef]:
        """The parents still to wait for: jobs that are known, or names. Changes nothing."""
        limits = self.limits
        if known + len(refs) > limits.parents_max:
            raise Refusal(TOO_LARGE, f"a job may have {limits.parents_max} parents (parents_max)")
        found: list[Job | ParentRef] = []
        for ref in refs:
            if isinstance(ref, int):
                job = self.jobs.get(ref) or self.archive.find(ref)
                if job is None and (self.archive.complete or not 0 < ref <= self._last_id):
                    raise Refusal(BAD_REQUEST, f"no job {ref} is known that could be a parent")
            else:
                if ref == name:
                    raise Refusal(BAD_REQUEST, "a job cannot be its own parent")
                job = self.find_key(ref[0], ref[1]) or self.archive.find_key(ref[0], ref[1])
            if job is not None and job.state > DONE and terms.on_parent_failure == HOLD and job.named:
                # It waits for whoever has the failed parent's name, or had it since and succeeded.
                if (job.queue.name, job.key) == name:
                    raise Refusal(BAD_REQUEST, "a job cannot wait for its own name")
                name_there = (job.queue.name, job.key)
                job = self.find_key(*name_there) or self.archive.find_key(*name_there) or job
            if job is None:
                found.append(ref)
            elif job.state < DONE or (job.state > DONE and terms.on_parent_failure != RUN_ANYWAY):
                found.append(job)
        return found

    def _hold(self, job: Job, parents: list[Job | ParentRef]) -> None:
        policy = job.terms.on_parent_failure
        for parent in parents:
            if not isinstance(parent, Job):
                self._expect(job, parent)
            elif parent.state < DONE:
                self.graph.link(job, parent)
            elif policy == HOLD and parent.named:
                self._expect(job, name_of(parent))
            elif policy == HOLD:
                self.graph.expect(job, parent.id)
            elif policy == FAIL_WITH_PARENT:
                self.graph.link(job, parent)
                self._doomed.append(job)

    def _expect(self, child: Job, ref: ParentRef) -> None:
        """`child` waits for a job that is not in memory: it may be in the history, or yet to come."""
        self.graph.expect(child, ref)
        if not self.archive.complete:
            self.graph.inquiries.add(ref)


def _live(parents: list[Job | ParentRef]) -> list[Job]:
    return [parent for parent in parents if isinstance(parent, Job)]
