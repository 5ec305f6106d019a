"""ZeroMQ: one ROUTER for each endpoint, and a session for each way back to a peer.

ZeroMQ tells nobody who has come or gone. So a session is made by a message that comes by a new way, is kept
while it works, waits or has something to be told, and may be forgotten otherwise; that a peer is gone shows
when a message to it cannot be sent.

The law: the table of sessions is bounded, no message is taken apart before it is complete and within its
limits, and a peer that takes nothing is dropped; nobody else notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import TYPE_CHECKING, Any, Final, cast

import zmq

from hiringhall.core.limits import SECOND_US
from hiringhall.dialects.session import BAD_INPUT, DOOR_FULL, OVER_BUDGET, SLOW_PEER, Caller
from hiringhall.transports.budget import Budget, Holder, output_bytes
from hiringhall.transports.sockets import Curve, SocketRoom, ZmqOptions, listen

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session
    from hiringhall.engine.driver import Driver

    AnswerRoute = Callable[[list[bytes]], list[bytes] | None]
    """The frames before each message back to a peer, from those before a message of it; None: ill-formed."""

__all__ = ["Curve", "ZmqDoor", "ZmqLink", "ZmqOptions"]

MESSAGES_MAX: Final = 1000
"""Messages taken in by one turn; the rest waits for the next one, so that other doors have their turn."""
FRAMES_MAX: Final = 64
"""A message of more frames is no dialect's."""
UNSENT_PAUSE_S: Final = 0.001
UNSENT_PAUSE_MAX_S: Final = 0.1
"""The pause between tries to send what waits; it doubles while nothing goes."""
SWEEP_PAUSE_US: Final = 60 * SECOND_US
FULL_PAUSE_US: Final = SECOND_US
"""How often a full table is looked through for sessions that can be forgotten."""

_NOW: Final = int(zmq.DONTWAIT)
_MORE: Final = int(zmq.DONTWAIT) | int(zmq.SNDMORE)


