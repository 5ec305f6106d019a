"""Warnings about the TLS and CURVE files of doors: secret keys that other users can read, and certificates that
have expired or expire soon.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.config.schema import TcpDoorSettings, ZmqDoorSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hiringhall.config.schema import DoorSettings

DAY_S: Final = 86_400
SOON_S: Final = 14 * DAY_S
"""There is a warning for a certificate that expires within this time."""

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION_TAG: Final = 0xA0
_UTC_TIME_TAG: Final = 0x17
_LONG_LENGTH: Final = 0x80
_CENTURY_CHANGE: Final = 50
"""Two-digit years from this one on belong to the 20th century."""


class Certificate(NamedTuple):
    """One certificate in a file that a door uses."""

    file: str
    expires_s: float


def secret_warnings(doors: Iterable[DoorSettings]) -> Iterator[str]:
    """Warn of files with secret keys that users other than the owner can read or change."""
    for file in dict.fromkeys(file for door in doors for file in _secret_files(door)):
        try:
            found = Path(file).stat()
        except OSError:
            continue  # The door reports it when it opens.
        allowed = stat.S_IRWXU | (stat.S_IRGRP if found.st_uid == 0 else 0)
        if stat.S_IMODE(found.st_mode) & ~allowed:
            yield (
                f"{file} holds a secret key, and its permissions are {stat.S_IMODE(found.st_mode):04o}: "
                f"whoever reads it can impersonate this hall; run chmod 600 {file}"
            )


def find_certificates(doors: Iterable[DoorSettings]) -> list[Certificate]:
    """The certificates in the files of these doors, as the files are now."""
    files = dict.fromkeys(
        file
        for door in doors
        if isinstance(door, TcpDoorSettings) and door.tls is not None
        for file in (door.tls.certificate, door.tls.ca)
        if file
    )
    return [Certificate(file, expires_s) for file in files for expires_s in _expiries_s(file)]


def expiry_warnings(certificates: Iterable[Certificate], now_s: float) -> Iterator[str]:
    for certificate in certificates:
        left_s = certificate.expires_s - now_s
        date = datetime.fromtimestamp(certificate.expires_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        if left_s <= 0:
            yield (
                f"a certificate of {certificate.file} has expired on {date}: "
                f"peers refuse it; replace it and restart the hall"
            )
        elif left_s <= SOON_S:
            days = round(left_s / DAY_S)
            yield (
                f"a certificate of {certificate.file} expires on {date}, in {days} days: "
                f"replace it and restart the hall"
            )


class CertificateWatch:
    """Warns at the start, and once a day, of certificates that expire. It reads the files only at the start."""

    def __init__(self, doors: Iterable[DoorSettings], warn: Callable[[str], None]) -> None:
        self._certificates = find_certificates(doors)
        self._warn = warn
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        for warning in expiry_warnings(self._certificates, time.time()):
            self._warn(warning)
        if self._certificates:
            self._timer = asyncio.get_running_loop().call_later(DAY_S, self.start)

    def stop_taking(self) -> None:
        """It takes no jobs, and goes on until the hall closes."""

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _secret_files(door: DoorSettings) -> Iterator[str]:
    if isinstance(door, TcpDoorSettings) and door.tls is not None:
        yield door.tls.key
    elif isinstance(door, ZmqDoorSettings) and door.curve is not None:
        yield door.curve.certificate


def _expiries_s(file: str) -> Iterator[float]:
    """When each certificate of a PEM file expires. Skips what it cannot read: OpenSSL reports that."""
    try:
        text = Path(file).read_bytes()
    except OSError:
        return
    for block in _CERTIFICATE.findall(text):
        try:
            yield read_expiry_s(base64.b64decode(block))
        except (binascii.Error, IndexError, ValueError):
            continue


def read_expiry_s(der: bytes) -> float:
    """The end of a certificate's validity (RFC 5280, section 4.1). Raises IndexError or ValueError."""
    _, at, _ = _element(der, 0)
    _, at, _ = _element(der, at)
    tag, _, after = _element(der, at)
    if tag == _VERSION_TAG:
        at = after
    for _ in ("serial number", "signature", "issuer"):
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)
    _, _, at = _element(der, at)
    tag, start, end = _element(der, at)
    written = der[start:end].decode("ascii")
    if tag == _UTC_TIME_TAG:
        written = ("19" if int(written[:2]) >= _CENTURY_CHANGE else "20") + written
    return datetime.strptime(written, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of the element at this position, and where its content begins and ends."""
    tag, length = der[at], der[at + 1]
    at += 2
    if length & _LONG_LENGTH:
        size = length & ~_LONG_LENGTH
        length = int.from_bytes(der[at : at + size], "big")
        at += size
    return tag, at, at + length
