"""One process of several on a database: it stands by, takes over, serves, makes way; it is stopped, and dies.

It does in events what `server.members.MemberHall`, `cluster.standby.Standby` and `cluster.beating.Beats` do on
an event loop. What they decide by is the same code: `Succession`, `Reign`, and the engine that looks at its
time as each turn begins. A process is stopped between two turns, never inside one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.cluster.beating import BEAT_S
from hiringhall.cluster.reign import Reign
from hiringhall.cluster.standby import LOOK_S
from hiringhall.cluster.succession import Succession
from hiringhall.core.errors import BrokenLaw
from hiringhall.dialects.session import Caller
from hiringhall.engine.driver import SETTLE_US
from hiringhall.engine.pauses import PAUSE_US
from hiringhall.engine.recovery import open_scheduler
from hiringhall.engine.turn import Engine
from hiringhall.server.members import RETRY_S

from .clusterdatabase import Refused
from .clusterlaws import ClusterTap
from .clusterlink import BEAT_ANSWER_US, DatabaseLink
from .clusterpassing import Relay
from .clusterstore import FencedWriter
from .network import Connection, Socket
from .owndialect import OwnSession
from .world import MS, SECOND, START_US, Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import Loaded
    from hiringhall.storage.postgres.members import Standing

    from .clusterdatabase import Claim
    from .clusterworld import Cluster

BEAT_US = round(BEAT_S * SECOND)
LOOK_US = round(LOOK_S * SECOND)
RETRY_US = round(RETRY_S * SECOND)
STORE_ANSWER_US = 30 * SECOND
"""`ANSWER_S` of the connection for commits."""


class MemberClock:
    """Runs at a rate of its own, and never back. What the wall says may be anything."""

    def __init__(self, cluster: Cluster, rate: float) -> None:
        self.rate = rate
        self.world = cluster.world
        self.wall_offset_us = cluster.world.random.choice((0, 100 * MS, -6 * SECOND, 6 * SECOND))

    def now_us(self) -> int:
        return START_US + int((self.world.now_us - START_US) * self.rate)

    def wall_us(self) -> int:
        return self.now_us() + self.wall_offset_us

    def real_us(self, own_us: int) -> int:
        """How long it takes until this clock has gone so far."""
        return int(own_us / self.rate) + 1


class _LoadedStore:
    """What `open_scheduler` needs of a store that was loaded with the take-over."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def load(self, ended_max: int) -> Loaded:
        del ended_max
        return self._loaded


