"""Restoring the table from what the store kept, when the hall opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core import ids
from hiringhall.core.jobs import Job
from hiringhall.core.queues import Queue
from hiringhall.core.resources.resourcing import ResourceTerms, needing
from hiringhall.core.rules.spacing import holds_key
from hiringhall.core.states import CUT_SHORT, DELAYED, HELD, LEASED, QUEUED

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow, Loaded
    from hiringhall.core.flows.flows import Flows
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.table import JobTable


def restore(scheduler: Scheduler, loaded: Loaded) -> None:
    """Fill an empty hall with what the store kept."""
    table = scheduler.table
    _begin_epoch(table, loaded.epoch)
    scheduler.firings.restore(loaded.fired)
    scheduler.paused_queues.restore(loaded.paused)
    scheduler.ruled_queues.restore(loaded.rules)
    scheduler.throttle_windows.restore(loaded.windows)
    table.flows.restore(loaded.flows)
    resourced = ResourceTerms()
    count = 0
    for end in loaded.ended:
        table.archive.add(ended_job(end, _queue(table, end.queue), table.flows))
        count += 1
    if count >= table.limits.ended_max:
        table.archive.complete = False
    held: list[tuple[Job, tuple[ParentRef, ...]]] = []
    for row in loaded.jobs:
        queue = _queue(table, row.queue)
        terms = row.terms if row.extras is None else resourced.restored(row.terms, row.extras)
        job = Job(row.id, queue, row.key, row.payload, terms, row.created_us)
        job.attempts = row.attempts
        job.failures = row.failures
        job.losses = row.losses
        job.extras = row.extras
        job.ready_us = row.ready_us
        job.started_us = row.started_us
        job.worker_name = row.worker
        job.dialect = row.dialect
        job.tries = list(row.tries) or None
        job.stored = True
        if row.flow:
            table.flows.enter(job, row.flow, row.created_us)
            job.all_parents = row.all_parents
        table.enter(job)
        if row.key and holds_key(job):
            earlier = table.keys.find(queue, row.key)
            if earlier is not None:
                # It had started, and the hall ended before that was stored.
                table.release_key(earlier)
            table.keys.add(job)
        if row.state == HELD:
            table.move(job, HELD)
            job.due_us = row.due_us
            held.append((job, row.parents))
        elif row.state == DELAYED and row.due_us:
            table.move(job, DELAYED, due_us=row.due_us)
        elif row.holder:
            _restore_lease(scheduler, job, row.holder)
        else:
            if row.state == LEASED:
                table.remember_try(job, CUT_SHORT, 0)
                table.note(job)
            table.move(job, QUEUED)
            # It was ready before the hall opened.
            job.queued_us = max(row.created_us, row.ready_us, _last_try_us(job))
    for job, refs in held:
        for ref in refs:
            scheduler.dependencies.restore_edge(job, ref)
        if job.parents is None:
            scheduler.dependencies.release_child(job)
            table.note(job)
    table.flows.restored(table.now_us)


def open_restored(scheduler: Scheduler, epoch: int, now_us: int, restored_us: int) -> None:
    """The hall opens with this epoch. It was filled a while ago, and counts as paused since then."""
    _begin_epoch(scheduler.table, epoch)
    scheduler.set_time(now_us)
    scheduler.resume(now_us - restored_us)


def _begin_epoch(table: JobTable, epoch: int) -> None:
    """No job has an id of this epoch yet."""
    table.epoch = epoch
    table.last_id = ids.make(epoch, 0)


def _queue(table: JobTable, name: bytes) -> Queue:
    """A queue that existed before, even if it exceeds today's limits."""
    return table.queues.get(name) or table.add_queue(name)


def _last_try_us(job: Job) -> int:
    """When its latest attempt began or ended; 0: it had none."""
    return max(job.tries[-1][:2]) if job.tries is not None else 0


def _restore_lease(scheduler: Scheduler, job: Job, holder: bytes) -> None:
    """A resident keeps its lease; its silence counts from now."""
    worker = scheduler.table.residents.get((job.queue.name, holder))
    if worker is None:
        worker = scheduler.residents.add(job.queue, holder)
    worker.dialect = worker.dialect or job.dialect
    scheduler.table.move(job, LEASED)
    job.worker_name = job.worker_name or holder
    scheduler.leases.attach(job, worker, job.terms.run_us)


def recorded_job(table: JobTable, end: EndRow) -> Job:
    """An ended job that the history has and memory does not. Its queue may be gone: it gets one that is not
    listed.
    """
    return ended_job(end, table.queues.get(end.queue) or Queue(end.queue), table.flows)


def ended_job(end: EndRow, queue: Queue, flows: Flows) -> Job:
    """An ended job from its row in the history."""
    terms = needing(end.terms, end.extras)
    job = Job(end.id, queue, end.key, end.payload, terms, end.created_us, end.state)
    job.code = end.code
    job.attempts = end.attempts
    job.losses = end.losses
    job.started_us = end.started_us
    job.ended_us = end.ended_us
    job.worker_name = end.worker
    job.dialect = end.dialect
    job.extras = end.extras
    job.ready_us = end.ready_us
    job.tries = list(end.tries) or None
    job.logged = True
    if end.flow:
        job.flow = flows.named(end.flow)
        job.all_parents = end.all_parents
    return job
