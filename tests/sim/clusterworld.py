"""One fenced database, two or three halls, and who comes to them. First faults, then calm: all must end well.

In each world some kinds of faults happen, and others do not, so that it is known what they may lead to: where
only the database is away now and then, nobody takes over.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BrokenLaw
from hiringhall.core.limits import Limits

from .clusteractors import ClusterClient, ClusterPeer, ClusterWorker
from .clusterdatabase import FencedDatabase
from .clusterlaws import ClusterLaws
from .clusterlink import LinkWeather
from .clustermember import Member
from .network import Weather
from .world import MS, SECOND, Violation, World

if TYPE_CHECKING:
    from typing import Any

    from .network import Connection

CLUSTER_SEEDS_FROM: Final = 1_000_000_000
"""From this seed on, a world has several halls."""
RATES: Final = ((1.0, 1.0, 1.0), (0.8, 1.0, 0.9), (1.0, 0.76, 1.0), (1.05, 0.9, 0.8))
"""How fast the clocks of members run: none is more than a quarter slower than another."""
KINDS: Final = ("all", "all", "away", "stopped", "cut", "dying")
"""Which faults a world has."""
CALM_US: Final = 90 * SECOND


class Cluster:
    """What everybody in one run shares."""

    def __init__(self, seed: int, *, audited: bool = True) -> None:
        self.world = World(seed)
        world = self.world
        random = world.random
        self.audited = audited
        self.kind = random.choice(KINDS)
        self.limits = Limits(wake_us=300 * MS)
        self.laws = ClusterLaws(world)
        self.laws.only_away = self.kind == "away"
        self.database = FencedDatabase(world, self.laws)
        self.laws.database = self.database
        self.weather = Weather(world)
        self.link_weather = LinkWeather(world, faulty=self.kind in ("all", "cut"))
        self.turn_us_max = random.choice((1, 300, 4 * MS))
        rates = random.choice(RATES)
        names = ("ann", "bob", "cid")[: random.choice((2, 2, 3))]
        self.members = [Member(self, name, rate) for name, rate in zip(names, rates, strict=False)]
        self.laws.members = {member.name: member for member in self.members}
        self.calm = False
        self._last_number = 0
        self._last_result = 0

    @property
    def hall(self) -> Cluster:
        """Where actors connect."""
        return self

    def connect(self, actor: Any) -> Connection | None:
        return self.world.random.choice(self.members).connect(actor)

    def find_member(self, name: str) -> Member | None:
        return self.laws.members.get(name)

    def next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def payload(self) -> str:
        """Text that no other job has."""
        self.laws.jobs_seen += 1
        return f"t{self.laws.jobs_seen}"

    def result(self, payload: str) -> str:
        """Text that no other report has, and that says for which job it was made."""
        self._last_result += 1
        return f"r{self._last_result} of {payload}"


class ClusterRun:
    """One run of one seed."""

    def __init__(self, seed: int, *, audited: bool = True) -> None:
        self.cluster = Cluster(seed, audited=audited)
        self.world = self.cluster.world

    @property
    def turns(self) -> int:
        return sum(member.turns for member in self.cluster.members)

    @property
    def jobs(self) -> int:
        return self.cluster.laws.jobs_seen

    def digest(self) -> str:
        return sha256("\n".join(self.world.log).encode()).hexdigest()

    def play(self) -> None:
        """Both phases. Raises Violation at the first law that does not hold."""
        try:
            self._play()
        except BrokenLaw as broken:
            raise Violation("invariant", str(broken)) from broken

    def _play(self) -> None:
        world, cluster = self.world, self.cluster
        random = world.random
        world.note(f"{len(cluster.members)} members, faults: {cluster.kind}")
        for member in cluster.members:
            world.after(random.randrange(SECOND), member.start)
        workers = [ClusterWorker(cluster, f"worker {number}") for number in range(random.choice((1, 2, 3)))]
        for number in range(random.choice((1, 1, 2))):
            ClusterClient(cluster, f"client {number}")
        peer = ClusterPeer(cluster, "peer") if world.chance(0.5) else None
        faults_us = random.randrange(8 * SECOND, 30 * SECOND)
        for _ in range(random.choice((1, 2, 4))):
            world.after(random.randrange(SECOND, faults_us), self._fault)
        world.run(world.now_us + faults_us)
        self._calm()
        for actor in (*workers, peer):
            if actor is not None and (actor is peer or world.chance(0.5)):
                actor.retire()
        helpers = [ClusterWorker(cluster, f"helper {number}") for number in range(2)]
        for helper in helpers:
            helper.work_us = 1
        deadline_us = world.now_us + CALM_US
        while world.now_us < deadline_us and not self._drained():
            world.run(world.now_us + 500 * MS)
        self._finish()

    def _fault(self) -> None:
        """Something happens to a member, or to the database."""
        world, cluster = self.world, self.cluster
        random = world.random
        member = random.choice(cluster.members)
        kind = random.choice(KINDS[2:]) if cluster.kind == "all" else cluster.kind
        last_us = random.choice((300 * MS, 2 * SECOND, 5 * SECOND, 12 * SECOND))
        last_us = random.randrange(last_us) + 1
        member.clock.wall_offset_us += random.choice((0, -3 * SECOND, 3 * SECOND))
        if random.random() < 0.1 and cluster.kind != "away":
            cluster.database.ask_for(random.choice(("", member.name)))
        elif kind == "away":
            world.note(f"the database is away for {last_us} us")
            cluster.database.away_until_us = world.now_us + last_us
        elif kind == "stopped":
            member.stop()
            world.after(last_us, member.go_on)
        elif kind == "cut":
            world.note(f"{member.name} is cut off for {last_us} us")
            member.cut_off = True
            world.after(last_us, lambda: self._reach(member))
        else:
            member.crash()

    def _reach(self, member: Member) -> None:
        member.cut_off = False

    def _calm(self) -> None:
        cluster = self.cluster
        self.world.note("calm")
        cluster.calm = True
        cluster.weather.calm()
        cluster.link_weather.calm()
        cluster.database.away_until_us = 0
        for member in cluster.members:
            member.cut_off = False
            member.go_on()

    def _drained(self) -> bool:
        return self._active() is not None and not self.cluster.laws.live

    def _active(self) -> Member | None:
        """The one active hall, if all others stand by and nothing is under way."""
        cluster = self.cluster
        active = [member for member in cluster.members if member.role == "active"]
        standing_by = [member for member in cluster.members if member.role == "standby"]
        if len(active) != 1 or len(standing_by) != len(cluster.members) - 1:
            return None
        engine = active[0].engine
        assert engine is not None
        busy = engine.busy or engine.in_doubt or engine.scheduler.store_trouble or engine.scheduler.jobs
        followed = all(
            member.following is not None and member.following.address == active[0].name
            for member in standing_by
        )
        return None if busy or not followed else active[0]

    def _finish(self) -> None:
        cluster = self.cluster
        active = self._active()
        if active is None:
            roles = {member.name: member.role for member in cluster.members}
            raise Violation("drain", f"the members have not come to rest: {roles}")
        if active.incarnation != cluster.laws.active:
            raise Violation("active", f"{active.name} serves as {active.incarnation}, which is not active")
        cluster.laws.finish()
