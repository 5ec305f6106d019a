"""How well jobs are packed: ten thousand random jobs, or a fifth of them, on twenty random workers, in the time
of the core, against a list schedule that knows all jobs beforehand; and how long a large job waits beside a
stream of small ones.
"""

from __future__ import annotations

import os
from collections import deque
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.peer import Peer
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker

SECOND_US = 1_000_000
NAMES = ("cpus", "gpus", "mem")
PATIENCE_US = 5 * SECOND_US
LONGEST = 20
JOBS = 2_000 if os.environ.get("EXAMPLES") == "few" else 10_000


class Task(NamedTuple):
    needs: tuple[int, int, int]
    seconds: int


class Hand(Peer):
    def __init__(self, shop: Shop, totals: tuple[int, int, int]) -> None:
        super().__init__()
        self.shop = shop
        self.totals = totals
        self.used = (0, 0, 0)

    def assigned(self, lease: Lease) -> None:
        self.shop.started(self, lease)

    @property
    def me(self) -> Worker:
        return self.shop.core.worker(self)


class Shop:
    """A hall in virtual time: jobs take as long as their payloads say."""

    def __init__(self, machines: list[tuple[int, int, int]], reserve_after_us: int = PATIENCE_US) -> None:
        self.core = Scheduler(Limits(reserve_after_us=reserve_after_us), 1, SECOND_US)
        self.ends: list[tuple[int, int, Lease]] = []
        self.waits_us: dict[bytes, int] = {}
        self.overbooked = 0
        for totals in machines:
            hand = Hand(self, totals)
            self.core.resources.equip(hand.me, text_of(totals))
            self.core.can_do(hand.me, b"q")
            self.core.offer(hand.me, 10_000)

    def submit(self, task: Task, payload: bytes, *, states_time: bool) -> None:
        terms = Terms(detached=True, takes_us=task.seconds * SECOND_US if states_time else 0)
        extras = {"resources": text_of(task.needs)}
        self.core.submit(JobSpec(b"q", payload + b" %d" % task.seconds, terms=terms, extras=extras), None)

    def started(self, hand: Hand, lease: Lease) -> None:
        job = lease.job
        hand.used = add(hand.used, needs_of(lease), 1)
        self.overbooked += any(used > total for used, total in zip(hand.used, hand.totals, strict=True))
        name, _, seconds = job.payload.rpartition(b" ")
        self.waits_us[name] = self.core.now_us - job.created_us
        heappush(self.ends, (self.core.now_us + int(seconds) * SECOND_US, lease.number, lease))

    def end_next(self) -> None:
        now_us, _, lease = heappop(self.ends)
        self.at(now_us)
        hand = lease.worker.peer
        assert isinstance(hand, Hand)
        hand.used = add(hand.used, needs_of(lease), -1)
        self.core.finish(lease, b"")
        self.core.settle()

    def at(self, now_us: int) -> None:
        """It is so late: what is due until then happens first."""
        while 0 < self.core.next_deadline() < now_us:
            self.core.advance(self.core.next_deadline())
            self.core.settle()
        self.core.advance(now_us)
        self.core.settle()


def text_of(amounts: tuple[int, int, int]) -> bytes:
    return " ".join(f"{name}={amount}" for name, amount in zip(NAMES, amounts, strict=True) if amount).encode()


