"""A hall for stories: who comes in, what they say, what they hear.

The law: every notice is written down, and a notice that no story asked for fails the story. After every
turn the core's audit must be clean.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from hiringhall.core.changes import Loaded
from hiringhall.core.errors import Refusal
from hiringhall.core.graph import Plan
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.peer import Peer
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, LEASED, QUEUED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import Batch, EndRow, Firing, FlowRow, JobRow, WindowRow
    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.core.leases import Engagement, Lease
    from hiringhall.core.rules.queue_rules import QueueRules
    from hiringhall.core.rules.spacing import Spacing
    from hiringhall.core.workers import Worker

START_US: Final = 1_700_000_000_000_000
SECOND_US: Final = 1_000_000
HOUR_US: Final = 3600 * SECOND_US

FOREGROUND: Final = Terms()
DETACHED: Final = Terms(detached=True)
BACKGROUND: Final = Terms(durable=True, detached=True)


def name_of(job: Job) -> str:
    """In these stories a job is called by its payload."""
    return job.payload.decode()


def ref_of(job: Job) -> ParentRef:
    """What a child of the job is stored with."""
    return (job.queue.name, job.key) if job.key else job.id


def defer(core: Scheduler, lease: Lease, parents: tuple[ParentRef, ...]) -> None:
    """A worker gives its job back, to wait for these parents, as dwork's Transfer does."""
    core.leases.check_live(lease)
    plan = Plan()
    core.dependencies.plan(plan, lease.job, parents, returned=True)
    core.release(lease, front=False)
    core.dependencies.carry_out(plan)


class Person(Peer):
    """Somebody in the hall. What they hear is kept until the story asks for it."""

    def __init__(self, hall: Hall, name: str) -> None:
        super().__init__()
        self.hall = hall
        self.name = name
        self.heard: list[str] = []

    # --- notices

    def woken(self) -> None:
        self.heard.append("woken")

    def assigned(self, lease: Lease) -> None:
        self.heard.append(f"assigned {name_of(lease.job)}")

    def revoked(self, lease: Lease) -> None:
        self.heard.append(f"revoked {name_of(lease.job)}")

    def announced(self, jobs: list[Job]) -> None:
        self.heard += [f"announced {name_of(job)}" for job in jobs]

    def hired(self, engagement: Engagement) -> None:
        self.heard.append(f"hired {name_of(engagement.job)}")

    def called(self, engagement: Engagement) -> None:
        self.heard.append(f"called {name_of(engagement.job)} {engagement.perform_us}")

    def joined(self, engagement: Engagement) -> None:
        self.heard.append(f"joined {name_of(engagement.job)}")

    def drained(self, draining: bool) -> None:
        self.heard.append("drained" if draining else "undrained")

    def lost(self) -> None:
        self.heard.append("lost")

    def progressed(self, job: Job) -> None:
        self.heard.append(f"progressed {name_of(job)} {job.numerator}/{job.denominator}")

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        self.heard.append(f"{'warned' if warning else 'chunked'} {name_of(job)} {data.decode()}")

    def logged(self, job: Job, data: bytes) -> None:
        self.heard.append(f"logged {name_of(job)} {data.decode()}")

    def ended(self, job: Job) -> None:
        result = job.result.decode()
        if job.state == DONE:
            self.heard.append(f"done {name_of(job)} {result}".rstrip())
        elif job.state == CANCELLED:
            self.heard.append(f"cancelled {name_of(job)} {result}".rstrip())
        else:
            self.heard.append(f"failed {name_of(job)} {job.code} {result}".rstrip())

    # --- what the story says

    def hears(self, *notices: str) -> None:
        """Since the story last asked, exactly this was heard, in this order."""
        heard = self.heard
        self.heard = []
        assert heard == list(notices), f"{self.name} heard {heard}, not {list(notices)}"

    @property
    def me(self) -> Worker:
        return self.hall.core.worker(self)

    def can(self, *queues: str, run_us: int = 0) -> Person:
        for queue in queues:
            self.hall.core.can_do(self.me, queue.encode(), run_us)
        return self

    def takes(self, name: str) -> Lease:
        """Pull; it is the job of that name."""
        lease = self.hall.core.take(self.me)
        assert lease is not None, f"{self.name} found nothing, not {name}"
        assert name_of(lease.job) == name
        return lease

    def takes_from(self, queue: str) -> str:
        """Pull from one queue only; the name of what was found, or nothing."""
        lease = self.hall.core.take(self.me, queue.encode())
        return name_of(lease.job) if lease is not None else ""

    def takes_nothing(self) -> None:
        lease = self.hall.core.take(self.me)
        assert lease is None, f"{self.name} found {name_of(lease.job)}"

    def sleeps(self) -> None:
        self.hall.core.sleep(self.me)

    def offers(self, slots: int) -> None:
        self.hall.core.offer(self.me, slots)

    def holds(self, job: Job) -> Lease:
        return self.hall.core.find_lease(self.me, job.id)

    def leaves(self) -> None:
        self.hall.core.leave(self)
        self.hall.turn()


