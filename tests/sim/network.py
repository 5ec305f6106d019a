"""Connections in memory, with the faults of real ones.

The law: bytes of one direction arrive in order or not at all. Everything else may happen to them: they are
cut at any place, come late, stall; a connection is dropped, or dies at one end and the other is not told.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.dialects.session import Link

from .world import MS, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session

    from .actors import Actor
    from .hall import Hall
    from .taps import Tap
    from .world import World

OUTPUT_BYTES_MAX: Final = 256 * 1024
"""Unsent bytes at which the hall's side drops the peer, as the transport does."""


class Weather:
    """How bad the network is, drawn once a run."""

    def __init__(self, world: World) -> None:
        random = world.random
        self.delay_max_us = random.choice((50, 500, 5 * MS, 20 * MS))
        self.cut = random.choice((0.0, 0.1, 0.4))
        self.stall = random.choice((0.0, 0.0, 0.01, 0.03))
        self.drop = random.choice((0.0, 0.0, 0.004, 0.01))
        self.half_open_us = random.choice((300 * MS, SECOND, 2 * SECOND))
        """How long the hall takes to learn that a peer is gone without a word."""

    def calm(self) -> None:
        self.delay_max_us = 200
        self.cut = self.stall = self.drop = 0.0
        self.half_open_us = 100 * MS


class Stream:
    """One direction of a connection."""

    def __init__(self, world: World, weather: Weather, deliver: Callable[[bytes], None]) -> None:
        self.unsent_bytes = 0
        self._world = world
        self._weather = weather
        self._deliver = deliver
        self._clear_us = 0
        """Nothing arrives before: what was sent earlier is still on its way."""
        self._dead = False

    def push(self, data: bytes) -> None:
        for piece in self._cut(data):
            self.unsent_bytes += len(piece)
            self._world.at(self._arrival_us(), lambda piece=piece: self._arrive(piece))  # type: ignore[misc]

    def finish(self, told: Callable[[], None]) -> None:
        """Call `told` after everything that was sent has arrived."""
        self._world.at(self._arrival_us(), told)

    def kill(self) -> None:
        """What is on its way never arrives."""
        self._dead = True

    def _arrive(self, piece: bytes) -> None:
        self.unsent_bytes -= len(piece)
        if not self._dead:
            self._deliver(piece)

    def _arrival_us(self) -> int:
        world = self._world
        delay_us = world.random.randrange(self._weather.delay_max_us)
        if self._weather.stall and world.chance(self._weather.stall):
            delay_us += world.random.randrange(800 * MS)
        self._clear_us = max(self._clear_us, world.now_us + delay_us)
        return self._clear_us

    def _cut(self, data: bytes) -> list[bytes]:
        pieces: list[bytes] = []
        while len(data) > 1 and self._weather.cut and self._world.chance(self._weather.cut):
            at = self._world.random.randrange(1, min(len(data), 200))
            pieces.append(data[:at])
            data = data[at:]
        pieces.append(data)
        return pieces


class Connection:
    """Both directions. The hall sees it as the `Link` of a session, an actor as its way in."""

    def __init__(
        self, number: int, world: World, weather: Weather, hall: Hall, actor: Actor, session: Session, tap: Tap
    ) -> None:
        self.number = number
        self.session = session
        self.tap = tap
        self.here = True
        """The actor believes in it."""
        self.there = True
        """The hall believes in it."""
        self._world = world
        self._weather = weather
        self._hall = hall
        self._actor = actor
        self._inward = Stream(world, weather, self._into_hall)
        self._outward = Stream(world, weather, self._into_actor)
        self._paused = False
        self._waiting: deque[bytes] = deque()
        """What arrived while the hall did not read."""

    # --- the actor's side

    def send(self, data: bytes) -> None:
        if self.here:
            self._inward.push(data)
            if self._weather.drop and self._world.chance(self._weather.drop):
                self._world.note(f"c{self.number} dropped by the network")
                self.drop()

    def close(self) -> None:
        """A proper goodbye: what was sent arrives first."""
        if self.here:
            self.here = False
            self._outward.kill()
            self._inward.finish(self._part)

    def drop(self) -> None:
        """Both ends learn of it, and what was on its way is lost."""
        if self.here:
            self.here = False
            self._inward.kill()
            self._outward.kill()
            self._world.after(self._world.random.randrange(5 * MS), self._part)
            self._world.after(self._world.random.randrange(5 * MS), self._actor_told)

    def vanish(self) -> None:
        """The actor's end is dead at once; the hall is not told for a while."""
        if self.here:
            self.here = False
            self._inward.kill()
            self._outward.kill()
            self._world.after(self._weather.half_open_us, self._part)
            self._world.after(self._world.random.randrange(50 * MS), self._actor_told)

    def _into_actor(self, data: bytes) -> None:
        if self.here:
            self._actor.heard(self, data)

    def _actor_told(self) -> None:
        self._actor.disconnected(self)

    def _hall_closed(self) -> None:
        if self.here:
            self.here = False
            self._inward.kill()
            self._actor.disconnected(self)

    # --- the hall's side

    def write(self, data: bytes) -> None:
        if not self.there:
            return
        self.tap.said(data)
        if not self.here:
            return
        self._outward.push(data)
        if self._outward.unsent_bytes > OUTPUT_BYTES_MAX:
            self._world.note(f"c{self.number} does not read: dropped")
            self.drop()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._waiting:
            self._world.after(0, self._read_on)

    def _read_on(self) -> None:
        while self._waiting and not self._paused and self.there:
            self._hall.arrived(self, self._waiting.popleft())

    def shut(self) -> None:
        """The hall has closed it, or is dead."""
        self.there = False
        self._outward.finish(self._hall_closed)

    def _into_hall(self, data: bytes) -> None:
        if self._paused or self._waiting:
            self._waiting.append(data)
        elif self.there:
            self._hall.arrived(self, data)

    def _part(self) -> None:
        if self.there:
            self.there = False
            self._hall.disconnected(self)


class Socket(Link):
    """The `Link` that the engine holds: the connection's face towards the hall."""

    def __init__(self, connection: Connection, hall: Hall) -> None:
        super().__init__()
        self._connection = connection
        self._hall = hall

    def write(self, messages: list[bytes]) -> None:
        self._connection.write(b"".join(messages))

    def close(self) -> None:
        """Send what was written, then close."""
        self._hall.closing(self._connection)

    def pause(self) -> None:
        self._connection.pause()

    def resume(self) -> None:
        self._connection.resume()
