"""Who comes to several halls: each connection goes to any of them, and after a loss to any other."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from .actors import Actor
from .owndialect import Lines, line
from .world import MS

if TYPE_CHECKING:
    from .clusterworld import Cluster

QUEUE = "q"


class ClusterActor(Actor):
    """One of them, with one connection at a time."""

    dialect = "own"

    def __init__(self, cluster: Cluster, name: str) -> None:
        town: Any = cluster
        super().__init__(town, name)
        self.cluster = cluster

    def arrived(self) -> None:
        self._lines = Lines()
        self._asked: deque[dict[str, Any]] = deque()

    def ask(self, **request: Any) -> None:
        if self.connection is not None:
            self._asked.append(request)
            self.send(line(**request))

    def listen(self, data: bytes) -> None:
        for told in self._lines.feed(data):
            if "notice" not in told:
                asked = self._asked.popleft()
                if "created" in told and asked["durable"]:
                    self.cluster.laws.acknowledges(asked["payload"], told["created"])
            self.told(told)

    def told(self, told: dict[str, Any]) -> None:
        """The hall has said something."""


class ClusterClient(ClusterActor):
    """Submits durable jobs, and some in memory, until it has submitted enough."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        random = self.world.random
        self.submits = random.randrange(10, 60)
        self.pause_us = random.choice((100 * MS, 500 * MS, 1500 * MS))
        self.durable = random.choice((1.0, 1.0, 0.7))
        self.world.after(random.randrange(50 * MS), self._act)

    def _act(self) -> None:
        if self.retired or not self.submits or self.cluster.calm:
            return
        self.world.after(self.world.random.randrange(self.pause_us), self._act)
        if self.connection is not None:
            self.submits -= 1
            self.act()

    def act(self) -> None:
        self.submit()

    def submit(self) -> None:
        world = self.world
        watched = world.chance(0.6)
        durable = world.chance(self.durable)
        self.ask(
            do="submit",
            queue=QUEUE,
            payload=self.cluster.payload(),
            durable=durable,
            detached=durable or not watched,
            watched=watched,
            losses_max=0,
        )


class ClusterWorker(ClusterActor):
    """Takes jobs, or has them pushed to it, and finishes each after a while."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        random = self.world.random
        self.slots = random.choice((0, 1, 3))
        self.work_us = random.choice((MS, 100 * MS, 3000 * MS))

    def arrived(self) -> None:
        super().arrived()
        self.ask(do="can_do", queue=QUEUE)
        self.ready()

    def ready(self) -> None:
        if self.slots:
            self.ask(do="offer", slots=self.slots)
        else:
            self.ask(do="take")

    def told(self, told: dict[str, Any]) -> None:
        if "assigned" in told:
            self.work(told["assigned"])
        elif told.get("ok") == "take":
            self.ask(do="sleep")
        elif told.get("notice") == "woken":
            self.ask(do="take")

    def work(self, job: dict[str, Any]) -> None:
        connection = self.connection

        def finish() -> None:
            if connection is self.connection and connection is not None:
                self.ask(do="finish", id=job["id"], result=self.cluster.result(job["payload"]))
                self.ready()

        self.world.after(self.world.random.randrange(1 if self.cluster.calm else self.work_us) + 1, finish)


class ClusterPeer(ClusterClient, ClusterWorker):
    """Submits and works on one connection: what it is assigned waits behind what it was promised."""

    def act(self) -> None:
        self.submit()
        if not self.slots:
            self.ask(do="take")
