"""Jobs, queues and workers as the native protocol describes them: maps of names and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.jobs import RESULT_CUT
from hiringhall.core.reasons import why
from hiringhall.core.states import DONE, LEASED, STATE_NAMES

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker

Described = dict[str, Any]

PAYLOAD_SHOWN_MAX: Final = 65_536
"""Bytes of a payload that a description has; `payload_bytes` is the size of the whole."""


def live_job(scheduler: Scheduler, job: Job) -> Described:
    """A job that has not ended."""
    described = _job(job)
    described["progress"] = (job.numerator, job.denominator)
    if job.state < LEASED:
        described["why"] = why(scheduler, job)
    return described


def ended_job(job: Job) -> Described:
    """A job that has ended, from memory. The result is there until the history has it."""
    described = _job(job)
    described["ended_us"] = job.ended_us
    described["code"] = job.code
    described["result"] = job.result
    return described


def unkept_job(job: Job) -> Described:
    """A job that has ended and was never durable: its result is not kept."""
    described = ended_job(job)
    if job.state == DONE:
        described["truncated"] = True
    return described


def is_cut(row: EndRow) -> bool:
    """The history has only the beginning of the result."""
    return row.extras is not None and RESULT_CUT in row.extras


def end_body(job_id: int, state: str, code: int, result: bytes, truncated: bool) -> tuple[Any, ...]:
    """The body of `ended`; the last element is there only if the result is not whole."""
    return (job_id, state, code, result, True) if truncated else (job_id, state, code, result)


def history_row(row: EndRow) -> Described:
    """A job that has ended, from the history."""
    described = listed_row(row)
    described["tries"] = row.tries
    described["payload"] = row.payload[:PAYLOAD_SHOWN_MAX]
    described["payload_bytes"] = row.payload_cut or len(row.payload)
    if is_cut(row):
        described["truncated"] = True
    return described


def listed_job(job: Job) -> Described:
    """A live job in a list."""
    return {
        "id": job.id,
        "queue": job.queue.name,
        "key": job.key,
        "state": STATE_NAMES[job.state],
        "created_us": job.created_us,
        "started_us": job.started_us,
        "attempts": job.attempts,
        "losses": job.losses,
        "worker": job.worker_name,
    }


def listed_row(row: EndRow) -> Described:
    """An ended job in a list."""
    return {
        "id": row.id,
        "queue": row.queue,
        "key": row.key,
        "state": STATE_NAMES[row.state],
        "created_us": row.created_us,
        "started_us": row.started_us,
        "ended_us": row.ended_us,
        "attempts": row.attempts,
        "losses": row.losses,
        "worker": row.worker,
        "code": row.code,
        "result": row.result,
    }


def queue(scheduler: Scheduler, queue: Queue) -> Described:
    return {
        "name": queue.name,
        "ready": queue.ready,
        "running": queue.leased,
        "waiting": queue.live - queue.ready - queue.leased,
        "failed": scheduler.archive.failed(queue.name),
        "workers": len(queue.workers),
        "paused": queue.paused_us > 0,
    }


def worker(worker: Worker) -> Described:
    return {
        "number": worker.number,
        "name": worker.name,
        "queues": [queue.name for queue in worker.abilities],
        "jobs": list(worker.leases),
        "heard_us": worker.heard_us,
    }


def _job(job: Job) -> Described:
    described = listed_job(job)
    described["tries"] = job.tries or ()
    described["payload"] = job.payload[:PAYLOAD_SHOWN_MAX]
    described["payload_bytes"] = len(job.payload)
    return described
