"""Jobs, queues and workers as the native protocol describes them: maps of names and values."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.jobs import RESOURCES, RESULT_CUT
from hiringhall.core.reasons import situation, why
from hiringhall.core.rules.queue_rules import LIMIT_KEY, TENANT
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, QUEUED, STATE_NAMES
from hiringhall.dialects.native import ruling
from hiringhall.dialects.native import terms as native_terms
from hiringhall.dialects.session import Session

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.flows.flows import Flow
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.terms import Terms
    from hiringhall.core.workers import Worker

Described = dict[str, Any]

NAME_SHOWN_MAX: Final = 200
"""Bytes of a name that a message has."""
PAYLOAD_SHOWN_MAX: Final = 65_536
"""Bytes of a payload that a description has; `payload_bytes` is the size of the whole."""
PAYLOAD_LISTED_MAX: Final = 400
"""Bytes of a payload that a list has."""
RELATED_MAX: Final = 1000
"""Parents, and children, that a description of a job has."""
EXPECTED: Final = "expected"
"""The state of a parent that is not known yet."""


def live_job(scheduler: Scheduler, job: Job) -> Described:
    """A job that has not ended."""
    described = _job(scheduler, job)
    lease = job.lease
    described["failures"] = job.failures
    described["progress"] = (job.numerator, job.denominator)
    described["expected_us"] = lease.expected_us if lease is not None else 0
    described["parents"] = _parents(job)
    described["parents_count"] = len(job.parents or ())
    described["children"] = list(islice(job.children or (), RELATED_MAX))
    described["children_count"] = len(job.children or ())
    if lease is None or lease.promised:
        described["why"] = why(scheduler, job)
    return described


def ended_job(scheduler: Scheduler, job: Job) -> Described:
    """A job that has ended, from memory. The result is there until the history has it."""
    described = _job(scheduler, job)
    described["ended_us"] = job.ended_us
    described["code"] = job.code
    described["result"] = job.result
    return described


def unkept_job(scheduler: Scheduler, job: Job) -> Described:
    """A job that has ended and was never durable: its result is not kept."""
    described = ended_job(scheduler, job)
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
    described["situation"] = described["state"]
    described["due_us"] = 0
    described["priority"] = native_terms.priority_name(row.terms)
    described["durable"] = row.terms.durable
    described["attempts_max"] = row.terms.failures_max + 1
    described["terms"] = _terms(row.terms, row.extras)
    described["tries"] = row.tries
    described["payload"] = row.payload[:PAYLOAD_SHOWN_MAX]
    described["payload_bytes"] = row.payload_cut or len(row.payload)
    if is_cut(row):
        described["truncated"] = True
    return described


def listed_job(scheduler: Scheduler, job: Job) -> Described:
    """A live job in a list."""
    return {
        "id": job.id,
        "queue": job.queue.name,
        "key": job.key,
        "state": STATE_NAMES[job.state],
        "situation": situation(scheduler, job),
        "created_us": job.created_us,
        "started_us": job.started_us,
        "due_us": job.due_us if job.state == DELAYED else 0,
        "attempts": job.attempts,
        "attempts_max": job.terms.failures_max + 1,
        "losses": job.losses,
        "worker": job.worker_name,
        "dialect": job.dialect,
        "priority": native_terms.priority_name(job.terms),
        "durable": job.terms.durable,
        "flow": job.flow.name if job.flow is not None else b"",
        "payload": job.payload[:PAYLOAD_LISTED_MAX],
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
        "dialect": row.dialect,
        "flow": row.flow,
        "code": row.code,
        "result": row.result,
    }


def queue(scheduler: Scheduler, queue: Queue) -> Described:
    return {
        "name": queue.name,
        "ready": queue.ready,
        "parked": queue.parked,
        "running": queue.leased,
        "waiting": queue.held + queue.delayed + queue.parked,
        "held": queue.held,
        "delayed": queue.delayed,
        "failed": scheduler.archive.failed(queue.name),
        "workers": len(queue.workers),
        "paused": queue.paused_us > 0,
        "paused_us": queue.paused_us,
        "rules": ruling.described(scheduler.ruled_queues.of(queue.name)),
        "rules_set": queue.name in scheduler.ruled_queues.set_now,
        "oldest_us": queue.oldest_us(),
        "average_run_us": queue.average_run_us,
        "done_total": queue.done,
        "failed_total": queue.failed,
        "cancelled_total": queue.cancelled,
    }


def worker(worker: Worker, held: list[int]) -> Described:
    """A worker. `held` has the ids of the jobs that others hold for it."""
    speaker = worker.peer.speaker
    caller = speaker.caller if isinstance(speaker, Session) else None
    jobs = [*[job.id for job in worker.leases], *held]
    return {
        "number": worker.number,
        "name": worker.name,
        "dialect": worker.dialect,
        "door": caller.door if caller is not None else "",
        "address": caller.name if caller is not None else "",
        "queues": [queue.name for queue in worker.abilities],
        "skills": worker.skills or {},
        "slots": max(len(jobs) + worker.credit, 1),
        "jobs": jobs,
        "state": _state(worker, working=len(jobs) > 0),
        "since_us": worker.since_us,
        "heard_us": worker.heard_us,
        "until_us": worker.leaves_us,
        "draining": worker.draining,
        "resident": worker.resident is not None,
        "resources": worker.capacity.used() if worker.capacity is not None else {},
    }


def _state(worker: Worker, *, working: bool) -> str:
    if working:
        return "working"
    if worker.promise is not None:
        return "hired"
    return "waiting" if worker.asleep or worker.credit or worker.bids else "idle"


def flow(flow: Flow, state: str) -> Described:
    """A flow, and how many of its jobs are in which state."""
    counts = flow.counts
    return {
        "name": flow.name,
        "created_us": flow.created_us,
        "ended_us": flow.ended_us,
        "state": state,
        "jobs": flow.total,
        "held": counts[HELD],
        "delayed": counts[DELAYED],
        "ready": counts[QUEUED],
        "running": counts[LEASED],
        "done": counts[DONE],
        "failed": counts[FAILED],
        "cancelled": counts[CANCELLED],
    }


def shown(name: bytes) -> str:
    """A name in a message for people."""
    return repr(name[:NAME_SHOWN_MAX].decode("utf-8", "backslashreplace"))


def _job(scheduler: Scheduler, job: Job) -> Described:
    described = listed_job(scheduler, job)
    described["terms"] = _terms(job.terms, job.extras)
    described["tries"] = job.tries or ()
    described["payload"] = job.payload[:PAYLOAD_SHOWN_MAX]
    described["payload_bytes"] = len(job.payload)
    return described


def _terms(terms: Terms, extras: dict[str, bytes] | None) -> Described:
    """The terms, the names that limits go by, and the resources that it needs."""
    described: Described = dict(native_terms.describe(terms))
    for name in (LIMIT_KEY, TENANT, RESOURCES):
        if extras is not None and extras.get(name):
            described[name] = extras[name]
    return described


def _parents(job: Job) -> list[tuple[int, bytes, bytes, str]]:
    """The parents that a job waits for: id, queue, key and state."""
    found: list[tuple[int, bytes, bytes, str]] = []
    for ref, parent in islice((job.parents or {}).items(), RELATED_MAX):
        if parent is not None:
            found.append((parent.id, parent.queue.name, parent.key, STATE_NAMES[parent.state]))
        elif isinstance(ref, int):
            found.append((ref, b"", b"", EXPECTED))
        else:
            found.append((0, ref[0], ref[1], EXPECTED))
    return found
