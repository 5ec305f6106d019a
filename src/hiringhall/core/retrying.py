"""Retrying: ended jobs that run again. A dead letter is retried; a submit may run the job again that failed or
was cancelled under its key.

Invariant: a verb checks everything that it may refuse before it changes anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, WRONG_STATE, Refusal
from hiringhall.core.graph import known_jobs
from hiringhall.core.jobs import QUITS, RESOURCES, Job
from hiringhall.core.reports import REPORTED
from hiringhall.core.restoring import recorded_job
from hiringhall.core.rules.queue_rules import LIMIT_KEY, TENANT
from hiringhall.core.rules.spacing import holds_key
from hiringhall.core.states import DONE, FAILED, HELD, PARENT_FAILED, QUEUED, STATE_NAMES, SUCCESS

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.depending import Dependencies
    from hiringhall.core.jobs import JobSpec, ParentRef
    from hiringhall.core.peer import Peer
    from hiringhall.core.submitting import Submissions
    from hiringhall.core.table import JobTable
    from hiringhall.core.watching import Watchers

_STATED_ANEW: Final = (LIMIT_KEY, RESOURCES, TENANT)
"""Extras that are a part of what a submit states: those of the ended job do not count any more."""


class Retries:
    """The verbs that let an ended job run again."""

    def __init__(
        self, table: JobTable, dependencies: Dependencies, submissions: Submissions, watchers: Watchers
    ) -> None:
        self._table = table
        self._dependencies = dependencies
        self._submissions = submissions
        self._watchers = watchers

    def retry(self, job: Job) -> None:
        """Queue a dead letter again, with its counts reset."""
        self.check_retry(job)
        self._requeue(job)

    def retry_recorded(self, end: EndRow) -> Job:
        """Queue a dead letter again that the history has. If it was retried since the history was asked, what
        memory knows of it counts.
        """
        table = self._table
        job = table.find(end.id) or table.ledger.find(end.id)
        if job is not None:
            self.check_retry(job)
        else:
            if end.payload_cut:
                raise Refusal(WRONG_STATE, "the history has only the beginning of its payload")
            job = recorded_job(table, end)
            self._check_dead_letter(job)
        self._requeue(job)
        return job

    def _requeue(self, job: Job) -> None:
        self._revive(job)
        self._table.move(job, QUEUED)
        self._table.graph.adopt(job)
        self._table.ledger.note(job)

    def retry_after(self, job: Job, parents: list[Job | ParentRef]) -> None:
        """Run a dead letter again as soon as these parents have succeeded."""
        self.check_retry(job)
        self._revive(job)
        for parent in parents:
            if isinstance(parent, Job):
                self._table.graph.link(job, parent)
            else:
                self._table.graph.expect(job, parent)
        if parents:
            job.ready_us = 0
        self._table.move(job, HELD if parents else QUEUED)
        self._table.graph.adopt(job)
        self._table.ledger.note(job)

    # --- submitted again

    def recorded(self, end: EndRow) -> Job:
        """The job of a line of the history: as memory has it, if it does."""
        table = self._table
        job = table.jobs.get(end.id) or table.archive.find(end.id) or table.ledger.find(end.id)
        return job or recorded_job(table, end)

    def can_run_again(self, job: Job, spec: JobSpec) -> bool:
        """Whether this job, which has ended, takes the place of a new one."""
        flow = job.flow.name if job.flow is not None else b""
        reported = job.extras is not None and REPORTED in job.extras
        durable = job.terms.durable and spec.terms.durable
        return job.state > DONE and durable and flow == spec.flow and not reported

    def run_again(self, job: Job, spec: JobSpec, watcher: Peer | None) -> None:
        """Run a job that failed or was cancelled once more: with another payload, other terms and parents."""
        table = self._table
        self._submissions.check_payload(spec)
        self._check_free(job)
        if spec.due_us > table.now_us:
            raise Refusal(BAD_REQUEST, "a job that runs again cannot be delayed")
        name = (job.queue.name, job.key)
        parents = self._dependencies.resolve(spec.parents, name, spec.terms)
        waiting: dict[int, Job] = {job.id: job}
        waiting.update(table.graph.expected.get(job.id, {}))
        waiting.update(table.graph.expected.get(name, {}))
        table.graph.refuse_cycle(waiting, known_jobs(parents), table.limits.graph_walk_max)
        terms = self._submissions.fill_terms(spec, spec.terms, job.queue)
        if job.terms is not terms:
            # It may have been cancelled while it was ready: its ghost is in the lane of its old terms.
            job.queue.change_terms(job, terms)
        self._revive(job)
        job.payload = spec.payload
        kept = {name: data for name, data in (job.extras or {}).items() if name not in _STATED_ANEW}
        job.extras = {**kept, **(spec.extras or {})} or None
        if job.flow is not None:
            job.all_parents = spec.parents
        self._dependencies.hold(job, parents)
        job.ready_us = 0
        table.move(job, HELD if job.parents is not None else QUEUED)
        table.graph.adopt(job)
        table.ledger.note(job)
        if watcher is not None:
            self._watchers.watch(job, watcher)

    def check_retry(self, job: Job) -> None:
        """Refuse to retry a job that is not a dead letter, or that cannot run again now."""
        table = self._table
        if job not in (table.archive.find(job.id), table.ledger.find(job.id)):
            raise Refusal(WRONG_STATE, "only a durable job that has failed and is still kept can be retried")
        self._check_dead_letter(job)

    def _check_dead_letter(self, job: Job) -> None:
        if job.state != FAILED or not job.terms.durable:
            raise Refusal(WRONG_STATE, f"job {job.id} is {STATE_NAMES[job.state]}, and not a dead letter")
        if job.extras is not None and REPORTED in job.extras:
            raise Refusal(WRONG_STATE, "the task ran outside the hall; run it again there")
        self._check_free(job)

    def _check_free(self, job: Job) -> None:
        """Refuse to let an ended job live again while the hall has no room, or its key is taken."""
        self._table.check_store()
        self._table.check_room()
        queue = self._table.queue(job.queue.name)
        if holds_key(job) and self._table.keys.find(queue, job.key) is not None:
            raise Refusal(WRONG_STATE, "another job with the same key is live")

    def _revive(self, job: Job) -> None:
        """An ended job is live again, in no state yet."""
        queue = self._table.queue(job.queue.name)
        self._table.archive.discard(job)
        if job.started_us and job.code != PARENT_FAILED:
            self._table.remember_try(job, job.code, job.ended_us)
        if job.queue is not queue:
            job.in_lane = False
        job.failures = job.losses = job.ended_us = 0
        if job.extras is not None and QUITS in job.extras:
            job.extras = {name: data for name, data in job.extras.items() if name != QUITS} or None
        job.code = SUCCESS
        job.result = b""
        if not job.terms.detached:
            job.terms = job.terms.replace(durable=True, detached=True)
        job.queue = queue
        if job.flow is not None:
            self._table.flows.reenter(job, self._table.now_us)
        self._table.enter(job)
        if holds_key(job):
            self._table.keys.add(job)
