"""The rules of a queue against a model that looks at everything: whoever asks is given the job that goes first
of those that may start, and nothing only if none may; at every moment, and after a restart.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hall_recorder import START_US, Disk
from hypothesis import given, settings
from hypothesis import strategies as st

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.peer import Peer
from hiringhall.core.queue_rules import LIMIT_KEY, TENANT, QueueRules
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.states import DELAYED, QUEUED
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker

QUEUE = b"saw"
PATIENCE = 100
WEIGHTS = {b"t1": 2, b"t2": 3}
SETS = {
    "running": QueueRules(running_max=2),
    "rate": QueueRules(starts_per_1000s=2000, burst=2),
    "keys": QueueRules(key_running_max=2),
    "fair": QueueRules(fair=True, weights=WEIGHTS),
    "all": QueueRules(5, 2, 3000, 4, fair=True, weights=WEIGHTS),
}


class Oracle:
    """What the rules say, read anew from all jobs each time."""

    def __init__(self, rules: QueueRules, now_us: int) -> None:
        self.rules = rules
        self.places: dict[int, int] = {}
        """Ready jobs by id: lower goes first."""
        self.jobs: dict[int, Job] = {}
        self.running: list[Job] = []
        self.tokens = Fraction(0)
        self.filled_us = now_us
        self.tags: dict[tuple[int, bytes], Fraction] = {}
        self.arrival: dict[tuple[int, bytes], int] = {}
        self.served = {HIGH: Fraction(0), NORMAL: Fraction(0), LOW: Fraction(0)}

    def ready(self, job: Job, *, front: bool = False) -> None:
        tenant = (job.terms.priority, self.tenant(job))
        if all((other.terms.priority, self.tenant(other)) != tenant for other in self.waiting()):
            self.tags[tenant] = max(self.tags.get(tenant, Fraction(0)), self.served[tenant[0]])
        self.arrival.setdefault(tenant, len(self.arrival))
        places = self.places.values()
        self.places[job.id] = min(places, default=0) - 1 if front else max(places, default=0) + 1
        self.jobs[job.id] = job

    def waiting(self) -> list[Job]:
        return [self.jobs[job_id] for job_id in self.places]

    def tenant(self, job: Job) -> bytes:
        return (job.extras or {}).get(TENANT, b"") if self.rules.fair else b""

    def started(self, job: Job) -> None:
        tenant = (job.terms.priority, self.tenant(job))
        self.served[tenant[0]] = self.tags[tenant]
        self.tags[tenant] += Fraction(1, self.rules.weights.get(tenant[1], 1))
        del self.places[job.id]
        self.running.append(job)
        self.tokens -= 1

    def pass_to(self, now_us: int) -> None:
        passed = Fraction((now_us - self.filled_us) * self.rules.starts_per_1000s, 10**9)
        self.tokens = min(Fraction(self.rules.burst), self.tokens + passed)
        self.filled_us = now_us

    def room(self, key: bytes) -> bool:
        rules = self.rules
        if rules.running_max and len(self.running) >= rules.running_max:
            return False
        if rules.starts_per_1000s and self.tokens < 1:
            return False
        return not (key and rules.key_running_max) or self.running_of(key) < rules.key_running_max

    def running_of(self, key: bytes) -> int:
        return sum((job.extras or {}).get(LIMIT_KEY) == key for job in self.running)

    def eligible(self, skill: int) -> list[Job]:
        """The jobs that may start for a worker with this skill, first one first."""
        able = [job for job in self.waiting() if job.terms.skill <= skill]
        may = [job for job in able if self.room((job.extras or {}).get(LIMIT_KEY, b""))]
        return sorted(may, key=self.turn)

    def turn(self, job: Job) -> tuple[int, Fraction, int, int]:
        tenant = (job.terms.priority, self.tenant(job))
        return job.terms.priority, self.tags[tenant], self.arrival[tenant], self.places[job.id]


class Hand(Peer):
    """A worker that checks what it is given against the oracle."""

    def __init__(self, shop: Shop, skill: int) -> None:
        super().__init__()
        self.shop = shop
        self.skill = skill
        self.wakes = 0
        self.shop.core.can_do(self.me, QUEUE)
        self.shop.core.needs.rate(self.me, QUEUE, skill)

    def woken(self) -> None:
        self.wakes += 1

    def assigned(self, lease: Lease) -> None:
        self.shop.given(self, lease)

    @property
    def me(self) -> Worker:
        return self.shop.core.worker(self)


class Shop:
    """A hall with one queue, its oracle, its disk, and four hands, of which one has no skill."""

    def __init__(self, rules: QueueRules) -> None:
        self.rules = rules
        self.disk = Disk()
        self.open(Scheduler(Limits(), 1, START_US))

    def open(self, core: Scheduler) -> None:
        self.core = core
        core.ruled_queues.rule(QUEUE, self.rules)
        self.oracle = Oracle(self.rules, core.now_us)
        self.leases: list[Lease] = []
        self.failed = [job for job in core.jobs.values() if job.state == DELAYED]
        """Those that wait for another attempt, in the order in which they failed."""
        self.hands = [Hand(self, skill) for skill in (0, 1, 1, 1)]
        for job in core.jobs.values():
            if job.state == QUEUED:
                self.oracle.ready(job)

    def restart(self) -> None:
        self.end_turn()
        core = Scheduler(Limits(), 1, self.core.now_us + 1)
        self.disk.apply(self.core.seal())
        core.restore(self.disk.load())
        self.open(core)

    def given(self, hand: Hand, lease: Lease) -> None:
        eligible = self.oracle.eligible(hand.skill)
        assert lease.job in eligible
        # Of two tenants that share a key, those of a key's jobs that are in lanes go first.
        if not (self.rules.fair and self.rules.key_running_max) and self.rules.orders:
            assert lease.job is eligible[0]
        self.oracle.started(lease.job)
        self.leases.append(lease)

    def takes(self, hand: Hand) -> bool:
        lease = self.core.take(hand.me)
        if lease is None:
            assert not self.oracle.eligible(hand.skill)
            return False
        self.given(hand, lease)
        return True

    def end_turn(self) -> None:
        for _ in range(PATIENCE):
            self.core.settle()
            self.core.audit()
            awake = [hand for hand in self.hands if hand.wakes]
            if not awake:
                break
            for hand in awake:
                assert hand.wakes == 1
                hand.wakes = 0
                if not self.takes(hand):
                    self.core.sleep(hand.me)
        else:
            raise AssertionError("they are woken for nothing, over and over")
        for hand in self.hands:
            if hand.me.asleep or hand.me.credit:
                assert not self.oracle.eligible(hand.skill)

    def passes(self, passed_us: int) -> None:
        now_us = self.core.now_us + passed_us
        while (next_us := self.core.next_deadline()) and next_us < now_us:
            # A hall wakes up for each deadline.
            self._advance(max(next_us, self.core.now_us))
            self.end_turn()
        self._advance(now_us)

    def _advance(self, now_us: int) -> None:
        self.oracle.pass_to(now_us)
        delayed = [job for job in self.failed if job.state == DELAYED]
        for job in sorted(delayed, key=lambda job: job.due_us):
            if job.due_us <= now_us:
                self.failed.remove(job)
                self.oracle.ready(job)
        self.core.advance(now_us)


numbers = st.integers(0, 100)
submits = st.tuples(
    st.just("submit"),
    st.sampled_from([HIGH, NORMAL, NORMAL, LOW]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([b"", b"k1", b"k1", b"k2"]),
    st.sampled_from([b"", b"t1", b"t2", b"t3"]),
)
takes = st.tuples(st.just("take"), st.integers(0, 3))
actions = st.one_of(
    submits,
    submits,
    submits,
    takes,
    takes,
    st.tuples(st.just("sleep"), st.integers(0, 3)),
    st.tuples(st.just("offer"), st.integers(0, 3), st.integers(0, 2)),
    st.tuples(st.sampled_from(["finish", "fail", "cancel", "take_job"]), numbers),
    st.tuples(st.just("release"), numbers, st.booleans()),
    st.tuples(st.just("pass"), st.sampled_from([1, 100_000, 499_999, 500_000, 1_000_000])),
    st.tuples(st.sampled_from(["turn", "restart", "rule", "pause"])),
)


@pytest.mark.parametrize("name", sorted(SETS))
@settings(max_examples=60, deadline=None)
@given(story=st.lists(actions, min_size=20, max_size=60))
def test_what_may_start_is_given_and_nothing_else(name: str, story: list[tuple[object, ...]]) -> None:
    shop = Shop(SETS[name])
    for action in story:
        _play(shop, *action)
    shop.end_turn()


def _play(shop: Shop, verb: object, *args: object) -> None:
    core, oracle = shop.core, shop.oracle
    if verb == "submit":
        priority, skill, key, tenant = args
        extras = {LIMIT_KEY: key, TENANT: tenant}
        terms = Terms(
            priority=priority, skill=skill, durable=True, detached=True, failures_max=9, backoff_us=700_000
        )
        oracle.ready(core.submit(JobSpec(QUEUE, b"", b"", terms, extras=extras), None))
    elif verb == "take":
        hand = shop.hands[args[0]]
        if not hand.wakes:
            shop.takes(hand)
    elif verb == "sleep" and not shop.hands[args[0]].wakes and not shop.hands[args[0]].me.credit:
        core.sleep(shop.hands[args[0]].me)
    elif verb == "offer" and not shop.hands[args[0]].me.asleep and not shop.hands[args[0]].wakes:
        core.offer(shop.hands[args[0]].me, args[1])
    elif verb in ("finish", "fail", "release") and shop.leases:
        lease = shop.leases.pop(args[0] % len(shop.leases))
        oracle.running.remove(lease.job)
        if verb == "finish":
            core.finish(lease, b"")
        elif verb == "fail":
            core.fail(lease)
            shop.failed.append(lease.job)
        else:
            oracle.ready(lease.job, front=args[1])
            core.release(lease, front=args[1])
    elif verb in ("cancel", "take_job") and oracle.places:
        job = core.jobs[sorted(oracle.places)[args[0] % len(oracle.places)]]
        if verb == "cancel":
            del oracle.places[job.id]
            core.cancel(job)
        elif shop.hands[3].me.asleep or shop.hands[3].wakes:
            return
        elif job in oracle.eligible(1):
            lease = core.take_job(shop.hands[3].me, job)
            oracle.started(job)
            shop.leases.append(lease)
        else:
            with pytest.raises(Exception, match="may not start now"):
                core.take_job(shop.hands[3].me, job)
    elif verb == "pass":
        shop.end_turn()
        shop.passes(args[0])
    elif verb == "turn":
        shop.end_turn()
    elif verb == "restart":
        shop.restart()
    elif verb == "rule" and not shop.rules.starts_per_1000s and not shop.rules.fair:
        if not shop.rules.orders:
            core.ruled_queues.rule(QUEUE, QueueRules())
        core.ruled_queues.rule(QUEUE, shop.rules)
    elif verb == "pause":
        core.pause_queue(QUEUE)
        assert core.take(shop.hands[3].me) is None if not shop.hands[3].me.asleep else True
        core.resume_queue(QUEUE)
