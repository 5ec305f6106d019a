"""Queues with rules: how many run, how fast they start, whose turn it is; however a worker gets its jobs."""

from __future__ import annotations

import heapq

import pytest
from hall_recorder import BACKGROUND, DETACHED, SECOND_US, START_US, Disk, Hall, refused
from hiring_stories import bids, crier, hire, some_rules

from hiringhall.core.errors import (
    BAD_REQUEST,
    HALL_FULL,
    STORE_DOWN,
    TOO_LARGE,
    WRONG_STATE,
    BrokenLaw,
    Refusal,
)
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.reasons import situation, why
from hiringhall.core.rules import fair_lanes
from hiringhall.core.rules.queue_rules import LIMIT_KEY, RATE_MAX, TENANT, QueueRules
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.states import CANCELLED, QUEUED
from hiringhall.core.terms import HIGH, LOW, Terms


def rule(hall: Hall, rules: QueueRules, queue: str = "q") -> None:
    hall.core.ruled_queues.rule(queue.encode(), rules)
    hall.turn()


def of_key(key: str) -> dict[str, bytes]:
    return {LIMIT_KEY: key.encode()}


def test_a_queue_runs_as_many_as_it_may_and_the_reason_is_told(hall: Hall) -> None:
    rule(hall, QueueRules(running_max=1))
    bob = hall.worker("bob", "q", "other")
    hall.submit("a")
    b = hall.submit("b")
    hall.submit("c", "other")
    hall.turn()
    lease = bob.takes("a")
    assert bob.takes_from("q") == ""
    assert situation(hall.core, b) == "limited"
    assert why(hall.core, b) == "its queue has 1 job running and may have 1; it goes on when one ends"
    with refused(WRONG_STATE):
        hall.core.take_job(bob.me, b)
    bob.takes("c")
    hall.core.finish(lease, b"")
    bob.takes("b")


def test_no_more_sleepers_are_woken_than_jobs_may_start(hall: Hall) -> None:
    rule(hall, QueueRules(running_max=2))
    workers = [hall.worker(f"w{number}") for number in range(5)]
    for worker in workers:
        worker.sleeps()
    for name in "abcde":
        hall.submit(name)
    hall.turn()
    woken = [worker for worker in workers if worker.heard == ["woken"]]
    assert len(woken) == 2
    for worker, name in zip(woken, "ab", strict=True):
        worker.hears("woken")
        lease = worker.takes(name)
    hall.turn()
    assert not any(worker.heard for worker in workers)
    hall.core.finish(lease, b"")
    hall.turn()
    [worker] = [worker for worker in workers if worker.heard == ["woken"]]
    worker.hears("woken")


def test_offered_slots_are_filled_up_to_the_limit(hall: Hall) -> None:
    rule(hall, QueueRules(running_max=3))
    bob = hall.worker("bob")
    bob.offers(10)
    jobs = [hall.submit(name) for name in "abcde"]
    hall.turn()
    bob.hears("assigned a", "assigned b", "assigned c")
    hall.core.fail(bob.holds(jobs[0]))
    hall.turn()
    bob.hears("assigned d")


