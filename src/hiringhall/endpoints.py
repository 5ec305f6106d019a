"""What a door listens on: three kinds of endpoint, each with its transport and what the settings mean to it.

ZeroMQ's transports are imported where they are used: most halls have no such door.

Invariant: a file that cannot be used, or an address that cannot be bound, is a `HallError` that names it.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import ssl
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hiringhall.config.quantities import Address, StreamAddress
from hiringhall.config.schema import TcpDoorSettings, ZmqDoorSettings
from hiringhall.dialects.session import Caller, Session
from hiringhall.process import connections_possible
from hiringhall.transports.tcp import HANDSHAKE_S, TcpDoor, TcpOptions
from hiringhall.transports.unix import PATH_BYTES_MAX

if TYPE_CHECKING:
    from hiringhall.config.schema import CurveSettings, DoorSettings, TlsSettings
    from hiringhall.engine.driver import Driver
    from hiringhall.transports.budget import Budget
    from hiringhall.transports.zmtp.bus import BusDoor
    from hiringhall.transports.zmtp.options import Curve, ZmqOptions
    from hiringhall.transports.zmtp.router import RouterDoor

MakeSession = Callable[[Caller], Session]
AnswerRoute = Callable[[list[bytes]], list[bytes] | None]

_log = logging.getLogger("hiringhall")


class HallError(Exception):
    """Why the hall cannot open, in one line for the person who runs it."""


class Listening(NamedTuple):
    """An endpoint that is open."""

    transport: TcpDoor | RouterDoor | BusDoor
    bound: list[tuple[str, Address]]
    """Each address that it listens on, with its role. The role is empty if the door has only one address."""
    beside: Address | None = None
    """An address that is not announced when the hall opens."""


class Endpoint(Protocol):
    """Something that a door listens on."""

    async def open(self, driver: Driver, budget: Budget, index: int) -> Listening:
        """Listen. `index` is the number of the door in the settings, for messages. Raises HallError."""


class TcpEndpoint(NamedTuple):
    """An address to which peers connect by TCP."""

    settings: TcpDoorSettings
    make_session: MakeSession
    guests: Mapping[bytes, MakeSession] = MappingProxyType({})
    """Other dialects at the same address, by the first bytes of their connections. All keys have one length."""

    async def open(self, driver: Driver, budget: Budget, index: int) -> Listening:
        options = tcp_options(self.settings, index)
        possible = _connections_possible(options.connections_max, index)
        options = dataclasses.replace(options, connections_max=possible)
        door = TcpDoor(driver, self.make_session, options, self.guests, budget)
        bound = await _bind(door, self.settings, "", self.settings.address, index)
        return Listening(door, [("", bound)])


class UnixEndpoint(NamedTuple):
    """A Unix socket in the data folder, beside the address of a door. A hall opens without it if need be."""

    settings: TcpDoorSettings
    path: str
    make_session: MakeSession

    async def open(self, driver: Driver, budget: Budget, index: int) -> Listening:
        options = dataclasses.replace(tcp_options(self.settings, index), tls=None)
        door = TcpDoor(driver, self.make_session, options, budget=budget)
        address = StreamAddress(f"unix:{self.path}")
        door.name = door_name(self.settings, "", address)
        try:
            await door.open_unix(self.path)
        except OSError as error:
            _log.warning("door[%d]: %s; the hall opens without it", index, _cannot_listen(address, error))
            return Listening(door, [])
        return Listening(door, [], address)


class ZmqEndpoint(NamedTuple):
    """An address with a ZeroMQ ROUTER socket."""

    settings: ZmqDoorSettings
    address: Address
    make_session: MakeSession
    answer_route: AnswerRoute
    """The frames before each message back to a peer, from the frames before a message of that peer."""
    role: str = ""
    """Which of several addresses of the door it is."""

    async def open(self, driver: Driver, budget: Budget, index: int) -> Listening:
        from hiringhall.transports.zmtp.router import RouterDoor  # noqa: PLC0415

        options = _with_connections(zmq_options(self.settings, index), index)
        door = RouterDoor(driver, self.make_session, self.answer_route, options, budget)
        bound = await _bind(door, self.settings, self.role, self.address, index)
        return Listening(door, [(self.role, bound)])


class BusEndpoint(NamedTuple):
    """A ZeroMQ bus: peers publish at one address and subscribe at another. One session serves all of them."""

    settings: ZmqDoorSettings
    publish: Address
    subscribe: Address
    make_session: MakeSession
    send_messages_max: int
    """Messages that wait for one subscriber."""

    async def open(self, driver: Driver, budget: Budget, index: int) -> Listening:
        from hiringhall.transports.zmtp.bus import BusDoor  # noqa: PLC0415

        options = _with_connections(zmq_options(self.settings, index), index)
        options = dataclasses.replace(options, send_messages_max=self.send_messages_max)
        bus = BusDoor(driver, self.make_session, options, budget)
        address = self.publish
        try:
            publish = Address.of(*await bus.open_inward(address.host, address.port))
            bus.name = door_name(self.settings, "publish", publish)
            address = self.subscribe
            subscribe = Address.of(*await bus.open_outward(address.host, address.port))
        except OSError as error:
            await bus.close()
            raise HallError(f"door[{index}]: {_cannot_listen(address, error)}") from error
        return Listening(bus, [("publish", publish), ("subscribe", subscribe)])


def _connections_possible(wanted: int, index: int) -> int:
    """How many connections a door may have: as many as it wants, if the system allows them."""
    possible = connections_possible()
    if wanted > possible:
        _log.debug("door[%d]: the system allows %d connections", index, possible)
    return min(wanted, possible)


def _with_connections(options: ZmqOptions, index: int) -> ZmqOptions:
    possible = _connections_possible(options.connections_max, index)
    return dataclasses.replace(options, connections_max=possible)


async def _bind(
    door: TcpDoor | RouterDoor, settings: DoorSettings, role: str, address: Address, index: int
) -> Address:
    """Open a door; the address that was bound."""
    door.name = door_name(settings, role, address)
    try:
        if address.path and isinstance(door, TcpDoor):
            await door.open_unix(address.path)
            return address
        bound = Address.of(*await door.open(address.host, address.port))
    except OSError as error:
        raise HallError(f"door[{index}]: {_cannot_listen(address, error)}") from error
    door.name = door_name(settings, role, bound)
    return bound


def door_name(settings: DoorSettings, role: str, address: Address) -> str:
    """The name of a door in the log, such as gearman@127.0.0.1:4730."""
    return f"{settings.dialect}{'/' if role else ''}{role}@{address}"


def _cannot_listen(address: Address, error: OSError) -> str:
    if address.path:
        return _cannot_listen_on_file(address, error)
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use by another program; stop it or choose another port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not listen on {address}; choose a port above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is not an address of this machine"
    return f"cannot listen on {address}: {error.strerror or error}"


def _cannot_listen_on_file(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use by another program, or is not a socket; stop it or choose another path"
    if error.errno == errno.ENAMETOOLONG:
        return f"{address} is too long: the system allows {PATH_BYTES_MAX} bytes; choose a shorter path"
    return f"cannot listen on {address}: {error.strerror or error}"


def tcp_options(settings: TcpDoorSettings, index: int) -> TcpOptions:
    return TcpOptions(
        connections_max=settings.connections_max,
        backlog=settings.backlog,
        output_soft_bytes=int(settings.output_soft_bytes),
        output_hard_bytes=int(settings.output_hard_bytes),
        keepalive=settings.keepalive,
        keepalive_idle_s=settings.keepalive_idle_s,
        keepalive_interval_s=settings.keepalive_interval_s,
        keepalive_count=settings.keepalive_count,
        tls=tls_context(settings.tls, f"door[{index}].tls") if settings.tls is not None else None,
        handshake_s=settings.tls.handshake_s if settings.tls is not None else HANDSHAKE_S,
    )


def zmq_options(settings: ZmqDoorSettings, index: int) -> ZmqOptions:
    from hiringhall.transports.zmtp.options import ZmqOptions  # noqa: PLC0415

    return ZmqOptions(
        peers_max=settings.peers_max,
        idle_s=settings.idle_s,
        message_bytes_max=int(settings.message_bytes_max),
        receive_messages_max=settings.receive_messages_max,
        unsent_bytes_max=int(settings.unsent_bytes_max),
        stall_s=settings.stall_s,
        backlog=settings.backlog,
        handshake_s=settings.handshake_s,
        heartbeat_s=settings.heartbeat_s,
        takeover=settings.takeover,
        curve=curve_keys(settings.curve, f"door[{index}].curve") if settings.curve is not None else None,
    )


def tls_context(tls: TlsSettings, where: str) -> ssl.SSLContext:
    """TLS 1.2 or later, with the files that the settings name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files = f"{tls.certificate} and {tls.key}"
    try:
        # Without a password here, OpenSSL would ask for that of an encrypted key at the terminal.
        context.load_cert_chain(tls.certificate, tls.key, password="")
        if tls.ca:
            files = tls.ca
            context.load_verify_locations(tls.ca)
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise HallError(f"{where}: {files} cannot be used: {reason or error}") from error
    if tls.verify_client:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def curve_keys(curve: CurveSettings, where: str) -> Curve:
    """The secret key of the hall from its file, and the public keys of the clients that may connect."""
    from hiringhall.transports.zmtp.keys import decode_key, read_secret_key  # noqa: PLC0415
    from hiringhall.transports.zmtp.options import Curve  # noqa: PLC0415

    try:
        secret_key = read_secret_key(curve.certificate)
    except (OSError, ValueError) as error:
        raise HallError(f"{where}: {curve.certificate} cannot be used: {error}") from error
    if not secret_key:
        raise HallError(f"{where}: {curve.certificate} has no secret key; name the .key_secret file")
    try:
        decode_key(secret_key)
    except ValueError as error:
        raise HallError(f"{where}: {curve.certificate} has no secret key of 40 characters in Z85") from error
    for key in curve.clients:
        try:
            decode_key(key.encode())
        except ValueError as error:
            raise HallError(f"{where}.clients: {key} is not a public key: {error}") from error
    return Curve(secret_key, frozenset(key.encode() for key in curve.clients))


def check_shield(settings: DoorSettings, index: int) -> None:
    """Check that the TLS or CURVE files of a door can be used. Raises HallError."""
    if isinstance(settings, TcpDoorSettings) and settings.tls is not None:
        tls_context(settings.tls, f"door[{index}].tls")
    elif isinstance(settings, ZmqDoorSettings) and settings.curve is not None:
        curve_keys(settings.curve, f"door[{index}].curve")
