"""A seed becomes a world. First come faults, and nothing may go wrong; then calm, and all must end well."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BrokenLaw
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE, HELD
from hiringhall.core.terms import FAIL_WITH_PARENT
from hiringhall.dialects.gearman.session import GearmanOptions

from . import beanactors, draftactors, handlaws, nativeactors, resourcelaws, startlaws
from .actors import Town
from .beanactors import BeanProducer, BeanVandal, BeanWorker
from .clients import GearmanClient, OwnClient
from .crowd import Crowd
from .disk import Disk
from .draftactors import DraftClerk, DraftPoller, DraftWaiter, DraftWorker
from .flowplayers import FLOW_SEEDS_FROM, FlowPlayer
from .gearmantap import HANDLE_PREFIX
from .hall import Hall
from .hiredoors import Participants
from .hostile import DraftVandal, Vandal
from .laws import Laws
from .limitlaws import LIMITS_SEEDS_FROM, LimitedClient, LimitLaws, some_rules
from .nativeactors import NativeClient, NativePauser, NativeVandal, NativeWorker
from .network import Weather
from .overseers import OVERSEEN_SEEDS_FROM, Drainer, Overseer, Retrier
from .pausers import PAUSING_SEEDS_FROM, Pauser
from .resourcelaws import RESOURCES_SEEDS_FROM, GridClient, GridWorker, ResourceLaws
from .spacers import Ruler, SpacedWorker, Spacer, SpacingLaws
from .workers import KINDS, GearmanWorker, OwnWorker
from .world import MS, SECOND, Violation, World

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

    from .actors import Actor

QUEUES_ENOUGH: Final = 12
"""With fewer, queues that nobody uses are dropped to make room for others."""
CALM_US: Final = 80 * SECOND
"""Everything has drained so long after the last fault, or never will."""
ZMQ_SEEDS: Final = (1, 3)
"""Which of each five seeds have ZeroMQ doors."""
DRAFT_SEED: Final = 2
"""Which of each five seeds has those who speak Gearman's draft."""
HIRE_SEEDS: Final = (0, 4)
"""Which of each five seeds have hire doors."""
NATIVE_FIVES: Final = (2, 6)
"""In which of each eight fives of seeds there are those who speak the native protocol."""
BEAN_FIVES: Final = (5, 6)
"""In which of them there are those who speak that of beanstalkd."""


