"""Connections over TCP, with or without TLS, and over Unix sockets.

Invariant: the hall does not read from a peer that does not read, and closes it at the hard limit. No other
peer is affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from hiringhall.dialects.session import DOOR_FULL, OVER_BUDGET, SLOW_PEER, TLS_FAILURE, UNIX, Caller
from hiringhall.transports.budget import NOTED_BYTES_MIN, Budget, BufferedLink, output_bytes
from hiringhall.transports.streams import keep_alive, listen, peer_address, send_at_once
from hiringhall.transports.tls import TlsListener
from hiringhall.transports.unix import UnixListener

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from hiringhall.dialects.session import Session
    from hiringhall.engine.driver import Driver


HANDSHAKE_S: Final = 10.0
BACKLOG_BYTES: Final = 65_536
"""With more than this unsent, the output of a peer counts against the common budget."""
APART_BYTES_MIN: Final = 16_384
"""Messages of at least this length are not copied into one buffer: many peers may get the same one."""


@dataclass(frozen=True)
class TcpOptions:
    """How a door treats its connections."""

    connections_max: int = 100_000
    backlog: int = 4096
    output_soft_bytes: int = 1 << 20
    """With more than this unsent, the hall stops reading from the peer."""
    output_hard_bytes: int = 256 << 20
    """With more than this unsent, the peer is closed. Must be more than the largest packet."""
    keepalive: bool = True
    keepalive_idle_s: int = 60
    keepalive_interval_s: int = 10
    keepalive_count: int = 6
    tls: ssl.SSLContext | None = None
    handshake_s: float = HANDSHAKE_S
    """How long a TLS handshake may take."""
    close_wait_s: float = 2.0
    """How long sending the last bytes may take when the hall closes."""


class TcpDoor:
    """One listening address, and its connections."""

    def __init__(
        self,
        driver: Driver,
        make_session: Callable[[Caller], Session],
        options: TcpOptions,
        guests: Mapping[bytes, Callable[[Caller], Session]] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.driver = driver
        self.budget = budget if budget is not None else Budget()
        self.make_session = make_session
        self.guests = dict(guests) if guests is not None else {}
        """Other dialects, by the first bytes of their connections."""
        self.options = options
        self.name = ""
        """Its name in the log."""
        self.connections: dict[Connection, None] = {}
        self.refused = 0
        """Number of connections refused because the door was full."""
        self.accepted = 0
        """Number of connections accepted since it opened."""
        self.received_bytes = 0
        self.sent_bytes = 0
        """Bytes given to the transports; what TLS adds does not count."""
        self._server: asyncio.Server | TlsListener | None = None
        self._socket_file: UnixListener | None = None
        """Its socket file, if it listens on one."""
        self._emptied: asyncio.Event | None = None

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Return the bound address."""
        options = self.options
        if options.tls is not None:
            listener = TlsListener(
                options.tls, options.handshake_s, self._make_connection, self._has_room, self._handshake_failed
            )
            self._server = listener
            return await listener.open(host, port, options.backlog)
        self._server, address, bound_port = await listen(self._make_connection, host, port, options.backlog)
        return address, bound_port

    async def open_unix(self, path: str) -> None:
        """Listen on a Unix socket, without TLS. Raises OSError."""
        listener = UnixListener(path, self.options.backlog)
        self._socket_file = listener
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            self._make_connection, sock=listener.socket, backlog=self.options.backlog
        )

    def _make_connection(self) -> asyncio.Protocol:
        return cast("asyncio.Protocol", Connection(self))

    def _has_room(self, handshakes: int, address: str, port: int) -> bool:
        if len(self.connections) + handshakes < self.options.connections_max:
            return True
        self.refuse(Caller(address, -1, (), port, self.name))
        return False

    def refuse(self, caller: Caller) -> None:
        """Report a connection that is refused because the door is full."""
        self.refused += 1
        text = f"it has {self.options.connections_max} connections (connections_max)"
        self.driver.reporter.report(DOOR_FULL, text, caller)

    def _handshake_failed(self, address: str, port: int, text: str) -> None:
        self.driver.reporter.report(TLS_FAILURE, text, Caller(address, -1, (), port, self.name))

    @property
    def peers(self) -> int:
        """How many connections are open."""
        return len(self.connections)

    def close_listener(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._socket_file is not None:
            self._socket_file.remove()
            self._socket_file = None

    async def close(self) -> None:
        """Close every connection. Unsent bytes get `close_wait_s`."""
        self.close_listener()
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            self._emptied = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), self.options.close_wait_s)
        for connection in list(self.connections):
            connection.abort()

    def caller(self, transport: asyncio.BaseTransport) -> Caller:
        """The peer of a connection."""
        address, port = peer_address(transport)
        sock = transport.get_extra_info("socket")
        if self._socket_file is not None:
            address = UNIX
        return Caller(address, sock.fileno() if sock is not None else -1, (), port, self.name)

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        if self._emptied is not None and not self.connections:
            self._emptied.set()


