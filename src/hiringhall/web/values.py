"""Values of the hall as JSON has them, and back: bytes, ids and durations.

Invariant: no byte is lost. Bytes that are not UTF-8 are shown with replacement characters, and stand beside
that in base64. Ids are text, since JavaScript's numbers cannot hold them.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from msgspec import UNSET, UnsetType

from hiringhall.web.problems import Problem

SECOND_US: Final = 1_000_000
ID_PATTERN: Final = "^[1-9][0-9]{0,18}$"
"""The id of a job as text."""
BASE64_PATTERN: Final = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
ID_MAX: Final = (1 << 63) - 1
_ID: Final = re.compile(ID_PATTERN.rstrip("$"))

Encoded = str | UnsetType
"""The base64 of bytes that are not UTF-8; unset: they are."""


def text(data: bytes) -> tuple[str, Encoded]:
    """Bytes as text, and in base64 if they are not UTF-8."""
    try:
        return data.decode(), UNSET
    except UnicodeDecodeError:
        return data.decode(errors="replace"), base64.b64encode(data).decode()


def shown(data: bytes | str) -> str:
    """Bytes as text for people."""
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def data_of(name: str, stated: str | UnsetType, encoded: str | UnsetType) -> bytes:
    """The bytes of a field that may be text or base64. Raises Problem if it is both, or is wrong."""
    if encoded is UNSET:
        return b"" if stated is UNSET else stated.encode(errors="surrogatepass")
    if stated is not UNSET:
        raise Problem("bad_request", f"{name} and {name}_base64 are both given; give one of them")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Problem("bad_request", f"{name}_base64 is not valid base64") from None


def seconds(duration_us: int) -> float:
    return duration_us / SECOND_US


def job_id(name: str, written: str) -> int:
    """An id. Raises Problem."""
    if _ID.fullmatch(written) is None:
        raise Problem("bad_request", f"{name}: {written[:40]!r} is not the id of a job; ids are numbers from 1")
    number = int(written)
    if number > ID_MAX:
        raise Problem("unknown_job", f"{name}: no job has the id {number}")
    return number