class Run:
    """One run of one seed."""

    def __init__(self, seed: int, *, audited: bool = True) -> None:
        self.world = World(seed)
        world = self.world
        random = world.random
        options = GearmanOptions(
            handle_prefix=HANDLE_PREFIX.removesuffix(b":"),
            lease_us=random.choice((0, 150 * MS, 500 * MS)),
            losses_max=random.choice((1, 2, 3, 5)),
            failures_max=random.choice((0, 0, 1, 3)),
            backoff_us=random.choice((1, 50 * MS, 300 * MS)),
            round_robin=world.chance(0.2),
            overruns_requeued=seed % 3 == 0,
            timeout_unit_us=200 * MS,
        )
        self.drafts = seed % 5 == DRAFT_SEED
        if self.drafts:
            expire_us = random.choice((0, 0, 100 * MS, SECOND))
            options = replace(options, expire_us=expire_us, log_all=world.chance(0.5))
        limits = Limits(
            jobs_max=random.choice((8, 60, 60)),
            queues_max=random.choice((3, QUEUES_ENOUGH, QUEUES_ENOUGH)),
            parents_max=2,
            watchers_max=random.choice((2, 20)),
            abilities_max=QUEUES_ENOUGH,
            ended_max=random.choice((3, 30)),
            wake_us=random.choice((50 * MS, 300 * MS)),
            reserve_after_us=100 * MS,
        )
        self.laws = Laws(world, options, audited=audited)
        self.weather = Weather(world)
        self.disk = Disk(world, self.laws)
        self.hall = Hall(world, self.weather, self.disk, self.laws, limits, options)
        self.town = Town(world, self.hall)
        self.town.queues = [b"q%d" % number for number in range(random.choice((1, 1, 2, 3)))]
        self.town.strays = [b"s%d" % number for number in range(random.choice((0, 0, 4)))]
        self.town.keys = [b"k%d" % number for number in range(random.choice((1, 2, 4)))]
        self.grid = seed >= RESOURCES_SEEDS_FROM
        """It has jobs that need resources."""
        if self.grid:
            self.laws.resources = ResourceLaws()
            # Whether a worker of it must be woken depends on what is free, which has laws of its own.
            self.laws.pauses.pausing(ResourceLaws.queue, 0)
        elif seed >= LIMITS_SEEDS_FROM:
            self.laws.limits = LimitLaws(self.town.queues[0], some_rules(world.stream("limits")))
            # Whether a worker of it must be woken depends on the limits, which have laws of their own.
            self.laws.pauses.pausing(self.town.queues[0], 0)
        self.passing: list[Actor] = []
        """Who leaves when the faults stop."""
        self.clerks: list[DraftClerk] = []
        """Who tells of tasks that run elsewhere."""
        self.crowd = Crowd(self) if seed % 5 in ZMQ_SEEDS else None
        """Those who come by ZeroMQ, in some of the worlds."""
        self.participants = Participants(self) if seed % 5 in HIRE_SEEDS else None
        """Those who are hired, in some others."""
        self.pauser: Pauser | None = None
        """Who pauses queues, in some of the worlds."""
        self.overseers: list[Overseer] = []
        """Who drains workers and retries dead letters, in some of them."""
        self.natives = speaks_natively(seed)
        self.beans = speaks_of_beans(seed)
        self.laws.bean_durable = world.stream("beans").random() < 0.7
        self._people()

    def _people(self) -> None:
        random = self.world.random
        town = self.town
        for number in range(random.choice((0, 1, 2, 2))):
            GearmanClient(town, f"client {number}")
        for number in range(random.choice((0, 1, 1, 2))):
            OwnClient(town, f"own client {number}")
        for number in range(random.choice((1, 2, 3, 4))):
            worker = GearmanWorker(town, f"worker {number}", random.choice(KINDS), self.some_queues())
            self.passing.append(worker)
        for number in range(random.choice((0, 1, 1, 2))):
            own = OwnWorker(town, f"own worker {number}", random.choice(KINDS), self.some_queues())
            self.passing.append(own)
        if self.world.chance(0.1):
            self.passing.append(Vandal(town, "0"))
        if self.crowd is not None:
            self.crowd.come()
        if self.participants is not None:
            self.participants.come()
        if self.drafts:
            self._draft_people()
        if self.natives:
            self._native_people()
        if self.beans:
            self._bean_people()
        if self.grid:
            self._grid_people()
        elif self.world.seed >= LIMITS_SEEDS_FROM:
            LimitedClient(town, "limited client 0")
            LimitedClient(town, "limited client 1")
            self.laws.spacing = SpacingLaws()
            Spacer(town, "spacer 0")
            Spacer(town, "spacer 1")
            SpacedWorker(town, "spaced worker")
            Ruler(town, "ruler")
        elif self.world.seed >= OVERSEEN_SEEDS_FROM:
            if self.natives:
                self.overseers = [Drainer(town, "drainer"), Retrier(town, "retrier")]
        elif self.world.seed >= FLOW_SEEDS_FROM:
            if self.natives:
                FlowPlayer(town, "flow player")
        elif self.world.seed >= PAUSING_SEEDS_FROM:
            self.pauser = NativePauser(town, "pauser") if self.natives else Pauser(town, "pauser")

    def _grid_people(self) -> None:
        random = self.world.stream("grid")
        for number in range(2):
            GridClient(self.town, f"grid client {number}")
        for number in range(random.choice((1, 2, 3))):
            kind = random.choice(resourcelaws.KINDS)
            has = random.choice(resourcelaws.HAS)
            self.passing.append(GridWorker(self.town, f"grid worker {number}", kind, has))

    def _draft_people(self) -> None:
        random = self.world.random
        town = self.town
        for number in range(random.choice((1, 1, 2))):
            DraftWaiter(town, f"{number}")
        for number in range(random.choice((1, 1, 2))):
            DraftPoller(town, f"{number}")
        if self.world.chance(0.4):
            self.clerks.append(DraftClerk(town, "0"))
        for number in range(random.choice((1, 2, 3))):
            kind = random.choice(draftactors.KINDS)
            self.passing.append(DraftWorker(town, f"{number}", kind, self.some_queues()))
        if self.world.chance(0.2):
            self.passing.append(DraftVandal(town, "of the draft"))

    def _native_people(self) -> None:
        random = self.world.random
        town = self.town
        NativeClient(town, "0")
        for number in range(random.choice((1, 1, 2))):
            kind = random.choice(nativeactors.KINDS)
            self.passing.append(NativeWorker(town, f"{number}", kind, self.some_queues()))
        if self.world.chance(0.2):
            self.passing.append(NativeVandal(town, "of the native protocol"))

    def _bean_people(self) -> None:
        random = self.world.random
        town = self.town
        BeanProducer(town, "0")
        for number in range(random.choice((1, 1, 2))):
            kind = random.choice(beanactors.KINDS)
            self.passing.append(BeanWorker(town, f"{number}", kind, self.some_queues()))
        if self.world.chance(0.2):
            self.passing.append(BeanVandal(town, "of beans"))

    def some_queues(self) -> list[bytes]:
        queues = self.town.queues
        return self.world.random.sample(queues, self.world.random.randrange(1, len(queues) + 1))

    def play(self) -> None:
        """Both phases. Raises Violation at the first law that does not hold."""
        try:
            self._play()
        except BrokenLaw as broken:
            raise Violation("invariant", str(broken)) from broken

    def _play(self) -> None:
        world = self.world
        self.hall.open()
        for _ in range(world.random.choice((0, 0, 1, 2))):
            world.after(world.random.randrange(2 * SECOND), self.hall.crash)
        world.run(world.now_us + world.random.randrange(SECOND, 4 * SECOND))
        world.note("calm")
        self._calm()
        if self.crowd is not None or self.drafts:
            world.run(world.now_us + SECOND)  # what stalled on its way comes now
        for clerk in self.clerks:
            clerk.calm()
        deadline_us = world.now_us + CALM_US
        while world.now_us < deadline_us and not self._drained():
            world.run(world.now_us + 200 * MS)
        if self.crowd is not None:
            self.crowd.part()
        if self.participants is not None:
            self.participants.part()
        self._finish()

    def _calm(self) -> None:
        self.town.calm = True
        self.weather.calm()
        self.disk.calm()
        for actor in self.passing:
            actor.retire()
        if self.crowd is not None:
            self.crowd.calm()
        if self.participants is not None:
            self.participants.calm()
        queues = self.town.queues + self.town.strays
        for number in range(2):
            GearmanWorker(self.town, f"helper {number}", "honest", queues)
        OwnWorker(self.town, "own helper", "honest", queues)
        if self.grid:
            for number in range(2):
                GridWorker(self.town, f"grid helper {number}", "honest", resourcelaws.ENOUGH)
        if self.drafts:
            DraftWorker(self.town, "helper", "honest", queues)
        if self.natives:
            NativeWorker(self.town, "helper", "honest", queues)
        if self.beans:
            BeanWorker(self.town, "helper", "honest", queues)

    def _drained(self) -> bool:
        hall = self.hall
        return (
            hall.up
            and not hall.turning
            and not hall.engine.busy
            and not hall.engine.has_coalesced
            and not hall.engine.asking
            and not hall.scheduler.store_trouble
            and (self.pauser is None or self.pauser.done)
            and all(overseer.done for overseer in self.overseers)
            and not any(tap.unanswered for tap in self.laws.taps.values())
            and all(job.state == HELD for job in hall.scheduler.jobs.values())
        )

    def _finish(self) -> None:
        """Nothing is left but what waits for a parent that never comes, and everybody has been told."""
        hall = self.hall
        if not hall.up:
            raise Violation("drain", "the hall is not open")
        if hall.engine.busy or hall.engine.asking or hall.scheduler.store_trouble:
            raise Violation("drain", "the store has not come to rest")
        laws = self.laws
        for job in hall.scheduler.jobs.values():
            if job.state != HELD or not self._waits(job):
                raise Violation("drain", f"job {job.id} is left in state {job.state}")
            for ref, parent in (job.parents or {}).items():
                if parent is None and startlaws.done_in_history(laws, ref):
                    raise Violation("history", f"job {job.id} waits for {ref}, which the history knows as done")
        self.laws.mirror.agrees_with_store(self.disk.store)
        self.laws.mirror.agrees_with_hall(hall.scheduler)
        for sight in self.laws.sights.values():
            if (
                sight.promised
                and sight.id not in hall.scheduler.jobs
                and sight.id not in self.laws.mirror.history
            ):
                raise Violation("missing", f"job {sight.id} was acknowledged and is nowhere")
        for tap in self.laws.taps.values():
            handlaws.answered_all(tap)
            for job_id, count in tap.watches.items():
                if count and job_id not in hall.scheduler.jobs and job_id not in tap.unwatched:
                    raise Violation("one end", f"c{tap.number} never heard the end of {job_id}")

    def _waits(self, job: Job) -> bool:
        """Some parent has not succeeded, and the job is not one that should have failed with it."""
        laws = self.laws
        sight = laws.sights.get(job.id)
        if sight is None or sight.submit is None:
            return True
        unmet = 0
        for ref in sight.parents:
            row = laws.mirror.history.get(ref) if isinstance(ref, int) else None
            if row is not None and row.state != DONE and sight.submit.on_parent_failure == FAIL_WITH_PARENT:
                if sight.retried:
                    continue  # it lives again, and waits for what it was given since
                return False
            unmet += startlaws.maybe_unmet(laws, ref, sight.id)
        for ref, order in sight.tangled.items():
            unmet += not startlaws.met_since(laws, ref, order)
        return unmet > 0

    @property
    def turns(self) -> int:
        return self.hall.turns

    @property
    def jobs(self) -> int:
        return self.laws.jobs_seen

    def digest(self) -> str:
        return sha256("\n".join(self.world.log).encode()).hexdigest()


def speaks_natively(seed: int) -> bool:
    """Its world has those who speak the native protocol."""
    return seed // 5 % 8 in NATIVE_FIVES


def speaks_of_beans(seed: int) -> bool:
    """Its world has those who speak the protocol of beanstalkd."""
    return seed // 5 % 8 in BEAN_FIVES
