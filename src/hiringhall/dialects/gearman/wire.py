r"""The Gearman binary protocol as frames: packets <-> bytes, for both roles.

The law: a `Reader` never raises, looks at each byte once, copies a body once, and believes no length
before it is checked against the limit.

    \0REQ  00 00 00 07  00 00 00 0B  "reverse" 00 "" 00 "abc"      a SUBMIT_JOB
"""

from __future__ import annotations

from struct import Struct
from typing import Final

CAN_DO: Final = 1
CANT_DO: Final = 2
RESET_ABILITIES: Final = 3
PRE_SLEEP: Final = 4
NOOP: Final = 6
SUBMIT_JOB: Final = 7
JOB_CREATED: Final = 8
GRAB_JOB: Final = 9
NO_JOB: Final = 10
JOB_ASSIGN: Final = 11
WORK_STATUS: Final = 12
WORK_COMPLETE: Final = 13
WORK_FAIL: Final = 14
GET_STATUS: Final = 15
ECHO_REQ: Final = 16
ECHO_RES: Final = 17
SUBMIT_JOB_BG: Final = 18
ERROR: Final = 19
STATUS_RES: Final = 20
SUBMIT_JOB_HIGH: Final = 21
SET_CLIENT_ID: Final = 22
CAN_DO_TIMEOUT: Final = 23
ALL_YOURS: Final = 24
WORK_EXCEPTION: Final = 25
OPTION_REQ: Final = 26
OPTION_RES: Final = 27
WORK_DATA: Final = 28
WORK_WARNING: Final = 29
GRAB_JOB_UNIQ: Final = 30
JOB_ASSIGN_UNIQ: Final = 31
SUBMIT_JOB_HIGH_BG: Final = 32
SUBMIT_JOB_LOW: Final = 33
SUBMIT_JOB_LOW_BG: Final = 34
SUBMIT_JOB_SCHED: Final = 35
SUBMIT_JOB_EPOCH: Final = 36
SUBMIT_REDUCE_JOB: Final = 37
SUBMIT_REDUCE_JOB_BACKGROUND: Final = 38
GRAB_JOB_ALL: Final = 39
JOB_ASSIGN_ALL: Final = 40
GET_STATUS_UNIQUE: Final = 41
STATUS_RES_UNIQUE: Final = 42

NAMES: Final[dict[int, str]] = {
    CAN_DO: "CAN_DO",
    CANT_DO: "CANT_DO",
    RESET_ABILITIES: "RESET_ABILITIES",
    PRE_SLEEP: "PRE_SLEEP",
    NOOP: "NOOP",
    SUBMIT_JOB: "SUBMIT_JOB",
    JOB_CREATED: "JOB_CREATED",
    GRAB_JOB: "GRAB_JOB",
    NO_JOB: "NO_JOB",
    JOB_ASSIGN: "JOB_ASSIGN",
    WORK_STATUS: "WORK_STATUS",
    WORK_COMPLETE: "WORK_COMPLETE",
    WORK_FAIL: "WORK_FAIL",
    GET_STATUS: "GET_STATUS",
    ECHO_REQ: "ECHO_REQ",
    ECHO_RES: "ECHO_RES",
    SUBMIT_JOB_BG: "SUBMIT_JOB_BG",
    ERROR: "ERROR",
    STATUS_RES: "STATUS_RES",
    SUBMIT_JOB_HIGH: "SUBMIT_JOB_HIGH",
    SET_CLIENT_ID: "SET_CLIENT_ID",
    CAN_DO_TIMEOUT: "CAN_DO_TIMEOUT",
    ALL_YOURS: "ALL_YOURS",
    WORK_EXCEPTION: "WORK_EXCEPTION",
    OPTION_REQ: "OPTION_REQ",
    OPTION_RES: "OPTION_RES",
    WORK_DATA: "WORK_DATA",
    WORK_WARNING: "WORK_WARNING",
    GRAB_JOB_UNIQ: "GRAB_JOB_UNIQ",
    JOB_ASSIGN_UNIQ: "JOB_ASSIGN_UNIQ",
    SUBMIT_JOB_HIGH_BG: "SUBMIT_JOB_HIGH_BG",
    SUBMIT_JOB_LOW: "SUBMIT_JOB_LOW",
    SUBMIT_JOB_LOW_BG: "SUBMIT_JOB_LOW_BG",
    SUBMIT_JOB_SCHED: "SUBMIT_JOB_SCHED",
    SUBMIT_JOB_EPOCH: "SUBMIT_JOB_EPOCH",
    SUBMIT_REDUCE_JOB: "SUBMIT_REDUCE_JOB",
    SUBMIT_REDUCE_JOB_BACKGROUND: "SUBMIT_REDUCE_JOB_BACKGROUND",
    GRAB_JOB_ALL: "GRAB_JOB_ALL",
    JOB_ASSIGN_ALL: "JOB_ASSIGN_ALL",
    GET_STATUS_UNIQUE: "GET_STATUS_UNIQUE",
    STATUS_RES_UNIQUE: "STATUS_RES_UNIQUE",
}

