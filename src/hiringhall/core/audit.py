"""The audit: one function that checks every cross-reference of the core.

The simulator calls it after each turn, the hall when it receives SIGUSR2. A broken law names the job, queue or
worker that breaks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.bidding.markets import AHEAD
from hiringhall.core.errors import BrokenLaw
from hiringhall.core.id_blocks import BLOCK_BITS
from hiringhall.core.jobs import TRIES_KEPT, Job
from hiringhall.core.lanes import ready_in
from hiringhall.core.leases import ARRIVED, PERFORMING, Engagement
from hiringhall.core.queues import Queue
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.resources.audit_capacity import audit_capacity
from hiringhall.core.rules.audit_rules import audit_rules
from hiringhall.core.rules.spacing import holds_key
from hiringhall.core.states import CANCELLED, DELAYED, DONE, HELD, LEASED, QUEUED, STATE_NAMES
from hiringhall.core.terms import NO_REQUIREMENT
from hiringhall.core.workers import DRAINED

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Auction, Group
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.terms import Requirement
    from hiringhall.core.workers import Worker


def audit(scheduler: Scheduler) -> None:
    """Raise BrokenLaw at the first law that does not hold. Meant for the end of a turn."""
    counts: dict[bytes, list[int]] = {name: [0, 0, 0, 0] for name in scheduler.queues}
    leases: set[int] = set()
    blocks: dict[int, int] = {}
    for job_id, job in scheduler.jobs.items():
        blocks[job_id >> BLOCK_BITS] = blocks.get(job_id >> BLOCK_BITS, 0) + 1
        _law(job_id == job.id, job, "it is filed under its id")
        _law(scheduler.queues.get(job.queue.name) is job.queue, job, "its queue exists")
        count = counts[job.queue.name]
        count[0] += 1
        count[1] += job.state == QUEUED
        count[2] += job.state == LEASED
        count[3] += job.state == HELD
        _audit_job(scheduler, job)
        if job.lease is not None:
            _law(job.lease.number not in leases, job, "no other live lease has the number of its lease")
            leases.add(job.lease.number)
    if blocks != scheduler.table.id_blocks.counts():
        raise BrokenLaw("the blocks of ids count all live jobs")
    for name, queue in scheduler.queues.items():
        right = counts[name] == [queue.live, queue.ready + queue.parked, queue.leased, queue.held]
        _law(right, queue, "it counts its live, ready, leased and held jobs")
        _audit_lanes(scheduler, queue)
        _audit_waiting(scheduler, queue)
    for job in scheduler.keys.all():
        _law(bool(job.key) and scheduler.jobs.get(job.id) is job, job, "a job in the index of keys is live")
    for worker in scheduler.workers:
        _audit_worker(scheduler, worker)
    for (name, who), worker in scheduler.table.residents.items():
        _law(worker in scheduler.workers and worker.name == who, worker, "a resident is present under its name")
        _law(worker.resident is scheduler.queues.get(name), worker, "a resident's queue exists")
    _audit_auctions(scheduler)
    _audit_expected(scheduler)
    _audit_paused(scheduler)
    _audit_flows(scheduler)
    audit_rules(scheduler)
    audit_capacity(scheduler)


def _audit_job(scheduler: Scheduler, job: Job) -> None:
    _law(job.state < DONE, job, "a live job has not ended")
    lease = job.lease
    if lease is not None and lease.provider is not None:
        _law(not job.terms.durable, job, "a provider's job is not durable")
    else:
        holder = scheduler.keys.find(job.queue, job.key) if job.key else None
        _law((holder is job) == holds_key(job), job, "a live job holds its key, unless it was debounced")
    _law((lease is not None) == (job.state == LEASED), job, "it has a lease exactly while it is LEASED")
    if lease is not None:
        _law(lease.job is job, job, "its lease is for this job")
        _law(lease.worker in scheduler.workers, job, "its lease is with a worker that is present")
        held = lease.worker.promise if lease.promised else lease.worker.leases.get(job)
        _law(held is lease, job, "its worker has its lease, or its promise")
    _law((job.parents is not None) == (job.state == HELD), job, "it has parents exactly while it is HELD")
    for ref, parent in (job.parents or {}).items():
        if parent is None:
            _law(job.id in scheduler.graph.expected.get(ref, {}), job, "its unknown parent is expected")
        else:
            linked = parent.children is not None and parent.children.get(job.id) is job
            _law(linked, job, "its parent has it as a child")
            _law(parent.state != DONE, job, "its parent has not succeeded yet")
    for child in (job.children or {}).values():
        linked = child.parents is not None and child.parents.get(job.id) is job
        _law(linked, job, "its child has it as a parent")
    if job.state == DELAYED or (job.state == QUEUED and job.terms.expire_us):
        _law(0 < job.armed_us <= job.due_us, job, "its due time or its expiry has a timer")
    elif job.state != HELD:
        _law(job.due_us == 0, job, "it has no timer without a due time or an expiry")
    begun = job.attempts - (lease is not None and not lease.promised)
    _law(len(job.tries or ()) <= min(begun, TRIES_KEPT), job, "it keeps no more attempts than it had")
    for peer in job.watchers or ():
        _law(job in peer.watching, job, "each of its watchers has it in `watching`")
    if job.watchers is None and not job.terms.detached:
        _law(job.state == LEASED or job.stored, job, "a job that nobody waits for is dropped")


def _audit_lanes(scheduler: Scheduler, queue: Queue) -> None:
    ready = 0
    for requirement, lanes in queue.all_lanes().items():
        for priority, lane in enumerate(lanes):
            waiting = lane.waiting()
            _law(len(waiting) == lane.ready, queue, "a lane counts its ready jobs")
            if not waiting:
                continue
            ready += len(waiting)
            _law(len({job.id for job in waiting}) == len(waiting), queue, "no job is in a lane twice")
            for job in waiting:
                _law(job.in_lane, job, "a job in a lane has `in_lane` set")
                _law(scheduler.jobs.get(job.id) is job, job, "a ready job is live")
                own = (
                    job.queue is queue
                    and job.terms.priority == priority
                    and (job.terms.requirement or NO_REQUIREMENT) == requirement
                )
                _law(own, job, "a ready job is in the lane of its queue, priority and requirement")
    _law(ready == queue.ready, queue, "its lanes hold its ready jobs")


def _audit_waiting(scheduler: Scheduler, queue: Queue) -> None:
    """The workers of a queue, and who of them was woken for it."""
    waking = 0
    woken: dict[Requirement, int] = {}
    overdue: dict[Requirement, int] = {}
    for worker in queue.workers:
        _law(worker in scheduler.workers and queue in worker.abilities, queue, "its workers can do it")
        if worker.waking is not queue:
            continue
        requirement = worker.waking_requirement
        if worker.overdue:
            overdue[requirement] = overdue.get(requirement, 0) + 1
            continue
        waking += 1
        if requirement != NO_REQUIREMENT:
            woken[requirement] = woken.get(requirement, 0) + 1
    _law(waking == queue.waking, queue, "it counts the workers that were woken for it")
    _law(woken == queue.woken, queue, "it counts the woken workers of each requirement")
    _law(overdue == queue.overdue, queue, "it counts the woken workers that have not answered in time")
    for requirement, lanes in (queue.by_requirement or {}).items():
        known = requirement in queue.unmatched or requirement in queue.untried
        _law(known or not ready_in(lanes), queue, "it knows which requirements of ready jobs were not tried")
    if scheduler.withholding or queue.unsettled or queue.closed or not queue.ready:
        return
    for worker in queue.takers:
        idle = queue.best(worker, scheduler.now_us) is None
        _law(idle, queue, "no offered slot stays empty while a ready job fits")
    unclaimed = queue.unclaimed()
    for worker in queue.sleepers:
        idle = queue.claim(worker, unclaimed, scheduler.now_us) is None
        _law(idle, queue, "no worker sleeps while a ready job fits and nobody was woken for it")


def _audit_worker(scheduler: Scheduler, worker: Worker) -> None:
    _law(worker.peer.worker is worker, worker, "its peer has it as its worker")
    if worker.resident is not None:
        listed = scheduler.table.residents.get((worker.resident.name, worker.name)) is worker
        _law(listed, worker, "a resident is in the list of residents")
    for queue in worker.abilities:
        _law(worker in queue.workers, worker, "each of its queues has it as a worker")
        _law(
            (worker in queue.sleepers) == worker.asleep,
            worker,
            "each of its queues has it as a sleeper exactly while it sleeps",
        )
        _law(
            (worker in queue.takers) == (worker.credit > 0),
            worker,
            "each of its queues has it as a taker exactly while it has credit",
        )
    for name, cooldown in (worker.cooldowns or {}).items():
        _law(cooldown.due_us > scheduler.now_us, worker, "its cooldown ends")
        resting = scheduler.queues.get(name) not in worker.abilities
        _law(resting, worker, "it does no jobs of a queue during the cooldown")
    _law((worker.until_us == DRAINED) == worker.draining, worker, "it has no time left while it drains")
    _law(not worker.draining or worker.promise is None, worker, "a worker that drains is not hired")
    _law(not (worker.asleep and worker.waking is not None), worker, "it is not both asleep and woken")
    _law(not worker.overdue or worker.waking is not None, worker, "it is overdue only after a wake-up")
    if worker.waking is not None:
        _law(worker.waking in worker.abilities, worker, "it is woken for a queue that it can do")
        _law(0 < worker.armed_us <= worker.wake_until_us, worker, "its wake-up has a timer")
    if worker.bids or worker.promise is not None:
        _law(not worker.asleep and not worker.credit, worker, "a worker that bids or was hired does not wait")
    if worker.promise is not None:
        _law(worker.promise.job.lease is worker.promise, worker, "its promise is the lease of the job")
        _law(worker.promise.promised, worker, "its promise has not begun")
        _audit_engagement(worker.promise)
    for job, lease in worker.leases.items():
        _law(lease.job is job and job.lease is lease, lease.job, "its worker's lease is live")
        _law(scheduler.jobs.get(job.id) is job, job, "a leased job is live")
        if isinstance(lease, Engagement):
            _law(not lease.promised, lease.job, "a promised job is not among the leases of its worker")
            _audit_engagement(lease)
        elif lease.run_until_us or lease.job.terms.lease_us:
            armed = lease.due_us > 0 and 0 < lease.armed_us <= lease.due_us
            _law(armed, lease.job, "a lease with a time limit has a timer")


def _audit_engagement(engagement: Engagement) -> None:
    seen = engagement.provider is not None and not engagement.provider_silence_us
    unlimited = seen and engagement.stage in (ARRIVED, PERFORMING)
    armed = engagement.due_us > 0 and 0 < engagement.armed_us <= engagement.due_us
    _law(armed or unlimited, engagement.job, "its engagement has a deadline, or a connected provider")


def _audit_auctions(scheduler: Scheduler) -> None:
    counts: dict[tuple[bytes, Group], int] = {}
    for job_id, auction in scheduler.auctions.by_job.items():
        job = auction.job
        live = scheduler.jobs.get(job_id) is job and job.state in (DELAYED, QUEUED)
        _law(live, job, "an announced job is delayed or ready")
        _law(0 < auction.armed_us <= auction.due_us, job, "its auction has a timer")
        _audit_group(auction)
        if auction.group is not None:
            key = (job.queue.name, auction.group)
            counts[key] = counts.get(key, 0) + 1
    for queue in scheduler.queues.values():
        listing = queue.listing
        if listing is None:
            continue
        for group, count in listing.counts.items():
            _law(counts.pop((queue.name, group), 0) == count, queue, "it counts the auctions of each group")
        for group, resting in listing.resting.items():
            for job_id, auction in resting.items():
                _law(
                    scheduler.auctions.by_job.get(job_id) is auction, auction.job, "its resting auction is live"
                )
                own = auction.group == group and auction.job.state == QUEUED
                _law(own, auction.job, "its auction rests in its group")
    for name, _ in counts:
        _law(False, scheduler.queues[name], "every group of its auctions is counted")
    for market in scheduler.auctions.markets:
        due = 0 < market.coalescing.armed_us <= market.coalescing.due_us
        for queue in market.waiting:
            _law(due, queue, "its jobs wait only until they are announced together")
        if market.untold and not scheduler.withholding:
            raise BrokenLaw("a market is told of the announced jobs at the end of the turn")


def _audit_group(auction: Auction) -> None:
    job = auction.job
    group = auction.group
    listing = job.queue.listing
    assert listing is not None
    resting = listing.resting.get(group, {}) if group is not None else {}
    _law(not auction.open or job.id not in resting, job, "its open auction does not rest")
    rank = AHEAD if job.state == DELAYED else job.terms.priority
    own = (rank, job.terms.requirement or NO_REQUIREMENT)
    _law(group in (None, own), job, "its auction is counted in its own group")
    _law(group is not None or job.state == DELAYED, job, "the auction of a ready job is counted in a group")


def _audit_expected(scheduler: Scheduler) -> None:
    expected = scheduler.graph.expected
    for ref in scheduler.graph.parent_lookups.all():
        if ref not in expected:
            raise BrokenLaw(f"parent {ref!r} is looked up in the history, and no job waits for it")
    for ref, waiting in expected.items():
        if not waiting:
            raise BrokenLaw(f"parent {ref!r} is expected, and no job waits for it")
        for child in waiting.values():
            waits = child.state == HELD and child.parents is not None and ref in child.parents
            _law(waits, child, "it is listed under an expected parent only while it waits for it")


def _audit_paused(scheduler: Scheduler) -> None:
    paused = scheduler.paused_queues.queues
    for queue in scheduler.queues.values():
        listed = paused.get(queue.name) is queue
        _law(listed == (queue.paused_us > 0), queue, "it is listed while it is paused")
    for name, queue in paused.items():
        _law(scheduler.queues.get(name) is queue, queue, "a paused queue exists")
    if not paused:
        return
    for job in scheduler.jobs.values():
        lease = job.lease
        if lease is None or not job.queue.paused_us:
            continue
        began = not lease.promised and lease.started_us <= job.queue.paused_us
        _law(began or lease.worker.name == OUTSIDE, job, "a job of a paused queue has begun before the pause")
    for auction in scheduler.auctions.by_job.values():
        _law(not auction.job.queue.paused_us, auction.job, "no job of a paused queue is announced")


def _audit_flows(scheduler: Scheduler) -> None:
    flows = scheduler.flows
    live: dict[bytes, list[int]] = {}
    for job in scheduler.jobs.values():
        flow = job.flow
        if flow is None:
            continue
        _law(flows.by_name.get(flow.name) is flow, job, "its flow exists")
        _law(flow.jobs.get(job.id) is job, job, "its flow has it")
        counts = live.setdefault(flow.name, [0] * DONE)
        counts[job.state] += 1
    for name, flow in flows.by_name.items():
        counts = live.get(name, [0] * DONE)
        right = flow.name == name and flow.counts[:DONE] == counts and flow.live == sum(counts)
        if not right or flows.by_number.get(flow.number) is not flow:
            raise BrokenLaw(f"flow {_text(name)}: it is listed, and counts its live jobs by state")
        if min(flow.counts[DONE : CANCELLED + 1]) < 0 or (flow.live > 0) == (flow.ended_us > 0):
            raise BrokenLaw(f"flow {_text(name)}: it has ended exactly if none of its jobs is live")
        for job in flow.jobs.values():
            unwritten = job.state < DONE or scheduler.unwritten(job.id) is job
            _law(unwritten and job.flow is flow, job, "its flow has it until its end is in the history")


def _law(holds: bool, thing: Job | Queue | Worker, law: str) -> None:
    if not holds:
        raise BrokenLaw(f"{_describe(thing)}: {law}")


def _describe(thing: Job | Queue | Worker) -> str:
    if isinstance(thing, Job):
        state = STATE_NAMES[thing.state] if thing.state >= 0 else "new"
        return f"job {thing.id} of queue {_text(thing.queue.name)}, {state}"
    if isinstance(thing, Queue):
        return f"queue {_text(thing.name)}"
    return f"worker {thing.number} {_text(thing.name)}"


def _text(name: bytes) -> str:
    return repr(name.decode("utf-8", "backslashreplace"))
