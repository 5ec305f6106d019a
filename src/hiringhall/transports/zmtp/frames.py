"""ZeroMQ's frames, the same in ZMTP 2.0, 3.0 and 3.1, without I/O: bytes in, events out.

    flags  size  body        flags: 1 more frames follow, 2 the size has 8 bytes, 4 it is a command

A message is one or more frames. The last one is its body; those before it are its envelope. Most peers put the
same envelope before every message, so the reader reports an envelope only when it changes.

Invariant: a size is checked before anything is kept for it; what is kept is bounded; no byte is read twice.
"""

from __future__ import annotations

from typing import Final

from hiringhall.core.errors import BrokenLaw

MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4
_KNOWN_FLAGS: Final = MORE | LONG | COMMAND
_SHORT_HEAD: Final = 2
_LONG_HEAD: Final = 9
SHORT_MAX: Final = 255
"""Bytes of the longest body with a size of one byte."""

FRAMES_MAX: Final = 63
"""Frames of one message; no dialect has messages with more."""
ENVELOPE_BYTES_MAX: Final = 65_536
"""Bytes of the frames before the body. A message with more of either is dropped; nothing is kept of it."""
FRAMES_CUT: Final = 100_000
"""A peer that sends a message of more frames than this is disconnected."""
_PIECE_BYTES: Final = 4096
"""Smaller pieces of an incomplete frame are joined as they come: kept one by one, they would take more memory
than they have bytes."""

LAST_HEADS: Final = [bytes((0, size)) for size in range(SHORT_MAX + 1)]
"""What stands before a body of up to 255 bytes."""
EMPTY_FRAME: Final = b"\x01\x00"
"""The empty frame of a REQ, which stands before its body."""
REQ_HEADS: Final = [EMPTY_FRAME + head for head in LAST_HEADS]


def head(size: int, flags: int = 0) -> bytes:
    """What stands before a body of this size."""
    if size <= SHORT_MAX:
        return bytes((flags, size))
    return bytes((flags | LONG,)) + size.to_bytes(8, "big")


def frame(body: bytes, flags: int = 0) -> bytes:
    return head(len(body), flags) + body


def command(name: bytes, data: bytes = b"") -> bytes:
    """The frame of a command."""
    return frame(command_body(name, data), COMMAND)


def command_body(name: bytes, data: bytes = b"") -> bytes:
    return bytes((len(name),)) + name + data


class Event:
    """Something that was read from a peer."""

    __slots__ = ()


class Envelope(Event):
    """The messages that follow have these frames before their body."""

    __slots__ = ("frames",)

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames


