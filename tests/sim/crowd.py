"""Those who come by ZeroMQ in one run: some of each dialect, or of one; and who helps to drain the hall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from . import dworkactors, pingpongactors, wmpactors
from .dworkactors import DworkConsumer, DworkProducer, DworkSupervisor
from .hostile import ZmqVandal
from .pingpongactors import PingPongClient, PingPongWorker
from .pingpongtap import ClientTap
from .post import Post
from .wmpactors import WmpDevice, WmpWorker
from .wmpmanager import WmpManager
from .world import SECOND, Violation
from .zmqdoors import ZmqDoors

if TYPE_CHECKING:
    from .callers import Caller
    from .scenario import Run

PARTING_S: Final = 5
"""Whatever is still under way when the hall has drained is over after so many seconds."""


class Crowd:
    """All of them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.world = run.world
        self.post = Post(run.world, run.weather)
        self.post.hall = run.hall
        self.doors = ZmqDoors(run.world, self.post, run.town.queues)
        run.hall.doors = self.doors
        self.dialects = self.world.random.choice(
            (("dwork",), ("pingpong",), ("wmp",), ("dwork", "pingpong", "wmp"), ("dwork", "pingpong", "wmp"))
        )
        self.passing: list[Caller] = []
        self.crews: list[WmpWorker] = []
        self.other: WmpManager | None = None

    def come(self) -> None:
        random = self.world.random
        town = self.run.town
        post = self.post
        few = len(self.dialects) > 1
        if "dwork" in self.dialects:
            for number in range(random.choice((1, 1, 2))):
                self.passing.append(DworkProducer(town, post, f"{number}"))
            for number in range(random.choice((1, 2) if few else (1, 2, 3))):
                kind = random.choice(dworkactors.KINDS)
                self.passing.append(DworkConsumer(town, post, f"{number}", kind))
            DworkSupervisor(town, post, "0")
        if "pingpong" in self.dialects:
            for number in range(random.choice((1, 1, 2))):
                self.passing.append(PingPongClient(town, post, f"{number}"))
            for number in range(random.choice((1, 2) if few else (1, 2, 3))):
                kind = random.choice(pingpongactors.KINDS)
                self.passing.append(PingPongWorker(town, post, f"{number}", kind))
        if "wmp" in self.dialects:
            self.other = WmpManager(town, post) if self.world.chance(0.4) else None
            device = WmpDevice(town, post, "0", self.other) if self.world.chance(0.4) else None
            for number in range(random.choice((1, 2) if few else (1, 2, 3))):
                kind = random.choice(wmpactors.KINDS)
                behind = device if self.world.chance(0.5) else None
                queues = self.run.some_queues()
                crew = WmpWorker(town, post, f"{number}", kind, queues, self.other, behind)
                self.passing.append(crew)
                self.crews.append(crew)

        if self.world.chance(0.2):
            self.passing.append(ZmqVandal(town, post, random.choice(("dwork", "wmp"))))

    def calm(self) -> None:
        """Who was there leaves, but for the crews; one honest worker of each dialect helps."""
        town = self.run.town
        post = self.post
        post.calm()
        self.doors.calm(self.run.hall)
        for caller in self.passing:
            if not isinstance(caller, WmpWorker):
                caller.retire()
        if "dwork" in self.dialects:
            DworkConsumer(town, post, "helper", "honest")
        if "pingpong" in self.dialects:
            worker = PingPongWorker(town, post, "helper", "honest")
            # It is not to say PING for a minute only because some job is due then.
            worker.later(2 * SECOND, worker.leave)
        if "wmp" in self.dialects:
            self.crews.append(WmpWorker(town, post, "helper", "honest", town.queues, self.other))

    def part(self) -> None:
        """All is done: nobody has anything left, or waits for anything."""
        for _ in range(PARTING_S):
            self.world.run(self.world.now_us + SECOND)
            if all(crew.free for crew in self.crews):
                break  # A slot is locked until a manager answers, or for a while if none does.
        if self.other is not None:
            self.other.check_idle()
        for crew in self.crews:
            crew.check_free()
        laws = self.run.laws
        for tap in laws.taps.values():
            if not isinstance(tap, ClientTap) or tap.request is None:
                continue
            # A dwork worker may have given it back, to wait for a task that never comes.
            if laws.find_id(tap.request.payload) not in self.run.hall.scheduler.jobs:
                raise Violation("one end", f"c{tap.number} never got an answer")
