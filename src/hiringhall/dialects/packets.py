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

MAGIC_BYTES: Final = 4
SIZE_BYTES: Final = 4

BAD_MAGIC: Final = "bad_magic"
PACKET_TOO_LARGE: Final = "packet_too_large"

SEPARATE_BYTES_MIN: Final = 16_384
"""Data at least this long is sent as a message of its own, after the rest of its packet."""
_PIECE_BYTES_MIN: Final = 4096
"""Shorter pieces of a body are gathered in one buffer, so that a slow sender does not cost an object each."""
_GATHERED_BYTES_MAX: Final = 65536


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
        "_missing",
        "_opening",
        "_pieces",
        "_type",
        "error",
        "error_at",
        "kept_bytes",
        "limit",
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
        self._magic = magic
        self._opening = magic + bytes(type_bytes - 1)
        """The start of every packet with a type below 256: all that are defined."""
        self._header_bytes = MAGIC_BYTES + type_bytes + SIZE_BYTES
        self._head = b""
        """The start of an incomplete header."""
        self._type = 0
        """The type of the packet with the incomplete body."""
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
        if self.error is not None:
            return packets
        # Compiled, machine integers spare the checks for large ones.
        at: i64 = start
        end: i64 = len(data)
        if self._missing:
            at = self._continue_body(data, at, packets)
        elif self._head:
            at = self._continue_head(data, at, packets)
        opening = self._opening
        opening_bytes: i64 = len(opening)
        header_bytes: i64 = self._header_bytes
        limit: i64 = self.limit
        while end - at >= header_bytes:
            # Compiled, indexing costs a quarter of Struct.unpack_from.
            type_at = at + opening_bytes
            packet_type = data[type_at]
            size_at = type_at + 1
            size: i64 = (
                data[size_at] << 24 | data[size_at + 1] << 16 | data[size_at + 2] << 8 | data[size_at + 3]
            )
            if data[at:type_at] != opening:
                packet_type = int.from_bytes(data[at + MAGIC_BYTES : type_at + 1], "big")
                if data[at : at + MAGIC_BYTES] != self._magic:
                    self._refuse(data[at : at + header_bytes], at)
                    return packets
            if size > limit:
                self._refuse(data[at : at + header_bytes], at)
                return packets
            body_at = at + header_bytes
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
            if self._magic.startswith(head[:MAGIC_BYTES]):
                self._head = head
            else:
                self._refuse(head, at)
        return packets

    def resume(self) -> None:
        """Continue after a bad magic that the caller has read as something else."""
        self.error = None

    def _continue_head(self, data: bytes, at: int, packets: list[tuple[int, bytes]]) -> int:
        """Complete a header that was cut. Returns where in `data` to continue."""
        kept = len(self._head)
        head = self._head + data[at : at + self._header_bytes - kept]
        if not self._magic.startswith(head[:MAGIC_BYTES]):
            self._refuse(head, at - kept)
            return len(data)
        if len(head) < self._header_bytes:
            self._head = head
            return len(data)
        size = head[-4] << 24 | head[-3] << 16 | head[-2] << 8 | head[-1]
        if size > self.limit:
            self._refuse(head, at - kept)
            return len(data)
        packet_type = head[-5]
        if not head.startswith(self._opening):
            packet_type = int.from_bytes(head[MAGIC_BYTES:-SIZE_BYTES], "big")
        self._head = b""
        at += self._header_bytes - kept
        if not size:
            packets.append((packet_type, b""))
            return at
        self._type = packet_type
        self._missing = size
        return self._continue_body(data, at, packets)

    def _continue_body(self, data: bytes, at: int, packets: list[tuple[int, bytes]]) -> int:
        """Complete a body that was cut. Returns where in `data` to continue."""
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