class Hall:
    """The core, a clock that the story turns, and everybody who came in."""

    def __init__(self, limits: Limits | None = None, epoch: int = 1) -> None:
        self.limits = limits if limits is not None else Limits()
        self.core = Scheduler(self.limits, epoch, START_US)
        self.people: list[Person] = []

    def person(self, name: str) -> Person:
        person = Person(self, name)
        self.people.append(person)
        return person

    def worker(self, name: str, *queues: str) -> Person:
        return self.person(name).can(*(queues or ("q",)))

    def submit(
        self,
        name: str,
        queue: str = "q",
        *,
        by: Person | None = None,
        key: str = "",
        terms: Terms | None = None,
        due_us: int = 0,
        parents: tuple[ParentRef, ...] = (),
        flow: bytes = b"",
        extras: dict[str, bytes] | None = None,
        spacing: Spacing | None = None,
    ) -> Job:
        """A job called `name`; without a watcher it is detached, unless the terms say otherwise."""
        if terms is None:
            terms = FOREGROUND if by is not None else DETACHED
        spec = JobSpec(
            queue.encode(), name.encode(), key.encode(), terms, due_us, parents, extras, flow, spacing
        )
        return self.core.submit(spec, by)

    def turn(self) -> None:
        """The turn ends; all laws hold."""
        self.core.settle()
        self.core.audit()
        check_lanes(self.core)
        check_waits(self.core)
        check_auctions(self.core)

    def after(self, passed_us: int) -> None:
        """So much later."""
        self.core.advance(self.core.now_us + passed_us)
        self.turn()

    def commit(self) -> Batch:
        """The turn's changes reach the disk, and so does what may be written later."""
        self.turn()
        self.core.ledger.flush_deferred()
        batch = self.core.seal()
        self.core.committed(batch)
        self.turn()
        return batch

    def commit_fails(self, trouble: str = "disk full") -> list[str]:
        """The disk fails; the names of the jobs that were taken back."""
        self.turn()
        self.core.ledger.flush_deferred()
        return self.fail_commit(self.core.seal(), trouble)

    def fail_commit(self, batch: Batch, trouble: str = "disk full") -> list[str]:
        """The disk fails with this batch, which was under way."""
        withdrawn = self.core.withdraw(batch, trouble)
        names = [name_of(job) for job in withdrawn.values()]
        self.core.submissions.drop_withdrawn(withdrawn)
        self.turn()
        return names

    def close(self) -> None:
        """The story is over: nobody may have heard what the story did not tell."""
        for person in self.people:
            person.hears()
        self.turn()


def check_lanes(core: Scheduler) -> None:
    """Nobody, ghosts included, stands in a lane twice; and whoever lives knows whether he stands there."""
    standing: dict[int, Job] = {}
    for queue in core.queues.values():
        for lane in [lane for lanes in queue.all_lanes().values() for lane in lanes]:
            for job in lane._all() or lane.waiting():
                assert job.id not in standing, f"{name_of(job)} stands in a lane twice"
                assert job.in_lane, f"{name_of(job)} stands in a lane and does not know"
                standing[job.id] = job
    for job in core.jobs.values():
        assert job.in_lane == (job.id in standing), f"{name_of(job)} is wrong about its place in a lane"


def check_auctions(core: Scheduler) -> None:
    """An auction is for a job that somebody can still be given; what was promised is promised still."""
    for queue in core.queues.values():
        for resting in (queue.listing.resting if queue.listing is not None else {}).values():
            for job_id, auction in resting.items():
                assert core.auctions.by_job.get(job_id) is auction, "what rests is in an auction"
                assert not auction.open, f"{name_of(auction.job)} rests, and is announced"
    for auction in core.auctions.by_job.values():
        job = auction.job
        assert core.jobs.get(job.id) is job, f"{name_of(job)} has ended and is in an auction"
        assert job.state in (DELAYED, QUEUED), f"{name_of(job)} is in an auction and cannot be given away"
    for worker in core.workers:
        promise = worker.promise
        assert promise is None or promise.job.lease is promise, "what was promised is promised still"


def check_waits(core: Scheduler) -> None:
    """Nobody waits for himself through others, and nobody waits for a name while its bearer is here."""
    for ref in core.graph.expected:
        bearer = core.jobs.get(ref) if isinstance(ref, int) else core.find_key(*ref)
        assert bearer is None, f"{ref!r} is expected, and here"
    waits = {job.id: len(job.parents) for job in core.jobs.values() if job.parents is not None}
    stack = [job for job in core.jobs.values() if job.id not in waits]
    for job in core.jobs.values():
        for parent in (job.parents or {}).values():
            if parent is None or parent.ended:
                waits[job.id] -= 1
        if waits.get(job.id) == 0:
            stack.append(job)
    freed = 0
    while stack:
        freed += 1
        for child in (stack.pop().children or {}).values():
            waits[child.id] -= 1
            if not waits[child.id]:
                stack.append(child)
    assert freed == len(core.jobs), "some wait for each other in a circle"