class Message(Event):
    """The body of one message. Its envelope is the latest one that was reported, at first an empty one."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body


class Command(Event):
    """A command, such as PING."""

    __slots__ = ("data", "name")

    def __init__(self, name: bytes, data: bytes) -> None:
        self.name = name
        self.data = data


class Oversized(Event):
    """A message was dropped: it has too many frames, or its envelope has too many bytes."""

    __slots__ = ("frames",)

    def __init__(self, frames: int) -> None:
        self.frames = frames
        """How many it had."""


class Opener:
    """Decrypts the frames of one peer."""

    def open(self, body: bytes) -> bytes:  # noqa: ARG002
        """The flags and the body that were encrypted together. Raises ValueError if they were not encrypted by
        the peer for this place in the stream.
        """
        raise BrokenLaw("a mechanism with encryption must override open")


class FrameReader:
    """Reads the frames of one peer, however they are cut up."""

    __slots__ = (
        "_bytes_max",
        "_envelope",
        "_flags",
        "_frames",
        "_frames_max",
        "_in_message",
        "_message_bytes",
        "_message_frames",
        "_missing",
        "_opener",
        "_oversized",
        "_pieces",
        "_prefix",
        "_quick",
        "_rest",
        "_tail",
        "kept_bytes",
        "trouble",
    )

    def __init__(
        self, frame_bytes_max: int, frames_max: int = FRAMES_MAX, opener: Opener | None = None
    ) -> None:
        self.trouble = ""
        """What the peer did wrong; nothing is read after that."""
        self.kept_bytes = 0
        """Bytes that are kept of an incomplete message."""
        self._bytes_max = frame_bytes_max
        self._frames_max = frames_max
        self._opener = opener
        self._quick = opener is None and frame_bytes_max >= SHORT_MAX
        """Most messages can be read at once: see `feed`."""
        self._envelope: list[bytes] = []
        """The latest one that was reported."""
        self._prefix = b""
        """The same as it is on the wire."""
        self._in_message = False
        """Frames of a message were read, and its last frame was not."""
        self._frames: list[bytes] = []
        """Those of its envelope."""
        self._message_frames = 0
        self._message_bytes = 0
        """Of all its frames so far, with their heads."""
        self._oversized = False
        self._rest = b""
        """An incomplete head."""
        self._missing = 0
        """Bytes that the body of a frame lacks; 0: no body is incomplete."""
        self._flags = 0
        """The flags of that frame."""
        self._pieces: list[bytes] = []
        """What has come of it, but for `_tail`."""
        self._tail = bytearray()

    def feed(self, data: bytes) -> list[Event]:
        """What can be read now."""
        events: list[Event] = []
        at = 0
        if self._missing:
            at = self._continue_body(data, events)
        elif self._rest:
            data = self._rest + data
            self._rest = b""
        size = len(data)
        while at < size and not self.trouble:
            if self._quick and not self._in_message:
                # A whole message with the envelope of the one before and a short body: by far the most usual.
                body_head = at + len(self._prefix)
                body_at = body_head + _SHORT_HEAD
                if body_at <= size and data[body_head] == 0 and self._is_prefix_at(data, at):
                    end = body_at + data[body_head + 1]
                    if end <= size:
                        events.append(Message(data[body_at:end]))
                        at = end
                        continue
            at = self._read_frame(data, at, size, events)
        return events

    def _is_prefix_at(self, data: bytes, at: int) -> bool:
        length = len(self._prefix)
        if length == _SHORT_HEAD:
            return data[at] == MORE and data[at + 1] == 0  # one empty frame: no other one is as short
        return length == 0 or data.startswith(self._prefix, at)

    def _read_frame(self, data: bytes, at: int, size: int, events: list[Event]) -> int:
        """Read one frame, or what has come of it. Return the place after it."""
        flags = data[at]
        body_at = at + (_LONG_HEAD if flags & LONG else _SHORT_HEAD)
        if body_at > size:
            self._rest = data[at:]
            return size
        length = int.from_bytes(data[at + 1 : body_at], "big") if flags & LONG else data[at + 1]
        self._check_head(flags, length, body_at - at)
        if self.trouble:
            return size
        end = body_at + length
        if end <= size:
            self._end_frame(flags, data[body_at:end], events)
            return end
        self._flags = flags
        self._missing = end - size
        self._keep(data[body_at:])
        return size

    def _check_head(self, flags: int, length: int, head_bytes: int) -> None:
        """Check a frame before its body is read."""
        if flags & ~_KNOWN_FLAGS or (flags & COMMAND and flags & MORE):
            self.trouble = f"a frame with the flags {flags:#x}"
        elif length > self._bytes_max:
            self.trouble = f"a frame of {length} bytes (message_bytes_max)"
        elif not flags & COMMAND or self._opener is not None:
            self._message_bytes += head_bytes + length
            if self._message_bytes > self._bytes_max + ENVELOPE_BYTES_MAX:
                self.trouble = f"a message of more than {self._message_bytes} bytes (message_bytes_max)"
            elif self._opener is None:
                self._count_frame(flags, length)

    def _count_frame(self, flags: int, length: int) -> None:
        """Count a frame of a message; with encryption, after it was decrypted."""
        self._message_frames += 1
        if self._message_frames > FRAMES_CUT:
            self.trouble = f"a message of more than {FRAMES_CUT} frames"
        if self._message_frames > self._frames_max:
            self._oversized = True
        elif flags & MORE:
            before = sum([len(frame) for frame in self._frames])
            if self._message_frames == self._frames_max or before + length > ENVELOPE_BYTES_MAX:
                self._oversized = True
        if self._oversized:
            self._frames = []

    def _keep(self, data: bytes) -> None:
        """Keep a piece of an incomplete body."""
        if self._oversized and not self._flags & COMMAND:
            return
        self.kept_bytes += len(data)
        if len(data) < _PIECE_BYTES:
            self._tail += data
            return
        if self._tail:
            self._pieces.append(bytes(self._tail))
            self._tail = bytearray()
        self._pieces.append(data)

    def _continue_body(self, data: bytes, events: list[Event]) -> int:
        """Read on in an incomplete body. Return the place after it."""
        missing = self._missing
        if len(data) < missing:
            self._missing = missing - len(data)
            self._keep(data)
            return len(data)
        self._missing = 0
        self._keep(data if len(data) == missing else data[:missing])
        self._pieces.append(bytes(self._tail))
        body = b"".join(self._pieces)
        self._pieces = []
        self._tail = bytearray()
        self._end_frame(self._flags, body, events)
        return missing

    def _end_frame(self, flags: int, body: bytes, events: list[Event]) -> None:
        """A frame is complete."""
        opener = self._opener
        if opener is not None:
            try:
                opened = opener.open(body)
            except ValueError as error:
                self.trouble = str(error)
                return
            flags, body = _inner_flags(opened[0]), opened[1:]
            if not flags & COMMAND:
                self._count_frame(flags, len(body))
        if flags & COMMAND:
            self._read_command(body, events)
        elif flags & MORE:
            self._in_message = True
            if not self._oversized:
                self._frames.append(body)
        else:
            self._end_message(body, events)
        self.kept_bytes = sum([len(frame) for frame in self._frames])

    def _read_command(self, body: bytes, events: list[Event]) -> None:
        length = body[0] if body else 0
        if not 0 < length < len(body):
            self.trouble = "a command without a name"
            return
        events.append(Command(body[1 : 1 + length], body[1 + length :]))
        if not self._in_message:
            self._message_bytes = 0

    def _end_message(self, body: bytes, events: list[Event]) -> None:
        if self._oversized:
            events.append(Oversized(self._message_frames))
        else:
            if self._frames != self._envelope:
                self._envelope = self._frames
                self._prefix = b"".join([frame(each, MORE) for each in self._frames])
                events.append(Envelope(self._frames))
            events.append(Message(body))
        self._in_message = False
        self._oversized = False
        self._frames = []
        self._message_frames = 0
        self._message_bytes = 0


def _inner_flags(flags: int) -> int:
    """Inside an encrypted frame, 2 is a command."""
    return (flags & MORE) | (COMMAND if flags & 2 else 0)
