"""ZeroMQ: one ROUTER for each endpoint, and a session for each route to a peer.

ZeroMQ does not report who connects and disconnects. So the first message by a new route creates a session. It
is kept while it has a job, waits or has unsent output, and may be forgotten otherwise. A peer is known to be
gone when a message to it cannot be sent.

Invariant: the table of sessions is bounded; a message is parsed only when it is complete and within its
limits; a peer that does not read is dropped, and no other peer is affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import TYPE_CHECKING, Any, Final, cast

import zmq

from hiringhall.core.limits import SECOND_US
from hiringhall.dialects.session import BAD_INPUT, DOOR_FULL, OVER_BUDGET, SLOW_PEER, Caller
from hiringhall.transports.budget import Budget, BufferedLink, output_bytes
from hiringhall.transports.sockets import Curve, SocketSet, ZmqOptions, listen

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session
    from hiringhall.engine.driver import Driver

    AnswerRoute = Callable[[list[bytes]], list[bytes] | None]
    """Makes the frames before each answer from the frames before a peer's message; None: malformed."""

__all__ = ["Curve", "ZmqDoor", "ZmqLink", "ZmqOptions"]

MESSAGES_MAX: Final = 1000
"""Messages received in one turn. The rest waits for the next turn, so that other doors are served."""
FRAMES_MAX: Final = 64
"""No dialect has messages with more frames."""
UNSENT_PAUSE_S: Final = 0.001
UNSENT_PAUSE_MAX_S: Final = 0.1
"""The pause between attempts to send what waits. It doubles while nothing can be sent."""
SWEEP_PAUSE_US: Final = 60 * SECOND_US
FULL_PAUSE_US: Final = SECOND_US
"""How often a full table is searched for sessions that can be forgotten."""

_NOW: Final = int(zmq.DONTWAIT)
_MORE: Final = int(zmq.DONTWAIT) | int(zmq.SNDMORE)


