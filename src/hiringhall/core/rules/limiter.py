"""The limiter of a queue: keeps its rules, whatever dialect a job or its worker speaks.

A queue that has as many jobs running as it may, or no token left to start one, is closed: its jobs stay in
their lanes, and none starts. If only a key has as many running as it may, its jobs are parked outside lanes.

Invariant: a job that a worker gets by asking, by an offered slot, by a bid or by its id starts only while its
queue is open and its key has room. What the hall cannot refuse, because it runs already, is counted all the
same: tasks that run outside, leases that outlive a restart, and jobs that a silent worker still had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.lanes import first_of
from hiringhall.core.limits import SECOND_US
from hiringhall.core.rules.fair_lanes import Entry, FairLane
from hiringhall.core.rules.parking import Parking
from hiringhall.core.rules.queue_rules import LIMIT_KEY, RUNNING_MAX, TENANT
from hiringhall.core.rules.rates import TokenBucket
from hiringhall.core.rules.tenants import Tenant, Tenants
from hiringhall.core.states import LEASED, QUEUED
from hiringhall.core.terms import PRIORITIES
from hiringhall.core.timers import NEVER, Timed

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.rules.queue_rules import QueueRules
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.table import JobTable

_KEY_SHOWN_BYTES = 80


def limit_key_of(job: Job) -> bytes:
    """The key by which its running is limited; empty: none."""
    return job.extras.get(LIMIT_KEY, b"") if job.extras is not None else b""


def tenant_of(job: Job) -> bytes:
    """Its tenant. Jobs without one are one tenant."""
    return job.extras.get(TENANT, b"") if job.extras is not None else b""


def _place(entry: Entry) -> int:
    return entry.place


class Limiter(Timed):
    """The state of one queue's rules. Its timer is set for the next token."""

    __slots__ = (
        "_bucket",
        "_first_place",
        "_last_number",
        "_last_place",
        "_nobody",
        "_queue",
        "_table",
        "_tenants",
        "entries",
        "orders",
        "parked",
        "parking",
        "rules",
        "running",
    )

    def __init__(self, table: JobTable, queue: Queue, rules: QueueRules) -> None:
        super().__init__()
        self._table = table
        self._queue = queue
        self.rules = rules
        self.orders = rules.orders
        """Its jobs are in fair lanes, or parked; otherwise in lanes as of any queue."""
        self.running = 0
        """Jobs with a lease, including those that were promised to a hired worker."""
        self.entries: dict[int, Entry] = {}
        """If it orders: the ready jobs of the queue, in lanes or parked, by id."""
        self.parked = [0] * PRIORITIES
        """Ready jobs that are in no lane, by priority."""
        self.parking = Parking(self, rules.key_running_max) if rules.key_running_max else None
        self._tenants = [Tenants(rules.weights) for _ in range(PRIORITIES)]
        self._nobody = Tenant(b"", 0, 0, 0)
        """The tenant of all jobs, if they do not take turns."""
        rate = rules.starts_per_1000s
        self._bucket = TokenBucket(rate, rules.burst, table.now_us) if rate else None
        self._first_place = 0
        self._last_place = 0
        self._last_number = 0

    def inherit(self, before: Limiter) -> None:
        """The rules of the queue were others until now. If the rate is the same, the tokens are too; else the
        bucket begins empty.
        """
        mine, theirs = self.rules, before.rules
        if (mine.starts_per_1000s, mine.burst) == (theirs.starts_per_1000s, theirs.burst):
            self._bucket = before._bucket

    # --- what a queue asks

    def room(self) -> int:
        """How many jobs of the queue may start now, as far as the whole queue is limited."""
        room = self._queue.ready
        if self.rules.running_max:
            room = min(room, self.rules.running_max - self.running)
        if self._bucket is not None:
            room = min(room, self._bucket.tokens(self._table.now_us))
        return max(room, 0)

    def room_beyond_ready(self) -> int:
        """How many jobs may start beyond those that are ready."""
        most = [RUNNING_MAX]
        if self.rules.running_max:
            most.append(self.rules.running_max - self.running)
        if self._bucket is not None:
            most.append(self._bucket.tokens(self._table.now_us))
        return min(most) - self._queue.ready

    @property
    def full(self) -> bool:
        """No job of the queue may start."""
        most = self.rules.running_max
        if most and self.running >= most:
            return True
        return self._bucket is not None and not self._bucket.tokens(self._table.now_us)

    def may_start(self, job: Job) -> bool:
        """Whether this job, ready or delayed, may start now."""
        if self._queue.closed:
            return False
        return self.parking is None or not (name := limit_key_of(job)) or self.parking.has_room(name)

    def first_of(self, one: Job | None, other: Job | None) -> Job | None:
        """Which of two ready jobs goes first."""
        if one is None or other is None or not self.orders or one.terms.priority != other.terms.priority:
            return first_of(one, other)
        return one if self.rank(one) < self.rank(other) else other

    def rank(self, job: Job) -> tuple[int, int, int, int]:
        """The place of a ready job, if it orders them: by priority, then by turn and age."""
        entry = self.entries[job.id]
        return job.terms.priority, entry.tenant.tag, entry.tenant.number, entry.place

    # --- ready jobs, if it orders them

    def waiting(self) -> list[Entry]:
        """All ready jobs by age, in lanes or parked."""
        return sorted(self.entries.values(), key=_place)

    def put(self, job: Job, front: bool) -> None:
        """A job is ready: it goes to a lane, or is parked."""
        if front:
            self._first_place -= 1
            place = self._first_place
        else:
            self._last_place += 1
            place = self._last_place
        fair = self.rules.fair
        tenant = self._tenants[job.terms.priority].enter(tenant_of(job)) if fair else self._nobody
        entry = Entry(job, place, tenant)
        if self.parking is not None and (name := limit_key_of(job)):
            self.parking.put(name, entry)
        else:
            self.admit(entry)

    def remove(self, job: Job) -> None:
        """A job is no longer ready; `moved` follows."""
        entry = self.entries.pop(job.id)
        if self.rules.fair:
            self._tenants[job.terms.priority].leave(entry.tenant)
        if self.parking is not None and (name := limit_key_of(job)):
            self.parking.remove(name, entry)
        else:
            self.take_out(entry)

    def admit(self, entry: Entry) -> Entry:
        """A job goes to its lane. The entry that it has there."""
        entry = self.enter_as(entry, parked=False)
        lane = self._queue.lane_of(entry.job)
        assert isinstance(lane, FairLane)
        lane.enter(entry)
        self._queue.ready += 1
        return entry

    def take_out(self, entry: Entry) -> None:
        """A job leaves its lane."""
        lane = self._queue.lane_of(entry.job)
        assert isinstance(lane, FairLane)
        lane.leave(entry)
        self._queue.ready -= 1

    def enter_as(self, entry: Entry, *, parked: bool) -> Entry:
        """The entry of a job that goes to a lane or is parked: another one if it was somewhere else before."""
        if entry.gone:
            entry = Entry(entry.job, entry.place, entry.tenant)
        self._last_number += 1
        entry.number = self._last_number
        entry.parked = parked
        job = entry.job
        self.entries[job.id] = entry
        if parked:
            self.parked[job.terms.priority] += 1
            if self._table.announcer is not None:
                self._table.announcer.job_parked(job)
        return entry

    def unparked(self, entry: Entry) -> None:
        """A job is no longer parked."""
        self.parked[entry.job.terms.priority] -= 1

    # --- what the table tells

    def moved(self, job: Job, before: int) -> None:
        """A job of the queue has changed its state, and is in the lanes or parked if it is ready."""
        starts, ends = job.state == LEASED, before == LEASED
        self.running += starts - ends
        if self.parking is not None and (starts or ends or before == QUEUED) and (name := limit_key_of(job)):
            if starts:
                self.parking.started(name)
            elif ends:
                self.parking.ended(name)
            self.parking.balance(name)
        queue = self._queue
        if starts:
            most = self.rules.running_max
            if most and self.running >= most:
                queue.closed = True
        elif ends and queue.closed:
            self.refresh()
        elif queue.ready and not queue.unsettled:
            self._table.unsettle(queue)

    def spend(self, job: Job) -> None:
        """A job was given to a worker, or a worker was hired for it: one start."""
        if self.rules.fair:
            self._tenants[job.terms.priority].charge(tenant_of(job))
        bucket = self._bucket
        if bucket is not None and not bucket.spend(self._table.now_us):
            self._queue.closed = True
            self.await_token()

    def refresh(self) -> None:
        """Open or close the queue; if it is open, match its jobs again."""
        queue = self._queue
        queue.closed = queue.paused_us > 0 or self.full
        if queue.ready and not queue.closed:
            self._table.unsettle(queue)
        self.await_token()

    def await_token(self) -> None:
        """Set the timer for the next token, if a job waits for one."""
        bucket = self._bucket
        if bucket is None or self.due_us != NEVER:
            return
        now_us = self._table.now_us
        tokens = bucket.tokens(now_us)
        if not tokens or (self._queue.ready > tokens and not bucket.is_full(now_us)):
            self._table.timers.arm(self, bucket.next_us(now_us))

    def ring(self, scheduler: Scheduler) -> None:
        del scheduler
        self.refresh()

    @property
    def counts_down(self) -> bool:
        """Tokens come by the date: also while the hall is paused."""
        return False

    # --- for people, and for the audit

    @property
    def is_awaited(self) -> bool:
        """A job runs whose end may open the queue, or the timer is set that will."""
        return self.due_us != NEVER or self.running > 0

    def waiting_by_tenant(self) -> list[dict[bytes, int]]:
        """How many ready jobs each tenant has, by priority."""
        return [tenants.waiting() for tenants in self._tenants]

    def holds(self, job: Job) -> str:
        """How a ready job stands that may not start: "parked" or "limited"; empty: it may."""
        entry = self.entries.get(job.id)
        if entry is not None and entry.parked:
            return "parked"
        return "limited" if self.full else ""

    def why(self, job: Job) -> str:
        """Which limit keeps a ready job from starting, and until when; empty: none does."""
        entry = self.entries.get(job.id)
        if entry is not None and entry.parked:
            key = limit_key_of(job)
            assert self.parking is not None
            until = (
                "others of it go first" if self.parking.has_room(key) else "it goes on when one of them ends"
            )
            name = key[:_KEY_SHOWN_BYTES].decode("utf-8", "backslashreplace")
            return f"it is parked by the limit of {self.rules.key_running_max} running for key {name}; {until}"
        most = self.rules.running_max
        if most and self.running >= most:
            jobs = "job" if self.running == 1 else "jobs"
            return f"its queue has {self.running} {jobs} running and may have {most}; it goes on when one ends"
        bucket = self._bucket
        now_us = self._table.now_us
        if bucket is not None and not bucket.tokens(now_us):
            wait_s = (bucket.next_us(now_us) - now_us) / SECOND_US
            rate = self.rules.starts_per_1000s / 1000
            return f"its queue starts again in {wait_s:.3g} s: it may start {rate:g} a second"
        return ""