def needs_of(lease: Lease) -> tuple[int, int, int]:
    needs = {name.decode(): amount // 1000 for name, amount in lease.job.terms.resources}
    return needs.get("cpus", 0), needs.get("gpus", 0), needs.get("mem", 0)


def add(one: tuple[int, ...], other: tuple[int, ...], sign: int) -> tuple[int, int, int]:
    first, second, third = (a + sign * b for a, b in zip(one, other, strict=True))
    return first, second, third


def some_machines(random: Random) -> list[tuple[int, int, int]]:
    sizes = [8, 16, 16, 32, 64]
    return [(cpus := random.choice(sizes), random.choice((0, 0, 2, 4)), cpus * 4) for _ in range(20)]


def some_tasks(random: Random, machines: list[tuple[int, int, int]]) -> list[Task]:
    """Each fits some machine; sometimes one needs a whole one."""
    tasks: list[Task] = []
    while len(tasks) < JOBS:
        cpus = random.choice((1, 1, 1, 2, 2, 4, 8, 16))
        needs = (cpus, random.choice((0, 0, 0, 0, 0, 1, 2)), random.choice((2, 4)) * cpus)
        if random.random() < 0.002:
            needs = random.choice(machines)
        if any(all(n <= t for n, t in zip(needs, totals, strict=True)) for totals in machines):
            tasks.append(Task(needs, random.choice((1, 5, 20, 60))))
    return tasks


def offline_us(machines: list[tuple[int, int, int]], tasks: list[Task]) -> int:
    """The end of a list schedule that knows all jobs: the longest and largest first, each on the machine where
    it leaves the least.
    """
    scales = [max(totals[number] for totals in machines) or 1 for number in range(3)]

    def size(needs: tuple[int, ...]) -> float:
        return sum(need / scale for need, scale in zip(needs, scales, strict=True))

    shapes: dict[tuple[tuple[int, int, int], int], deque[Task]] = {}
    for task in tasks:
        shapes.setdefault((task.needs, task.seconds), deque()).append(task)
    order = sorted(shapes, key=lambda shape: size(shape[0]) * shape[1], reverse=True)
    free = list(machines)
    ends: list[tuple[int, int, tuple[int, int, int]]] = []
    now = 0
    while ends or any(shapes.values()):
        for shape in order:
            needs, seconds = shape
            while shapes[shape]:
                fitting = [
                    (size(left) - size(needs), number)
                    for number, left in enumerate(free)
                    if needs[0] <= left[0] and needs[1] <= left[1] and needs[2] <= left[2]
                ]
                if not fitting:
                    break
                shapes[shape].pop()
                _, number = min(fitting)
                free[number] = add(free[number], needs, -1)
                heappush(ends, (now + seconds, number, needs))
        order = [shape for shape in order if shapes[shape]]
        now = ends[0][0]
        while ends and ends[0][0] == now:
            _, number, needs = heappop(ends)
            free[number] = add(free[number], needs, 1)
    return now * SECOND_US


def test_thousands_of_random_jobs_end_within_a_tenth_of_an_offline_packing() -> None:
    """Every second job states how long it takes."""
    random = Random(1)
    machines = some_machines(random)
    tasks = some_tasks(random, machines)
    shop = Shop(machines)
    begun_us = shop.core.now_us
    for number, task in enumerate(tasks):
        shop.submit(task, b"%d" % number, states_time=number % 2 == 0)
    shop.core.settle()
    done = 0
    while shop.ends:
        shop.end_next()
        done += 1
        if not done % 1000:
            shop.core.audit()
    assert done == len(tasks)
    assert shop.overbooked == 0
    took_us = shop.core.now_us - begun_us
    best_us = offline_us(machines, tasks)
    assert took_us <= best_us * 1.1


def _longest_wait_us(reserve_after_us: int, *, states_time: bool) -> int:
    """Of jobs that need a whole worker, beside a stream of small ones."""
    random = Random(7)
    shop = Shop([(8, 0, 0)] * 4, reserve_after_us)
    submitted = whole = 0
    now_us = begun_us = shop.core.now_us
    while now_us < begun_us + 400 * SECOND_US:
        now_us += SECOND_US
        while shop.ends and shop.ends[0][0] <= now_us:
            shop.end_next()
        # Nearly as many as the workers can do: there is always one that fits.
        for _ in range(3 if now_us // SECOND_US % 2 else 2):
            submitted += 1
            shop.submit(Task((1, 0, 0), random.randrange(1, LONGEST)), b"small", states_time=states_time)
        if not submitted % 50:
            whole += 1
            shop.submit(Task((8, 0, 0), 5), b"whole %d" % whole, states_time=states_time)
        shop.at(now_us)
    shop.core.audit()
    assert whole > 10
    return max(shop.waits_us.get(b"whole %d" % number, 1 << 60) for number in range(1, whole))


@pytest.mark.parametrize("states_time", [True, False])
def test_a_job_that_needs_a_whole_worker_starts_within_the_stated_bound(*, states_time: bool) -> None:
    """The patience, and the longest of the small jobs that its worker had then."""
    wait_us = _longest_wait_us(PATIENCE_US, states_time=states_time)
    assert wait_us <= PATIENCE_US + LONGEST * SECOND_US
    assert _longest_wait_us(1 << 60, states_time=states_time) > 2 * (PATIENCE_US + LONGEST * SECOND_US)