REQUEST: Final = b"\0REQ"
"""The magic of what goes to a server."""
RESPONSE: Final = b"\0RES"
"""The magic of what comes from a server."""
HEADER_BYTES: Final = 12
PACKET_BYTES_MAX: Final = 65 << 20
"""The body of one packet, unless the door says otherwise: the largest payload and room for its handle."""

BAD_MAGIC: Final = "bad_magic"
OVERSIZE: Final = "packet_too_large"

_HEADER: Final = Struct(">4sII")
_WORD: Final = Struct(">I")
_PIECE_BYTES_MIN: Final = 4096
"""Smaller pieces of a body are gathered, so that a trickle of bytes does not cost an object each."""
_GATHERED_BYTES_MAX: Final = 65536

_SIZES: Final = [_WORD.pack(number) for number in range(1024)]
"""The size field of small packets, ready made."""


def pack_size(size: int) -> bytes:
    """Four bytes, big-endian: the last field of a header."""
    return _SIZES[size] if size < 1024 else _WORD.pack(size)


def request_head(packet_type: int) -> bytes:
    """Magic and type of a packet to the server; its size and its body follow."""
    return REQUEST + _WORD.pack(packet_type)


def response_head(packet_type: int) -> bytes:
    """Magic and type of a packet from the server; its size and its body follow."""
    return RESPONSE + _WORD.pack(packet_type)


_REQUESTS: Final = [request_head(number) for number in range(256)]
_RESPONSES: Final = [response_head(number) for number in range(256)]


def pack_request(packet_type: int, *args: bytes) -> bytes:
    """A whole packet to the server; the arguments are joined by NUL."""
    body = b"\0".join(args)
    return _REQUESTS[packet_type] + pack_size(len(body)) + body


def pack_response(packet_type: int, *args: bytes) -> bytes:
    """A whole packet from the server; the arguments are joined by NUL."""
    body = b"\0".join(args)
    return _RESPONSES[packet_type] + pack_size(len(body)) + body


def split(body: bytes, count: int) -> list[bytes] | None:
    """The `count` arguments of a body: the last runs to the end and may hold NULs. None: there are too few."""
    args = body.split(b"\0", count - 1)
    return args if len(args) == count else None


class WireError:
    """Why a stream of packets cannot be read any further."""

    __slots__ = ("code", "text")

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        """BAD_MAGIC or OVERSIZE."""
        self.text = text