class ZmqDoor:
    """One ROUTER, and the sessions of those who spoke to it."""

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
        """What the log calls it."""
        self.links: dict[tuple[bytes, ...], ZmqLink] = {}
        self.dropped = 0
        """Messages dropped: ill-formed, or by a new way while the table was full."""
        self.heard = 0
        """Messages taken in."""
        self._room: SocketRoom | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._receive: Callable[..., Any] | None = None
        self._send: Callable[..., Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor = -1
        self._held = 0
        """Links that the engine asked not to read from: one socket serves all, so then nobody is read from."""
        self._looking = False
        """A look for messages is due: a send may have swallowed the sign that some have come."""
        self._stuck: dict[ZmqLink, None] = {}
        """Peers for whom messages wait here, because ZeroMQ holds as many as it may."""
        self._unstuck: asyncio.Event | None = None
        """Somebody waits until there are none."""
        self._swept_us = 0

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that was bound."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._room = SocketRoom(self.options)
        socket = self._room.socket(zmq.ROUTER)
        self._socket = socket
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.ROUTER_HANDOVER, int(self.options.takeover))
        try:
            bound = await listen(socket, host, port)
        except OSError:
            await self.close()
            raise
        # Past the conveniences of pyzmq's own class, which cost as much again as sending does.
        self._receive = cast("Any", super(zmq.Socket, socket)).recv
        self._send = cast("Any", super(zmq.Socket, socket)).send
        self._descriptor = cast("int", socket.getsockopt(zmq.FD))
        loop.add_reader(self._descriptor, self._look)
        self._look_soon()
        return bound

    def close_listener(self) -> None:
        """Nothing to do before `close`: ZeroMQ would end with the listener every connection that came in by it,
        and whoever works may still report.
        """

    @property
    def busy(self) -> bool:
        """There are messages to take in, or some that ZeroMQ would not take yet."""
        return len(self._stuck) > 0 or self._has_mail()

    def shut(self) -> None:
        """Receive nothing more from now on. What ZeroMQ has taken is still sent; no peer is disconnected."""
        if self._socket is None:
            return
        if self._descriptor >= 0:
            # uvloop answers None where asyncio says bool: compiled, only what both are will do.
            cast("Any", self._loop).remove_reader(self._descriptor)
            self._descriptor = -1
        self._socket.close(round(self.options.close_wait_s * 1000))
        self._socket = None

    async def close(self) -> None:
        """Send what is still to be sent, if it goes soon, and forget everybody."""
        room = self._room
        if room is None:
            return
        self._room = None
        if self._stuck and self._socket is not None:
            self._unstuck = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._unstuck.wait(), self.options.close_wait_s)
        self.shut()
        for link in list(self.links.values()):
            self._forget(link)
        await room.close()

    # --- coming in

    def _look_soon(self) -> None:
        if not self._looking:
            self._looking = True
            assert self._loop is not None
            self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._looking = False
        if self._has_mail():
            self._look()

    def _has_mail(self) -> bool:
        if self._socket is None:
            return False
        return cast("int", self._socket.getsockopt(zmq.EVENTS)) & int(zmq.POLLIN) != 0

    def _look(self) -> None:
        """Take in what has come, up to a bound."""
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
        self._look_soon()

    def _take_in(self, envelope: list[bytes], frame: zmq.Frame) -> None:
        key = tuple(envelope)
        link = self.links.get(key)
        if link is None:
            link = self._welcome(key, envelope, frame)
            if link is None:
                self.dropped += 1
                return
        self.heard += 1
        link.heard_us = self.driver.scheduler.awake_us
        self.driver.receive(link.session, frame.bytes)

    def _welcome(self, key: tuple[bytes, ...], envelope: list[bytes], frame: zmq.Frame) -> ZmqLink | None:
        caller = Caller(_address(frame), -1, key, 0, self.name)
        route = self.answer_route(envelope) if len(envelope) < FRAMES_MAX else None
        if route is None:
            self.driver.reporter.report(
                BAD_INPUT, f"a message of {len(envelope) + 1} ill-formed frames", caller
            )
            return None
        self._sweep()
        if len(self.links) >= self.options.peers_max:
            text = f"it knows {self.options.peers_max} peers (peers_max)"
            self.driver.reporter.report(DOOR_FULL, text, caller)
            return None
        session = self.make_session(caller)
        session.prompt = True
        link = ZmqLink(self, key, route, session)
        self.links[key] = link
        self.driver.join(session, link)
        return link

    def _sweep(self) -> None:
        """Forget idle sessions: now and then the silent ones, and all of them when the table is full."""
        now_us = self.driver.scheduler.awake_us
        full = len(self.links) >= self.options.peers_max
        if now_us - self._swept_us < (FULL_PAUSE_US if full else SWEEP_PAUSE_US):
            return
        self._swept_us = now_us
        silent_us = now_us if full else now_us - round(self.options.idle_s * SECOND_US)
        for link in list(self.links.values()):
            if link.heard_us < silent_us and link.session.idle and not link.unsent:
                self._forget(link)

    def _forget(self, link: ZmqLink) -> None:
        self._stuck.pop(link, None)
        self.budget.forget(link)
        if self.links.pop(link.key, None) is not None:
            self.unhold(link)
            self.driver.leave(link.session)

    # --- going out

    def send(self, link: ZmqLink, messages: list[bytes]) -> None:
        if link.unsent:
            self._keep(link, messages)
            return
        sent = self._send_some(link, messages)
        if sent < len(messages):
            self._keep(link, messages[sent:])
        if not self._looking:
            self._look_soon()

    def _send_some(self, link: ZmqLink, messages: list[bytes]) -> int:
        """How many of the messages ZeroMQ has taken; all of them when nobody will ever have the rest."""
        send = self._send
        if self._socket is None or send is None:
            return len(messages)
        sent = 0
        try:
            for message in messages:
                for frame in link.route:
                    send(frame, _MORE)
                send(message, _NOW)
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

    def _keep(self, link: ZmqLink, messages: list[bytes]) -> None:
        """ZeroMQ holds as many messages for this peer as it may: the rest goes when some of them have gone."""
        if self.links.get(link.key) is not link:
            return
        if not link.unsent:
            link.stuck_s = 0.0
            if not self._stuck:
                self._send_later(UNSENT_PAUSE_S)
            self._stuck[link] = None
        link.unsent += messages
        link.unsent_bytes += sum([len(message) for message in messages])
        if link.unsent_bytes > self.options.unsent_bytes_max:
            link.session.report(SLOW_PEER, f"{link.unsent_bytes} bytes wait for it (unsent_bytes_max)")
            self._unreachable(link)
        else:
            self.budget.note(link)

    def _send_later(self, pause_s: float) -> None:
        assert self._loop is not None
        self._loop.call_later(pause_s, self._send_unsent, pause_s)

    def _send_unsent(self, pause_s: float) -> None:
        waited_s = pause_s
        pause_s = min(pause_s * 2, UNSENT_PAUSE_MAX_S)
        for link in list(self._stuck):
            messages = link.unsent
            sent = self._send_some(link, messages)
            link.unsent = messages[sent:]
            if sent:
                link.unsent_bytes -= sum([len(message) for message in messages[:sent]])
                link.stuck_s = 0.0
                pause_s = UNSENT_PAUSE_S
            else:
                link.stuck_s += waited_s
                if link.stuck_s > self.options.stall_s:
                    text = f"it has taken nothing for {self.options.stall_s:g} s (stall_s)"
                    link.session.report(SLOW_PEER, text)
                    self._unreachable(link)
            if not link.unsent:
                self._stuck.pop(link, None)
            if sent:
                self.budget.note(link)
        if self._stuck and self._socket is not None:
            self._send_later(pause_s)
        elif self._unstuck is not None:
            self._unstuck.set()
        self._look_soon()

    def _unreachable(self, link: ZmqLink) -> None:
        """The peer is gone, or takes nothing: what it was given just now it has never seen."""
        self._stuck.pop(link, None)
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
                # The sign that messages have come would stay, and the loop would look for them over and over.
                cast("Any", self._loop).remove_reader(self._descriptor)

    def unhold(self, link: ZmqLink) -> None:
        if link.held:
            link.held = False
            self._held -= 1
            if not self._held and self._descriptor >= 0:
                assert self._loop is not None
                self._loop.add_reader(self._descriptor, self._look)
                self._look_soon()


class ZmqLink(Holder):
    """The way back to one peer."""

    __slots__ = ("_door", "heard_us", "held", "key", "route", "session", "stuck_s", "unsent", "unsent_bytes")

    def __init__(self, door: ZmqDoor, key: tuple[bytes, ...], route: list[bytes], session: Session) -> None:
        super().__init__()
        self._door = door
        self.key = key
        self.route = route
        self.session = session
        self.heard_us = 0
        self.held = False
        self.unsent: list[bytes] = []
        """What ZeroMQ would not take yet."""
        self.unsent_bytes = 0
        self.stuck_s = 0.0
        """For how long it has taken nothing of that: the sum of the waits between tries, so that a pause of
        the hall does not count."""

    def write(self, messages: list[bytes]) -> None:
        self._door.send(self, messages)

    def close(self) -> None:
        """There is no connection of its own to close: the door forgets it."""
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
