"""A ROUTER: an identity for each connection, and a session for each route to a peer.

A route is the identity of the connection and the envelope of its messages: a device forwards the messages of
many peers by one connection. The first message by a new route creates a session. When the connection closes,
its sessions end at once. A session without a job, a wait or unsent output may be forgotten earlier.

Invariant: the table of sessions is bounded; what could not be sent to a peer is never counted as delivered; a
peer that does not read is dropped, and no other peer is affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Final

from hiringhall.core.limits import SECOND_US
from hiringhall.dialects.session import BAD_INPUT, DOOR_FULL, Caller
from hiringhall.transports.budget import Budget
from hiringhall.transports.zmtp.connection import Side
from hiringhall.transports.zmtp.frames import FRAMES_MAX, Command, Envelope, Message, Oversized
from hiringhall.transports.zmtp.handshake import ROUTER
from hiringhall.transports.zmtp.listener import Listener
from hiringhall.transports.zmtp.router_link import RouterLink

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session
    from hiringhall.engine.driver import Driver
    from hiringhall.transports.zmtp.connection import Connection
    from hiringhall.transports.zmtp.frames import Event
    from hiringhall.transports.zmtp.handshake import Introduction
    from hiringhall.transports.zmtp.options import ZmqOptions

    AnswerRoute = Callable[[list[bytes]], list[bytes] | None]
    """Makes the frames before each answer from the frames before a peer's message; None: malformed."""

SWEEP_PAUSE_US: Final = 60 * SECOND_US
FULL_PAUSE_US: Final = SECOND_US
"""How often a full table is searched for sessions that can be forgotten."""
_NUMBERS: Final = 1 << 32


