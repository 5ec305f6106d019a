"""A ZeroMQ bus: peers publish at one address and subscribe at another, and one session hears and says it all.

ZeroMQ tells nobody who publishes. It does tell that somebody subscribes, or no longer does, so the session
knows whether it is heard, and when somebody comes.

The law: whoever listens too slowly misses messages, which is a bus's way; nobody waits for them, and nobody
else notices.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

import zmq

from hiringhall.dialects.session import Caller, Link
from hiringhall.transports.sockets import SocketRoom, ZmqOptions, listen

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session
    from hiringhall.engine.driver import Driver

MESSAGES_MAX: Final = 1000
"""Messages taken in by one turn; the rest waits for the next one, so that other doors have their turn."""

SAID_BYTES_MAX: Final = 1 << 62
"""What is said in one turn has the bounds of what was heard in it: a bus is not closed for it."""

_NOW: Final = int(zmq.DONTWAIT)
_SUBSCRIBED: Final = 1
_UNSUBSCRIBED: Final = 0


class BusDoor:
    """Both sockets, and the session between them."""

    def __init__(self, driver: Driver, make_session: Callable[[Caller], Session], options: ZmqOptions) -> None:
        self.driver = driver
        self.make_session = make_session
        self.options = options
        self.name = ""
        """What the log calls it."""
        self.session: Session | None = None
        self.dropped = 0
        """Messages of several frames: a bus's have one."""
        self.listeners = 0
        """Who listens, once for each beginning of messages that it has subscribed to."""
        self._room: SocketRoom | None = None
        self._inward: zmq.Socket[bytes] | None = None
        self._outward: zmq.Socket[bytes] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Callable[..., Any] | None = None
        self._send: Callable[..., Any] | None = None
        self._looking = False
        """A look for messages is due: a sign that some have come is given once, and may have been swallowed."""

    async def open_inward(self, host: str, port: int) -> tuple[str, int]:
        """Listen for those who publish; the address that was bound."""
        self._loop = asyncio.get_running_loop()
        self._room = SocketRoom(self.options)
        self._inward = self._room.socket(zmq.SUB)
        self._inward.setsockopt(zmq.SUBSCRIBE, b"")
        return await listen(self._inward, host, port)

    async def open_outward(self, host: str, port: int) -> tuple[str, int]:
        """Listen for those who subscribe, and begin to hear those who publish; the address that was bound."""
        assert self._room is not None
        assert self._inward is not None
        self._outward = self._room.socket(zmq.XPUB)
        # All who come and go, not only the first and the last. Who is disconnected goes as well.
        self._outward.setsockopt(zmq.XPUB_VERBOSER, 1)
        bound = await listen(self._outward, host, port)
        self.driver.turn()
        self.session = self.make_session(Caller("", -1, (), 0, self.name))
        self.session.prompt = True
        self.session.out_bytes_max = SAID_BYTES_MAX
        self.driver.join(self.session, BusLink(self))
        # Past the conveniences of pyzmq's own class, which cost as much again as sending does.
        self._receive = cast("Any", super(zmq.Socket, self._inward)).recv
        self._send = cast("Any", super(zmq.Socket, self._outward)).send
        for socket in (self._inward, self._outward):
            assert self._loop is not None
            self._loop.add_reader(cast("int", socket.getsockopt(zmq.FD)), self._look)
        self._look_soon()
        return bound

    def close_listener(self) -> None:
        """Nothing to do before `close`: whoever works may still speak."""

    async def close(self) -> None:
        """Say what is still to be said, if it goes soon."""
        room = self._room
        if room is None:
            return
        self._room = None
        session = self.session
        if session is not None:
            self.session = None
            for socket in (self._inward, self._outward):
                assert socket is not None
                # uvloop answers None where asyncio says bool: compiled, only what both are will do.
                cast("Any", self._loop).remove_reader(cast("int", socket.getsockopt(zmq.FD)))
            self.driver.leave(session)
        self._inward = self._outward = None
        await room.close()

    # --- coming in

    def _look_soon(self) -> None:
        if not self._looking:
            self._looking = True
            assert self._loop is not None
            self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._looking = False
        for socket in (self._inward, self._outward):
            if socket is not None and cast("int", socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                self._look()
                return

    def _look(self) -> None:
        """Take in what has come, up to a bound; first, who listens."""
        session = self.session
        receive = self._receive
        if session is None or receive is None:
            return
        self.driver.turn()
        self._look_for_listeners(session)
        for _ in range(MESSAGES_MAX):
            try:
                frame = receive(_NOW, False)
            except zmq.Again:
                return
            if frame.more:
                self.dropped += 1
                while frame.more:
                    frame = receive(_NOW, False)
            else:
                self.driver.receive(session, frame.bytes)
        self._look_soon()

    def _look_for_listeners(self, session: Session) -> None:
        assert self._outward is not None
        for _ in range(MESSAGES_MAX):
            try:
                # A message here says that a peer subscribes, or no longer does.
                word = self._outward.recv(_NOW)
            except zmq.Again:
                return
            if word[:1] == bytes((_SUBSCRIBED,)):
                self.listeners += 1
            elif word[:1] == bytes((_UNSUBSCRIBED,)) and self.listeners:
                self.listeners -= 1
            else:
                continue
            # Of each, not of their sum: one who comes while another goes is somebody who comes.
            session.listeners_changed(self.listeners)
        self._look_soon()

    # --- going out

    def publish(self, messages: list[bytes]) -> None:
        send = self._send
        if self._outward is None or send is None:
            return
        for message in messages:
            send(message, _NOW)
        self._look_soon()


class BusLink(Link):
    """The way to all who listen."""

    __slots__ = ("_door",)

    def __init__(self, door: BusDoor) -> None:
        super().__init__()
        self._door = door

    def write(self, messages: list[bytes]) -> None:
        self._door.publish(messages)

    def close(self) -> None:
        """The bus is closed with the hall, and not before."""
