r"""The Worker-Manager Protocol as frames: paths, and messages <-> bytes, for workers, managers and devices.

Invariants: nothing of a message is used before all of it is checked; frames that are not a path are `None`, and
a body that is not a message raises `BadMessage`. Nothing is repaired or guessed.

    [to..., "", come..., "", body]      the hops still to go, the hops that it came by, one message

    WMP1 READY\n role: resize\n role: crop\n \n
"""

from __future__ import annotations

from typing import Final

READY: Final = b"READY"
WAKE: Final = b"WAKE"
GIVE: Final = b"GIVE"
TAKE: Final = b"TAKE"
NO: Final = b"NO"
DONE: Final = b"DONE"
STATUS: Final = b"STATUS"
CANCEL: Final = b"CANCEL"
COMMANDS: Final = (READY, WAKE, GIVE, TAKE, NO, DONE, STATUS, CANCEL)

HOPS_MAX: Final = 16
"""Hops of one part of a path. This also stops a message that goes round in a ring of devices."""
HOP_BYTES_MAX: Final = 255
"""One hop, and one manager's identity: the limit for a ZeroMQ identity."""
HEAD_BYTES_MAX: Final = 65_536
"""The start line and the headers with their newlines, without the empty line after them."""
NAME_BYTES_MAX: Final = 1_024
"""A role, a key, or the name of a worker."""
JOB_BYTES_MAX: Final = 255
"""The name of a job."""
NUMBER_DIGITS_MAX: Final = 18
"""Digits of a number in a header, so that it fits into 63 bits."""
PASSED_MANAGERS_MAX: Final = 8
"""Managers that a job may have passed."""
SKILL_MAX: Final = 1_000_000
"""The highest skill."""

_START: Final = b"WMP1 "
_NAME_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz-"


class BadMessage(Exception):
    """The body is not a message of this protocol; the text says why, for people."""


class Message:
    """One message, whoever sent it."""

    __slots__ = ("command", "headers", "payload")

    def __init__(self, command: bytes, headers: list[tuple[bytes, bytes]], payload: bytes) -> None:
        self.command = command
        self.headers = headers
        """In the order of the wire; a name may occur more than once."""
        self.payload = payload

    def first(self, name: bytes) -> bytes:
        """The first value of a header; empty if it is missing."""
        for other, value in self.headers:
            if other == name:
                return value
        return b""

    def every(self, name: bytes) -> list[bytes]:
        """All values of a header."""
        return [value for other, value in self.headers if other == name]


def parse_body(body: bytes) -> Message:
    """The message in one frame. Raises BadMessage."""
    end = body.find(b"\n\n", 0, HEAD_BYTES_MAX + 1)
    if end < 0:
        raise BadMessage(f"the head has no empty line at its end within {HEAD_BYTES_MAX} bytes")
    lines = body[:end].split(b"\n")
    start = lines[0]
    command = start[len(_START) :]
    if not start.startswith(_START) or command not in COMMANDS:
        raise BadMessage("the start line must be WMP1 and a known command")
    headers: list[tuple[bytes, bytes]] = []
    for line in lines[1:]:
        name, separator, value = line.partition(b": ")
        if not separator or not _is_name(name):
            raise BadMessage(
                "a header must be a name of lower-case letters and hyphens, a colon, a space and a value"
            )
        headers.append((name, value))
    return Message(command, headers, body[end + 2 :])


def encode_body(command: bytes, headers: list[tuple[bytes, bytes]], payload: bytes = b"") -> bytes:
    """The frame of a message. Raises ValueError for a header that cannot be written: that is a bug of ours."""
    if command not in COMMANDS:
        raise ValueError(f"{command!r} is not a command")
    parts = [_START, command, b"\n"]
    head_bytes = len(_START) + len(command) + 1
    for name, value in headers:
        if not _is_name(name) or b"\n" in value:
            raise ValueError(f"a header cannot be written: {name!r}: {value!r}")
        parts += (name, b": ", value, b"\n")
        head_bytes += len(name) + len(value) + 3
    if head_bytes > HEAD_BYTES_MAX:
        raise ValueError(f"the head has {head_bytes} bytes, more than {HEAD_BYTES_MAX}")
    parts += (b"\n", payload)
    return b"".join(parts)


def split_frames(frames: list[bytes]) -> tuple[list[bytes], list[bytes], bytes] | None:
    """[to..., "", come..., "", body] -> (to, come, body); None: it is malformed, or has too many hops."""
    last = len(frames) - 2
    if last < 1 or frames[last]:
        return None
    middle = frames.index(b"")
    if middle == last:
        return None
    to = frames[:middle]
    come = frames[middle + 1 : last]
    if not _are_hops(to) or not _are_hops(come):
        return None
    return to, come, frames[last + 1]


def join_frames(to: list[bytes], come: list[bytes], body: bytes) -> list[bytes]:
    """The frames of a message."""
    return [*to, b"", *come, b"", body]


def answer_route(envelope: list[bytes]) -> list[bytes] | None:
    """At a manager: [identity, "", come..., ""] -> [identity, come..., "", ""]; None: it is malformed."""
    last = len(envelope) - 1
    if last < 2 or envelope[1] or envelope[last]:
        return None
    identity = envelope[0]
    come = envelope[2:last]
    if not 0 < len(identity) <= HOP_BYTES_MAX or not _are_hops(come):
        return None
    return [identity, *come, b"", b""]


def parse_progress(text: bytes) -> tuple[int, int]:
    """Numerator and denominator: 3/8."""
    numerator, _, denominator = text.partition(b"/")
    return parse_number(numerator), parse_number(denominator)


def parse_number(text: bytes) -> int:
    """A number of decimal digits, without a sign."""
    if not text.isdigit() or len(text) > NUMBER_DIGITS_MAX:
        raise BadMessage(f"a number must have 1 to {NUMBER_DIGITS_MAX} decimal digits")
    return int(text)


def parse_seconds(text: bytes) -> int:
    """Microseconds, from seconds with at most six decimal places: 60, 0.5."""
    whole, dot, places = text.partition(b".")
    if dot and not (0 < len(places) <= 6 and places.isdigit()):
        raise BadMessage("a time must be in seconds, with at most 6 decimal places")
    return parse_number(whole) * 1_000_000 + int(places.ljust(6, b"0"))


def encode_seconds(duration_us: int) -> bytes:
    """Seconds, with as few decimal places as possible."""
    whole, rest = divmod(duration_us, 1_000_000)
    return b"%d" % whole if not rest else (b"%d.%06d" % (whole, rest)).rstrip(b"0")


def _is_name(name: bytes) -> bool:
    return bool(name) and not name.strip(_NAME_LETTERS)


def _are_hops(hops: list[bytes]) -> bool:
    if len(hops) > HOPS_MAX:
        return False
    for hop in hops:  # noqa: SIM110 - compiled, a generator would cost more than the loop
        if not 0 < len(hop) <= HOP_BYTES_MAX:
            return False
    return True
