"""One address of a ZeroMQ door, and its connections.

Invariant: the number of connections is bounded; those that do not finish their handshake, fall silent or do not
read are closed, each in its own time. One timer each does that for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Final, cast

from hiringhall.dialects.session import BAD_INPUT, DOOR_FULL, Caller
from hiringhall.transports.streams import listen
from hiringhall.transports.zmtp.connection import Connection
from hiringhall.transports.zmtp.curve import CurveKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.engine.driver import Driver
    from hiringhall.transports.budget import Budget
    from hiringhall.transports.zmtp.connection import Side
    from hiringhall.transports.zmtp.options import ZmqOptions

LOOK_S: Final = 0.1
"""The pause between two looks at those who do not read."""
KEEPALIVE_COUNT: Final = 3


class Listener:
    """Listens, and looks after its connections."""

    def __init__(
        self,
        driver: Driver,
        options: ZmqOptions,
        budget: Budget,
        own: bytes,
        make_side: Callable[[Connection], Side],
        frames_max: int,
        *,
        drops_stalled: bool = True,
    ) -> None:
        self.driver = driver
        self.options = options
        self.budget = budget
        self.own = own
        """The type of the hall's socket."""
        self.make_side = make_side
        self.frames_max = frames_max
        """Frames of one message."""
        self.drops_stalled = drops_stalled
        """A connection whose peer reads nothing for `stall_s` is closed."""
        self.keys = (
            CurveKeys(options.curve.secret_key, options.curve.clients) if options.curve is not None else None
        )
        beat_s = max(1, round(options.heartbeat_s))
        self.keepalive = (beat_s, beat_s, KEEPALIVE_COUNT)
        """For peers without heartbeats: seconds until the first probe, seconds between probes, probes."""
        self.name = ""
        """The name of the door in the log."""
        self.connections: dict[Connection, None] = {}
        self.handshaking: dict[Connection, float] = {}
        """Those that have not finished their handshake, and until when they may, the oldest first."""
        self.blocked: dict[Connection, None] = {}
        """Those whose peers have not read all that was sent to them."""
        self.received_bytes = 0
        self.sent_bytes = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None
        self._emptied: asyncio.Event | None = None
        self._beat_timer: asyncio.TimerHandle | None = None
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Return the bound address. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        # A name may have several addresses; with port 0 each of them would get a port of its own.
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        address = str(found[0][4][0])
        self._server, address, bound_port = await listen(
            self._make_connection, address, port, self.options.backlog
        )
        return address, bound_port

    def _make_connection(self) -> asyncio.Protocol:
        return cast("asyncio.Protocol", Connection(self))

    def call_soon(self, action: Callable[[], None]) -> None:
        assert self._loop is not None
        self._loop.call_soon(action)

    def call_later(self, delay_s: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        assert self._loop is not None
        return self._loop.call_later(delay_s, action)

    # --- connections that come and go

    def admit(self, connection: Connection) -> bool:
        """A connection was accepted; False: there is no room for it."""
        if len(self.connections) >= self.options.connections_max:
            text = f"it has {self.options.connections_max} connections, as many as the system allows"
            self.driver.reporter.report(DOOR_FULL, text, Caller(connection.address, -1, (), 0, self.name))
            return False
        self.connections[connection] = None
        assert self._loop is not None
        self.handshaking[connection] = self._loop.time() + self.options.handshake_s
        if self._handshake_timer is None:
            self._handshake_timer = self.call_later(self.options.handshake_s, self._end_handshakes)
        if self._beat_timer is None:
            self._beat_timer = self.call_later(self.options.heartbeat_s, self._beat)
        return True

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.handshaking.pop(connection, None)
        self.blocked.pop(connection, None)
        self.budget.forget(connection)
        if self._emptied is not None and not self.connections:
            self._emptied.set()

    def block(self, connection: Connection) -> None:
        """A peer does not read: look at it from time to time."""
        self.blocked[connection] = None
        if self._look_timer is None:
            self._look_timer = self.call_later(LOOK_S, self._look)

    # --- timers

    def _end_handshakes(self) -> None:
        """Close the connections that have not finished their handshake in time."""
        self._handshake_timer = None
        assert self._loop is not None
        now_s = self._loop.time()
        for connection, until_s in list(self.handshaking.items()):
            if until_s > now_s:
                self._handshake_timer = self.call_later(until_s - now_s, self._end_handshakes)
                return
            del self.handshaking[connection]
            text = f"it has not introduced itself within {self.options.handshake_s:g} s (handshake_s)"
            connection.report(BAD_INPUT, text)
            connection.abort()

    def _beat(self) -> None:
        self._beat_timer = None
        for connection in list(self.connections):
            connection.beat()
        if self.connections:
            self._beat_timer = self.call_later(self.options.heartbeat_s, self._beat)

    def _look(self) -> None:
        self._look_timer = None
        for connection in list(self.blocked):
            connection.look_at_unsent(LOOK_S)
        if self.blocked:
            self._look_timer = self.call_later(LOOK_S, self._look)

    # --- closing

    def close_server(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def finish(self) -> None:
        """Accept and receive nothing more; what was sent is still sent."""
        self.close_server()
        for connection in list(self.connections):
            connection.close()

    async def close(self) -> None:
        """Close all connections. Unsent bytes get `close_wait_s`."""
        self.finish()
        if self.connections:
            self._emptied = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), self.options.close_wait_s)
        for connection in list(self.connections):
            connection.abort()
        for timer in (self._beat_timer, self._handshake_timer, self._look_timer):
            if timer is not None:
                timer.cancel()
        self._beat_timer = self._handshake_timer = self._look_timer = None
