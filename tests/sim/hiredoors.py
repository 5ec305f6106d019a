"""The hire doors of one run, who comes there, and what must hold in a hire_bus at the end of each turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import POLICIES
from hiringhall.core.leases import Engagement
from hiringhall.dialects.hire.bus import BusSession
from hiringhall.dialects.hire.context import HireContext, HireOptions
from hiringhall.dialects.hire.hire_bus import HireBus, Participant
from hiringhall.dialects.hire.session import LineSession

from .hireactors import BusProvider, BusWorker, LineProvider, LineWorker
from .hirebus import Bus
from .hirelings import PROVIDERS, WORKERS
from .hiretap import BusTap, LineTap, Notary, Promise
from .world import MS, SECOND, Violation

if TYPE_CHECKING:
    from hiringhall.dialects.session import Caller

    from .actors import Actor
    from .hall import Hall
    from .hireactors import BusActor
    from .laws import Laws
    from .scenario import Run
    from .world import World


class HireDoors:
    """A door for lines, one for the bus, or both: one hire_bus."""

    def __init__(self, world: World, bus: Bus) -> None:
        random = world.random
        self.bus = bus
        self.kinds = random.choice((("lines",), ("lines",), ("bus",), ("lines", "bus")))
        policy = POLICIES[random.choice(list(POLICIES))]
        window_us = random.choice((1, 20 * MS, 60 * MS))
        self.rules = Rules(
            policy,
            window_us=window_us,
            travel_us=random.choice((0, 10 * MS)),
            buffer_us=random.choice((20 * MS, 150 * MS)),
            answer_us=120 * MS,
            ahead_us=random.choice((0, 200 * MS)),
            perform_us=random.choice((5 * MS, 80 * MS)),
            pause_us=random.choice((50 * MS, 150 * MS)),
            pause_max_us=600 * MS,
            auctions_max=random.choice((1, 3, 1000)),
            coalesce_us=window_us // 4,
        )
        direct = world.chance(0.7)
        compact = world.chance(0.3)
        posting_us = random.choice((300 * MS, 2 * SECOND))
        self.lines = HireOptions(direct=direct, compact=compact, posting_us=posting_us)
        self.air = HireOptions(bus=True, compact=world.chance(0.3), posting_us=posting_us)
        self.id = self.lines.id

    def open(self, hall: Hall) -> None:
        """A boot: nobody is known."""
        hall.turn()
        self._notaries: list[Notary] = []
        self.hire_bus = HireBus(hall.scheduler, self.id)
        if "lines" in self.kinds:
            self._door = HireContext(self.hire_bus, self.lines, self.rules)
            self._notary = Notary(hall.laws, self.rules, self.hire_bus.names)
            self._notaries.append(self._notary)
        if "bus" in self.kinds:
            door = HireContext(self.hire_bus, self.air, self.rules)
            notary = Notary(hall.laws, self.rules, self.hire_bus.names)
            self._notaries.append(notary)
            self.bus.open(
                lambda caller: BusSession(caller, door),
                lambda number, session: BusTap(number, session, hall.laws, notary),
            )

    def connect(self, caller: Caller, number: int, laws: Laws) -> tuple[LineSession, LineTap]:
        session = LineSession(caller, self._door)
        return session, LineTap(number, session, laws, self._notary, direct=self.lines.direct)

    def check(self, hall: Hall) -> None:
        """Nobody works for a provider who is gone; nobody begins unasked."""
        for notary in self._notaries:
            notary.check()
        participants = self.hire_bus.participants
        for worker in hall.scheduler.workers:
            if worker.promise is not None and (worker.asleep or worker.credit):
                raise Violation(
                    "promise", f"worker {worker.number} waits, and is not given what it was promised"
                )
            for lease in (worker.promise, *worker.leases.values()):
                if not isinstance(lease, Engagement):
                    continue
                sight = hall.laws.sights.get(lease.job.id)
                known = sight.holding if sight is not None else None
                unasked = isinstance(known, Promise) and not known.begun and not known.doubtful
                if unasked and not lease.promised:
                    raise Violation("stage", f"job {lease.job.id} is performed, and nobody was told to")
                provider = lease.provider
                if provider is not None:
                    hall.laws.foreign[lease.job.id] = None
                if isinstance(provider, Participant) and participants.get(provider.uuid) is not provider:
                    raise Violation("orphan", f"job {lease.job.id} is done for somebody who is gone")


class Participants:
    """All who come to the hire doors."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.world = run.world
        self.bus = Bus(run.world, run.weather, run.hall)
        self.doors = HireDoors(run.world, self.bus)
        run.hall.hire_bus = self.doors
        self._actors: list[Actor | BusActor] = []

    def come(self) -> None:
        random = self.world.random
        town = self.run.town
        bus = self.bus
        lines, air = ("lines" in self.doors.kinds, "bus" in self.doors.kinds)
        for number in range(random.choice((1, 2, 2))):
            kind, queues, name = random.choice(WORKERS), self.run.some_queues(), f"hireling {number}"
            if lines and (not air or self.world.chance(0.5)):
                self._actors.append(LineWorker(town, name, kind, queues))
            else:
                self._actors.append(BusWorker(town, bus, name, kind, queues))
        for number in range(random.choice((0, 1, 1))):
            kind, name = random.choice(PROVIDERS), f"founder {number}"
            if lines and (not air or self.world.chance(0.5)):
                self._actors.append(LineProvider(town, name, kind, self.doors.id))
            else:
                self._actors.append(BusProvider(town, bus, name, kind, self.doors.id))

    def calm(self) -> None:
        self.bus.calm()
        for actor in self._actors:
            actor.retire()

    def part(self) -> None:
        """All is done: nobody is reserved for anything, and nothing is announced."""
        scheduler = self.run.hall.scheduler
        for worker in scheduler.workers:
            if worker.promise is not None:
                raise Violation("reserved", f"worker {worker.number} is still to do something")
        for auction in scheduler.auctions.by_job.values():
            raise Violation("auction", f"job {auction.job.id} has ended and is announced")
        for queue in scheduler.queues.values():
            if queue.listing is not None and (queue.listing.counts or queue.listing.resting):
                raise Violation("auction", f"{queue.name!r} takes some for announced, and none are left")
