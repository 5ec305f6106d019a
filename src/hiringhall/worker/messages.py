"""What the supervisor and a child say to each other. Both run the same version: there is nothing to negotiate.

Jobs go through a SOCK_SEQPACKET socket, one message a job, as the hall sent it: the frame `assign`. A child
reads a message when it begins the job, so a message that is unread is a job that has not begun. Two other
messages stand for a job: LONG, whose content is in a file that comes along, and FILLED, which adds the results
of parents.

Everything else goes through a stream socket, each message with a header. What a child reports about a job is a
frame of the native protocol, ready to be sent to the hall.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from msgspec import Struct as Record
from msgspec import ValidationError
from msgspec.msgpack import Decoder, Encoder

MESSAGE_BYTES_MAX: Final = 60_000
"""A longer job goes by a file: a socket takes about 200 KB, and a child reads into a buffer of 64 KiB."""
READ_BYTES: Final = 1 << 16

PLAIN: Final = "plain"
THREADS: Final = "threads"
ASYNC: Final = "async"

ASSIGN_PREFIX: Final = b"\x93\xa6assign\x00"
"""How the frame of a job begins: an array of three, its kind, number 0."""
LONG: Final = 0x01
"""A byte, then the lease; the message itself is in the file."""
FILLED: Final = 0x02
"""A byte, then the frame of the job and the results of its parents by id."""

Assign = tuple[int, int, bytes, bytes, bytes, int, int]
"""Lease, job, queue, payload, key, attempt, run_us."""
Resourced = tuple[int, int, bytes, bytes, bytes, int, int, bytes]
"""The same, and what it was given of the resources of the worker."""
Filled = tuple[bytes, dict[int, bytes]]

HEADER: Final = Struct(">IBQ")
"""Length of the body, tag, lease (0 if the message is not about a job)."""
LEASE: Final = Struct(">Q")

# From a child.
READY: Final = 1
"""A Ready: the module is imported."""
BROKEN: Final = 2
"""A Broken: the module cannot be imported, or has nothing to run."""
DONE: Final = 3
"""A frame `finish`."""
FAILED: Final = 4
"""A frame `fail`."""
SAID: Final = 5
"""A frame about a job that runs on: `progress`, `chunk`, `log`, `renew`."""
DROPPED: Final = 6
"""A job that was revoked has ended; nobody wants to know how."""

# To a child.
BEGIN: Final = 11
"""A Begin: how to run jobs. The first message."""
REVOKE: Final = 12
"""Stop this job. For threads and async functions: a process with one job is killed instead."""


class Served(NamedTuple):
    """A function of the module."""

    queue: bytes
    is_async: bool
    codec: str


class Ready(Record, array_like=True):
    """What a child can run."""

    served: list[Served]
    url: str
    """The address in the module's hall object; empty: the default."""
    files: list[bytes]
    """The user's files that were imported."""


class Broken(Record, array_like=True):
    """Why a child cannot run anything."""

    text: str
    files: list[bytes]


class Begin(Record, array_like=True):
    """How a child runs jobs."""

    mode: str
    capacity: int
    """Jobs at a time."""
    result_bytes_max: int


ASSIGN_FRAME: Final = Decoder(tuple[str, int, Assign])
RESOURCED_FRAME: Final = Decoder(tuple[str, int, Resourced])
FILLED_BODY: Final = Decoder(Filled)
READY_BODY: Final = Decoder(Ready)
BROKEN_BODY: Final = Decoder(Broken)
BEGIN_BODY: Final = Decoder(Begin)
_ENCODER: Final = Encoder()


class ChildFault(Exception):
    """A child sent what no child sends: a function has written to its socket."""


def message(tag: int, body: object) -> bytes:
    """A message that is not about a job."""
    data = _ENCODER.encode(body)
    return HEADER.pack(len(data), tag, 0) + data


def filled(frame: bytes, results: dict[int, bytes]) -> bytes:
    """The message of a job with its parents' results."""
    return bytes((FILLED,)) + _ENCODER.encode((frame, results))


def lease_of(packet: bytes) -> int:
    """The lease of a job's message."""
    if packet[0] == LONG:
        lease: int = LEASE.unpack_from(packet, 1)[0]
        return lease
    return open_job(packet)[0][0]


def open_job(packet: bytes) -> tuple[Assign | Resourced, dict[int, bytes]]:
    """The job of a message, and its parents' results. Not for LONG: read its file first."""
    results: dict[int, bytes] = {}
    if packet[0] == FILLED:
        packet, results = FILLED_BODY.decode(memoryview(packet)[1:])
    try:
        return ASSIGN_FRAME.decode(packet)[2], results
    except ValidationError:
        return RESOURCED_FRAME.decode(packet)[2], results


class Reader:
    """Cuts the stream of a child into messages: tag, lease, body. What is kept is not scanned again."""

    __slots__ = ("_bytes_max", "_kept", "_needed", "_parts")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._kept = 0
        self._needed = 0

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """The messages that are complete now. Raises ChildFault."""
        if self._parts:
            self._parts.append(data)
            self._kept += len(data)
            if self._kept < self._needed:
                return []
            data = b"".join(self._parts)
            self._parts.clear()
        messages: list[tuple[int, int, bytes]] = []
        at = 0
        size = len(data)
        while size - at >= 13:
            length, tag, lease = HEADER.unpack_from(data, at)
            if length > self._bytes_max:
                raise ChildFault(f"a message of {length} bytes")
            end = at + 13 + length
            if end > size:
                self._keep(data[at:], 13 + length)
                return messages
            messages.append((tag, lease, data[at + 13 : end]))
            at = end
        if at < size:
            self._keep(data[at:], 13)
        return messages

    def _keep(self, data: bytes, needed: int) -> None:
        self._parts.append(data)
        self._kept = len(data)
        self._needed = needed
