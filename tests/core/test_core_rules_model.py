"""The rules of a queue against a model that looks at everything: whoever asks is given the job that goes first
of those that may start, and nothing only if none may; at every moment, while rules change, and after a restart.
Of debounced submits the latest wins, of throttled ones the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import START_US, Disk
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_oracle import DEBOUNCE, THROTTLE, Oracle

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.peer import Peer
from hiringhall.core.rules.queue_rules import LIMIT_KEY, NO_RULES, TENANT, QueueRules
from hiringhall.core.rules.spacing import is_debounced
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.states import DELAYED, QUEUED
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms

if TYPE_CHECKING:
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
    "none": NO_RULES,
}


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
        self.settings = rules
        self.rules_set: QueueRules | None = None
        """Those that were set at run time."""
        self.disk = Disk()
        self.open(Scheduler(Limits(), 1, START_US))

    def open(self, core: Scheduler) -> None:
        self.core = core
        core.ruled_queues.rule(QUEUE, self.settings)
        assert core.ruled_queues.of(QUEUE) == self.rules
        self.oracle = Oracle(self.rules, core.now_us)
        self.leases: list[Lease] = []
        self.delayed = [job for job in core.jobs.values() if job.state == DELAYED]
        """Those that wait for another attempt, or for quiet."""
        self.hands = [Hand(self, skill) for skill in (0, 1, 1, 1)]
        for job in core.jobs.values():
            if job.state == QUEUED:
                self.oracle.ready(job)

    @property
    def rules(self) -> QueueRules:
        return self.settings if self.rules_set is None else self.rules_set

    def restart(self) -> None:
        self.end_turn()
        core = Scheduler(Limits(), 1, self.core.now_us + 1)
        self.disk.apply(self.core.seal())
        core.restore(self.disk.load())
        before = self.oracle
        self.open(core)
        self.oracle.windows, self.oracle.payloads = before.windows, before.payloads
        self.oracle.quiet = {key: core.jobs[job.id] for key, job in before.quiet.items()}
        assert all(is_debounced(job) for job in self.oracle.quiet.values())
        running = {job.id for job in before.running}
        for job in core.jobs.values():
            if is_debounced(job) and job is not self.oracle.quiet.get(job.key):
                # That a worker had it was not stored: it may be replaced once more.
                assert job.id in running
                assert self.oracle.quiet.setdefault(job.key, job) is job

    def commit(self) -> None:
        batch = self.core.seal()
        self.disk.apply(batch)
        self.core.committed(batch)

    def change_rules(self, rules: QueueRules | None) -> None:
        """Set them, or clear those that were set."""
        before = self.rules
        self.rules_set = rules
        if rules is None:
            self.core.ruled_queues.clear(QUEUE)
        else:
            self.core.ruled_queues.set(QUEUE, rules)
            if rules == self.settings == NO_RULES:
                self.rules_set = None
        assert self.core.ruled_queues.of(QUEUE) == self.rules
        limiter = self.core.queues[QUEUE].limiter
        order = sorted(self.oracle.waiting(), key=lambda job: self.oracle.places[job.id])
        if limiter is not None and limiter.orders and not before.orders:
            # In which order jobs that came back stand in usual lanes is for the tests of lanes to say.
            order = [entry.job for entry in limiter.waiting()]
        if self.rules != before:
            self.oracle.change(self.rules, order, self.core.now_us)

    def submit(self, spec: JobSpec) -> None:
        oracle, now_us = self.oracle, self.core.now_us
        if spec.spacing is THROTTLE:
            first = oracle.answers_for(spec.key, now_us)
            assert self.core.throttle_windows.find(QUEUE, spec.key) == first
            if first:
                return
        live = [job for job in self.core.jobs.values() if job.key == spec.key] if spec.key else []
        job = self.core.submit(spec, None)
        if spec.spacing is DEBOUNCE:
            assert (job in live) == (spec.key in oracle.quiet)
            assert oracle.quiet.get(spec.key, job) is job
            self.delayed.append(job)
            oracle.debounce(job, spec.payload, now_us)
        elif live:
            assert job in live
        else:
            oracle.payloads[job.id] = spec.payload
            oracle.ready(job)
            if spec.spacing is THROTTLE:
                oracle.windows[spec.key] = (job.id, now_us + THROTTLE.throttle_us)

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
        due = {job: job.due_us for job in self.delayed if job.state == DELAYED and job.due_us <= now_us}
        self.core.advance(now_us)
        limiter = self.core.queues[QUEUE].limiter if due else None
        entries = limiter.entries if limiter is not None else {}
        # In which order jobs become ready at the same moment is left to the core.
        places = {job: entries[job.id].place if job.id in entries else 0 for job in due}
        for job in sorted(due, key=lambda job: (due[job], places[job])):
            self.oracle.ready(job)
        self.delayed = [job for job in self.delayed if job.state == DELAYED]


numbers = st.integers(0, 100)
submits = st.tuples(
    st.just("submit"),
    st.sampled_from([HIGH, NORMAL, NORMAL, NORMAL, NORMAL, LOW]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([b"", b"k1", b"k1", b"k2"]),
    st.sampled_from([b"", b"t1", b"t2"]),
    st.sampled_from([(b"", None)] * 5 + [(b"d", DEBOUNCE)] * 3 + [(b"t", THROTTLE)]),
    st.sampled_from([b"1", b"2", b"3"]),
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
    st.sampled_from([("turn",), ("commit",)] * 3 + [("restart",), ("pause",), ("clear",)]),
    st.sampled_from([("turn",)] * 2 * len(SETS) + [("set", name) for name in sorted(SETS)]),
)


@pytest.mark.parametrize("name", sorted(SETS))
@settings(max_examples=settings().max_examples * 3 // 5, deadline=None)
@given(story=st.lists(actions, min_size=30, max_size=80))
def test_what_may_start_is_given_and_nothing_else(name: str, story: list[tuple[object, ...]]) -> None:
    shop = Shop(SETS[name])
    for action in story:
        _play(shop, *action)
    shop.end_turn()


def _play(shop: Shop, verb: object, *args: object) -> None:
    core, oracle = shop.core, shop.oracle
    if verb == "submit":
        priority, skill, key, tenant, (name, spacing), payload = args
        extras = {LIMIT_KEY: key, TENANT: tenant}
        terms = Terms(
            priority=priority, skill=skill, durable=True, detached=True, failures_max=9, backoff_us=700_000
        )
        shop.submit(JobSpec(QUEUE, payload, name, terms, extras=extras, spacing=spacing))
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
            shop.delayed.append(lease.job)
        else:
            oracle.ready(lease.job, front=args[1])
            core.release(lease, front=args[1])
    elif verb in ("cancel", "take_job") and oracle.places:
        job = core.jobs[sorted(oracle.places)[args[0] % len(oracle.places)]]
        if verb == "cancel":
            del oracle.places[job.id]
            oracle.quiet = {key: quiet for key, quiet in oracle.quiet.items() if quiet is not job}
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
    elif verb == "commit":
        shop.commit()
    elif verb == "restart":
        shop.restart()
    elif verb == "set":
        shop.change_rules(SETS[args[0]])
    elif verb == "clear":
        shop.change_rules(None)
    elif verb == "pause":
        core.pause_queue(QUEUE)
        assert core.take(shop.hands[3].me) is None if not shop.hands[3].me.asleep else True
        core.resume_queue(QUEUE)
