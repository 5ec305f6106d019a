"""A queue whose jobs need resources, in some of the worlds: who submits to it, who works for it, and what must
hold for it.

What is used is counted here from the leases and from what the jobs said, not from what a capacity counts.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Final

from hiringhall.core.states import LEASED, QUEUED

from .clients import OwnClient
from .owndialect import line
from .workers import OwnWorker
from .world import MS, Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiringhall.core.jobs import Job
    from hiringhall.core.workers import Worker

    from .actors import Town
    from .hall import Hall

RESOURCES_SEEDS_FROM: Final = 60_000_000
"""Worlds of these seeds have a queue whose jobs need resources. Others are as they were without one."""
QUEUE: Final = b"grid"
HAS: Final = ("cpus=4 gpus=2", "cpus=4", "gpus=1 cpus=2", "cpus=1.5")
ENOUGH: Final = "cpus=4 gpus=2"
"""What a worker has that can do all of them."""
NEEDS: Final = ("cpus=1", "cpus=1", "cpus=0.5", "gpus=1", "gpus=0.5 cpus=1", "cpus=2 gpus=2", "cpus=4")
KINDS: Final = ("honest", "crashing", "silent", "late", "failing", "fickle", "duplicating", "lying", "slow")


@cache
def amounts_of(text: str) -> Mapping[str, Fraction]:
    """An own reading of these texts."""
    return {name: Fraction(amount) for name, _, amount in (part.partition("=") for part in text.split())}


class GridClient(OwnClient):
    """Submits jobs that need resources; some say how long they take."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self._random = self.world.stream(f"resources of {name}")
        self.pause_us = 20 * MS

    def act(self) -> None:
        random = self._random
        for _ in range(random.randrange(1, 4)):
            said = {
                "queue": QUEUE.decode(),
                "payload": self.town.payload().decode(),
                "durable": random.random() < 0.7,
                "detached": True,
                "losses_max": 0,
                "failures_max": 2,
                "backoff_us": 20 * MS,
                "run_us": random.choice((0, 0, 200 * MS)),
                "takes_us": random.choice((0, 0, 50 * MS)),
                "extras": {"resources": random.choice(NEEDS)},
            }
            self.send(line(do="submit", **said))


class GridWorker(OwnWorker):
    """States what it has, and takes several jobs at once."""

    def __init__(self, town: Town, name: str, kind: str, has: str) -> None:
        super().__init__(town, name, kind, [QUEUE])
        self.has = has
        self.slots = self.world.stream(f"slots of {name}").choice((0, 3, 6))

    def _hello(self) -> None:
        self.send(line(do="equip", resources=self.has))
        super()._hello()


class ResourceLaws:
    """What must hold at the end of each turn."""

    queue: Final = QUEUE

    def check(self, hall: Hall) -> None:
        used: dict[Worker, Counter[str]] = {}
        waiting: list[Job] = []
        for job in hall.scheduler.jobs.values():
            if job.queue.name != QUEUE:
                continue
            needs = amounts_of((job.extras or {}).get("resources", b"").decode())
            if job.state == LEASED and job.lease is not None:
                amounts = used.setdefault(job.lease.worker, Counter())
                for name, amount in needs.items():
                    amounts[name] += amount  # type: ignore[assignment] (a Counter of fractions)
            elif job.state == QUEUED:
                waiting.append(job)
        for worker, amounts in used.items():
            if worker.capacity is None:
                raise Violation("resources", f"worker {worker.number} has none, and a job that needs some")
            totals = amounts_of(worker.capacity.text.decode())
            for name, amount in amounts.items():
                if amount > totals.get(name, 0):
                    raise Violation("overbooked", f"worker {worker.number} has {amount} {name} in use")
        self._check_idle(hall, waiting, used)

    def _check_idle(self, hall: Hall, waiting: list[Job], used: dict[Worker, Counter[str]]) -> None:
        """A worker with an empty slot that does nothing at all is not left beside a job that it has all for."""
        queue = hall.scheduler.queues.get(QUEUE)
        if queue is None or queue.unsettled or hall.scheduler.withholding:
            return
        for worker in queue.takers:
            if worker in used or worker.capacity is None:
                continue
            totals = amounts_of(worker.capacity.text.decode())
            for job in waiting:
                needs = amounts_of((job.extras or {}).get("resources", b"").decode())
                if all(amount <= totals.get(name, 0) for name, amount in needs.items()):
                    raise Violation("idle", f"worker {worker.number} is idle, and job {job.id} waits")