class Reader:
    """Cuts a stream into packets, however it arrives."""

    __slots__ = (
        "_gathered",
        "_head",
        "_magic",
        "_missing",
        "_opening",
        "_pieces",
        "_type",
        "error",
        "error_at",
        "kept_bytes",
        "limit",
    )

    def __init__(self, magic: bytes, packet_bytes_max: int = PACKET_BYTES_MAX) -> None:
        self.limit = packet_bytes_max
        self.error: WireError | None = None
        """Set once the stream has gone wrong; nothing is read from then on."""
        self.error_at = 0
        """Where the bad packet starts in the data fed last; below 0 when it began in data fed before."""
        self._magic = magic
        self._opening = magic + bytes(3)
        """How each packet starts whose type is below 256: all that there are."""
        self._head = b""
        """The start of a header of which the rest has not arrived."""
        self._type = 0
        self._missing = 0
        """Bytes of the body under way that have not arrived; 0: none is under way."""
        self.kept_bytes = 0
        """What has arrived of the body under way."""
        self._pieces: list[bytes | bytearray] = []
        self._gathered = bytearray()
        """Small pieces that follow the last of `_pieces`."""

    @property
    def idle(self) -> bool:
        """The stream stands between two packets."""
        return not self._missing and not self._head

    def feed(self, data: bytes, start: int = 0) -> list[tuple[int, bytes]]:
        """The packets that `data`, from `start` on, completes: type and body of each."""
        packets: list[tuple[int, bytes]] = []
        if self.error is not None:
            return packets
        at = start
        end = len(data)
        if self._missing:
            at = self._continue_body(data, at, packets)
        elif self._head:
            at = self._continue_head(data, at, packets)
        opening = self._opening
        limit = self.limit
        while end - at >= HEADER_BYTES:
            # Compiled, indexing costs a quarter of Struct.unpack_from.
            packet_type = data[at + 7]
            size = data[at + 8] << 24 | data[at + 9] << 16 | data[at + 10] << 8 | data[at + 11]
            if data[at : at + 7] != opening:
                packet_type = int.from_bytes(data[at + 4 : at + 8], "big")
                if data[at : at + 4] != self._magic:
                    self._refuse(data[at : at + HEADER_BYTES], at)
                    return packets
            if size > limit:
                self._refuse(data[at : at + HEADER_BYTES], at)
                return packets
            body_at = at + HEADER_BYTES
            after = body_at + size
            if after > end:
                self._type = packet_type
                self._missing = size
                self._keep(data, body_at, end)
                return packets
            packets.append((packet_type, data[body_at:after]))
            at = after
        if at < end:
            head = data[at:]
            if self._magic.startswith(head[:4]):
                self._head = head
            else:
                self._refuse(head, at)
        return packets

    def resume(self) -> None:
        """Go on after a bad magic that turned out to be something else, which the caller has read."""
        self.error = None

    def _continue_head(self, data: bytes, at: int, packets: list[tuple[int, bytes]]) -> int:
        """Complete a header that was cut; says where in `data` to read on."""
        kept = len(self._head)
        head = self._head + data[at : at + HEADER_BYTES - kept]
        if not self._magic.startswith(head[:4]):
            self._refuse(head, at - kept)
            return len(data)
        if len(head) < HEADER_BYTES:
            self._head = head
            return len(data)
        _, packet_type, size = _HEADER.unpack(head)
        if size > self.limit:
            self._refuse(head, at - kept)
            return len(data)
        self._head = b""
        at += HEADER_BYTES - kept
        if not size:
            packets.append((packet_type, b""))
            return at
        self._type = packet_type
        self._missing = size
        return self._continue_body(data, at, packets)

    def _continue_body(self, data: bytes, at: int, packets: list[tuple[int, bytes]]) -> int:
        """Complete a body that was cut; says where in `data` to read on."""
        after = min(at + self._missing, len(data))
        self._keep(data, at, after)
        if not self._missing:
            if self._gathered:
                self._pieces.append(self._gathered)
                self._gathered = bytearray()
            packets.append((self._type, b"".join(self._pieces)))
            self._pieces = []
            self.kept_bytes = 0
        return after

    def _keep(self, data: bytes, at: int, after: int) -> None:
        self._missing -= after - at
        self.kept_bytes += after - at
        if after - at < _PIECE_BYTES_MIN:
            self._gathered += data[at:after]
            if len(self._gathered) < _GATHERED_BYTES_MAX:
                return
        if self._gathered:
            self._pieces.append(self._gathered)
            self._gathered = bytearray()
        if after - at >= _PIECE_BYTES_MIN:
            self._pieces.append(data[at:after])

    def _refuse(self, head: bytes, at: int) -> None:
        self._head = b""
        self.error_at = at
        if head[:4] != self._magic[: len(head)]:
            self.error = WireError(BAD_MAGIC, f"a packet starts with {self._magic!r} here; this one does not")
        else:
            size = int.from_bytes(head[8:12], "big")
            self.error = WireError(OVERSIZE, f"a packet of {size} bytes is over the limit of {self.limit}")