class Member:
    """One member through all its lives and roles."""

    def __init__(self, cluster: Cluster, name: str, rate: float) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.clock = MemberClock(cluster, rate)
        self.role = "dead"
        self.cut_off = False
        """It does not reach the database."""
        self.stopped = False
        self.incarnation = 0
        """Of its reign; 0: it is not active."""
        self.turns = 0
        self.turning = False
        self.engine: Engine | None = None
        self.following: Standing | None = None
        self._part = 0
        """Counts lives and roles: what was planned in another one does not happen."""
        self._backlog: list[Callable[[], None]] = []
        """What arrived while the process was stopped."""
        self._paused_us = 0
        """For how long it was stopped, until a turn has taken notice of it."""
        self._stopped_us = 0
        self._timer_us = 0
        self.connections: dict[int, Connection] = {}
        self.relays: list[Relay] = []

    # --- the process

    def after_real(self, delay_us: int, action: Callable[[], None]) -> None:
        """Have the process do something when something arrives after so long."""
        part = self._part

        def due() -> None:
            if part != self._part:
                return
            if self.stopped:
                self._backlog.append(due)
            else:
                action()

        self.world.after(delay_us, due)

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Have it do something after so long by its own clock."""
        self.after_real(self.clock.real_us(delay_us), action)

    def start(self) -> None:
        if self.role == "dead":
            self.world.note(f"{self.name} starts")
            self._stand_by()

    def crash(self) -> None:
        if self.role != "dead":
            self.world.note(f"{self.name} dies")
            self.stopped = False
            self._leave_role("dead")
            self.world.after(self.world.random.randrange(50 * MS, 9 * SECOND), self.start)

    def stop(self) -> None:
        """As SIGSTOP does it."""
        if self.role != "dead" and not self.stopped:
            if self.turning:
                self._end_turn()
            self.world.note(f"{self.name} is stopped")
            self.stopped = True
            self._stopped_us = self.clock.now_us()

    def go_on(self) -> None:
        if self.stopped:
            self.world.note(f"{self.name} goes on")
            self.stopped = False
            self._paused_us = self.clock.now_us() - self._stopped_us
            backlog, self._backlog = self._backlog, []
            for action in backlog:
                self.world.after(0, action)

    def _leave_role(self, role: str) -> None:
        """Everything of the last role is gone."""
        self._part += 1
        self.role = role
        self._backlog = []
        self.following = None
        self.incarnation = 0
        self.engine = None
        self.turning = False
        for relay in self.relays:
            relay.drop()
        self.relays = []
        for connection in self.connections.values():
            connection.shut()
        self.connections = {}

    # --- standing by

    def _stand_by(self) -> None:
        self._leave_role("standby")
        self._succession = Succession(self.name)
        self._joined = 0
        self._beat_link = self._link(BEAT_ANSWER_US)
        self._look()

    def _link(self, answer_us: int) -> DatabaseLink:
        return DatabaseLink(self, self.cluster.database, self.cluster.link_weather, answer_us)

    def _look(self) -> None:
        database = self.cluster.database
        if self._joined:
            joined, wall_us = self._joined, self.clock.wall_us()
            self._beat_link.ask(lambda _: database.beat(joined, wall_us), self._looked, self._missed)
        else:
            self._beat_link.ask(lambda _: database.join(self.name), self._has_joined, self._missed)

    def _has_joined(self, incarnation: int) -> None:
        self._joined = incarnation
        self._look()

    def _missed(self) -> None:
        self._succession.missed()
        self.after(LOOK_US, self._look)

    def _looked(self, standing: Standing) -> None:
        self._follow(standing)
        if self._is_due(standing):
            self._take_over(standing)
        else:
            self.after(LOOK_US, self._look)

    def _is_due(self, standing: Standing) -> bool:
        return self._succession.answered(self.clock.now_us(), standing)

    def _follow(self, standing: Standing) -> None:
        before = self.following
        self.following = standing
        if before is None or (before.incarnation, before.address) != (standing.incarnation, standing.address):
            for relay in self.relays:
                relay.drop()
            self.relays = []

    # --- taking over

    def _take_over(self, standing: Standing) -> None:
        seen = self._succession.predecessor(standing)
        self._leave_role("opening")
        self._store_link = self._link(STORE_ANSWER_US)
        database = self.cluster.database
        self._store_link.ask(
            lambda backend: database.take_over(backend, self.name, seen),
            self._taken_over,
            self._stay_standby,
        )

    def _stay_standby(self) -> None:
        self.after(RETRY_US, self._stand_by)

    def _taken_over(self, said: Claim | Refused) -> None:
        if isinstance(said, Refused):
            self._stay_standby()
            return
        self.incarnation = said.incarnation
        self._reign = Reign()
        self._beat_link = self._link(BEAT_ANSWER_US)
        self._beat()
        random = self.world.random
        load_us = random.choice((MS, 300 * MS, 6 * SECOND if random.random() < 0.1 else MS))
        if self.world.chance(self.cluster.link_weather.lost):
            self.after(load_us, self._stand_by)  # the connection was lost while the jobs were loaded
        else:
            self.after(load_us, lambda: self._open(said))

    def _open(self, claim: Claim) -> None:
        self.role = "active"
        self.cluster.laws.opened.add(self.incarnation)
        self._writer = FencedWriter(self, self.cluster.database, self._store_link, claim)
        store: Any = _LoadedStore(claim.loaded)
        scheduler = open_scheduler(store, self.cluster.limits, self.clock.now_us())
        self.engine = Engine(scheduler, self._writer)
        self._timer_us = 0
        self._closing_us = 0
        self.world.note(f"{self.name} opens as {self.incarnation}, {len(scheduler.jobs)} jobs")
        self.engine.hands_out_until_us = self._reign.hands_out_until_us
        self.turn()
        if self._reign.ended:
            self._close()
            return
        self._publish()

    def _publish(self) -> None:
        """Tell where this hall listens, again and again until it is known."""
        database, incarnation = self.cluster.database, self.incarnation
        self._link(BEAT_ANSWER_US).ask(
            lambda _: database.publish(incarnation, self.name), lambda _: None, self._publish
        )

    # --- beats

    def _beat(self) -> None:
        sent_us, wall_us, incarnation = self.clock.now_us(), self.clock.wall_us(), self.incarnation

        def again() -> None:
            if not self._reign.ended:
                self.after(max(0, BEAT_US - (self.clock.now_us() - sent_us)), self._beat)

        def answered(standing: Standing) -> None:
            self._beaten(sent_us, standing)
            again()

        self._beat_link.ask(lambda _: self.cluster.database.beat(incarnation, wall_us), answered, again)

    def _beaten(self, sent_us: int, standing: Standing) -> None:
        engine = self.engine
        self._reign.answered(sent_us, self.incarnation, standing, serving=engine is not None)
        if engine is None:
            return
        engine.hands_out_until_us = self._reign.hands_out_until_us
        if engine.scheduler.withholding:
            self.turn()
        if self._reign.ended:
            self.world.note(f"{self.name} makes way: {self._reign.ended}")
            self._close()

    # --- making way

    def _close(self) -> None:
        if self.role != "active":
            return
        assert self.engine is not None
        self.role = "closing"
        self.turn()
        self.engine.scheduler.close()
        for worker in list(self.engine.scheduler.workers):
            for lease in list(worker.leases.values()):
                self.engine.scheduler.recall(lease)
        self._closing_us = self.clock.now_us()
        self.after(SETTLE_US, self.turn)

    def _close_if_done(self) -> None:
        engine = self.engine
        assert engine is not None
        if engine.in_doubt:
            if self.clock.now_us() - self._closing_us < SETTLE_US:
                return
        elif engine.busy and not engine.scheduler.store_trouble:
            return
        self.role = "closed"
        self.engine = None
        if self._writer.fenced or self._writer.unknown or not self._store_link.connected:
            self._stand_by()
            return
        incarnation = self.incarnation
        self._store_link.ask(
            lambda _: self.cluster.database.release(incarnation), lambda _: self._stand_by(), self._stand_by
        )

    # --- connections

    def connect(self, actor: Any) -> Connection | None:
        """A client comes to the address of this member."""
        if self.stopped:
            return None
        if self.role == "active":
            return self._accept(actor)
        if self.role == "standby" and self.following is not None:
            target = self.cluster.find_member(self.following.address)
            if target is not None and target.role == "active" and not target.stopped:
                return self._pass_on(actor, target)
        return None

    def _accept(self, actor: Any) -> Connection:
        assert self.engine is not None
        number = self.cluster.next_number()
        session = OwnSession(Caller("127.0.0.1", number), self.engine.scheduler)
        tap: Any = ClusterTap(self.cluster.laws, self.incarnation)
        this: Any = self
        connection = Connection(number, self.world, self.cluster.weather, this, actor, session, tap)
        self.connections[number] = connection
        session.link = Socket(connection, this)
        self.engine.join(session)
        self.world.note(f"c{number} is {actor.name} at {self.name}")
        return connection

    def _pass_on(self, actor: Any, target: Member) -> Connection:
        relay = Relay(self, actor)
        relay.onward(target._accept(relay))
        self.relays.append(relay)
        return relay.outer

    def arrived(self, connection: Connection, data: bytes) -> None:
        def read() -> None:
            if self.engine is None or connection.session.closing:
                return
            self.turn()
            tap: Any = connection.tap
            tap.heard(data)
            connection.session.receive(data)

        self.after_real(0, read)

    def disconnected(self, connection: Connection) -> None:
        def leave() -> None:
            if self.connections.pop(connection.number, None) is not None and self.engine is not None:
                self.turn()
                self.engine.leave(connection.session)

        self.after_real(0, leave)

    def closing(self, connection: Connection) -> None:
        """The engine closes a connection."""
        if connection.there:
            connection.shut()
            self.disconnected(connection)

    # --- turns

    def store_committed(self) -> None:
        self._store_answered("committed", lambda engine: engine.committed())

    def store_failed(self, trouble: str) -> None:
        self._store_answered(trouble, lambda engine: engine.failed(trouble))

    def store_doubted(self, trouble: str) -> None:
        self._store_answered(f"unknown, {trouble}", lambda engine: engine.unknown(trouble))

    def _store_answered(self, said: str, tell: Callable[[Engine], None]) -> None:
        if self.engine is not None:
            self.turn()
            self.world.note(f"{self.name}: {said}")
            tell(self.engine)

    def turn(self) -> None:
        if self.turning or self.engine is None:
            return
        self.turning = True
        self.turns += 1
        paused_us, self._paused_us = self._paused_us, 0
        self.engine.begin(self.clock.now_us(), paused_us if paused_us > PAUSE_US else 0)
        self.after_real(self.world.random.randrange(self.cluster.turn_us_max), self._end_turn)

    def _end_turn(self) -> None:
        engine = self.engine
        if engine is None or not self.turning:
            return
        engine.end()
        self.turning = False
        if self.cluster.audited:
            try:
                engine.scheduler.audit()
            except BrokenLaw as broken:
                raise Violation("audit", str(broken)) from broken
        next_us = engine.next_deadline()
        if next_us and next_us != self._timer_us:
            self._timer_us = next_us
            self.after(max(1, next_us - self.clock.now_us()), self._timer_due)
        if self.role == "closing":
            self._close_if_done()

    def _timer_due(self) -> None:
        self._timer_us = 0
        self.turn()
