"""A ZeroMQ bus: peers publish at one address and subscribe at another. One session receives and sends it all.

ZeroMQ does not tell who publishes. It does tell when a peer subscribes or unsubscribes, so the session knows
whether anybody listens.

Invariant: a subscriber that is too slow misses messages, as usual on a bus; nobody waits for it, and no other
peer is affected.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

import zmq

from hiringhall.dialects.session import Caller, Link
from hiringhall.transports.sockets import SocketSet, ZmqOptions, listen

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session
    from hiringhall.engine.driver import Driver

MESSAGES_MAX: Final = 1000
"""Messages received in one turn. The rest waits for the next turn, so that other doors are served."""

OUT_BYTES_MAX: Final = 1 << 62
"""No limit: the output of one turn is bounded by its input, and a bus is never closed for its output."""

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
        """Its name in the log."""
        self.session: Session | None = None
        self.dropped = 0
        """Number of messages dropped because they had several frames; one is allowed."""
        self.accepted = 0
        """Number of subscriptions made since it opened."""
        self.received_bytes = 0
        self.sent_bytes = 0
        """Bytes of the messages that were published; how many subscribers get them is not known."""
        self.listeners = 0
        """Number of subscriptions. A peer counts once for each prefix that it has subscribed to."""
        self._sockets: SocketSet | None = None
        self._inward: zmq.Socket[bytes] | None = None
        self._outward: zmq.Socket[bytes] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Callable[..., Any] | None = None
        self._send: Callable[..., Any] | None = None
        self._poll_scheduled = False
        """A poll is scheduled: the descriptor signals messages only once, and a send may consume the signal."""

    async def open_inward(self, host: str, port: int) -> tuple[str, int]:
        """Listen for publishers. Return the bound address."""
        self._loop = asyncio.get_running_loop()
        self._sockets = SocketSet(self.options)
        self._inward = self._sockets.socket(zmq.SUB)
        self._inward.setsockopt(zmq.SUBSCRIBE, b"")
        return await listen(self._inward, host, port)

    async def open_outward(self, host: str, port: int) -> tuple[str, int]:
        """Listen for subscribers, and start to receive from publishers. Return the bound address."""
        assert self._sockets is not None
        assert self._inward is not None
        self._outward = self._sockets.socket(zmq.XPUB)
        # Report every subscription and its end, not only the first and the last. A disconnect ends it too.
        self._outward.setsockopt(zmq.XPUB_VERBOSER, 1)
        bound = await listen(self._outward, host, port)
        self.driver.turn()
        self.session = self.make_session(Caller("", -1, (), 0, self.name))
        self.session.prompt = True
        self.session.out_bytes_max = OUT_BYTES_MAX
        self.driver.join(self.session, BusLink(self))
        # The methods of pyzmq's base class: its Python wrappers cost as much again as sending does.
        self._receive = cast("Any", super(zmq.Socket, self._inward)).recv
        self._send = cast("Any", super(zmq.Socket, self._outward)).send
        for socket in (self._inward, self._outward):
            assert self._loop is not None
            self._loop.add_reader(cast("int", socket.getsockopt(zmq.FD)), self._receive_pending)
        self._poll_soon()
        return bound

    @property
    def peers(self) -> int:
        """How many subscriptions there are: ZeroMQ does not tell how many peers are connected."""
        return self.listeners

    def close_listener(self) -> None:
        """Nothing to do before `close`: workers may still report."""

    async def close(self) -> None:
        """Send what is unsent, within `close_wait_s`, and close."""
        sockets = self._sockets
        if sockets is None:
            return
        self._sockets = None
        session = self.session
        if session is not None:
            self.session = None
            for socket in (self._inward, self._outward):
                assert socket is not None
                # uvloop returns None where asyncio returns bool; compiled code must accept both.
                cast("Any", self._loop).remove_reader(cast("int", socket.getsockopt(zmq.FD)))
            self.driver.leave(session)
        self._inward = self._outward = None
        await sockets.close()

    # --- input

    def _poll_soon(self) -> None:
        if not self._poll_scheduled:
            self._poll_scheduled = True
            assert self._loop is not None
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._poll_scheduled = False
        for socket in (self._inward, self._outward):
            if socket is not None and cast("int", socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                self._receive_pending()
                return

    def _receive_pending(self) -> None:
        """Receive up to `MESSAGES_MAX` messages; first, the changes of subscriptions."""
        session = self.session
        receive = self._receive
        if session is None or receive is None:
            return
        self.driver.turn()
        self._receive_subscriptions(session)
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
                data = frame.bytes
                self.received_bytes += len(data)
                self.driver.receive(session, data)
        self._poll_soon()

    def _receive_subscriptions(self, session: Session) -> None:
        assert self._outward is not None
        for _ in range(MESSAGES_MAX):
            try:
                # A message here means that a peer subscribes or unsubscribes.
                change = self._outward.recv(_NOW)
            except zmq.Again:
                return
            if change[:1] == bytes((_SUBSCRIBED,)):
                self.listeners += 1
                self.accepted += 1
            elif change[:1] == bytes((_UNSUBSCRIBED,)) and self.listeners:
                self.listeners -= 1
            else:
                continue
            # For each change, not for their sum: if one peer leaves and another comes, there is a new listener.
            session.listeners_changed(self.listeners)
        self._poll_soon()

    # --- output

    def publish(self, messages: list[bytes]) -> None:
        send = self._send
        if self._outward is None or send is None:
            return
        for message in messages:
            send(message, _NOW)
            self.sent_bytes += len(message)
        self._poll_soon()


class BusLink(Link):
    """The link to all subscribers."""

    __slots__ = ("_door",)

    def __init__(self, door: BusDoor) -> None:
        super().__init__()
        self._door = door

    def write(self, messages: list[bytes]) -> None:
        self._door.publish(messages)

    def close(self) -> None:
        """Does nothing: the bus closes with the hall."""
