"""The process: it takes turns, dies, and opens again on what the store holds.

It stands where the event loop stands in a served hall: arrivals of one moment are one turn, one timer waits for
the earliest deadline, the writer answers inside a turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BrokenLaw
from hiringhall.dialects.beanstalkd.context import BeanstalkdContext, BeanstalkdOptions
from hiringhall.dialects.beanstalkd.session import BeanstalkdSession
from hiringhall.dialects.gearman.session import GearmanContext, GearmanSession, ProcessInfo
from hiringhall.dialects.gearman_draft.context import DraftContext
from hiringhall.dialects.gearman_draft.session import DraftSession
from hiringhall.dialects.native.context import NativeContext, NativeOptions
from hiringhall.dialects.native.services import HallServices
from hiringhall.dialects.native.session import NativeSession
from hiringhall.dialects.session import Caller
from hiringhall.engine.recovery import open_scheduler
from hiringhall.engine.turn import Engine

from . import retrylaws
from .beantap import BeanDeafTap, BeanTap
from .drafttap import DraftTap, draft_options
from .gearmantap import GearmanTap
from .nativetap import NativeTap
from .network import Connection, Socket
from .owndialect import OwnSession
from .owntap import OwnTap
from .spacers import SpacedTap
from .taps import DeafTap
from .world import MS, Violation

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow, HistoryPage, OutputPage
    from hiringhall.core.limits import Limits
    from hiringhall.dialects.gearman.session import GearmanOptions
    from hiringhall.dialects.session import Session

    from .actors import Actor
    from .disk import Disk
    from .hiredoors import HireDoors
    from .laws import Laws
    from .network import Weather
    from .router import Router
    from .taps import Tap
    from .world import World
    from .zmqdoors import ZmqDoors


TAPS: Final[dict[str, type[Tap]]] = {
    "gearman": GearmanTap,
    "draft": DraftTap,
    "own": OwnTap,
    "native": NativeTap,
    "bean": BeanTap,
    "deaf": DeafTap,
    "spaced": SpacedTap,
    "deaf bean": BeanDeafTap,
}


class Hall:
    """One hall through all its boots."""

    def __init__(
        self, world: World, weather: Weather, disk: Disk, laws: Laws, limits: Limits, options: GearmanOptions
    ) -> None:
        self.world = world
        self.weather = weather
        self.disk = disk
        self.laws = laws
        self.limits = limits
        self.options = options
        self.up = False
        self.boot = 0
        self.turns = 0
        self.opened_us = 0
        self.restored_queues = 0
        """Those that were there before, whatever the limit says."""
        self.turn_us_max = world.random.choice((1, 300, 4 * MS))
        """How long arrivals are gathered: with 1 nearly each has a turn of its own."""
        self.doors: ZmqDoors | None = None
        """The ZeroMQ ones; None: there are none."""
        self.routers: dict[str, Router] = {}
        self.hire_bus: HireDoors | None = None
        """The hire doors; None: there are none."""
        self.connections: dict[int, Connection] = {}
        self._last_connection = 0
        self.turning = False
        self._timer_us = 0

    def open(self) -> None:
        """A boot: everything that is not in the store is gone."""
        if self.up:
            return
        self.boot += 1
        self.opened_us = self.world.now_us
        self.scheduler = open_scheduler(self.disk.store, self.limits, self.world.now_us)
        if self.laws.limits is not None:
            self.laws.limits.opened(self)
        if self.laws.spacing is not None:
            self.laws.spacing.opened()
        self.engine = Engine(self.scheduler, self.disk.writer(self))
        house = ProcessInfo("1.0", 1, "ERROR", self._stopped)
        self.door = GearmanContext(self.scheduler, self.options, house)
        self.draft_door = DraftContext(self.scheduler, draft_options(self.options), self.engine.look_up)
        native_options = NativeOptions(log_all=self.options.log_all)
        engine = self.engine
        services = HallServices(self.scheduler, engine.search, list, None)
        self.native_door = NativeContext(
            self.scheduler,
            native_options,
            engine.look_up,
            engine.look_up_keys,
            engine.look_up_output,
            services,
        )
        bean_options = BeanstalkdOptions(durable=self.laws.bean_durable, log_all=self.options.log_all)
        self.bean_door = BeanstalkdContext(self.scheduler, bean_options, "1.0", 1)
        self.restored_queues = len(self.scheduler.queues)
        self.up = True
        self.turning = False
        self._timer_us = 0
        self.world.note(f"hall opens, boot {self.boot}, {len(self.scheduler.jobs)} jobs")
        self.laws.opened(self)
        self.turn()
        if self.hire_bus is not None:
            self.hire_bus.open(self)
        if self.doors is not None:
            self.routers = self.doors.open(self)
            self.doors.post.hall_opened()

    def crash(self) -> None:
        """As kill -9 does it."""
        if not self.up:
            return
        self.up = False
        self.boot += 1  # what was scheduled for the dead process finds another number
        self.world.note("hall crashes")
        for connection in self.connections.values():
            connection.shut()
        self.connections = {}
        if self.doors is not None:
            self.doors.post.hall_crashed()
        self.laws.crashed(self)
        self.world.after(self.world.random.randrange(MS, 150 * MS), self.open)

    # --- connections

    def connect(self, actor: Actor) -> Connection | None:
        if not self.up:
            return None
        number = self.next_number()
        caller = Caller("127.0.0.1", number)
        session: Session
        tap: Tap
        if actor.dialect == "hire":
            assert self.hire_bus is not None
            self.turn()
            session, tap = self.hire_bus.connect(caller, number, self.laws)
        else:
            if actor.dialect == "own":
                session = OwnSession(caller, self.scheduler)
            elif actor.dialect == "draft":
                session = DraftSession(caller, self.draft_door)
            elif actor.dialect == "native":
                session = NativeSession(caller, self.native_door)
            elif actor.dialect == "bean":
                session = BeanstalkdSession(caller, self.bean_door)
            else:
                session = GearmanSession(caller, self.door)
            tap = TAPS[actor.tap](number, session, self.laws)
        connection = Connection(number, self.world, self.weather, self, actor, session, tap)
        self.connections[number] = connection
        session.link = Socket(connection, self)
        self.engine.join(session)
        self.world.note(f"c{number} is {actor.name}")
        return connection

    def next_number(self) -> int:
        self._last_connection += 1
        return self._last_connection

    def arrived(self, connection: Connection, data: bytes) -> None:
        if connection.session.closing:
            return
        self.turn()
        connection.tap.heard(data)
        connection.session.receive(data)
        connection.tap.took()

    def disconnected(self, connection: Connection) -> None:
        """The hall learns that a peer is gone."""
        if self.connections.pop(connection.number, None) is None:
            return
        self.turn()
        self.world.note(f"c{connection.number} parts")
        self.laws.disconnected(connection.tap)
        self.engine.leave(connection.session)

    def closing(self, connection: Connection) -> None:
        """The engine closes a connection: the transport tells so a moment later."""
        self.world.after(0, lambda: self._closed(connection))

    def _closed(self, connection: Connection) -> None:
        if connection.there:
            connection.shut()
            self.disconnected(connection)

    # --- turns

    def answered(self, boot: int, trouble: str) -> None:
        """The writer is done with a batch."""
        if boot != self.boot:
            return
        self.turn()
        self.world.note(f"store: {trouble or 'committed'}")
        if trouble:
            self.laws.troubled()
            self.engine.failed(trouble)
        else:
            self.engine.committed()

    def doubted(self, boot: int, trouble: str) -> None:
        """The writer does not know whether the batch is on disk."""
        if boot != self.boot:
            return
        self.turn()
        self.world.note(f"store: unknown, {trouble}")
        self.laws.doubted()
        self.engine.unknown(trouble)

    def looked_up(self, boot: int, session: Session, job_id: int, line: EndRow | None, trouble: str) -> None:
        """The writer has looked for a job in the history."""
        if boot != self.boot:
            return
        self.turn()
        self.world.note(f"store: {trouble or ('found' if line is not None else 'no')} {job_id}")
        if not trouble:
            retrylaws.history_answered(self.laws, job_id)
        self.engine.looked_up(session, job_id, line, trouble)
        for connection in self.connections.values():
            if connection.session is session:
                connection.tap.took()  # and what has waited behind the look-up

    def output_looked_up(
        self, boot: int, session: Session, job_id: int, position: int, page: OutputPage, trouble: str
    ) -> None:
        """The writer has looked for the output of a job."""
        if boot != self.boot:
            return
        self.turn()
        self.world.note(f"store: {trouble or f'{len(page.lines)} lines of output'} of {job_id}")
        self.engine.output_looked_up(session, job_id, position, page, trouble)

    def searched(self, boot: int, page: HistoryPage | None, trouble: str) -> None:
        """The writer has read a page of the history."""
        if boot != self.boot:
            return
        self.turn()
        self.world.note(f"store: {trouble or 'a page'}")
        self.engine.searched(page, trouble)

    def parents_looked_up(self, boot: int, lines: list[EndRow], trouble: str) -> None:
        """The writer has looked for parents in the history."""
        if boot != self.boot:
            return
        self.turn()
        self.world.note(f"store: {trouble or f'{len(lines)} parents found'}")
        self.engine.parents_looked_up(lines, trouble)

    def turn(self) -> None:
        if self.turning:
            return
        self.turning = True
        self.turns += 1
        self.laws.turn_began(self.world.now_us)
        self.engine.begin(self.world.now_us)
        boot = self.boot
        self.world.after(self.world.random.randrange(self.turn_us_max), lambda: self._end_turn(boot))

    def _flush_coalesced(self, boot: int) -> None:
        if boot == self.boot:
            self.engine.flush_coalesced()
            if not self.turning:
                self.laws.flushed()

    def _end_turn(self, boot: int) -> None:
        if boot != self.boot:
            return
        self.engine.end(coalesce=self.world.chance(0.5))
        self.turning = False
        if self.engine.has_coalesced:
            self.world.after(self.world.random.randrange(self.turn_us_max), lambda: self._flush_coalesced(boot))
        self._timer_us = 0
        try:
            self.laws.turn_ended(self)
        except BrokenLaw as broken:
            raise Violation("audit", str(broken)) from broken
        next_us = self.engine.next_deadline()
        if next_us:
            if next_us <= self.laws.now_us:
                raise Violation("deadline", "the turn is over, and another is due at once")
            self._timer_us = next_us
            self.world.at(next_us, lambda: self._timer_due(boot, next_us))

    def _timer_due(self, boot: int, due_us: int) -> None:
        if boot == self.boot and due_us == self._timer_us:
            self.turn()

    def _stopped(self, graceful: bool) -> None:
        raise Violation("stop", "a peer that may not has stopped the hall")
