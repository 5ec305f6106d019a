"""Packets over a stream, for both Gearman protocols: reading them, and sending those with long data.

    magic, 4 bytes | type | size of the body, 4 bytes | body        all integers are big-endian

Invariants: a `PacketReader` never raises, looks at each byte once, copies a body once, and checks a size
against its limit before it keeps anything of the body. Long data is never copied into the packet that is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

    from hiringhall.core.jobs import Job
    from hiringhall.dialects.session import Session

WORD_BYTES: Final = 4
MAGIC_BYTES: Final = WORD_BYTES
SIZE_BYTES: Final = WORD_BYTES

BAD_MAGIC: Final = "bad_magic"
PACKET_TOO_LARGE: Final = "packet_too_large"

SEPARATE_BYTES_MIN: Final = 16_384
"""Data at least this long is sent as a message of its own, after the rest of its packet."""
_PIECE_BYTES_MIN: Final = 4096
"""Shorter pieces of a body are gathered in one buffer, so that a slow sender does not cost an object each."""
_GATHERED_BYTES_MAX: Final = 65536


def _word(data: bytes, at: i64) -> i64:
    """Four bytes as a number. Compiled, this costs a quarter of `Struct.unpack_from`, and makes no objects."""
    first: i64 = data[at]
    second: i64 = data[at + 1]
    third: i64 = data[at + 2]
    fourth: i64 = data[at + 3]
    return first << 24 | second << 16 | third << 8 | fourth


class WireError:
    """Why a stream of packets cannot be read any further."""

    __slots__ = ("code", "text")

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        """BAD_MAGIC or PACKET_TOO_LARGE."""
        self.text = text


class PacketReader:
    """Cuts a stream into packets, however it arrives."""

    __slots__ = (
        "_gathered",
        "_head",
        "_header_bytes",
        "_magic",
        "_magic_word",
        "_missing",
        "_pieces",
        "_type_bytes",
        "at",
        "error",
        "error_at",
        "kept_bytes",
        "limit",
        "type",
    )

    def __init__(self, magic: bytes, type_bytes: int, packet_bytes_max: int) -> None:
        self.limit = packet_bytes_max
        """The largest body."""
        self.error: WireError | None = None
        """Set once the stream cannot be read; from then on nothing is read."""
        self.error_at = 0
        """Where the bad packet starts in the data fed last; below 0 if it started in data fed before."""
        self.kept_bytes = 0
        """What has arrived of the incomplete body."""
        self.at = 0
        """Where in the data fed last the next packet starts."""
        self.type = 0
        """The type of the latest packet, whose body may be incomplete."""
        self._magic = magic
        self._magic_word = int.from_bytes(magic, "big")
        self._type_bytes = type_bytes
        self._header_bytes = MAGIC_BYTES + type_bytes + SIZE_BYTES
        self._head = b""
        """The start of an incomplete header."""
        self._missing = 0
        """Bytes of the incomplete body that have not arrived; 0: no body is incomplete."""
        self._pieces: list[bytes | bytearray] = []
        self._gathered = bytearray()
        """Short pieces that follow the last of `_pieces`."""

    @property
    def idle(self) -> bool:
        """Whether the data fed so far ended with a whole packet."""
        return not self._missing and not self._head

    def feed(self, data: bytes, start: int = 0) -> list[tuple[int, bytes]]:
        """The packets that `data`, from `start` on, completes: type and body of each."""
        packets: list[tuple[int, bytes]] = []
        self.at = start
        body = self.next(data)
        while body is not None:
            packets.append((self.type, body))
            body = self.next(data)
        return packets

    def next(self, data: bytes) -> bytes | None:
        """The body of the next packet that `data`, from `at` on, completes; `type` is its type. None: there is
        no more, and what is left of `data` is kept: the next call needs other data, and `at` set to its start.
        A loop over `next` makes fewer objects than `feed`.
        """
        if self.error is not None:
            return None
        if self._missing:
            return self._continue_body(data)
        if self._head:
            return self._continue_head(data)
        # Compiled, machine integers spare the checks for large ones.
        at: i64 = self.at
        end: i64 = len(data)
        header_bytes: i64 = self._header_bytes
        body_at = at + header_bytes
        if body_at > end:
            if at < end:
                self._keep_head(data)
            return None
        size = _word(data, body_at - SIZE_BYTES)
        if _word(data, at) != self._magic_word or size > self.limit:
            self._refuse(data[at:body_at], at)
            return None
        type_at = at + MAGIC_BYTES
        if self._type_bytes == WORD_BYTES:
            self.type = _word(data, type_at)
        else:
            self.type = data[type_at]
        after = body_at + size
        if after > end:
            self._missing = size
            self._keep(data, body_at, end)
            return None
        self.at = after
        return data[body_at:after]

    def resume(self) -> None:
        """Continue after a bad magic that the caller has read as something else."""
        self.error = None

    def _keep_head(self, data: bytes) -> None:
        """All of `data` is read, but for an incomplete header."""
        head = data[self.at :]
        if self._magic.startswith(head[:MAGIC_BYTES]):
            self._head = head
        else:
            self._refuse(head, self.at)

    def _continue_head(self, data: bytes) -> bytes | None:
        """Complete a header that was cut, and its packet."""
        at = self.at
        kept = len(self._head)
        head = self._head + data[at : at + self._header_bytes - kept]
        if not self._magic.startswith(head[:MAGIC_BYTES]):
            self._refuse(head, at - kept)
            return None
        if len(head) < self._header_bytes:
            self._head = head
            return None
        size = int.from_bytes(head[-SIZE_BYTES:], "big")
        if size > self.limit:
            self._refuse(head, at - kept)
            return None
        self.type = int.from_bytes(head[MAGIC_BYTES:-SIZE_BYTES], "big")
        self._head = b""
        self.at = at + self._header_bytes - kept
        if not size:
            return b""
        self._missing = size
        return self._continue_body(data)

    def _continue_body(self, data: bytes) -> bytes | None:
        """Complete a body that was cut."""
        at = self.at
        after = min(at + self._missing, len(data))
        self._keep(data, at, after)
        if self._missing:
            return None
        self.at = after
        if self._gathered:
            self._pieces.append(self._gathered)
            self._gathered = bytearray()
        body = b"".join(self._pieces)
        self._pieces = []
        self.kept_bytes = 0
        return body

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
        if head[:MAGIC_BYTES] != self._magic[: len(head)]:
            text = f"packets must start with {self._magic!r} here; this one does not"
            self.error = WireError(BAD_MAGIC, text)
        else:
            size = int.from_bytes(head[-SIZE_BYTES:], "big")
            text = f"a packet of {size} bytes is over the limit of {self.limit}"
            self.error = WireError(PACKET_TOO_LARGE, text)


def send_packet(session: Session, opening: bytes, data: bytes) -> None:
    """Send a packet that ends with `data`; `opening` is everything before it."""
    if len(data) < SEPARATE_BYTES_MIN:
        session.send(opening + data)
    else:
        session.send(opening)
        session.send(data)


def conclude_with_packet(session: Session, job: Job, opening: bytes) -> None:
    """Tell a watcher how `job` ended, by a packet that ends with the job's result."""
    result = job.result
    if len(result) < SEPARATE_BYTES_MIN:
        session.conclude(job, opening + result)
    else:
        session.conclude(job, opening)
        session.send(result)
