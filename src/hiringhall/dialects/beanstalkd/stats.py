"""What a beanstalkd client can look at: jobs, tubes and the hall.

Invariant: nothing here changes a job. Statistics that the hall does not keep are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import UNKNOWN_JOB, Refusal
from hiringhall.core.jobs import Job
from hiringhall.core.lanes import head_of
from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import DELAYED, FAILED, FAILURE, GIVEN_BACK, LEASED, QUEUED, TIMED_OUT
from hiringhall.core.terms import HIGH
from hiringhall.core.timers import NEVER
from hiringhall.dialects.beanstalkd import wire
from hiringhall.dialects.beanstalkd.context import DEFAULT_TUBE, SHOWN_PRIORITIES

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.beanstalkd.context import BeanstalkdContext
    from hiringhall.dialects.beanstalkd.wire import Request


def find_job(scheduler: Scheduler, job_id: int) -> Job:
    """A job that is live, or buried."""
    job = scheduler.find(job_id)
    if job is None or (job.ended and not (job.state == FAILED and job.terms.durable)):
        raise Refusal(UNKNOWN_JOB, "there is no such job")
    return job


def peek(scheduler: Scheduler, tube: bytes, request: Request) -> Job:
    """The job that one of the peek commands shows."""
    jobs: list[Job] = []
    if request.command == wire.PEEK:
        return find_job(scheduler, request.numbers[0])
    if request.command == wire.PEEK_DELAYED:
        jobs = delayed_jobs(scheduler, tube)
    elif request.command == wire.PEEK_BURIED:
        jobs = scheduler.archive.dead_letters(tube, 1)
    elif tube in scheduler.queues:
        ready = head_of(scheduler.queues[tube].lanes)
        jobs = [ready] if ready is not None else []
    if not jobs:
        raise Refusal(UNKNOWN_JOB, "there is no such job")
    return jobs[0]


def tell(context: BeanstalkdContext, tube: bytes, request: Request) -> bytes:
    """The reply to one of the commands for statistics and lists, for a connection that uses this tube."""
    scheduler = context.scheduler
    if request.command == wire.STATS:
        return of_hall(context)
    if request.command == wire.STATS_JOB:
        return of_job(scheduler, find_job(scheduler, request.numbers[0]))
    if request.command == wire.STATS_TUBE:
        # A tube in use exists.
        used = request.tube == tube
        queue = scheduler.queue(tube) if used else scheduler.queues.get(request.tube)
        return of_tube(context, queue) if queue is not None else wire.NOT_FOUND
    if request.command == wire.LIST_TUBE_USED:
        return b"USING %b\r\n" % tube
    tubes = dict.fromkeys([DEFAULT_TUBE, tube, *scheduler.queues])
    return wire.pack_list([name for name in tubes if wire.is_tube(name)])


def delayed_jobs(scheduler: Scheduler, tube: bytes) -> list[Job]:
    """The delayed jobs of a tube, the one that is due first at the front."""
    queue = scheduler.queues.get(tube)
    if queue is None or not _delayed(queue):
        return []
    jobs = [thing for thing in scheduler.timers.armed() if isinstance(thing, Job)]
    found = [(job.due_us, job.id, job) for job in jobs if job.state == DELAYED and job.queue is queue]
    found.sort()
    return [job for _, _, job in found]


def of_job(scheduler: Scheduler, job: Job) -> bytes:
    """The reply to stats-job. What became of earlier attempts is known of the latest 16."""
    now_us = scheduler.now_us
    until_us = NEVER
    if job.lease is not None:
        until_us = job.lease.run_until_us
    elif job.state == DELAYED:
        until_us = job.due_us
    buried = job.state == FAILED
    codes = [attempt[3] for attempt in job.tries or ()]
    return wire.pack_stats(
        {
            "id": job.id,
            "tube": job.queue.name,
            "state": _state(job),
            "pri": SHOWN_PRIORITIES[job.terms.priority],
            "age": (now_us - job.created_us) // SECOND_US,
            "delay": 0,
            "ttr": job.terms.run_us // SECOND_US,
            "time-left": max(until_us - now_us, 0) // SECOND_US,
            "file": 0,
            "reserves": job.attempts,
            "timeouts": codes.count(TIMED_OUT),
            "releases": codes.count(GIVEN_BACK),
            "buries": codes.count(FAILURE) + buried,
            "kicks": codes.count(FAILURE),
        }
    )


def of_tube(context: BeanstalkdContext, queue: Queue) -> bytes:
    """The reply to stats-tube."""
    using = sum([session.tube == queue.name for session in context.sessions])
    return wire.pack_stats(
        {
            "name": queue.name,
            **_jobs(context.scheduler, [queue]),
            "current-using": using,
            "current-watching": len(queue.workers),
            "current-waiting": len(queue.takers) + len(queue.sleepers),
        }
    )


def of_hall(context: BeanstalkdContext) -> bytes:
    """The reply to stats. Jobs and workers are those of the whole hall, connections those of this door."""
    scheduler = context.scheduler
    counters = scheduler.counters
    waiting = sum([worker.asleep or worker.credit > 0 for worker in scheduler.workers])
    return wire.pack_stats(
        {
            **_jobs(scheduler, list(scheduler.queues.values())),
            **{f"cmd-{command.decode()}": count for command, count in context.commands.items()},
            "job-timeouts": counters.expired,
            "total-jobs": counters.submitted,
            "max-job-size": context.options.job_bytes_max,
            "current-tubes": len(scheduler.queues),
            "current-connections": len(context.sessions),
            "current-workers": len(scheduler.workers),
            "current-waiting": waiting,
            "total-connections": context.connections,
            "pid": context.pid,
            "version": context.version.encode(),
            "uptime": (scheduler.now_us - context.opened_us) // SECOND_US,
            "draining": b"true" if scheduler.closing else b"false",
        }
    )


def _jobs(scheduler: Scheduler, queues: list[Queue]) -> dict[str, bytes | int]:
    urgent = ready = reserved = delayed = buried = 0
    for queue in queues:
        urgent += queue.lanes[HIGH].ready + queue.parked_of(HIGH)
        ready += queue.ready + queue.parked
        reserved += queue.leased
        delayed += _delayed(queue)
        buried += scheduler.archive.failed(queue.name)
    return {
        "current-jobs-urgent": urgent,
        "current-jobs-ready": ready,
        "current-jobs-reserved": reserved,
        "current-jobs-delayed": delayed,
        "current-jobs-buried": buried,
    }


def _delayed(queue: Queue) -> int:
    """Jobs that are due later. Those that wait for other jobs count among them."""
    return queue.live - queue.ready - queue.parked - queue.leased


def _state(job: Job) -> bytes:
    if job.state == QUEUED:
        return b"ready"
    if job.state == LEASED:
        return b"reserved"
    return b"buried" if job.state == FAILED else b"delayed"
