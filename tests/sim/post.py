"""A network of messages, with the faults of ZeroMQ's.

The law: a message arrives whole or not at all, and those between two ends arrive in order. A peer is not told
when the hall goes. A message to a peer that is gone is lost until the hall's side has noticed; from then on
sending to it fails, and its door is told. A line connects again by itself, and keeps what it is given while the
hall is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .world import MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .hall import Hall
    from .network import Weather
    from .world import World

RECONNECT_US: Final = 50 * MS


class Post:
    """All lines, and what the hall's sockets believe of them."""

    def __init__(self, world: World, weather: Weather) -> None:
        self.world = world
        self.weather = weather
        self.lose = world.random.choice((0.0, 0.0, 0.01, 0.05))
        """How often a message is lost."""
        self.lines: dict[Line, None] = {}
        self._routes: dict[tuple[str, bytes], tuple[Line, int]] = {}
        """Whom the hall reaches under an identity at a door, as far as it knows, and by which connection."""
        self._last_identity = 0
        self.hall: Hall | None = None

    def calm(self) -> None:
        self.lose = 0.0

    def reaches(self, door: str, identity: bytes) -> bool:
        """The hall has not noticed that nobody is there."""
        return (door, identity) in self._routes

    def deliver(self, door: str, identity: bytes, frames: list[bytes]) -> None:
        line, connection = self._routes[door, identity]
        line.deliver(connection, frames)

    def connected(self, line: Line, connection: int) -> None:
        """Whoever had the identity before is reached by it no more."""
        self._routes[line.door, line.identity] = (line, connection)

    def taken(self, line: Line) -> bool:
        """Another has its identity."""
        route = self._routes.get((line.door, line.identity))
        return route is not None and route[0] is not line

    def disconnected(self, line: Line, identity: bytes, connection: int) -> None:
        if self._routes.get((line.door, identity)) == (line, connection):
            del self._routes[line.door, identity]
            hall = self.hall
            if hall is not None and hall.up:
                boot = hall.boot
                # What happens in between meets a connection that is closing.
                self.world.after(0, lambda: self._report(line.door, identity, boot))

    def _report(self, door: str, identity: bytes, boot: int) -> None:
        """Tell the door that a connection is closed, unless another has its identity by now."""
        hall = self.hall
        if hall is not None and hall.up and hall.boot == boot and (door, identity) not in self._routes:
            hall.routers[door].lost(identity)

    def new_identity(self) -> bytes:
        self._last_identity += 1
        return b"\0" + self._last_identity.to_bytes(4, "big")

    def hall_opened(self) -> None:
        for line in self.lines:
            self.world.after(self.world.random.randrange(RECONNECT_US), line.connect)

    def hall_crashed(self) -> None:
        self._routes.clear()
        for line in self.lines:
            line.cut_off()


class Line:
    """Somebody's socket, connected to one of the hall's doors."""

    def __init__(
        self,
        post: Post,
        door: str,
        listen: Callable[[list[bytes]], None],
        own_identity: bytes = b"",
        *,
        lossy: bool = True,
    ) -> None:
        self.post = post
        self.door = door
        self.identity = b""
        """What the hall knows it by: its own one, or another for each connection."""
        self.here = True
        """Whoever has it is alive."""
        self._world = post.world
        self._listen = listen
        self._own_identity = own_identity
        self._lossy = lossy
        self._connected = False
        self._speaks = False
        """By the present connection a message of it has been heard."""
        self._backlog: list[list[bytes]] = []
        """What waits for the connection."""
        self._inward = 0
        self._outward = 0
        """Counted up when all that is on its way in that direction is lost."""
        self._inward_clear_us = self._outward_clear_us = 0
        post.lines[self] = None
        self.connect()

    def connect(self) -> None:
        hall = self.post.hall
        if self._connected or not self.here or hall is None or not hall.up:
            return
        self._connected = True
        self._speaks = False
        self._outward += 1  # nothing comes any more by the connection before
        self.identity = self._own_identity or self.post.new_identity()
        if not self.post.taken(self):
            self.post.connected(self, self._outward)
        backlog = self._backlog
        self._backlog = []
        for frames in backlog:
            self._push(frames)

    def cut_off(self) -> None:
        """The hall has died: what it has not read is lost; what it sent comes until there is a new one."""
        self._connected = False
        self._inward += 1

    def flap(self) -> None:
        """The connection breaks, with all that is on its way, and is made again."""
        if self._connected:
            self._connected = False
            self._leave_route(self._world.random.randrange(self.post.weather.half_open_us))
        self._inward += 1
        self._outward += 1
        self._world.after(self._world.random.randrange(RECONNECT_US), self.connect)

    def close(self, *, silently: bool = False) -> None:
        """Its owner is gone; silently: the hall's side takes long to notice."""
        if self.here:
            self.here = False
            del self.post.lines[self]
            if self._connected:
                delay_us = self.post.weather.half_open_us if silently else 5 * MS
                # The end of a connection arrives behind all that was sent by it.
                self._leave_route(max(delay_us, self._inward_clear_us - self._world.now_us))

    def _leave_route(self, delay_us: int) -> None:
        identity, connection = self.identity, self._outward
        self._world.after(delay_us, lambda: self.post.disconnected(self, identity, connection))

    # --- messages

    def send(self, *frames: bytes) -> None:
        if self.here:
            if self._connected:
                self._push(list(frames))
            else:
                self._backlog.append(list(frames))

    def _push(self, frames: list[bytes]) -> None:
        if self._loses(frames):
            return
        self._inward_clear_us = self._arrival_us(self._inward_clear_us)
        hall = self.post.hall
        assert hall is not None
        inward, boot = self._inward, hall.boot
        self._world.at(self._inward_clear_us, lambda: self._into_hall(inward, boot, frames))

    def _into_hall(self, inward: int, boot: int, frames: list[bytes]) -> None:
        hall = self.post.hall
        assert hall is not None
        # A line that its owner has closed is not cut off: what was on its way by it dies with the hall as well.
        if inward == self._inward and boot == hall.boot and hall.up and self._is_heard():
            hall.routers[self.door].arrived(self, [self.identity, *frames])

    def _is_heard(self) -> bool:
        """Its identity is its own: with its first message it takes it from whoever had it. If it was taken from
        this line, the line connects again, and has it back once nobody else has it.
        """
        if self._speaks and self.post.taken(self):
            return False
        self._speaks = True
        self.post.connected(self, self._outward)
        return True

    def deliver(self, outward: int, frames: list[bytes]) -> None:
        """The hall sends something."""
        if not self._loses(frames):
            self._outward_clear_us = self._arrival_us(self._outward_clear_us)
            self._world.at(self._outward_clear_us, lambda: self._into_owner(outward, frames))

    def _into_owner(self, outward: int, frames: list[bytes]) -> None:
        if outward == self._outward and self.here:
            self._listen(frames)

    def _loses(self, frames: list[bytes]) -> bool:
        lost = self._lossy and self.post.lose > 0 and self._world.chance(self.post.lose)
        if lost:
            self._world.note(f"{self.door} {self.identity.hex()} loses {frames[-1][:40]!r}")
        return lost

    def _arrival_us(self, clear_us: int) -> int:
        world = self._world
        delay_us = world.random.randrange(self.post.weather.delay_max_us)
        if self.post.weather.stall and world.chance(self.post.weather.stall):
            delay_us += world.random.randrange(800 * MS)
        return max(clear_us, world.now_us + delay_us)
