"""Who comes to the hire doors: by a connection of lines, or on a bus that loses messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.hire import wire

from .actors import Actor
from .hirelings import Founder, Hireling
from .world import MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .actors import Town
    from .hirebus import Bus


class LineActor(Actor):
    """Somebody with a connection. What it has in mind for later is forgotten when that breaks."""

    dialect = "hire"
    tap = "hire"
    mind: Hireling | Founder

    def arrived(self) -> None:
        self._rest = b""
        self.mind.forget()
        if isinstance(self.mind, Founder):
            self.mind.begin()

    def listen(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for text in lines:
            if text.startswith(wire.COMMENT):
                # The hall still believes in the connection before: it has to come again.
                self.hang_up()
                return
            self.mind.hear(wire.read_line(text))

    def say(self, line: wire.Line) -> None:
        self.send(wire.write_line(line, compact=self.world.chance(0.2)) + b"\n")

    def soon(self, delay_us: int, action: Callable[[], None]) -> None:
        connection = self.connection

        def act() -> None:
            if connection is self.connection and connection is not None:
                action()

        self.world.after(delay_us, act)

    def stumble(self) -> None:
        connection = self.connection
        if connection is not None:
            self.world.random.choice((connection.close, connection.drop, connection.vanish))()
            self.disconnected(connection)


class LineWorker(LineActor):
    """Bids by a connection."""

    def __init__(self, town: Town, name: str, kind: str, queues: list[bytes]) -> None:
        super().__init__(town, f"{kind} {name}")
        self.mind = Hireling(town, name, kind, queues, self)


class LineProvider(LineActor):
    """Announces by a connection."""

    def __init__(self, town: Town, name: str, kind: str, hall: bytes) -> None:
        super().__init__(town, f"{kind} {name}")
        self.mind = Founder(town, name, kind, hall, self)


class BusActor:
    """Somebody on the bus. Nobody is told when it goes."""

    mind: Hireling | Founder

    def __init__(self, town: Town, bus: Bus, name: str) -> None:
        self.town = town
        self.world = town.world
        self.name = name
        self.bus = bus
        self.here = False
        self._life = 0
        self.world.after(self.world.random.randrange(20 * MS), self._come)

    def _come(self) -> None:
        if not self.here and not self.town.calm:
            self.here = True
            self.mind.forget()
            self.bus.subscribe(self)
            if isinstance(self.mind, Founder):
                self.mind.begin()

    def heard(self, data: bytes) -> None:
        line = wire.read_line(data)
        if line.speaker != self.mind.uuid:
            self.mind.hear(line)

    def say(self, line: wire.Line) -> None:
        if self.here:
            self.bus.publish(self, wire.write_line(line, compact=self.world.chance(0.2)))

    def soon(self, delay_us: int, action: Callable[[], None]) -> None:
        life = self._life

        def act() -> None:
            if life == self._life and self.here:
                action()

        self.world.after(delay_us, act)

    def stumble(self) -> None:
        self._go()
        self.world.after(self.world.random.randrange(1, 300 * MS), self._come)

    def retire(self) -> None:
        self._go()

    def _go(self) -> None:
        self._life += 1
        if self.here:
            self.here = False
            self.world.note(f"{self.name} leaves the bus")
            self.bus.unsubscribe(self)


class BusWorker(BusActor):
    def __init__(self, town: Town, bus: Bus, name: str, kind: str, queues: list[bytes]) -> None:
        super().__init__(town, bus, f"{kind} {name}")
        self.mind = Hireling(town, name, kind, queues, self)


class BusProvider(BusActor):
    def __init__(self, town: Town, bus: Bus, name: str, kind: str, hall: bytes) -> None:
        super().__init__(town, bus, f"{kind} {name}")
        self.mind = Founder(town, name, kind, hall, self)
