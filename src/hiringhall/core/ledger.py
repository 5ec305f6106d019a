"""What has changed since the last commit, and the rows it comes to.

The law: rows are made from the state at the seal, never from the steps that led there; flags on a job
say what is on disk, and change only when a commit has returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.changes import Batch, EndRow, JobRow, JobUpdate
from hiringhall.core.graph import name_of
from hiringhall.core.jobs import DONE, FAILED, LEASED, QUEUED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, ParentRef


def _parents(job: Job) -> tuple[ParentRef, ...]:
    """By name where there is one: a parent that is only in memory may come again under its name."""
    if job.parents is None:
        return ()
    return tuple([ref if parent is None else name_of(parent) for ref, parent in job.parents.items()])


def _holder(job: Job) -> bytes:
    lease = job.lease
    return lease.worker.name if lease is not None and lease.worker.resident is not None else b""


def _state(job: Job) -> int:
    return QUEUED if job.state == LEASED else job.state


class Ledger:
    """The durable jobs that changed."""

    __slots__ = ("_changed", "_soon")

    def __init__(self) -> None:
        self._changed: dict[int, Job] = {}
        self._soon: dict[int, Job] = {}
        """Jobs that a resident was given: noted for good when there is time, unless they have ended by then."""

    def __len__(self) -> int:
        return len(self._changed)

    def note(self, job: Job) -> None:
        """A durable job is not as it was."""
        self._changed[job.id] = job

    def note_soon(self, job: Job) -> None:
        """A durable job was given to a resident: worth a row if it stays there for a while."""
        self._soon[job.id] = job

    @property
    def has_soon(self) -> bool:
        return len(self._soon) > 0

    def hurry(self) -> None:
        """Note what was to be noted soon."""
        for job in self._soon.values():
            if job.lease is not None:
                self._changed[job.id] = job
        self._soon.clear()

    def forget(self, job: Job) -> None:
        """The job is no business of the store's any more."""
        self._changed.pop(job.id, None)
        self._soon.pop(job.id, None)

    def newcomers(self) -> list[Job]:
        """Changed jobs that the store has never seen."""
        return [job for job in self._changed.values() if not job.stored and not job.logged]

    def seal(self) -> Batch:
        """The net effect of everything noted; the ledger is empty after it."""
        batch = Batch()
        for job in self._changed.values():
            if job.state >= DONE:
                self._seal_end(batch, job)
            elif job.stored:
                batch.updated.append(job)
                batch.updates.append(
                    JobUpdate(
                        job.id,
                        job.terms,
                        _state(job),
                        job.due_us,
                        job.attempts,
                        job.failures,
                        job.losses,
                        _parents(job),
                        job.extras,
                        job.ready_us,
                        job.started_us,
                        _holder(job),
                    )
                )
            else:
                self._seal_insert(batch, job)
        self._changed = {}
        return batch

    def _seal_insert(self, batch: Batch, job: Job) -> None:
        batch.inserted.append(job)
        if job.logged:
            batch.revived.append(job.id)
        batch.inserts.append(
            JobRow(
                job.id,
                job.queue.name,
                job.key,
                job.payload,
                job.terms,
                _state(job),
                job.created_us,
                job.due_us,
                job.attempts,
                job.failures,
                job.losses,
                _parents(job),
                job.extras,
                job.ready_us,
                job.started_us,
                _holder(job),
            )
        )

    def _seal_end(self, batch: Batch, job: Job) -> None:
        batch.ended.append(job)
        if job.stored:
            batch.deletes.append(job.id)
        failed = job.state == FAILED
        batch.ends.append(
            EndRow(
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
                job.payload if failed else b"",
                job.extras,
                job.ready_us,
            )
        )

    def committed(self, batch: Batch) -> None:
        """The batch is on disk."""
        for job in batch.inserted:
            job.stored = True
            job.logged = False
            job.before = None
        for job in batch.ended:
            job.stored = False
            job.logged = True
            # A dead letter may have been retried, and ended again, while this batch was under way.
            if job.id not in self._changed:
                job.result = b""
                if job.state != FAILED:
                    job.payload = b""

    def reopen(self, batch: Batch) -> list[Job]:
        """The batch is not on disk: note again what the store knew before; the jobs it never saw."""
        newcomers = [job for job in batch.inserted if not job.logged]
        for job in batch.inserted:
            if job.logged:
                self.note(job)
        for job in batch.updated:
            self.note(job)
        for job in batch.ended:
            if job.stored or job.logged:
                self.note(job)
            else:
                newcomers.append(job)
        return newcomers
