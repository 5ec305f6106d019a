"""A queue with limits, in some of the worlds: who submits to it, and what must hold for it.

What runs, waits and starts is counted here from the jobs themselves, not from what the limiter counts.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from hiringhall.core.residents import OUTSIDE
from hiringhall.core.rules.queue_rules import LIMIT_KEY, TENANT, QueueRules
from hiringhall.core.states import LEASED, QUEUED

from .clients import OwnClient
from .owndialect import line
from .world import MS, Violation

if TYPE_CHECKING:
    from random import Random

    from hiringhall.core.jobs import Job
    from hiringhall.core.scheduler import Scheduler

    from .actors import Town
    from .hall import Hall

LIMITS_SEEDS_FROM: Final = 50_000_000
"""Worlds of these seeds have a queue with limits. Others are as they were before there was one."""
WEIGHTS: Final = {b"large": 4, b"small": 1}
KEYS: Final = ("a", "b")


def some_rules(random: Random) -> QueueRules:
    return random.choice(
        (
            QueueRules(running_max=random.choice((1, 2))),
            QueueRules(starts_per_1000s=random.choice((4_000, 20_000)), burst=random.choice((1, 3))),
            QueueRules(key_running_max=1),
            QueueRules(fair=True, weights=WEIGHTS),
            QueueRules(2, 1, 20_000, 2, fair=True, weights=WEIGHTS),
        )
    )


class LimitedClient(OwnClient):
    """Submits many jobs of few keys and two tenants to the queue with limits."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self._random = self.world.stream(f"limits of {name}")
        self.pause_us = 20 * MS

    def act(self) -> None:
        random = self._random
        for _ in range(random.randrange(1, 6)):
            extras = {LIMIT_KEY: random.choice(KEYS), TENANT: random.choice(("large", "small"))}
            durable = random.random() < 0.7
            said = {
                "queue": self.town.queues[0].decode(),
                "payload": self.town.payload().decode(),
                "durable": durable,
                "detached": True,
                "losses_max": 0,
                "failures_max": 2,
                "backoff_us": 20 * MS,
                "extras": extras,
            }
            self.send(line(do="submit", **said))


