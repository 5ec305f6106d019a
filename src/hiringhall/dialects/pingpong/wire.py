r"""The PING/PONG protocol as frames, for both roles and for both sockets of the broker.

    backend    worker -> hall   [identity, "", "READY"]      I am ready
                                [identity, "", "PING"]       I am alive
                                [identity, "", result]       anything else
               hall -> worker   [identity, "", "PONG"]       so am I
                                [identity, "", job]          anything else
    frontend   client -> hall   [identity, *own, "", job]
               hall -> client   [identity, *own, "", result]

Invariant: only its bytes tell what a body is. If it is not one of the three words, it is a job or a result. A
failure has the form `ERROR <code> <text>`: see `parse_error`.
"""

from __future__ import annotations

from typing import Final

from hiringhall.core import errors

READY: Final = b"READY"
PING: Final = b"PING"
PONG: Final = b"PONG"

ERROR: Final = b"ERROR "
CANCELLED: Final = b"cancelled"
"""The code of a cancelled job."""
REASONS: Final = (
    errors.BAD_REQUEST.encode(),
    errors.TOO_LARGE.encode(),
    errors.QUEUE_FULL.encode(),
    errors.HALL_FULL.encode(),
    errors.STORE_DOWN.encode(),
    errors.CLOSING.encode(),
)
"""The codes of a refused job."""

CLIENT_FRAMES_MAX: Final = 8
"""Frames before the body: the identity, those of the client, and the empty one."""
_FAILURE_CODE_MAX: Final = 255


def worker_route(envelope: list[bytes]) -> list[bytes] | None:
    """The frames before an answer to a worker: its identity and the empty frame. None: it sent others."""
    if len(envelope) == 2 and not envelope[1]:
        return envelope
    return None


def client_route(envelope: list[bytes]) -> list[bytes] | None:
    """The frames before an answer to a client: all that it sent before its empty frame, and that frame. None:
    it sent too many, or no empty frame.
    """
    if 2 <= len(envelope) <= CLIENT_FRAMES_MAX and not envelope[-1]:
        return envelope
    return None


def identity_name(identity: bytes) -> bytes:
    """An identity as people read it: itself if it is printable ASCII, otherwise in hexadecimal digits."""
    for byte in identity:
        if not 0x20 <= byte <= 0x7E:
            return identity.hex().encode()
    return identity


def pack_error(code: bytes, text: bytes) -> bytes:
    return ERROR + code + b" " + text


def parse_error(body: bytes) -> tuple[bytes, bytes] | None:
    """The code and the text of a failure; None: it is a result.

    The code is a number from 1 to 255, `cancelled`, or one of `REASONS`. Everything else is a result, even if
    it starts with ERROR.
    """
    if not body.startswith(ERROR):
        return None
    code, blank, text = body[len(ERROR) :].partition(b" ")
    if blank and (code == CANCELLED or code in REASONS or failure_number(code)):
        return code, text
    return None


def failure_number(code: bytes) -> int:
    """The number of a failure, without leading zeros; 0: it is not such a number."""
    if 0 < len(code) <= 3 and code.isdigit() and code[0] != 0x30:
        number = int(code)
        if number <= _FAILURE_CODE_MAX:
            return number
    return 0