class ZmqDoor:
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
        self.name = ""
        """Its name in the log."""
        self.links: dict[tuple[bytes, ...], ZmqLink] = {}
        self.dropped = 0
        """Number of messages dropped: malformed, or by a new route while the table was full."""
        self.received = 0
        """Number of messages received."""
        self.accepted = 0
        """Number of peers that became known since it opened."""
        self.received_bytes = 0
        """Bytes of messages, without their routes."""
        self.sent_bytes = 0
        self._sockets: SocketSet | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._receive: Callable[..., Any] | None = None
        self._send: Callable[..., Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor = -1
        self._held = 0
        """Number of links that the engine has paused. All share one socket, so then nothing is read."""
        self._poll_scheduled = False
        """A poll is scheduled: a send may have consumed the signal that messages have come."""
        self._blocked: dict[ZmqLink, None] = {}
        """Peers whose messages wait here, because ZeroMQ's queue for them is full."""
        self._all_sent: asyncio.Event | None = None
        """Set when nothing waits any more."""
        self._swept_us = 0

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Return the bound address."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._sockets = SocketSet(self.options)
        socket = self._sockets.socket(zmq.ROUTER)
        self._socket = socket
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.ROUTER_HANDOVER, int(self.options.takeover))
        try:
            bound = await listen(socket, host, port)
        except OSError:
            await self.close()
            raise
        # The methods of pyzmq's base class: its Python wrappers cost as much again as sending does.
        self._receive = cast("Any", super(zmq.Socket, socket)).recv
        self._send = cast("Any", super(zmq.Socket, socket)).send
        self._descriptor = cast("int", socket.getsockopt(zmq.FD))
        loop.add_reader(self._descriptor, self._receive_pending)
        self._poll_soon()
        return bound

    @property
    def peers(self) -> int:
        """How many peers are known: ZeroMQ does not tell how many are connected."""
        return len(self.links)

    def close_listener(self) -> None:
        """Nothing to do before `close`: ZeroMQ would close every connection together with the listener, and
        workers may still report.
        """

    @property
    def busy(self) -> bool:
        """There are messages to receive, or messages that ZeroMQ has not accepted yet."""
        return len(self._blocked) > 0 or self._has_input()

    def close_socket(self) -> None:
        """Receive nothing more. Messages that ZeroMQ has accepted are still sent; the sessions stay."""
        if self._socket is None:
            return
        if self._descriptor >= 0:
            # uvloop returns None where asyncio returns bool; compiled code must accept both.
            cast("Any", self._loop).remove_reader(self._descriptor)
            self._descriptor = -1
        self._socket.close(round(self.options.close_wait_s * 1000))
        self._socket = None

    async def close(self) -> None:
        """Send what is unsent, within `close_wait_s`, and end all sessions."""
        sockets = self._sockets
        if sockets is None:
            return
        self._sockets = None
        if self._blocked and self._socket is not None:
            self._all_sent = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_sent.wait(), self.options.close_wait_s)
        self.close_socket()
        for link in list(self.links.values()):
            self._forget(link)
        await sockets.close()

    # --- input

    def _poll_soon(self) -> None:
        if not self._poll_scheduled:
            self._poll_scheduled = True
            assert self._loop is not None
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._poll_scheduled = False
        if self._has_input():
            self._receive_pending()

    def _has_input(self) -> bool:
        if self._socket is None:
            return False
        return cast("int", self._socket.getsockopt(zmq.EVENTS)) & int(zmq.POLLIN) != 0

    def _receive_pending(self) -> None:
        """Receive up to `MESSAGES_MAX` messages."""
        receive = self._receive
        if self._held > 0 or self._socket is None or receive is None:
            return
        self.driver.turn()
        for _ in range(MESSAGES_MAX):
            try:
                frames: list[bytes] = [receive(_NOW)]
            except zmq.Again:
                return
            frame = receive(_NOW, False)
            while frame.more:
                if len(frames) < FRAMES_MAX:
                    frames.append(frame.bytes)
                frame = receive(_NOW, False)
            self._take_in(frames, frame)
            if self._held > 0:
                return
        self._poll_soon()

    def _take_in(self, envelope: list[bytes], frame: zmq.Frame) -> None:
        key = tuple(envelope)
        link = self.links.get(key)
        if link is None:
            link = self._add_peer(key, envelope, frame)
            if link is None:
                self.dropped += 1
                return
        self.received += 1
        link.received_us = self.driver.scheduler.awake_us
        data = frame.bytes
        self.received_bytes += len(data)
        self.driver.receive(link.session, data)

    def _add_peer(self, key: tuple[bytes, ...], envelope: list[bytes], frame: zmq.Frame) -> ZmqLink | None:
        caller = Caller(_address(frame), -1, key, 0, self.name)
        route = self.answer_route(envelope) if len(envelope) < FRAMES_MAX else None
        if route is None:
            self.driver.reporter.report(BAD_INPUT, f"a malformed message of {len(envelope) + 1} frames", caller)
            return None
        self._sweep()
        if len(self.links) >= self.options.peers_max:
            text = f"it has {self.options.peers_max} peers (peers_max)"
            self.driver.reporter.report(DOOR_FULL, text, caller)
            return None
        session = self.make_session(caller)
        session.prompt = True
        link = ZmqLink(self, key, route, session)
        self.links[key] = link
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
                self._forget(link)

    def _forget(self, link: ZmqLink) -> None:
        self._blocked.pop(link, None)
        self.budget.forget(link)
        if self.links.pop(link.key, None) is not None:
            self.unhold(link)
            self.driver.leave(link.session)

    # --- output

    def send(self, link: ZmqLink, messages: list[bytes]) -> None:
        if link.unsent:
            self._queue_unsent(link, messages)
            return
        sent = self._send_some(link, messages)
        if sent < len(messages):
            self._queue_unsent(link, messages[sent:])
        if not self._poll_scheduled:
            self._poll_soon()

    def _send_some(self, link: ZmqLink, messages: list[bytes]) -> int:
        """Return how many messages ZeroMQ has accepted; all of them if the peer is gone."""
        send = self._send
        if self._socket is None or send is None:
            return len(messages)
        sent = 0
        try:
            for message in messages:
                for frame in link.route:
                    send(frame, _MORE)
                send(message, _NOW)
                self.sent_bytes += len(message)
                sent += 1
        except zmq.Again:
            return sent
        except zmq.ZMQError as error:
            if error.errno != errno.EHOSTUNREACH:
                raise
            self._unreachable(link)
        finally:
            link.session.delivered += sent
        return len(messages)

    def _queue_unsent(self, link: ZmqLink, messages: list[bytes]) -> None:
        """ZeroMQ's queue for this peer is full: keep the rest until some messages are sent."""
        if self.links.get(link.key) is not link:
            return
        if not link.unsent:
            link.blocked_s = 0.0
            if not self._blocked:
                self._send_later(UNSENT_PAUSE_S)
            self._blocked[link] = None
        link.unsent += messages
        link.unsent_bytes += sum([len(message) for message in messages])
        if link.unsent_bytes > self.options.unsent_bytes_max:
            text = f"it has {link.unsent_bytes} bytes of unsent output (unsent_bytes_max)"
            link.session.report(SLOW_PEER, text)
            self._unreachable(link)
        else:
            self.budget.note(link)

    def _send_later(self, pause_s: float) -> None:
        assert self._loop is not None
        self._loop.call_later(pause_s, self._send_unsent, pause_s)

    def _send_unsent(self, pause_s: float) -> None:
        waited_s = pause_s
        pause_s = min(pause_s * 2, UNSENT_PAUSE_MAX_S)
        for link in list(self._blocked):
            messages = link.unsent
            sent = self._send_some(link, messages)
            link.unsent = messages[sent:]
            if sent:
                link.unsent_bytes -= sum([len(message) for message in messages[:sent]])
                link.blocked_s = 0.0
                pause_s = UNSENT_PAUSE_S
            else:
                link.blocked_s += waited_s
                if link.blocked_s > self.options.stall_s:
                    text = f"it has read nothing for {self.options.stall_s:g} s (stall_s)"
                    link.session.report(SLOW_PEER, text)
                    self._unreachable(link)
            if not link.unsent:
                self._blocked.pop(link, None)
            if sent:
                self.budget.note(link)
        if self._blocked and self._socket is not None:
            self._send_later(pause_s)
        elif self._all_sent is not None:
            self._all_sent.set()
        self._poll_soon()

    def _unreachable(self, link: ZmqLink) -> None:
        """The peer is gone or does not read: it has not seen the jobs that it was given in this turn."""
        self._blocked.pop(link, None)
        self.budget.forget(link)
        if self.links.pop(link.key, None) is not None:
            assert self._loop is not None
            self._loop.call_soon(self._drop_unreachable, link, self.driver.scheduler.now_us)

    def _drop_unreachable(self, link: ZmqLink, given_us: int) -> None:
        driver = self.driver
        driver.turn()
        self.unhold(link)
        worker = link.session.worker
        if worker is not None:
            for lease in reversed(list(worker.leases.values())):
                if lease.started_us >= given_us:
                    driver.scheduler.release(lease)
        link.session.undelivered()
        driver.leave(link.session)

    def hold(self, link: ZmqLink) -> None:
        if not link.held:
            link.held = True
            self._held += 1
            if self._held == 1 and self._descriptor >= 0:
                # The descriptor would stay readable, and the loop would call back again and again.
                cast("Any", self._loop).remove_reader(self._descriptor)

    def unhold(self, link: ZmqLink) -> None:
        if link.held:
            link.held = False
            self._held -= 1
            if not self._held and self._descriptor >= 0:
                assert self._loop is not None
                self._loop.add_reader(self._descriptor, self._receive_pending)
                self._poll_soon()