def test_a_rate_lets_jobs_start_when_their_tokens_come_and_begins_with_none(hall: Hall) -> None:
    rule(hall, QueueRules(starts_per_1000s=2000, burst=2))
    bob = hall.worker("bob")
    bob.offers(10)
    jobs = [hall.submit(name) for name in "abcdef"]
    hall.turn()
    assert why(hall.core, jobs[0]) == "its queue starts again in 0.5 s: it may start 2 a second"
    hall.after(SECOND_US // 2 - 1)
    bob.hears()
    hall.after(1)
    bob.hears("assigned a")
    hall.after(SECOND_US)
    bob.hears("assigned b", "assigned c")
    bob.offers(0)
    hall.after(10 * SECOND_US)
    bob.offers(10)
    hall.turn()
    bob.hears("assigned d", "assigned e")
    assert situation(hall.core, jobs[5]) == "limited"


def test_a_full_key_parks_its_jobs_and_blocks_nobody(hall: Hall) -> None:
    rule(hall, QueueRules(key_running_max=1))
    bob = hall.worker("bob")
    jobs = {name: hall.submit(name, extras=of_key(name[0])) for name in ("a1", "a2", "a3", "b1")}
    free = hall.submit("free")
    hall.turn()
    queue = free.queue
    assert (queue.ready, queue.parked, queue.delayed) == (3, 2, 0)
    lease = bob.takes("a1")
    assert situation(hall.core, jobs["a2"]) == "parked"
    text = "it is parked by the limit of 1 running for key a; it goes on when one of them ends"
    assert why(hall.core, jobs["a2"]) == text
    with refused(WRONG_STATE):
        hall.core.take_job(bob.me, jobs["a3"])
    bob.takes("b1")
    hall.core.finish(lease, b"")
    hall.turn()
    assert (queue.ready, queue.parked) == (2, 1)
    bob.takes("a2")
    bob.takes("free")
    bob.takes_nothing()


def test_an_urgent_job_of_a_key_goes_before_one_that_has_not_started(hall: Hall) -> None:
    rule(hall, QueueRules(key_running_max=1))
    bob = hall.worker("bob")
    hall.submit("later", terms=Terms(detached=True, priority=LOW), extras=of_key("a"))
    hall.turn()
    hall.submit("first", terms=Terms(detached=True, priority=HIGH), extras=of_key("a"))
    hall.turn()
    hall.core.finish(bob.takes("first"), b"")
    bob.takes("later")


def test_a_job_that_no_worker_can_do_does_not_block_its_key(hall: Hall) -> None:
    rule(hall, QueueRules(key_running_max=1))
    bob = hall.worker("bob")
    hall.submit("hard", terms=Terms(detached=True, skill=9), extras=of_key("a"))
    hall.submit("easy", extras=of_key("a"))
    hall.turn()
    hall.core.finish(bob.takes("easy"), b"")


def test_parked_jobs_expire_and_are_cancelled_and_retried(hall: Hall) -> None:
    rule(hall, QueueRules(key_running_max=1, age_max_us=SECOND_US))
    bob = hall.worker("bob")
    anna = hall.person("anna")
    hall.submit("a", extras=of_key("k"))
    lease = bob.takes("a")
    hall.submit("old", by=anna, extras=of_key("k"))
    b = hall.submit("b", by=anna, extras=of_key("k"))
    hall.core.cancel(b)
    anna.hears("cancelled b")
    hall.after(SECOND_US)
    anna.hears("cancelled old no worker took it in time")
    assert hall.core.queues[b"q"].parked == 0
    retried = hall.submit("r", terms=BACKGROUND, extras=of_key("k"))
    hall.core.finish(lease, b"")
    hall.core.fail(bob.takes("r"))
    hall.submit("c", extras=of_key("k"))
    bob.takes("c")
    hall.core.retry(retried)
    hall.turn()
    assert hall.core.queues[b"q"].parked == 1


def test_a_hired_worker_counts_from_its_promise_on(hall: Hall) -> None:
    rule(hall, QueueRules(running_max=1))
    door = crier(hall)
    a = hall.submit("a")
    b = hall.submit("b")
    hall.turn()
    door.hears("announced a")
    bob = hall.person("bob")
    hire(hall, bob, a)
    assert situation(hall.core, b) == "limited"
    eve = hall.worker("eve")
    with refused(WRONG_STATE):
        hall.core.hiring.engage(a_spec("p"), eve.me, 0, hall.person("provider"), some_rules())
    bob.leaves()
    door.hears("announced a")


def test_a_parked_job_is_not_announced(hall: Hall) -> None:
    rule(hall, QueueRules(key_running_max=1))
    door = crier(hall)
    a = hall.submit("a", extras=of_key("k"))
    b = hall.submit("b", extras=of_key("k"))
    hall.turn()
    door.hears("announced a")
    bob = hall.person("bob")
    with refused(WRONG_STATE):
        bids(bob, b)
    hire(hall, bob, a)
    hall.core.cancel(a)
    hall.turn()
    bob.hears("revoked a")
    door.hears("announced b")


def test_leases_that_outlive_a_restart_and_tasks_outside_count_as_running() -> None:
    disk = Disk()
    hall = Hall()
    worker = hall.core.residents.get(b"q", b"loc")
    names = [hall.submit(name, terms=BACKGROUND, key=name, extras=of_key("k")) for name in "abc"]
    hall.turn()
    assert hall.core.take(worker) is not None
    disk.apply(hall.commit())
    reborn = Hall()
    reborn.core = Scheduler(Limits(), 1, START_US + SECOND_US)
    reborn.core.restore(disk.load())
    rule(reborn, QueueRules(key_running_max=1))
    queue = reborn.core.queues[b"q"]
    assert (queue.leased, queue.ready, queue.parked) == (1, 0, 2)
    assert reborn.core.take(reborn.core.residents.get(b"q", b"loc")) is None
    lease = reborn.core.find_lease(reborn.core.residents.get(b"q", b"loc"), names[0].id)
    reborn.core.finish(lease, b"")
    reborn.turn()
    assert (queue.ready, queue.parked) == (1, 1)
    rule(reborn, QueueRules(running_max=1))
    reborn.core.reports.start(a_spec("outside"), b"me", START_US)
    reborn.turn()
    assert (queue.closed, queue.ready) == (True, 2)


def a_spec(name: str) -> JobSpec:
    return JobSpec(b"q", name.encode(), name.encode(), BACKGROUND if name == "outside" else DETACHED)


def test_the_ten_are_done_within_the_first_400_starts_beside_one_with_100_000(hall: Hall) -> None:
    core = Scheduler(Limits(), 1, START_US)
    core.ruled_queues.rule(b"q", QueueRules(fair=True))
    hall.core = core
    bob = hall.worker("bob")
    for number in range(100_000):
        hall.submit(f"big{number}", extras={TENANT: b"big"})
    for tenant in range(10):
        for number in range(10):
            hall.submit(f"{tenant}.{number}", extras={TENANT: b"%d" % tenant})
    starts: list[str] = []
    for _ in range(400):
        lease = core.take(bob.me)
        assert lease is not None
        starts.append(lease.job.payload.decode())
        core.finish(lease, b"")
    small = [name for name in starts if not name.startswith("big")]
    assert len(small) == 100
    assert starts.index(small[-1]) == 109  # each turn has one of the big one
    assert sorted(small, key=lambda name: name.split(".")[0]) == [
        f"{t}.{n}" for t in range(10) for n in range(10)
    ]
    core.jobs.clear()
    hall.core = Scheduler(Limits(), 1, START_US)
    hall.people.clear()


def test_a_tenant_has_starts_by_its_weight_and_saves_none_up(hall: Hall) -> None:
    rule(hall, QueueRules(fair=True, weights={b"a": 3}))
    bob = hall.worker("bob")
    for tenant in (b"a", b"b"):
        for number in range(12):
            hall.submit(f"{tenant.decode()}{number}", extras={TENANT: tenant})
    taken = [bob.takes_from("q")[0] for _ in range(12)]
    assert taken.count("a") == 9
    for number in range(2):
        hall.submit(f"c{number}", extras={TENANT: b"c"})
    taken = [bob.takes_from("q")[0] for _ in range(5)]
    assert taken.count("c") == 1


class Counted:
    """How many steps the heaps of a queue took."""

    def __init__(self) -> None:
        self.steps = 0

    def push(self, heap: list[object], item: object) -> None:
        self.steps += 1
        heapq.heappush(heap, item)

    def pop(self, heap: list[object]) -> object:
        self.steps += 1
        return heapq.heappop(heap)


@pytest.mark.plain
def test_a_start_takes_as_many_steps_whatever_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    for keys in (10, 1000):
        core = Scheduler(Limits(), 1, START_US)
        core.ruled_queues.rule(b"q", QueueRules(key_running_max=1))
        hall = Hall()
        hall.core = core
        bob = hall.worker("bob")
        for number in range(keys * 10):
            hall.submit(f"{number}", extras=of_key(str(number % keys)))
        counted = Counted()
        monkeypatch.setattr(fair_lanes, "heappush", counted.push)
        monkeypatch.setattr(fair_lanes, "heappop", counted.pop)
        for _ in range(50):
            lease = core.take(bob.me)
            assert lease is not None
            core.finish(lease, b"")
        core.settle()
        counts.append(counted.steps)
        monkeypatch.undo()
    assert counts[1] <= counts[0] * 1.1


def test_rules_out_of_range_and_names_that_are_too_long_are_refused(hall: Hall) -> None:
    for rules in (
        QueueRules(running_max=-1),
        QueueRules(starts_per_1000s=RATE_MAX + 1),
        QueueRules(burst=0),
        QueueRules(weights={b"a": 0}),
    ):
        with refused(BAD_REQUEST):
            hall.core.ruled_queues.rule(b"q", rules)
    with pytest.raises(Refusal, match="the weight of tenant 'a' must be"):
        hall.core.ruled_queues.rule(b"q", QueueRules(weights={b"a": 0}))
    with refused(TOO_LARGE):
        hall.submit("a", extras=of_key("k" * 5000))
    small = Hall(Limits(queues_max=10))
    rule(small, QueueRules(running_max=1))
    with refused(HALL_FULL):
        rule(small, QueueRules(running_max=1), "other")
    with refused(WRONG_STATE):
        small.core.length_limits.drop(small.core.queues[b"q"])
    rule(small, QueueRules())
    small.core.length_limits.drop(small.core.queues[b"q"])


def test_a_job_is_in_its_place_again_when_rules_change(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = [hall.submit(name, extras=of_key("k")) for name in "abc"]
    rule(hall, QueueRules(key_running_max=1))
    assert [job.in_lane for job in jobs] == [True, False, False]
    rule(hall, QueueRules(key_running_max=2, fair=True))
    assert [job.in_lane for job in jobs] == [True, True, False]
    rule(hall, QueueRules())
    assert [(job.in_lane, job.state) for job in jobs] == [(True, QUEUED)] * 3
    for name in "abc":
        bob.takes(name)


def test_the_audit_finds_a_forgotten_parked_job_and_a_lost_count(hall: Hall) -> None:
    rule(hall, QueueRules(key_running_max=1))
    job = hall.submit("a", extras=of_key("k"))
    limiter = job.queue.limiter
    assert limiter is not None
    limiter.running += 1
    with pytest.raises(BrokenLaw, match="counts its running jobs"):
        hall.core.audit()
    limiter.running -= 1
    entry = limiter.entries.pop(job.id)
    with pytest.raises(BrokenLaw, match="all ready jobs"):
        hall.core.audit()
    limiter.entries[job.id] = entry
    hall.core.cancel(job)
    assert job.state == CANCELLED


def test_rules_set_at_run_time_win_over_the_settings_until_they_are_cleared() -> None:
    disk, hall = Disk(), Hall()
    rule(hall, QueueRules(running_max=1))
    bob = hall.worker("bob", "q", "free")
    ruled = hall.core.ruled_queues
    jobs = [hall.submit(name, terms=BACKGROUND, extras=of_key("k")) for name in "abcd"]
    hall.turn()
    lease = bob.takes("a")
    ruled.set(b"q", QueueRules(key_running_max=2))
    hall.turn()
    assert [job.in_lane for job in jobs[1:]] == [True, False, False]
    bob.takes("b")
    assert bob.takes_from("q") == ""
    ruled.set(b"free", QueueRules(fair=True))
    disk.apply(hall.commit())
    disk.compare(hall.core)
    reborn = Hall()
    reborn.core = Scheduler(Limits(), 1, START_US)
    reborn.core.restore(disk.load())
    rule(reborn, QueueRules(running_max=1))
    assert (reborn.core.ruled_queues.of(b"q"), reborn.core.queues[b"q"].parked) == (
        QueueRules(key_running_max=2),
        2,
    )
    reborn.core.ruled_queues.clear(b"q")
    reborn.core.ruled_queues.clear(b"free")
    reborn.turn()
    assert (reborn.core.ruled_queues.of(b"q"), reborn.core.queues[b"q"].parked) == (
        QueueRules(running_max=1),
        0,
    )
    assert b"free" not in reborn.core.ruled_queues.queues
    disk.apply(reborn.commit())
    assert not disk.rules
    ruled.set(b"q", QueueRules())
    hall.turn()
    bob.takes("c")
    hall.core.finish(lease, b"")
    ruled.clear(b"q")
    hall.turn()
    assert hall.core.queues[b"q"].closed, "two run, and one may"
    hall.core.table.store_trouble = "disk full"
    with refused(STORE_DOWN):
        ruled.set(b"q", QueueRules(running_max=7))


def test_lifted_rules_come_back_only_if_the_hall_has_room_for_their_queue() -> None:
    hall = Hall(Limits(queues_max=2))
    ruled = hall.core.ruled_queues
    rule(hall, QueueRules(running_max=1))
    ruled.set(b"q", QueueRules())
    hall.core.length_limits.drop(hall.core.queues[b"q"])
    bob = hall.worker("bob", "a", "b")
    with refused(HALL_FULL):
        ruled.clear(b"q")
    assert (sorted(hall.core.queues), list(ruled.set_now)) == ([b"a", b"b"], [b"q"])
    hall.core.cant_do(bob.worker, b"a")
    hall.core.length_limits.drop(hall.core.queues[b"a"])
    ruled.clear(b"q")
    assert (ruled.of(b"q"), ruled.set_now) == (QueueRules(running_max=1), {})


def test_a_change_of_rules_that_keeps_the_rate_keeps_the_tokens(hall: Hall) -> None:
    bob = hall.worker("bob")
    ruled = hall.core.ruled_queues
    ruled.set(b"q", QueueRules(starts_per_1000s=1000))
    hall.submit("a")
    hall.submit("b")
    hall.after(SECOND_US)
    ruled.set(b"q", QueueRules(starts_per_1000s=1000, running_max=5))
    bob.takes("a")
    bob.takes_nothing()
    ruled.set(b"q", QueueRules(starts_per_1000s=2000))
    hall.after(SECOND_US // 2 - 1)
    bob.takes_nothing()
    hall.after(1)
    bob.takes("b")


def test_rules_that_were_not_stored_are_stored_with_the_next_commit() -> None:
    disk, hall = Disk(), Hall()
    hall.core.ruled_queues.set(b"q", QueueRules(running_max=1))
    hall.commit_fails()
    disk.apply(hall.commit())
    assert disk.rules == {b"q": QueueRules(running_max=1)}


def test_a_job_that_is_submitted_again_after_its_failure_has_the_key_and_the_tenant_of_that_submit(
    hall: Hall,
) -> None:
    rule(hall, QueueRules(key_running_max=1, fair=True))
    first = {LIMIT_KEY: b"k", TENANT: b"t"}
    for extras in ({TENANT: b"u"}, None):
        job = hall.submit("a", key="a", terms=BACKGROUND, extras=first)
        hall.core.cancel(job)
        hall.core.retries.run_again(job, JobSpec(b"q", b"a", b"a", BACKGROUND, extras=extras), None)
        hall.turn()
        assert (job.extras or {}) == (extras or {})
        hall.core.cancel(job)
        hall.turn()


def test_the_reason_of_a_parked_job_says_whether_jobs_of_its_key_run_or_go_first(hall: Hall) -> None:
    rule(hall, QueueRules(key_running_max=1))
    hall.submit("first", extras=of_key("k"))
    parked = hall.submit("parked", extras=of_key("k"))
    hall.turn()
    assert why(hall.core, parked) == "it is parked by the limit of 1 running for key k; others of it go first"
    hall.worker("bob").takes("first")
    assert why(hall.core, parked) == (
        "it is parked by the limit of 1 running for key k; it goes on when one of them ends"
    )