class LimitLaws:
    """What is known of the queue with limits since the hall opened."""

    def __init__(self, queue: bytes, rules: QueueRules) -> None:
        self.queue = queue
        self.rules = rules
        self._opened_us = 0
        self._starts: list[int] = []
        """When jobs were given to workers."""
        self._leases: dict[int, None] = {}
        self._settings = rules
        self._promised = rules
        """The rules that are on disk for certain, or those of the settings."""
        self._asked: list[QueueRules] = []
        """Rules that somebody asked for since."""
        self._before: set[int] = set()
        """Jobs that run since before the latest change: they may be too many."""
        self._lease_when_asked = 0
        """The number of the latest lease when rules were asked for last."""
        self._lease_when_changed = 0
        """The same when the rules that hold were asked for: up to that one, others held."""
        self._turns: dict[int, Counter[bytes]] = {}
        """By priority: starts of each tenant while both had jobs waiting."""

    def opened(self, hall: Hall) -> None:
        """The rules of the settings are read at each start of the hall; others are in the store."""
        ruled = hall.scheduler.ruled_queues
        ruled.rule(self.queue, self._settings)
        if ruled.of(self.queue) not in [self._promised, *self._asked]:
            raise Violation(
                "rules", f"{ruled.of(self.queue)} hold after a start, and {self._promised} were set"
            )
        self.rules = self._promised = ruled.of(self.queue)
        self._asked = []
        self._before = set()
        self._lease_when_asked = self._lease_when_changed = 0
        self._opened_us = hall.world.now_us
        self._starts = []
        self._leases = {}
        self._turns = {}

    def asked(self, rules: QueueRules | None, scheduler: Scheduler) -> None:
        """Somebody sets rules, or clears them; perhaps that is refused."""
        self._lease_when_asked = scheduler.leases.last_number
        self._asked.append(self._settings if rules is None else rules)

    def answered(self, rules: QueueRules | None) -> None:
        """They are on disk."""
        promised = self._settings if rules is None else rules
        self._promised = promised
        if promised in self._asked:
            del self._asked[: self._asked.index(promised) + 1]

    def _follow(self, scheduler: Scheduler, now_us: int) -> None:
        """The rules may have changed in this turn. What was counted before does not count."""
        rules = scheduler.ruled_queues.of(self.queue)
        if rules == self.rules:
            return
        if rules not in [self._promised, *self._asked]:
            raise Violation("rules", f"{rules} hold, and nobody asked for them")
        self.rules = rules
        self._lease_when_changed = self._lease_when_asked
        self._before = {job.id for job in scheduler.jobs.values() if job.state == LEASED}
        self._opened_us = now_us
        self._starts = []
        self._turns = {}

    def started(self, job: Job, now_us: int, scheduler: Scheduler) -> None:
        """A worker was given a job, or hired for it."""
        self._follow(scheduler, now_us)
        lease = job.lease
        if job.queue.name != self.queue or lease is None or lease.number in self._leases:
            return
        if lease.worker.name == OUTSIDE or lease.started_us != now_us:
            return
        if lease.number <= self._lease_when_changed:
            return  # earlier in the turn in which the rules changed
        self._leases[lease.number] = None
        self._starts.append(now_us)
        tenant = (job.extras or {}).get(TENANT, b"")
        self._turns.setdefault(job.terms.priority, Counter())[tenant] += 1
        self._check_rate(now_us)

    def _check_rate(self, now_us: int) -> None:
        rate = self.rules.starts_per_1000s
        if not rate:
            return
        for place, since_us in enumerate([self._opened_us, *self._starts]):
            burst = self.rules.burst if place else 0
            count = len(self._starts) - max(place - 1, 0)
            if count > burst + Fraction((now_us - since_us) * rate, 10**9):
                text = f"{count} jobs of {self.queue!r} started in {now_us - since_us} us"
                raise Violation("rate", text)

    def check(self, hall: Hall) -> None:
        """At the end of a turn."""
        self._follow(hall.scheduler, hall.scheduler.now_us)
        late: Counter[bytes] = Counter()
        running: Counter[bytes] = Counter()
        lanes: Counter[tuple[bytes, int, int]] = Counter()
        parked: Counter[tuple[bytes, int, int]] = Counter()
        waiting: dict[int, set[bytes]] = {}
        total = 0
        for job in hall.scheduler.jobs.values():
            if job.queue.name != self.queue:
                continue
            extras = job.extras or {}
            key = extras.get(LIMIT_KEY, b"")
            if job.state == LEASED and job.lease is not None and job.lease.worker.name != OUTSIDE:
                running[key] += 1
                late[key] += job.id not in self._before
                total += 1
            elif job.state == QUEUED:
                (lanes if job.in_lane else parked)[key, job.terms.skill, job.terms.takes_us] += 1
                waiting.setdefault(job.terms.priority, set()).add(extras.get(TENANT, b""))
        if self.rules.running_max and total > self.rules.running_max and late.total():
            raise Violation("running", f"{total} jobs of {self.queue!r} run")
        most = self.rules.key_running_max
        for key, count in running.items():
            if key and most and count > most and late[key]:
                raise Violation("running", f"{count} jobs of key {key!r} run")
        for group in parked:
            if lanes[group] < most - running[group[0]]:
                raise Violation("parked", f"a job of key {group[0]!r} is parked, and may start")
        # Of jobs that are announced, those are hired for that somebody bids for.
        if self.rules.fair and not most and hall.hire_bus is None:
            self._check_turns(waiting)

    def _check_turns(self, waiting: dict[int, set[bytes]]) -> None:
        """While both have jobs that wait, the starts of the tenants go by their weights."""
        for priority in list(self._turns):
            if not waiting.get(priority, set()) >= WEIGHTS.keys():
                del self._turns[priority]
                continue
            starts = self._turns[priority]
            shares = [Fraction(starts[tenant], self.rules.weights.get(tenant, 1)) for tenant in WEIGHTS]
            if max(shares) - min(shares) > 3:
                raise Violation("turns", f"the tenants of {self.queue!r} had {dict(starts)} starts")
