"""One function that checks every cross-reference of the core. Simulation calls it after each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import invariant
from hiringhall.core.jobs import TRIES_KEPT
from hiringhall.core.leases import ARRIVED, PERFORMING, Engagement
from hiringhall.core.markets import AHEAD
from hiringhall.core.states import DELAYED, DONE, HELD, LEASED, QUEUED
from hiringhall.core.terms import PLAIN

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.markets import Group
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.terms import Shape
    from hiringhall.core.workers import Worker


def audit(scheduler: Scheduler) -> None:
    """Raise BrokenLaw at the first law that does not hold. Meant for the end of a turn."""
    counts: dict[bytes, list[int]] = {name: [0, 0, 0] for name in scheduler.queues}
    leases: set[int] = set()
    for job_id, job in scheduler.jobs.items():
        invariant(job_id == job.id, "a job is filed under its id")
        invariant(scheduler.queues.get(job.queue.name) is job.queue, "a live job's queue exists")
        count = counts[job.queue.name]
        count[0] += 1
        count[1] += job.state == QUEUED
        count[2] += job.state == LEASED
        _audit_job(scheduler, job)
        if job.lease is not None:
            invariant(job.lease.number not in leases, "no two live leases have the same number")
            leases.add(job.lease.number)
    for name, queue in scheduler.queues.items():
        invariant(counts[name] == [queue.live, queue.ready, queue.leased], "a queue's counts are right")
        _audit_queue(scheduler, queue)
    for job in scheduler.keys.all():
        invariant(bool(job.key) and scheduler.jobs.get(job.id) is job, "a key belongs to a live job")
    for worker in scheduler.workers:
        _audit_worker(scheduler, worker)
    for job_id, auction in scheduler.auctions.by_job.items():
        job = auction.job
        invariant(
            scheduler.jobs.get(job_id) is job and job.state in (DELAYED, QUEUED), "who bids, bids for a live job"
        )
        invariant(0 < auction.armed_us <= auction.due_us, "an auction has an end")
        group = auction.group
        listing = job.queue.listing
        assert listing is not None
        resting = listing.resting.get(group, {}) if group is not None else {}
        invariant(not auction.open or job_id not in resting, "what rests is not announced")
        rank = AHEAD if job.state == DELAYED else job.terms.priority
        invariant(group in (None, (rank, job.terms.shape or PLAIN)), "an auction is counted with its like")
        invariant(group is not None or job.state == DELAYED, "so is each of a ready job")
    _audit_groups(scheduler)
    for (name, who), worker in scheduler.table.residents.items():
        invariant(worker in scheduler.workers and worker.name == who, "a resident is here under its name")
        invariant(worker.resident is scheduler.queues.get(name), "a resident's queue exists")
    for ref in scheduler.graph.inquiries.all():
        invariant(ref in scheduler.graph.expected, "the history is asked only for a parent that a job waits for")
    for ref, waiting in scheduler.graph.expected.items():
        invariant(len(waiting) > 0, "an expected parent has children waiting")
        for child in waiting.values():
            invariant(
                child.state == HELD and child.parents is not None and ref in child.parents,
                "who is listed as waiting for a name waits for it",
            )


def _audit_groups(scheduler: Scheduler) -> None:
    counts: dict[tuple[bytes, Group], int] = {}
    for auction in scheduler.auctions.by_job.values():
        if auction.group is not None:
            key = (auction.job.queue.name, auction.group)
            counts[key] = counts.get(key, 0) + 1
    listed = [(queue.name, queue.listing) for queue in scheduler.queues.values() if queue.listing is not None]
    known = {(name, group): count for name, listing in listed for group, count in listing.counts.items()}
    invariant(counts == known, "a queue knows how many of its jobs are announced")


def _audit_job(scheduler: Scheduler, job: Job) -> None:
    invariant(job.state < DONE, "a live job has not ended")
    lease = job.lease
    if lease is not None and lease.provider is not None:
        invariant(not job.terms.durable, "a provider's job is nobody else's")
    else:
        invariant(not job.key or scheduler.keys.find(job.queue, job.key) is job, "a live job holds its key")
    invariant((job.lease is not None) == (job.state == LEASED), "a job has a lease exactly while it is LEASED")
    if lease is not None:
        invariant(lease.job is job, "a lease is for the job that has it")
        invariant(lease.worker in scheduler.workers, "a lease is with a worker who is here")
        held = lease.worker.promise if lease.promised else lease.worker.leases.get(job.id)
        invariant(held is lease, "a worker knows its leases, and what it was promised")
    invariant((job.parents is not None) == (job.state == HELD), "a job waits for parents exactly while HELD")
    for ref, parent in (job.parents or {}).items():
        if parent is None:
            invariant(job.id in scheduler.graph.expected.get(ref, {}), "an unknown parent is expected")
        else:
            invariant(
                parent.children is not None and parent.children.get(job.id) is job, "an edge has both ends"
            )
            invariant(parent.state != DONE, "a parent that succeeded is met")
    for child in (job.children or {}).values():
        invariant(child.parents is not None and child.parents.get(job.id) is job, "an edge has both ends")
    if job.state == DELAYED or (job.state == QUEUED and job.terms.expire_us):
        invariant(0 < job.armed_us <= job.due_us, "a delayed job has a timer, and so has one that can expire")
    elif job.state != HELD:
        invariant(job.due_us == 0, "who waits for no time has none")
    begun = job.attempts - (lease is not None and not lease.promised)
    invariant(len(job.tries or ()) <= min(begun, TRIES_KEPT), "a job remembers attempts that it had")
    for peer in job.watchers or ():
        invariant(peer.watching.get(job.id) is job, "a watcher knows what it watches")
    if job.watchers is None and not job.terms.detached:
        invariant(job.state == LEASED or job.stored, "a job that nobody waits for is dropped")


def _audit_queue(scheduler: Scheduler, queue: Queue) -> None:
    ready = 0
    for shape, lanes in queue.all_lanes().items():
        for priority, lane in enumerate(lanes):
            waiting = lane.waiting()
            invariant(len(waiting) == lane.ready, "a lane knows how many it holds")
            ready += len(waiting)
            invariant(len({job.id for job in waiting}) == len(waiting), "a job stands in its lane once")
            for job in waiting:
                invariant(job.in_lane, "a job in a lane knows it")
                invariant(scheduler.jobs.get(job.id) is job, "a ready job is live")
                own = (
                    job.queue is queue
                    and job.terms.priority == priority
                    and (job.terms.shape or PLAIN) == shape
                )
                invariant(own, "a job stands in its own lane")
    invariant(ready == queue.ready, "a queue's lanes hold its ready jobs")
    for group, resting in (queue.listing.resting if queue.listing is not None else {}).items():
        for job_id, auction in resting.items():
            invariant(scheduler.auctions.by_job.get(job_id) is auction, "what rests is in an auction")
            invariant(auction.group == group and auction.job.state == QUEUED, "and is one of its group")
    for worker in queue.workers:
        invariant(worker in scheduler.workers and queue in worker.abilities, "a queue's workers can do it")
    waking = sum(worker.waking is queue and not worker.overdue for worker in queue.workers)
    invariant(waking == queue.waking, "a queue knows who was woken for it")
    woken: dict[Shape, int] = {}
    overdue: dict[Shape, int] = {}
    for worker in queue.workers:
        shape = worker.waking_shape
        if worker.waking is queue and worker.overdue:
            overdue[shape] = overdue.get(shape, 0) + 1
        elif worker.waking is queue and shape != PLAIN:
            woken[shape] = woken.get(shape, 0) + 1
    invariant(woken == queue.woken, "and for jobs of which shape")
    invariant(overdue == queue.overdue, "and who has not answered in time")
    if not scheduler.closing and not queue.unsettled and queue.ready:
        for worker in queue.takers:
            idle = not queue.has_work_for(worker, scheduler.now_us)
            invariant(idle, "no offered slot stays empty beside a ready job that fits")
        unclaimed = queue.unclaimed()
        for worker in queue.sleepers:
            idle = queue.claim(worker, unclaimed, scheduler.now_us) is None
            invariant(idle, "nobody sleeps beside a ready job that fits, and for which nobody was woken")


def _audit_worker(scheduler: Scheduler, worker: Worker) -> None:
    invariant(worker.peer.worker is worker, "a peer knows itself as a worker")
    if worker.resident is not None:
        invariant(
            scheduler.table.residents.get((worker.resident.name, worker.name)) is worker, "a resident is on the list"
        )
    for queue in worker.abilities:
        invariant(worker in queue.workers, "a queue knows its workers")
        invariant((worker in queue.sleepers) == worker.asleep, "a sleeper is on the list of each of its queues")
        invariant((worker in queue.takers) == (worker.credit > 0), "so is a worker with credit")
    for name, rest in (worker.rests or {}).items():
        invariant(rest.due_us > scheduler.now_us, "a rest ends")
        invariant(
            scheduler.queues.get(name) not in worker.abilities, "nobody works for a queue while he rests from it"
        )
    invariant(not (worker.asleep and worker.waking is not None), "nobody is asleep and being woken")
    invariant(not worker.overdue or worker.waking is not None, "who is overdue was woken")
    if worker.waking is not None:
        invariant(worker.waking in worker.abilities, "a worker is woken for what it can do")
        invariant(0 < worker.armed_us <= worker.wake_until_us, "a wake-up is guarded by a timer")
    if worker.bids or worker.promise is not None:
        invariant(not worker.asleep and not worker.credit, "who is hired waits for nothing else")
    if worker.promise is not None:
        invariant(worker.promise.job.lease is worker.promise, "what was promised is promised still")
        invariant(worker.promise.promised, "what has begun is promised no more")
        _audit_engagement(worker.promise)
    for job_id, lease in worker.leases.items():
        invariant(lease.job.id == job_id and lease.job.lease is lease, "a worker's lease is live")
        invariant(scheduler.jobs.get(job_id) is lease.job, "a leased job is live")
        if isinstance(lease, Engagement):
            invariant(not lease.promised, "what is only promised is not worked on")
            _audit_engagement(lease)
        elif lease.run_until_us or lease.job.terms.lease_us:
            invariant(
                lease.due_us > 0 and 0 < lease.armed_us <= lease.due_us, "a lease that can lapse has a timer"
            )


def _audit_engagement(engagement: Engagement) -> None:
    seen = engagement.provider is not None and not engagement.provider_silence_us
    patient = seen and engagement.stage in (ARRIVED, PERFORMING)
    armed = engagement.due_us > 0 and 0 < engagement.armed_us <= engagement.due_us
    invariant(armed or patient, "a promise has a deadline, unless a provider sees to it")