class RouterDoor:
    """One ROUTER, and the sessions of its peers."""

    def __init__(
        self,
        driver: Driver,
        make_session: Callable[[Caller], Session],
        answer_route: AnswerRoute,
        options: ZmqOptions,
        budget: Budget | None = None,
    ) -> None:
        self.driver = driver
        self.budget = budget if budget is not None else Budget()
        self.make_session = make_session
        self.answer_route = answer_route
        self.options = options
        self.listener = Listener(driver, options, self.budget, ROUTER, self._make_side, FRAMES_MAX)
        self.links: dict[tuple[bytes, ...], RouterLink] = {}
        self.sides: dict[bytes, RouterSide] = {}
        """The connections by their identities."""
        self.dropped = 0
        """Number of messages dropped: malformed, or by a new route while the table was full."""
        self.received = 0
        """Number of messages received."""
        self.accepted = 0
        """Number of peers that became known since it opened."""
        self._last_number = secrets.randbelow(_NUMBERS)
        self._closing = False
        """The connections are closed by the hall: their sessions stay until the last commit."""
        self._all_sent: asyncio.Event | None = None
        """Set when no message waits any more."""
        self._blocked: dict[RouterLink, None] = {}
        """Links whose messages wait here, because their peer does not read."""
        self._swept_us = 0

    @property
    def name(self) -> str:
        """Its name in the log."""
        return self.listener.name

    @name.setter
    def name(self, name: str) -> None:
        self.listener.name = name

    @property
    def received_bytes(self) -> int:
        return self.listener.received_bytes

    @property
    def sent_bytes(self) -> int:
        return self.listener.sent_bytes

    @property
    def peers(self) -> int:
        """How many peers are known; a device has many of them behind one connection."""
        return len(self.links)

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Return the bound address. Raises OSError."""
        return await self.listener.open(host, port)

    def close_listener(self) -> None:
        """Nothing to do before `close`: a worker that has to connect anew may still report."""

    @property
    def busy(self) -> bool:
        """There are messages that were not given to the system yet."""
        return len(self._blocked) > 0

    def close_socket(self) -> None:
        """Receive nothing more. What was sent is still sent; the sessions stay."""
        self._closing = True
        self.listener.finish()

    async def close(self) -> None:
        """Send what is unsent, within `close_wait_s`, and end all sessions."""
        if self._blocked:
            self._all_sent = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_sent.wait(), self.options.close_wait_s)
        self._closing = True
        await self.listener.close()
        for link in list(self.links.values()):
            self.forget(link)

    # --- connections

    def _make_side(self, connection: Connection) -> Side:
        return RouterSide(self, connection)

    def admit(self, side: RouterSide, identity: bytes) -> str:
        """Give a connection its identity; the reason if it cannot have it."""
        if not identity:
            identity = self._new_identity()
        holder = self.sides.get(identity)
        if holder is not None:
            if not self.options.takeover:
                return "another connection uses its identity (takeover is off)"
            self._hand_over(holder, side)
        side.identity = identity
        self.sides[identity] = side
        return ""

    def _new_identity(self) -> bytes:
        while True:
            self._last_number = (self._last_number + 1) % _NUMBERS
            identity = b"\0" + self._last_number.to_bytes(4, "big")
            if identity not in self.sides:
                return identity

    def _hand_over(self, holder: RouterSide, side: RouterSide) -> None:
        """The peer has connected anew: to its sessions it is the same one, at another place."""
        for envelope, link in list(holder.links.items()):
            if link.failed_us:
                # It has missed a message, which its session must be told: it cannot go on.
                self._drop(link)
                continue
            side.links[envelope] = link
            link.side = side
            if link.held:
                side.connection.hold()
        side.blocked = holder.blocked
        side.unsent_bytes = holder.unsent_bytes
        holder.links = {}
        holder.blocked = {}
        holder.connection.abort()

    def lose(self, side: RouterSide) -> None:
        """A connection is closed: its sessions end."""
        if self.sides.get(side.identity) is side:
            del self.sides[side.identity]
        if not self._closing:
            for link in list(side.links.values()):
                self._drop(link)

    # --- sessions

    def add_link(self, side: RouterSide, frames: list[bytes]) -> RouterLink | None:
        """A message came by a new route. None: it is malformed, or the table is full."""
        envelope = [side.identity, *frames]
        key = tuple(envelope)
        caller = Caller(side.connection.address, -1, key, 0, self.name)
        route = self.answer_route(envelope)
        if route is None:
            self.driver.reporter.report(BAD_INPUT, f"a malformed message of {len(envelope)} frames", caller)
            return None
        self._sweep()
        if len(self.links) >= self.options.peers_max:
            text = f"it has {self.options.peers_max} peers (peers_max)"
            self.driver.reporter.report(DOOR_FULL, text, caller)
            return None
        session = self.make_session(caller)
        session.prompt = True
        link = RouterLink(self, side, key, route[1:], session)
        self.links[key] = link
        side.links[key[1:]] = link
        self.accepted += 1
        self.driver.join(session, link)
        return link

    def _sweep(self) -> None:
        """Forget idle sessions: regularly those silent for `idle_s`, and all of them when the table is full."""
        now_us = self.driver.scheduler.awake_us
        full = len(self.links) >= self.options.peers_max
        if now_us - self._swept_us < (FULL_PAUSE_US if full else SWEEP_PAUSE_US):
            return
        self._swept_us = now_us
        silent_us = now_us if full else now_us - round(self.options.idle_s * SECOND_US)
        for link in list(self.links.values()):
            if link.received_us < silent_us and link.session.idle and not link.unsent:
                self.forget(link)

    def forget(self, link: RouterLink) -> None:
        """End a session whose peer is not gone."""
        if self._remove(link):
            self.driver.leave(link.session)

    def _drop(self, link: RouterLink) -> None:
        """End a session whose peer is gone: what it has not received is given back."""
        if not self._remove(link):
            return
        driver = self.driver
        driver.turn()
        worker = link.session.worker
        if worker is not None and link.failed_us:
            for lease in reversed(list(worker.leases.values())):
                if lease.started_us >= link.failed_us:
                    driver.scheduler.release(lease)
        link.session.undelivered()
        driver.leave(link.session)

    def _remove(self, link: RouterLink) -> bool:
        """Take a link out of the tables; False: it was not in them."""
        if self.links.get(link.key) is not link:
            return False
        del self.links[link.key]
        link.side.remove(link)
        self.unblock(link)
        self.budget.forget(link)
        if link.held:
            link.held = False
            link.side.connection.unhold()
        return True

    def end_later(self, link: RouterLink) -> None:
        """End a session after this turn; its connection stays."""
        self.listener.call_soon(lambda: self._drop(link))

    # --- messages that wait

    def block(self, link: RouterLink) -> None:
        """Messages wait for a peer that does not read."""
        self._blocked[link] = None
        link.side.blocked[link] = None

    def unblock(self, link: RouterLink) -> None:
        self._blocked.pop(link, None)
        link.side.blocked.pop(link, None)
        if not self._blocked and self._all_sent is not None:
            self._all_sent.set()


class RouterSide(Side):
    """One connection: its identity, and its routes."""

    __slots__ = ("_door", "_frames", "_link", "blocked", "connection", "identity", "links", "unsent_bytes")

    def __init__(self, door: RouterDoor, connection: Connection) -> None:
        super().__init__()
        self._door = door
        self.connection = connection
        self.identity = b""
        self.links: dict[tuple[bytes, ...], RouterLink] = {}
        """The sessions behind this connection, by their envelopes."""
        self.blocked: dict[RouterLink, None] = {}
        """Those of them whose messages wait because the peer does not read."""
        self.unsent_bytes = 0
        """Bytes of these messages."""
        self._frames: list[bytes] = []
        """The envelope of the messages that are read now."""
        self._link: RouterLink | None = None
        """The session that it belongs to, if that is known."""

    def admit(self, peer: Introduction) -> str:
        return self._door.admit(self, peer.identity)

    def opened(self) -> None:
        self.drained()  # what waits was left by the connection before it

    def route(self) -> tuple[bytes, ...]:
        return (self.identity,) if self.identity else ()

    def take(self, events: list[Event]) -> None:
        door = self._door
        driver = door.driver
        driver.turn()
        link = self._link
        if link is not None:
            link.received_us = driver.scheduler.awake_us
        for event in events:
            if isinstance(event, Message):
                if link is None:
                    link = self._find_link()
                    if link is None:
                        door.dropped += 1
                        continue
                door.received += 1
                driver.receive(link.session, event.body)
            elif isinstance(event, Envelope):
                self._frames = event.frames
                self._link = link = None
            elif isinstance(event, Command):
                self.connection.answer(event)
            elif isinstance(event, Oversized):
                door.dropped += 1
                self.connection.report(BAD_INPUT, f"a message of {event.frames} frames")

    def _find_link(self) -> RouterLink | None:
        link = self.links.get(tuple(self._frames))
        if link is None:
            link = self._door.add_link(self, self._frames)
        if link is not None:
            link.received_us = self._door.driver.scheduler.awake_us
        self._link = link
        return link

    def remove(self, link: RouterLink) -> None:
        self.unsent_bytes -= link.unsent_bytes
        self.links.pop(link.key[1:], None)
        if self._link is link:
            self._link = None

    def drained(self) -> None:
        for link in list(self.blocked):
            link.send_unsent()
            if not self.connection.writable:
                return

    def lost(self) -> None:
        self._door.lose(self)