class ZmqLink(BufferedLink):
    """The link to one peer."""

    __slots__ = (
        "_door",
        "blocked_s",
        "held",
        "key",
        "received_us",
        "route",
        "session",
        "unsent",
        "unsent_bytes",
    )

    def __init__(self, door: ZmqDoor, key: tuple[bytes, ...], route: list[bytes], session: Session) -> None:
        super().__init__()
        self._door = door
        self.key = key
        self.route = route
        self.session = session
        self.received_us = 0
        self.held = False
        self.unsent: list[bytes] = []
        """Messages that ZeroMQ has not accepted yet."""
        self.unsent_bytes = 0
        self.blocked_s = 0.0
        """How long none of them was accepted: the sum of the pauses between attempts, so that a pause of the
        hall does not count."""

    def write(self, messages: list[bytes]) -> None:
        self._door.send(self, messages)

    def close(self) -> None:
        """It has no connection of its own to close: the door ends its session."""
        self._door._unreachable(self)  # noqa: SLF001 (its other half)

    def pause(self) -> None:
        self._door.hold(self)
        self._door.budget.note(self)

    def resume(self) -> None:
        if self.held:
            self._door.unhold(self)
            self._door.budget.note(self)

    def kept_bytes(self) -> int:
        return self.unsent_bytes + output_bytes(self.session)

    def drop(self, text: str) -> None:
        self.session.report(OVER_BUDGET, text)
        self.unsent = []
        self.unsent_bytes = 0
        self._door._unreachable(self)  # noqa: SLF001 (its other half)


def _address(frame: zmq.Frame) -> str:
    try:
        return str(frame.get("Peer-Address"))
    except (zmq.ZMQError, KeyError):
        return ""
