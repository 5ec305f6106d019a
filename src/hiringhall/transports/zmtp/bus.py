"""A ZeroMQ bus: peers publish at one address and subscribe at another. One session receives and sends it all.

At the first address the hall is a SUB that subscribes to everything, at the second one an XPUB: it knows who
has subscribed to what, so the session knows whether anybody listens.

Invariant: a subscriber that is too slow misses messages, as usual on a bus; nobody waits for it, what waits for
it is bounded, and no other peer is affected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.dialects.session import BAD_INPUT, Caller, Link
from hiringhall.transports.budget import Budget
from hiringhall.transports.zmtp.connection import Side
from hiringhall.transports.zmtp.frames import COMMAND, Command, Message, Oversized, command_body, frame
from hiringhall.transports.zmtp.handshake import SUB, XPUB
from hiringhall.transports.zmtp.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session
    from hiringhall.engine.driver import Driver
    from hiringhall.transports.zmtp.connection import Connection
    from hiringhall.transports.zmtp.frames import Event
    from hiringhall.transports.zmtp.handshake import Introduction
    from hiringhall.transports.zmtp.options import ZmqOptions

OUT_BYTES_MAX: Final = 1 << 62
"""No limit: the output of one turn is bounded by its input, and a bus is never closed for its output."""
PREFIXES_MAX: Final = 10_000
PREFIXES_BYTES_MAX: Final = 1 << 20
"""How much one peer may subscribe to."""
_SUBSCRIBE: Final = b"SUBSCRIBE"
_CANCEL: Final = b"CANCEL"
_SUBSCRIBED: Final = 1
_UNSUBSCRIBED: Final = 0
"""The first byte of a subscription, and of its end, from a peer before ZMTP 3.1."""


class BusDoor:
    """Both addresses, and the session between them."""

    def __init__(
        self,
        driver: Driver,
        make_session: Callable[[Caller], Session],
        options: ZmqOptions,
        budget: Budget | None = None,
    ) -> None:
        self.driver = driver
        self.budget = budget if budget is not None else Budget()
        self.make_session = make_session
        self.options = options
        self.session: Session | None = None
        self.subscribers: dict[SubscriberSide, None] = {}
        self.dropped = 0
        """Number of messages dropped because they had several frames; one is allowed."""
        self.accepted = 0
        """Number of subscriptions made since it opened."""
        self.listeners = 0
        """Number of subscriptions. A peer counts once for each prefix that it has subscribed to."""
        self._inward = Listener(driver, options, self.budget, SUB, self._make_publisher, 1)
        self._outward = Listener(
            driver, options, self.budget, XPUB, self._make_subscriber, 1, drops_stalled=False
        )

    @property
    def name(self) -> str:
        """Its name in the log."""
        return self._inward.name

    @name.setter
    def name(self, name: str) -> None:
        self._inward.name = name
        self._outward.name = name

    @property
    def received_bytes(self) -> int:
        return self._inward.received_bytes + self._outward.received_bytes

    @property
    def sent_bytes(self) -> int:
        return self._inward.sent_bytes + self._outward.sent_bytes

    @property
    def peers(self) -> int:
        """How many subscriptions there are."""
        return self.listeners

    async def open_inward(self, host: str, port: int) -> tuple[str, int]:
        """Listen for publishers. Return the bound address. Raises OSError."""
        return await self._inward.open(host, port)

    async def open_outward(self, host: str, port: int) -> tuple[str, int]:
        """Listen for subscribers, and start to receive from publishers. Return the bound address."""
        bound = await self._outward.open(host, port)
        self.driver.turn()
        self.session = self.make_session(Caller("", -1, (), 0, self.name))
        self.session.prompt = True
        self.session.out_bytes_max = OUT_BYTES_MAX
        self.driver.join(self.session, BusLink(self))
        return bound

    def close_listener(self) -> None:
        """Nothing to do before `close`: workers may still report."""

    async def close(self) -> None:
        """Send what is unsent, within `close_wait_s`, and close."""
        session = self.session
        if session is not None:
            self.session = None
            self.driver.leave(session)
        await self._inward.close()
        await self._outward.close()

    # --- what comes

    def _make_publisher(self, connection: Connection) -> Side:
        return PublisherSide(self, connection)

    def _make_subscriber(self, connection: Connection) -> Side:
        return SubscriberSide(self, connection)

    def receive(self, body: bytes) -> None:
        session = self.session
        if session is not None:
            self.driver.receive(session, body)

    def count_listeners(self, change: int) -> None:
        """A subscription begins or ends. The session is told of each one and not of their sum: if one peer
        leaves and another comes, there is a new listener.
        """
        self.listeners += change
        if change > 0:
            self.accepted += 1
        if self.session is not None:
            self.driver.turn()
            self.session.listeners_changed(self.listeners)

    # --- what is sent

    def publish(self, messages: list[bytes]) -> None:
        wire = b"".join([frame(message) for message in messages])
        for subscriber in list(self.subscribers):
            subscriber.publish(messages, wire)


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


class PublisherSide(Side):
    """One peer that publishes."""

    __slots__ = ("_connection", "_door", "_knows_commands")

    def __init__(self, door: BusDoor, connection: Connection) -> None:
        super().__init__()
        self._door = door
        self._connection = connection
        self._knows_commands = False
        """It knows the command SUBSCRIBE (ZMTP 3.1)."""

    def admit(self, peer: Introduction) -> str:
        self._knows_commands = (peer.version, peer.minor) >= (3, 1)
        return ""

    def opened(self) -> None:
        """Subscribe to everything."""
        connection = self._connection
        if self._knows_commands:
            connection.send(connection.encode(command_body(_SUBSCRIBE), COMMAND))
        else:
            connection.send(connection.encode(bytes((_SUBSCRIBED,))))

    def take(self, events: list[Event]) -> None:
        door = self._door
        door.driver.turn()
        for event in events:
            if isinstance(event, Message):
                door.receive(event.body)
            elif isinstance(event, Oversized):
                door.dropped += 1
            elif isinstance(event, Command):
                self._connection.answer(event)


class SubscriberSide(Side):
    """One peer that subscribes."""

    __slots__ = ("_connection", "_door", "_prefixes", "_prefixes_bytes", "_unsent", "_unsent_bytes")

    def __init__(self, door: BusDoor, connection: Connection) -> None:
        super().__init__()
        self._door = door
        self._connection = connection
        self._prefixes: dict[bytes, int] = {}
        """What it has subscribed to, and how often."""
        self._prefixes_bytes = 0
        self._unsent: list[bytes] = []
        """Messages that wait because it does not read."""
        self._unsent_bytes = 0

    def admit(self, peer: Introduction) -> str:
        del peer
        return ""

    def opened(self) -> None:
        self._door.subscribers[self] = None

    def take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Command):
                if event.name == _SUBSCRIBE:
                    self._subscribe(event.data)
                elif event.name == _CANCEL:
                    self._cancel(event.data)
                else:
                    self._connection.answer(event)
            elif isinstance(event, Message):
                first = event.body[0] if event.body else -1
                if first == _SUBSCRIBED:
                    self._subscribe(event.body[1:])
                elif first == _UNSUBSCRIBED:
                    self._cancel(event.body[1:])

    def _subscribe(self, prefix: bytes) -> None:
        count = self._prefixes.get(prefix, 0)
        if not count:
            self._prefixes_bytes += len(prefix)
            if len(self._prefixes) >= PREFIXES_MAX or self._prefixes_bytes > PREFIXES_BYTES_MAX:
                self._connection.report(BAD_INPUT, "it has too many subscriptions, or too long ones")
                self._connection.abort()
                return
        self._prefixes[prefix] = count + 1
        if not count:
            self._door.count_listeners(1)

    def _cancel(self, prefix: bytes) -> None:
        count = self._prefixes.get(prefix, 0)
        if count > 1:
            self._prefixes[prefix] = count - 1
        elif count:
            del self._prefixes[prefix]
            self._prefixes_bytes -= len(prefix)
            self._door.count_listeners(-1)

    def publish(self, messages: list[bytes], wire: bytes) -> None:
        """Send what it has subscribed to. `wire` is all of it, as it is on the wire."""
        connection = self._connection
        wanted = messages
        if b"" not in self._prefixes:
            prefixes = tuple(self._prefixes)
            wanted = [message for message in messages if message.startswith(prefixes)]
        if not wanted or connection.is_closing:
            return
        if self._unsent or not connection.writable:
            self._queue(wanted)
        elif connection.sealer is None and wanted is messages:
            connection.send(wire)
        else:
            connection.send(b"".join([connection.encode(message) for message in wanted]))

    def _queue(self, messages: list[bytes]) -> None:
        """It does not read: keep a few for it."""
        options = self._door.options
        for message in messages:
            if len(self._unsent) >= options.send_messages_max:
                break
            if self._unsent_bytes + len(message) > options.unsent_bytes_max:
                break
            self._unsent.append(message)
            self._unsent_bytes += len(message)
        self._door.budget.note(self._connection)

    def drained(self) -> None:
        connection = self._connection
        sent = 0
        while sent < len(self._unsent) and connection.writable:
            message = self._unsent[sent]
            sent += 1
            self._unsent_bytes -= len(message)
            connection.send(connection.encode(message))
        self._unsent = self._unsent[sent:]
        self._door.budget.note(connection)

    def kept_bytes(self) -> int:
        return self._unsent_bytes + self._prefixes_bytes

    def lost(self) -> None:
        self._door.subscribers.pop(self, None)
        prefixes = self._prefixes
        self._prefixes = {}
        for _ in prefixes:
            self._door.count_listeners(-1)
