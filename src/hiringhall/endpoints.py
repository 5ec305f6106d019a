"""What the settings of a door mean to its transport: bounds and times, TLS and CURVE with their files.

The law: a file that cannot be used is a `HallError` that names it, before the door opens.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import zmq
import zmq.auth

from hiringhall.config.schema import TcpDoorSettings, ZmqDoorSettings
from hiringhall.transports.tcp import HANDSHAKE_S, TcpOptions
from hiringhall.transports.zmq import Curve, ZmqOptions

if TYPE_CHECKING:
    from hiringhall.config.schema import CurveSettings, DoorSettings, TlsSettings


class HallError(Exception):
    """Why the hall cannot open, in one line for the person who runs it."""


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
    return ZmqOptions(
        peers_max=settings.peers_max,
        idle_s=settings.idle_s,
        message_bytes_max=int(settings.message_bytes_max),
        receive_messages_max=settings.receive_messages_max,
        send_messages_max=settings.send_messages_max,
        unsent_bytes_max=int(settings.unsent_bytes_max),
        stall_s=settings.stall_s,
        backlog=settings.backlog,
        handshake_s=settings.handshake_s,
        heartbeat_s=settings.heartbeat_s,
        takeover=settings.takeover,
        curve=curve_keys(settings.curve, f"door[{index}].curve") if settings.curve is not None else None,
    )


def tls_context(tls: TlsSettings, where: str) -> ssl.SSLContext:
    """TLS 1.2 or later, with the files that were named."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files = f"{tls.certificate} and {tls.key}"
    try:
        # Without a password of ours, a locked key would make OpenSSL ask at the terminal.
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
    """The hall's own key from its file, and those it lets in."""
    try:
        _, secret_key = zmq.auth.load_certificate(curve.certificate)
    except (OSError, ValueError) as error:
        raise HallError(f"{where}: {curve.certificate} cannot be used: {error}") from error
    if not secret_key:
        raise HallError(f"{where}: {curve.certificate} has no secret key; name the .key_secret file")
    try:
        zmq.curve_public(secret_key)
    except (zmq.ZMQError, ValueError) as error:
        raise HallError(f"{where}: {curve.certificate} has no secret key of 40 characters in Z85") from error
    return Curve(secret_key, frozenset(key.encode() for key in curve.clients))


def check_shield(settings: DoorSettings, index: int) -> None:
    """Whether the files that encrypt a door can be used. Raises HallError."""
    if isinstance(settings, TcpDoorSettings) and settings.tls is not None:
        tls_context(settings.tls, f"door[{index}].tls")
    elif isinstance(settings, ZmqDoorSettings) and settings.curve is not None:
        curve_keys(settings.curve, f"door[{index}].curve")
