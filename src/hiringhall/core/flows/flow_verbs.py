"""The verbs for a whole flow: cancel it, and retry what failed of it.

Invariant: a verb does a bounded part of its work in one turn. Each part is stored as usual, so a verb that was
cut short, also by a crash, is completed by a second call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import WRONG_STATE, Refusal
from hiringhall.core.graph import known_jobs, name_of
from hiringhall.core.jobs import Job, is_named
from hiringhall.core.restoring import recorded_job
from hiringhall.core.states import CALLED_OFF, DONE, FAILED, PARENT_FAILED
from hiringhall.core.terms import HOLD, RUN_ANYWAY
from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import EndRow
    from hiringhall.core.depending import Dependencies
    from hiringhall.core.flows.flows import Flow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.retrying import Retries
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.table import JobTable

    Known = dict[ParentRef, EndRow]

STEP_JOBS: Final = 500
"""Jobs of a flow that are cancelled, or retried, in one turn."""
STEP_US: Final = 1000
"""The pause between two such turns: others have their turns in it."""
ROWS_MAX: Final = 64
"""Failed jobs that are read from the history at once; each may have a long payload."""


class FlowVerbs:
    """Makes the verbs, which then go on by themselves or step by step."""

    def __init__(self, table: JobTable, dependencies: Dependencies, retries: Retries) -> None:
        self._table = table
        self._dependencies = dependencies
        self._retries = retries

    def cancel(self, flow: Flow, reason: bytes, done: Callable[[int], None]) -> None:
        """Cancel all jobs of the flow that are live now, in this turn and in later ones. Then `done` is called
        with their number.
        """
        self._table.check_store()
        FlowCancel(self._table, flow, reason, done).step()

    def retry(self, flow: Flow) -> FlowRetry:
        """Retry the failed jobs of the flow. The caller asks the history which these are."""
        self._table.check_store()
        return FlowRetry(self._table, self._dependencies, self._retries, flow)


class FlowCancel(Timed):
    """A flow that is being cancelled. Its timer is the next step."""

    __slots__ = ("_count", "_done", "_flow", "_left", "_reason", "_table")

    def __init__(self, table: JobTable, flow: Flow, reason: bytes, done: Callable[[int], None]) -> None:
        super().__init__()
        self._table = table
        self._flow = flow
        self._reason = reason
        self._done = done
        self._left = [job for job in flow.jobs.values() if job.state < DONE]
        self._count = 0

    def ring(self, scheduler: Scheduler) -> None:  # noqa: ARG002 (it knows the table)
        self.step()

    def step(self) -> None:
        """Cancel some of the jobs that are left."""
        left = self._left
        work = 0
        while left and work < STEP_JOBS:
            job = left[-1]
            # Children first: otherwise they would fail with their parent, and not be cancelled.
            waiting = [child for child in (job.children or {}).values() if child.flow is self._flow]
            work += 1 + len(waiting)
            if waiting and job.state < DONE:
                left += waiting
                continue
            left.pop()
            if job.state < DONE and job.flow is self._flow:
                self._table.cancel_as(job, CALLED_OFF, self._reason)
                self._count += 1
        if left:
            self._table.timers.arm(self, self._table.now_us + STEP_US)
        else:
            self._done(self._count)


class FlowRetry:
    """The failed jobs of a flow that are to run again.

    First `want` is called with each of them, so that a job knows which of its parents will run again. Then, for
    one `batch` after the other, the caller reads from the history what `missing` and `unknown` name, and calls
    `retry`.
    """

    __slots__ = (
        "_dependencies",
        "_flow",
        "_ids",
        "_retries",
        "_seen",
        "_table",
        "_wanted",
        "refused",
        "retried",
    )

    def __init__(self, table: JobTable, dependencies: Dependencies, retries: Retries, flow: Flow) -> None:
        self._table = table
        self._dependencies = dependencies
        self._retries = retries
        self._flow = flow
        self._ids: list[int] = []
        self._wanted: dict[ParentRef, int] = {}
        """The jobs that are still to be retried: their ids, by id and by name."""
        self.retried = 0
        self.refused = 0
        """Jobs that stay failed, because a parent does, or for lack of room or of their key."""
        self._seen: dict[ParentRef, Job] = {}
        """Of the batch, the jobs and parents that were in memory: they may leave it while the history is asked
        for the others."""
        for job in flow.jobs.values():
            if job.state == FAILED:
                self._want(job.id, job.queue.name, job.key, job.named)

    def want(self, row: EndRow) -> None:
        """The history has this failed job of the flow."""
        if row.state == FAILED and row.id not in self._wanted and row.id not in self._table.jobs:
            self._want(row.id, row.queue, row.key, is_named(row.key, row.extras))

    def _want(self, job_id: int, queue: bytes, key: bytes, named: bool) -> None:
        self._ids.append(job_id)
        self._wanted[job_id] = job_id
        if named:
            self._wanted[queue, key] = job_id

    def begin(self) -> None:
        """All of them are known. Parents are mostly older than their children, and come first."""
        self._ids.sort(reverse=True)

    def batch(self) -> list[int]:
        """The next jobs to retry; empty: there are no more."""
        ids: list[int] = []
        self._seen = {}
        while self._ids and len(ids) < STEP_JOBS and len(ids) - len(self._seen) < ROWS_MAX:
            job_id = self._ids.pop()
            ids.append(job_id)
            job = self._table.archive.find(job_id)
            if job is not None:
                self._seen[job_id] = job
        return ids

    def missing(self, ids: list[int]) -> list[ParentRef]:
        """Those that are only in the history."""
        return [job_id for job_id in ids if job_id not in self._seen]

    def unknown(self, ids: list[int], rows: Known) -> list[ParentRef]:
        """The parents of these jobs that may be in the history. Only a job that failed with a parent has unmet
        ones.
        """
        refs: dict[ParentRef, None] = {}
        if self._table.archive.complete:
            return []
        for job_id in ids:
            job = self._seen.get(job_id)
            row = rows.get(job_id)
            if job is not None and job.code == PARENT_FAILED:
                parents = job.all_parents
            elif row is not None and row.code == PARENT_FAILED:
                parents = row.all_parents
            else:
                continue
            for ref in parents:
                parent = self._table.find_live(ref) or self._ended(ref)
                if parent is not None:
                    self._seen[ref] = parent
                elif ref not in self._wanted:
                    refs[ref] = None
        return list(refs)

    def retry(self, ids: list[int], known: Known) -> None:
        """Retry these jobs. `known` has what the history answered."""
        # All of them first: what comes back from the history takes the place of others in the archive.
        jobs = [self._find(job_id, known) for job_id in ids]
        for job_id, job in zip(ids, jobs, strict=True):
            if job is None:
                self._forget(job_id, None)
                continue
            if self._table.archive.find(job_id) is None:
                self._table.archive.add(job)
            try:
                parents = self._parents_of(job, known)
                self._retries.retry_after(job, parents)
            except Refusal:
                self.refused += 1
                self._forget(job_id, job)
                self._stay_failed(job)
            else:
                self.retried += 1
                self._forget(job_id, job)

    def _find(self, job_id: int, known: Known) -> Job | None:
        """The dead letter, brought back from the history if need be; None: it is no longer one."""
        table = self._table
        job = table.archive.find(job_id) or self._seen.get(job_id)
        row = known.get(job_id)
        if job_id in table.jobs:
            return None
        if job is None and row is not None and row.state == FAILED:
            job = recorded_job(table, row)
        return job if job is not None and job.state == FAILED else None

    def _forget(self, job_id: int, job: Job | None) -> None:
        """It runs again, or stays as it is."""
        self._wanted.pop(job_id, None)
        if job is not None and self._wanted.get((job.queue.name, job.key)) == job_id:
            del self._wanted[job.queue.name, job.key]

    def _parents_of(self, job: Job, known: Known) -> list[Job | ParentRef]:
        """What it waits for. A parent that neither memory nor the history knows was met: failed jobs are kept
        longer than others.
        """
        parents: list[Job | ParentRef] = []
        policy = job.terms.on_parent_failure
        for ref in job.all_parents:
            live = self._table.find_live(ref)
            if live is not None:
                parents.append(live)
                continue
            ended = self._ended(ref)
            row = known.get(ref)
            state = ended.state if ended is not None else row.state if row is not None else DONE
            if ref in self._wanted and (state != DONE or (ended is None and row is None)):
                parents.append(self._wanted[ref])
            elif state == DONE or policy == RUN_ANYWAY:
                continue
            elif policy == HOLD:
                parents.append(name_of(ended) if ended is not None else ref)
            else:
                raise Refusal(WRONG_STATE, "a parent did not succeed, and cannot be retried")
        self._refuse_cycle(job, parents)
        return parents

    def _refuse_cycle(self, job: Job, parents: list[Job | ParentRef]) -> None:
        """A live job may have taken the name of a parent, and wait for this one."""
        graph = self._table.graph
        waiting: dict[int, Job] = {job.id: job}
        waiting.update(graph.expected.get(job.id, {}))
        if job.named:
            waiting.update(graph.expected.get((job.queue.name, job.key), {}))
        if len(waiting) > 1:
            graph.refuse_cycle(waiting, known_jobs(parents), self._table.limits.graph_walk_max)

    def _stay_failed(self, job: Job) -> None:
        """Children that were retried already, and wait for it, see it fail again."""
        self._table.graph.adopt_as(job.id, job)
        if job.children is not None:
            self._dependencies.parent_ended(job)

    def _ended(self, ref: ParentRef) -> Job | None:
        ended = self._table.archive.find_ref(ref)
        return ended if ended is not None else self._seen.get(ref)