class Disk:
    """What a store would hold: batches applied one after the other, and a boot from it."""

    def __init__(self) -> None:
        self.live: dict[int, JobRow] = {}
        self.history: dict[int, EndRow] = {}
        self.fired: dict[str, Firing] = {}
        self.paused: set[bytes] = set()
        self.flows: dict[bytes, FlowRow] = {}
        self.rules: dict[bytes, QueueRules] = {}
        self.windows: dict[tuple[bytes, bytes], WindowRow] = {}
        self.epoch = 1

    def apply(self, batch: Batch) -> None:
        for job_id in batch.revived:
            assert job_id in self.history, "a dead letter that runs again was in the history"
            del self.history[job_id]
        for row in batch.inserts:
            assert row.id not in self.live, "a job is inserted once"
            self.live[row.id] = row
        for update in batch.updates:
            assert update.id in self.live, "only a stored job is updated"
            self.live[update.id] = self.live[update.id].updated(update, batch.payloads.get(update.id))
        assert batch.payloads.keys() <= {update.id for update in batch.updates}, (
            "a payload is part of an update"
        )
        for job_id in batch.deletes:
            del self.live[job_id]
        for end in batch.ends:
            assert end.id not in self.live, "a job that ended is not live"
            earlier = self.history.get(end.id)
            assert earlier is None or earlier.state == FAILED, "only a dead letter ends again"
            self.history[end.id] = end
        for name, firing in batch.fired.items():
            if firing is None:
                self.fired.pop(name, None)
            else:
                self.fired[name] = firing
        for queue, paused in batch.paused.items():
            (self.paused.add if paused else self.paused.discard)(queue)
        for queue, rules in batch.rules.items():
            if rules is None:
                self.rules.pop(queue, None)
            else:
                self.rules[queue] = rules
        for key, window in batch.windows.items():
            if window is None:
                self.windows.pop(key, None)
            else:
                self.windows[key] = window
        for flow, flow_row in batch.flows.items():
            if flow_row is None:
                self.flows.pop(flow, None)
            else:
                self.flows[flow] = flow_row

    def compare(self, core: Scheduler) -> None:
        """Nothing is left to be written: what is on disk is what is so."""
        durable = {job.id: job for job in core.jobs.values() if job.terms.durable}
        assert durable.keys() == self.live.keys()
        for job_id, job in durable.items():
            row = self.live[job_id]
            self._compare_attempt(row, job)
            assert (row.failures, row.losses, row.ready_us) == (job.failures, job.losses, job.ready_us)
            assert (row.terms.as_tuple(), row.key) == (job.terms.as_tuple(), job.key)
            assert row.payload == job.payload
            waits = [ref if parent is None else ref_of(parent) for ref, parent in (job.parents or {}).items()]
            # A parent that came after its name moves to the end: their order means nothing.
            assert sorted(row.parents, key=repr) == sorted(waits, key=repr)
            assert job.state != DELAYED or row.due_us == job.due_us
            assert row.flow == (job.flow.name if job.flow is not None else b"")
            assert row.all_parents == job.all_parents
        assert self.fired == core.firings.by_name
        assert self.paused == set(core.paused_queues.queues)
        assert self.rules == core.ruled_queues.set_now
        assert set(self.windows) == {window.name for window in core.throttle_windows.all() if window.kept}
        assert self.flows == {flow.name: flow.row() for flow in core.flows.by_name.values()}

    def _compare_attempt(self, row: JobRow, job: Job) -> None:
        """What is on disk of the latest attempt: all of it, or nothing yet; that of a resident for certain."""
        lease = job.lease
        resident = lease is not None and lease.worker.resident is not None
        assert row.holder == (lease.worker.name if lease is not None and resident else b"")
        if row.state == LEASED:
            assert lease is not None, "on disk somebody has it, and nobody does"
            assert (row.attempts, row.started_us) == (job.attempts, job.started_us)
            assert (row.worker, row.tries) == (job.worker_name, tuple(job.tries or ()))
        else:
            # A job may be taken by its id before it is due: on disk it is still delayed.
            assert row.state in ((QUEUED, DELAYED) if job.state == LEASED else (job.state,))
            assert not resident, "the lease of a resident is on disk"

    def load(self, ended_max: int = 1000) -> Loaded:
        self.epoch += 1
        ended = list(self.history.values())[-ended_max:]
        jobs = iter(sorted(self.live.values()))
        flows = list(self.flows.values())
        return Loaded(
            self.epoch,
            jobs,
            iter(ended),
            dict(self.fired),
            sorted(self.paused),
            flows,
            dict(self.rules),
            list(self.windows.values()),
        )


@contextmanager
def refused(reason: str) -> Iterator[None]:
    """The core says no, for exactly this reason and with words for people; nothing is out of order after it."""
    with pytest.raises(Refusal) as caught:
        yield
    assert caught.value.reason == reason
    assert caught.value.text
