"""One ZeroMQ connection: the protocol of its asyncio transport.

It shakes hands, reads frames and answers PING. What the messages mean is the business of its `Side`.

Invariant: a peer that breaks the protocol, does not read or falls silent costs its own connection, and no other
peer is affected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from hiringhall.core.errors import BrokenLaw
from hiringhall.dialects.session import BAD_INPUT, OVER_BUDGET, SLOW_PEER, UNAUTHORIZED, Caller
from hiringhall.transports.budget import NOTED_BYTES_MIN, BufferedLink
from hiringhall.transports.streams import keep_alive, peer_address, send_at_once
from hiringhall.transports.zmtp.curve import OVERHEAD_BYTES
from hiringhall.transports.zmtp.frames import COMMAND, FrameReader, command_body, frame
from hiringhall.transports.zmtp.handshake import OPENING, Handshake, Introduction, Refused

if TYPE_CHECKING:
    import asyncio
    import socket

    from hiringhall.transports.zmtp.curve import CurveSealer
    from hiringhall.transports.zmtp.frames import Command, Event
    from hiringhall.transports.zmtp.listener import Listener

BACKLOG_BYTES: Final = 65_536
"""With more than this unsent, nothing more is given to the transport."""
SILENT_PINGS: Final = 2
SILENT_MAX: Final = 4
"""Heartbeats without a sign of the peer: it is probed from the first number on, and closed at the second."""
CONTEXT_BYTES_MAX: Final = 16
"""Of a PING, what its PONG returns."""
PING: Final = command_body(b"PING", bytes(2))
GRACE_S: Final = 0.25
"""When the time that a peer gave in its PING is over, what has come meanwhile is read first."""


class Side:
    """What a socket of the hall does with one of its connections."""

    def admit(self, peer: Introduction) -> str:  # noqa: ARG002
        """The peer has introduced itself: why it is not let in; empty: it is."""
        raise BrokenLaw("the side of a connection must override admit")

    def opened(self) -> None:
        """The handshake is over."""

    def take(self, events: list[Event]) -> None:  # noqa: ARG002
        """Something was read."""
        raise BrokenLaw("the side of a connection must override take")

    def drained(self) -> None:
        """After the connection was not writable, it is again."""

    def lost(self) -> None:
        """The connection is closed. Called once for each peer that was let in."""

    def kept_bytes(self) -> int:
        """What is kept for the peer here."""
        return 0

    def route(self) -> tuple[bytes, ...]:
        """Its identity if it has one, for the log."""
        return ()


class Connection(BufferedLink):
    """One connection."""

    __slots__ = (
        "_admitted",
        "_handshake",
        "_holds",
        "_in_pieces",
        "_listener",
        "_reader",
        "_transport",
        "_ttl_timer",
        "_version",
        "_waiting",
        "address",
        "blocked_s",
        "sealer",
        "side",
        "silent",
        "unsent_before",
        "writable",
    )

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener
        self.side: Side = listener.make_side(self)
        self.address = ""
        self.writable = False
        """What is sent can be given to the transport at once."""
        self.sealer: CurveSealer | None = None
        """Encrypts frames; None: they are not encrypted."""
        self.silent = 0
        """Heartbeats since the latest sign of the peer."""
        self.blocked_s = 0.0
        """How long the peer has read nothing of what waits for it: the sum of the pauses between two looks, so
        that a pause of the hall does not count."""
        self.unsent_before = 0
        """Unsent bytes when that was last looked at."""
        self._transport: asyncio.Transport | None = None
        self._handshake: Handshake | None = None
        self._reader: FrameReader | None = None
        self._version = 0
        self._admitted = False
        self._in_pieces = False
        """A part of an incomplete message is noted in the budget."""
        self._holds = 0
        """Reasons not to read from the peer."""
        self._waiting: list[Event] = []
        """What was read and is taken in the next turns."""
        self._ttl_timer: asyncio.TimerHandle | None = None

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface of asyncio.Transport, but do not inherit from it.
        transport = cast("asyncio.Transport", transport)
        listener = self._listener
        self.address = peer_address(transport)[0]
        if not listener.admit(self):
            transport.abort()
            return
        self._transport = transport
        transport.set_write_buffer_limits(high=BACKLOG_BYTES)
        send_at_once(transport.get_extra_info("socket"))
        self._handshake = Handshake(listener.own, listener.keys)
        transport.write(OPENING)

    def data_received(self, data: bytes) -> None:
        self.silent = 0
        self._listener.received_bytes += len(data)
        reader = self._reader
        if reader is not None:
            self._read(reader, data)
        elif self._handshake is not None:
            self._shake_hands(self._handshake, data)

    def eof_received(self) -> bool:
        """ZeroMQ has no half-closed connections."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self._handshake = None
        self._reader = None
        self.writable = False
        if self._admitted:
            self._take_all()  # it came before the end
        if self._ttl_timer is not None:
            self._ttl_timer.cancel()
            self._ttl_timer = None
        self._listener.forget(self)
        if self._admitted:
            self._admitted = False
            self.side.lost()

    def pause_writing(self) -> None:
        self.writable = False
        self.blocked_s = 0.0
        self.unsent_before = self.unsent_bytes
        self._listener.block(self)
        self._listener.budget.note(self)

    def resume_writing(self) -> None:
        self._listener.blocked.pop(self, None)
        self._listener.budget.note(self)
        if self._admitted:
            self.writable = True
            self.side.drained()

    # --- the handshake

    def _shake_hands(self, handshake: Handshake, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        try:
            reply = handshake.feed(data)
            peer = handshake.peer
            if peer is not None:
                refusal = self.side.admit(peer)
                if refusal:
                    raise Refused(refusal)
        except Refused as refused:
            self.refuse(refused.text, UNAUTHORIZED if refused.denied else BAD_INPUT, refused.reply)
            return
        if peer is None:
            if reply:
                transport.write(reply)
            return
        transport.write(reply + handshake.accept())
        self._begin(handshake, peer, transport)

    def _begin(self, handshake: Handshake, peer: Introduction, transport: asyncio.Transport) -> None:
        """The peer is let in."""
        listener = self._listener
        listener.handshaking.pop(self, None)
        opener = handshake.opener()
        bytes_max = listener.options.message_bytes_max + (OVERHEAD_BYTES if opener is not None else 0)
        reader = FrameReader(bytes_max, listener.frames_max, opener)
        self.sealer = handshake.sealer()
        self._reader = reader
        self._handshake = None
        self._version = peer.version
        self._admitted = True
        self.writable = True
        if peer.version < 3:
            sock: socket.socket = transport.get_extra_info("socket")
            keep_alive(sock, *listener.keepalive)  # it knows no PING
        self.side.opened()
        rest = handshake.rest()
        if rest:
            self._read(reader, rest)

    # --- reading

    def _read(self, reader: FrameReader, data: bytes) -> None:
        events = reader.feed(data)
        if events:
            if self._waiting or len(events) > self._listener.options.receive_messages_max:
                self._take_in_turns(events)
            else:
                self.side.take(events)
        if reader.trouble:
            self._take_all()
            self.refuse(reader.trouble)
        elif self._in_pieces or reader.kept_bytes >= NOTED_BYTES_MIN:
            self._in_pieces = reader.kept_bytes >= NOTED_BYTES_MIN
            self._listener.budget.note(self)

    def _take_in_turns(self, events: list[Event]) -> None:
        """One peer must not fill a turn: take the first of these, and the rest in the next turns."""
        if not self._waiting:
            self.hold()
            self._listener.call_soon(self._take_more)
        self._waiting += events

    def _take_more(self) -> None:
        waiting = self._waiting
        if not waiting:
            return
        count = self._listener.options.receive_messages_max
        self._waiting = waiting[count:]
        self.side.take(waiting[:count])
        # After this: the turn that has just begun ends first.
        if self._waiting:
            self._listener.call_soon(self._take_more)
        else:
            self.unhold()

    def _take_all(self) -> None:
        if self._waiting:
            waiting = self._waiting
            self._waiting = []
            self.unhold()
            self.side.take(waiting)

    def answer(self, command: Command) -> None:
        """A command of the peer that is not for a certain type of socket."""
        if command.name == b"PING":
            # Not to a peer that does not read: the answers would pile up.
            if self.writable:
                context = command.data[2 : 2 + CONTEXT_BYTES_MAX]
                self.send(self.encode(command_body(b"PONG", context), COMMAND))
            ttl_s = int.from_bytes(command.data[:2], "big") / 10
            if ttl_s:
                self._set_ttl(ttl_s)

    def _set_ttl(self, ttl_s: float) -> None:
        """The peer says that it is gone if it is silent for this long."""
        if self._ttl_timer is not None:
            self._ttl_timer.cancel()
        self.silent = -1  # any further sign sets it to 0
        self._ttl_timer = self._listener.call_later(ttl_s, self._ttl_over)

    def _ttl_over(self) -> None:
        self._ttl_timer = None
        if self.silent != 0 and not self._holds:
            self._ttl_timer = self._listener.call_later(GRACE_S, self._end_silence)

    def _end_silence(self) -> None:
        self._ttl_timer = None
        if self.silent != 0 and not self._holds:
            self.abort()

    def beat(self) -> None:
        """A heartbeat of the hall: probe the peer if it is silent, and close the connection if it stays so."""
        if self._reader is None or self._version < 3:
            return
        if self._holds:
            self.silent = 0  # it may have spoken
            return
        self.silent = max(self.silent, 0) + 1
        if self.silent >= SILENT_MAX:
            self.abort()
        elif self.silent >= SILENT_PINGS and self.writable:
            self.send(self.encode(PING, COMMAND))

    def hold(self) -> None:
        """Do not read from the peer for a while. Each one that says so says `unhold` later."""
        self._holds += 1
        if self._holds == 1 and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def unhold(self) -> None:
        self._holds -= 1
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # --- writing

    @property
    def is_closing(self) -> bool:
        """Nothing that is sent can arrive."""
        return self._transport is None or self._transport.is_closing()

    def encode(self, body: bytes, flags: int = 0) -> bytes:
        """A frame, as it is on the wire."""
        return frame(body, flags) if self.sealer is None else self.sealer.seal(body, flags)

    def send(self, data: bytes) -> None:
        """Send frames as they are on the wire."""
        transport = self._transport
        if transport is not None:
            self._listener.sent_bytes += len(data)
            transport.write(data)

    def write(self, messages: list[bytes]) -> None:
        """Send frames as they are on the wire, without copying them into one buffer."""
        transport = self._transport
        if transport is not None:
            self._listener.sent_bytes += sum([len(message) for message in messages])
            transport.writelines(messages)

    @property
    def unsent_bytes(self) -> int:
        """What the transport has not sent yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def look_at_unsent(self, pause_s: float) -> None:
        """The peer did not read all; `pause_s` have passed since the latest look."""
        unsent_bytes = self.unsent_bytes
        self.blocked_s = self.blocked_s + pause_s if unsent_bytes >= self.unsent_before else 0.0
        self.unsent_before = unsent_bytes
        stall_s = self._listener.options.stall_s
        if self.blocked_s > stall_s and self._listener.drops_stalled:
            self.drop_slow(f"it has read nothing for {stall_s:g} s (stall_s)")

    def drop_slow(self, text: str) -> None:
        self.report(SLOW_PEER, text)
        self.abort()

    def kept_bytes(self) -> int:
        kept = self._reader.kept_bytes if self._reader is not None else 0
        return kept + self.unsent_bytes + self.side.kept_bytes()

    def drop(self, text: str) -> None:
        self.report(OVER_BUDGET, text)
        self.abort()

    # --- the end

    def report(self, kind: str, text: str) -> None:
        caller = Caller(self.address, -1, self.side.route(), 0, self._listener.name)
        self._listener.driver.reporter.report(kind, text, caller)

    def refuse(self, text: str, kind: str = BAD_INPUT, reply: bytes = b"") -> None:
        """The peer has made a mistake: close the connection."""
        self.report(kind, text)
        if reply and self._transport is not None:
            self._transport.write(reply)
        self._reader = None
        self._handshake = None
        self.close()

    def close(self) -> None:
        """Send what was written, then close."""
        self.writable = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self.writable = False
        if self._transport is not None:
            self._transport.abort()
