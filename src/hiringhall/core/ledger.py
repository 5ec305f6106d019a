"""The ledger: what has changed since the last commit, and the rows to write.

Invariant: rows are made from the state at the seal, not from the steps that led there. The flags of a job
(`stored`, `logged`) say what is on disk, and change only after a commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.changes import Batch, EndRow, JobRow
from hiringhall.core.graph import name_of
from hiringhall.core.leases import Engagement
from hiringhall.core.output import Output
from hiringhall.core.states import DELAYED, DONE, FAILED, QUEUED

if TYPE_CHECKING:
    from hiringhall.core.changes import Firing, WindowRow
    from hiringhall.core.flows.flows import Flow
    from hiringhall.core.jobs import Job, ParentRef, Try
    from hiringhall.core.rules.queue_rules import QueueRules


def _parents(job: Job) -> tuple[ParentRef, ...]:
    """By name if it has one: a parent that is only in memory may be submitted again under its name."""
    if job.parents is None:
        return ()
    return tuple([ref if parent is None else name_of(parent) for ref, parent in job.parents.items()])


def _holder(job: Job) -> bytes:
    lease = job.lease
    return lease.worker.name if lease is not None and lease.worker.resident is not None else b""


def _job_row(job: Job) -> JobRow:
    # `_make` passes the values on once, where the constructor copies them three times.
    values = (
        job.id,
        job.queue.name,
        job.key,
        job.payload,
        job.terms,
        _state(job),
        job.created_us,
        _due_us(job),
        job.attempts,
        job.failures,
        job.losses,
        _parents(job),
        job.extras,
        job.ready_us,
        job.started_us,
        _holder(job),
        job.worker_name,
        _tries(job),
        job.flow.name if job.flow is not None else b"",
        job.all_parents,
        job.dialect,
    )
    return JobRow._make(values)


def _end_row(job: Job) -> EndRow:
    values = (
        job.id,
        job.queue.name,
        job.key,
        job.state,
        job.code,
        job.result,
        job.worker_name,
        job.created_us,
        job.started_us,
        job.ended_us,
        job.attempts,
        job.losses,
        job.terms,
        job.payload if job.terms.durable else b"",
        job.extras,
        job.ready_us,
        _tries(job),
        0,
        job.flow.name if job.flow is not None else b"",
        job.all_parents,
        job.dialect,
    )
    return EndRow._make(values)


def _state(job: Job) -> int:
    """A promise ends with the hall: the job is stored in the state it had before."""
    lease = job.lease
    if isinstance(lease, Engagement) and lease.promised:
        return DELAYED if lease.begin_us > lease.started_us else QUEUED
    return job.state


def _due_us(job: Job) -> int:
    """When the job is due. The timer of a ready job is for its expiry."""
    lease = job.lease
    if isinstance(lease, Engagement) and lease.promised:
        return lease.begin_us if lease.begin_us > lease.started_us else 0
    return job.due_us if job.state < QUEUED else 0


def _tries(job: Job) -> tuple[Try, ...]:
    return () if job.tries is None else tuple(job.tries)


class Ledger:
    """The durable jobs that changed, what their workers said, the schedules that fired, the queues that were
    paused or resumed or got other rules, throttled keys, and the flows.
    """

    __slots__ = (
        "_changed",
        "_deferred",
        "_fired",
        "_flows",
        "_paused",
        "_payloads",
        "_rules",
        "_sealed",
        "_started",
        "_windows",
        "output",
    )

    def __init__(self) -> None:
        self._changed: dict[int, Job] = {}
        self._sealed: dict[int, Job] = {}
        """The jobs of the batch that is being committed."""
        self._deferred: dict[int, Job] = {}
        """Jobs that were leased to a resident: noted at the next flush, unless they have ended by then."""
        self._started: dict[int, Job] = {}
        """Jobs that were leased to any other worker: noted later still, by `flush_started`."""
        self._fired: dict[str, Firing | None] = {}
        self._paused: dict[bytes, bool] = {}
        self._flows: dict[bytes, Flow] = {}
        self._payloads: dict[int, None] = {}
        """Ids of changed jobs whose payload is another one."""
        self._rules: dict[bytes, QueueRules | None] = {}
        self._windows: dict[tuple[bytes, bytes], WindowRow | None] = {}
        self.output = Output()

    def __len__(self) -> int:
        changes = len(self._changed) + len(self._fired) + len(self._paused) + len(self._flows)
        return changes + len(self._rules) + len(self._windows) + len(self.output)

    def note(self, job: Job) -> None:
        """A durable job has changed."""
        self._changed[job.id] = job

    def note_payload(self, job: Job) -> None:
        """A durable job has another payload."""
        self._changed[job.id] = job
        self._payloads[job.id] = None

    def note_deferred(self, job: Job) -> None:
        """A durable job was leased to a resident: it needs a row only if it stays leased for a while."""
        self._deferred[job.id] = job

    @property
    def has_deferred(self) -> bool:
        return len(self._deferred) > 0

    def note_start(self, job: Job) -> None:
        """A durable job was leased to a worker: it is stored as started only if it takes a while."""
        self._started[job.id] = job

    @property
    def has_started(self) -> bool:
        return len(self._started) > 0

    def flush_started(self) -> None:
        """Note the started jobs that are still leased."""
        for job in self._started.values():
            if job.lease is not None and job.terms.durable:
                self._changed[job.id] = job
        self._started.clear()

    def note_fired(self, name: str, firing: Firing | None) -> None:
        """A schedule has fired up to this time, or was removed."""
        self._fired[name] = firing

    def note_paused(self, queue: bytes, paused: bool) -> None:
        """A queue was paused or resumed."""
        self._paused[queue] = paused

    def note_rules(self, queue: bytes, rules: QueueRules | None) -> None:
        """A queue got other rules at run time, or they were cleared."""
        self._rules[queue] = rules

    def note_window(self, name: tuple[bytes, bytes], row: WindowRow | None) -> None:
        """A key is throttled, or no longer."""
        self._windows[name] = row

    def note_flow(self, flow: Flow) -> None:
        """A flow has changed, or was dropped."""
        self._flows[flow.name] = flow

    def unfired(self, batch: Batch) -> list[str]:
        """The batch was not committed: the names of its firings, and of those noted since. Clears them."""
        names = list({**batch.fired, **self._fired})
        self._fired = {}
        return names

    def flush_deferred(self) -> None:
        """Note what was deferred."""
        for job in self._deferred.values():
            if job.lease is not None:
                self._changed[job.id] = job
        self._deferred.clear()

    def forget(self, job: Job) -> None:
        """Drop every note about a job."""
        self._changed.pop(job.id, None)
        self._deferred.pop(job.id, None)
        self._started.pop(job.id, None)
        self._payloads.pop(job.id, None)

    def find(self, job_id: int) -> Job | None:
        """A job with changes that are not on disk yet."""
        return self._changed.get(job_id) or self._sealed.get(job_id)

    def newcomers(self) -> list[Job]:
        """Changed jobs that the store has never seen."""
        return [
            job for job in self._changed.values() if job.terms.durable and not job.stored and not job.logged
        ]

    def seal(self) -> Batch:
        """The net effect of everything noted; the ledger is empty after it."""
        batch = Batch()
        for job in self._changed.values():
            if job.state >= DONE:
                self._seal_end(batch, job)
            elif job.stored:
                batch.updated.append(job)
                batch.updates.append(_job_row(job))
                if job.id in self._payloads:
                    batch.payloads[job.id] = job.payload
            else:
                self._seal_insert(batch, job)
        self._sealed = self._changed
        self._changed = {}
        batch.fired = self._fired
        self._fired = {}
        self.output.seal(batch)
        batch.paused = self._paused
        self._paused = {}
        batch.rules = self._rules
        self._rules = {}
        batch.windows = self._windows
        self._windows = {}
        self._payloads.clear()
        if self._flows:
            self._seal_flows(batch)
        return batch

    def _seal_flows(self, batch: Batch) -> None:
        for flow in self._flows.values():
            batch.touched.append(flow)
            batch.flows[flow.name] = flow.row() if flow.number else None
        self._flows = {}

    def _seal_insert(self, batch: Batch, job: Job) -> None:
        batch.inserted.append(job)
        if job.logged:
            batch.revived.append(job.id)
        batch.inserts.append(_job_row(job))

    def _seal_end(self, batch: Batch, job: Job) -> None:
        batch.ended.append(job)
        if job.stored:
            batch.deletes.append(job.id)
        batch.ends.append(_end_row(job))

    def committed(self, batch: Batch) -> None:
        """The batch is on disk."""
        self._sealed = {}
        self.output.committed()
        for job in batch.inserted:
            job.stored = True
            job.logged = False
            job.terms_before = None
        for job in batch.ended:
            job.stored = False
            job.logged = True
            # A dead letter may have been retried, and ended again, while this batch was under way.
            if job.id not in self._changed:
                job.result = b""
                if job.flow is not None:
                    job.flow.remove(job)
                if job.state != FAILED or not job.terms.durable:
                    job.payload = b""

    def reopen(self, batch: Batch) -> list[Job]:
        """The batch is not on disk: note again what the store knew before; the jobs it never saw."""
        self._sealed = {}
        self.output.drop()
        self._paused = {**batch.paused, **self._paused}
        self._rules = {**batch.rules, **self._rules}
        self._windows = {**batch.windows, **self._windows}
        self._payloads.update(dict.fromkeys(batch.payloads))
        for flow in batch.touched:
            self._flows.setdefault(flow.name, flow)
        newcomers = [job for job in batch.inserted if not job.logged]
        for job in batch.inserted:
            if job.logged:
                self.note(job)
        for job in batch.updated:
            self.note(job)
        for job in batch.ended:
            if job.stored or job.logged:
                self.note(job)
            elif job.terms.durable:
                newcomers.append(job)
            else:
                # The history is optional for this job: drop it with its bytes.
                job.payload = job.result = b""
        return newcomers