class Connection(BufferedLink):
    """One connection: the protocol of its asyncio transport, and the `Link` of its session."""

    __slots__ = (
        "_backlogged",
        "_budget",
        "_door",
        "_driver",
        "_held",
        "_opening",
        "_overfull",
        "_session",
        "_transport",
    )

    def __init__(self, door: TcpDoor) -> None:
        super().__init__()
        self._door = door
        self._driver = door.driver
        self._budget = door.budget
        self._session: Session | None = None
        self._transport: asyncio.Transport | None = None
        self._opening: bytes | None = b"" if door.guests else None
        """The first bytes, while they may still belong to another dialect; None: the dialect is known."""
        self._backlogged = False
        """The peer has not read all output, and the unsent bytes are noted."""
        self._overfull = False
        """The peer does not read fast enough."""
        self._held = False
        """The engine has paused reading."""

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface of asyncio.Transport, but do not inherit from it.
        transport = cast("asyncio.Transport", transport)
        door = self._door
        options = door.options
        if len(door.connections) >= options.connections_max:
            door.refuse(door.caller(transport))
            transport.abort()
            return
        self._transport = transport
        door.connections[self] = None
        door.accepted += 1
        transport.set_write_buffer_limits(high=min(BACKLOG_BYTES, options.output_soft_bytes))
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            send_at_once(sock)
            if options.keepalive:
                keep_alive(
                    sock, options.keepalive_idle_s, options.keepalive_interval_s, options.keepalive_count
                )
        self._driver.turn()  # others may be waiting for this connection
        self._join(door.make_session(door.caller(transport)))

    def data_received(self, data: bytes) -> None:
        self._door.received_bytes += len(data)
        if self._opening is not None and self._session is not None:
            data = self._detect_dialect(self._opening + data)
        session = self._session
        if session is not None and not session.closing and data:
            before = session.input_bytes
            self._driver.receive(session, data)
            if session.input_bytes >= NOTED_BYTES_MIN or before >= NOTED_BYTES_MIN:
                self._budget.note(self)

    def _detect_dialect(self, opening: bytes) -> bytes:
        """Detect the dialect of a connection by its first bytes. Return the bytes that can be read now. The
        door's own dialect has a session from the start, because a silent connection counts too.
        """
        for magic, make_session in self._door.guests.items():
            if opening.startswith(magic):
                own = self._session
                assert own is not None
                self._opening = None
                self._driver.leave(own)
                self._join(make_session(own.caller))
                return opening
            if magic.startswith(opening):
                self._opening = opening
                return b""
        self._opening = None
        return opening

    def _join(self, session: Session) -> None:
        self._session = session
        session.out_bytes_max = self._door.options.output_hard_bytes
        self._driver.join(session, self)

    def eof_received(self) -> bool:
        """Keep the sending side open: an acknowledgement may still wait for its commit."""
        if self._session is not None:
            self._driver.end_input(self._session)
        return self._door.options.tls is None  # TLS has no half-closed connections

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self._budget.forget(self)
        self._door.forget(self)
        session = self._session
        if session is not None:
            self._session = None
            self._driver.leave(session)

    def pause_writing(self) -> None:
        self._backlogged = True
        if self._transport is not None:
            self._check_unsent(self._transport)

    def resume_writing(self) -> None:
        self._backlogged = False
        self._budget.note(self)
        if self._overfull:
            self._overfull = False
            self._read_or_not()

    # --- called by the engine

    def write(self, messages: list[bytes]) -> None:
        transport = self._transport
        if transport is None:
            return
        door = self._door
        if len(messages) == 1:
            door.sent_bytes += len(messages[0])
            transport.write(messages[0])
        elif len(max(messages, key=len)) >= APART_BYTES_MIN:
            door.sent_bytes += sum([len(message) for message in messages])
            transport.writelines(messages)
        else:
            joined = b"".join(messages)
            door.sent_bytes += len(joined)
            transport.write(joined)
        if self._backlogged:
            self._check_unsent(transport)

    def _check_unsent(self, transport: asyncio.Transport) -> None:
        """The peer has not read all output: apply the limits to what is unsent."""
        options = self._door.options
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes > options.output_hard_bytes and self._session is not None:
            text = f"it has not read {unsent_bytes} bytes of output (output_hard_bytes)"
            self._session.report(SLOW_PEER, text)
            transport.abort()
            return
        if unsent_bytes > options.output_soft_bytes and not self._overfull:
            self._overfull = True
            self._read_or_not()
        self._budget.note(self)

    def kept_bytes(self) -> int:
        session = self._session
        kept = session.input_bytes + output_bytes(session) if session is not None else 0
        return kept + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def drop(self, text: str) -> None:
        if self._session is not None:
            self._session.report(OVER_BUDGET, text)
        self.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def has_unsent(self) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def pause(self) -> None:
        self._held = True
        self._read_or_not()
        self._budget.note(self)

    def resume(self) -> None:
        if self._held:
            self._held = False
            self._read_or_not()
            self._budget.note(self)

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._overfull or self._held:
            transport.pause_reading()
        else:
            transport.resume_reading()
