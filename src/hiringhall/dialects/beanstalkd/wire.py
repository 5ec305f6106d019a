"""The beanstalkd protocol as requests and replies: lines of text, and bodies whose length the line before says.

Invariant: the length of a line or a body is checked before it is kept. What is too long is skipped, and the
request after it is read as if nothing had happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core import ids

if TYPE_CHECKING:
    from collections.abc import Sequence

LINE_BYTES_MAX: Final = 224
"""A request line with its end: a command, a tube and a number fit."""
TUBE_BYTES_MAX: Final = 200
NUMBER_MAX: Final = (1 << 32) - 1
_NUMBER_DIGITS_MAX: Final = 10
_TUBE_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"
_END: Final = b"\r\n"

PUT: Final = b"put"
USE: Final = b"use"
RESERVE: Final = b"reserve"
RESERVE_WITH_TIMEOUT: Final = b"reserve-with-timeout"
RESERVE_JOB: Final = b"reserve-job"
DELETE: Final = b"delete"
RELEASE: Final = b"release"
BURY: Final = b"bury"
TOUCH: Final = b"touch"
WATCH: Final = b"watch"
IGNORE: Final = b"ignore"
PEEK: Final = b"peek"
PEEK_READY: Final = b"peek-ready"
PEEK_DELAYED: Final = b"peek-delayed"
PEEK_BURIED: Final = b"peek-buried"
KICK: Final = b"kick"
KICK_JOB: Final = b"kick-job"
STATS: Final = b"stats"
STATS_JOB: Final = b"stats-job"
STATS_TUBE: Final = b"stats-tube"
LIST_TUBES: Final = b"list-tubes"
LIST_TUBE_USED: Final = b"list-tube-used"
LIST_TUBES_WATCHED: Final = b"list-tubes-watched"
QUIT: Final = b"quit"

ARGUMENTS: Final = {
    # What follows each command: a number below 2**32 ("n"), the id of a job ("j"), the name of a tube ("t").
    PUT: "nnnn",
    USE: "t",
    RESERVE: "",
    RESERVE_WITH_TIMEOUT: "n",
    RESERVE_JOB: "j",
    DELETE: "j",
    RELEASE: "jnn",
    BURY: "jn",
    TOUCH: "j",
    WATCH: "t",
    IGNORE: "t",
    PEEK: "j",
    PEEK_READY: "",
    PEEK_DELAYED: "",
    PEEK_BURIED: "",
    KICK: "n",
    KICK_JOB: "j",
    STATS: "",
    STATS_JOB: "j",
    STATS_TUBE: "t",
    LIST_TUBES: "",
    LIST_TUBE_USED: "",
    LIST_TUBES_WATCHED: "",
    QUIT: "",
}

OUT_OF_MEMORY: Final = b"OUT_OF_MEMORY\r\n"
INTERNAL_ERROR: Final = b"INTERNAL_ERROR\r\n"
BAD_FORMAT: Final = b"BAD_FORMAT\r\n"
UNKNOWN_COMMAND: Final = b"UNKNOWN_COMMAND\r\n"
EXPECTED_CRLF: Final = b"EXPECTED_CRLF\r\n"
JOB_TOO_BIG: Final = b"JOB_TOO_BIG\r\n"
DRAINING: Final = b"DRAINING\r\n"
NOT_FOUND: Final = b"NOT_FOUND\r\n"
NOT_IGNORED: Final = b"NOT_IGNORED\r\n"
DEADLINE_SOON: Final = b"DEADLINE_SOON\r\n"
TIMED_OUT: Final = b"TIMED_OUT\r\n"
DELETED: Final = b"DELETED\r\n"
RELEASED: Final = b"RELEASED\r\n"
BURIED: Final = b"BURIED\r\n"
TOUCHED: Final = b"TOUCHED\r\n"
KICKED: Final = b"KICKED\r\n"


class Request:
    """One command with its arguments, or what is wrong with it."""

    __slots__ = ("body", "command", "fault", "numbers", "tube")

    def __init__(self, command: bytes, fault: bytes = b"") -> None:
        self.command = command
        self.numbers: list[int] = []
        """Its numbers and job ids, in order. A job id that cannot be one of ours is 0."""
        self.tube = b""
        self.body = b""
        self.fault = fault
        """The reply to a request that cannot be read; empty: it is well-formed."""


def parse_line(line: bytes) -> Request:
    """The request in a line. The body of a put follows the line."""
    words = line.split(b" ")
    request = Request(words[0])
    kinds = ARGUMENTS.get(words[0])
    if b"\0" in line:
        request.fault = BAD_FORMAT
    elif kinds is None:
        request.fault = UNKNOWN_COMMAND
    elif len(words) != len(kinds) + 1:
        request.fault = BAD_FORMAT
    else:
        for kind, word in zip(kinds, words[1:], strict=True):
            if kind == "t":
                request.tube = word
                well_formed = is_tube(word)
            elif kind == "j":
                request.numbers.append(ids.parse(word))
                well_formed = word.isdigit()
            else:
                number = int(word) if word.isdigit() and len(word) <= _NUMBER_DIGITS_MAX else NUMBER_MAX + 1
                request.numbers.append(number)
                well_formed = number <= NUMBER_MAX
            if not well_formed:
                request.fault = BAD_FORMAT
    return request


def is_tube(name: bytes) -> bool:
    """Whether the protocol allows this as the name of a tube."""
    return 0 < len(name) <= TUBE_BYTES_MAX and name[:1] != b"-" and not name.translate(None, _TUBE_BYTES)


class Reader:
    """Cuts a stream into requests, however it arrives: `receive` it, then call `next_request` until None."""

    __slots__ = ("_at", "_body_bytes_max", "_buffer", "_overlong", "_put", "_skip")

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._buffer = bytearray()
        self._at = 0
        """Where the next request, or the body of `_put`, starts in the buffer."""
        self._put: Request | None = None
        """A put whose body has not come in whole."""
        self._skip = 0
        """Bytes of its body, with the end, that are still to be skipped, because it is too long."""
        self._overlong = False
        """The line under way is too long: it is skipped up to its end."""

    @property
    def kept_bytes(self) -> int:
        """What has come and has not been read."""
        return len(self._buffer) - self._at

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def next_request(self) -> Request | None:
        """The next request that has come in whole; None: more has to come first."""
        request = self._next_line() if self._put is None else self._put
        if request is not None and request.command == PUT and (self._put is request or not request.fault):
            request = self._next_body(request)
        if request is None:
            del self._buffer[: self._at]
            self._at = 0
        return request

    def _next_line(self) -> Request | None:
        buffer = self._buffer
        end = buffer.find(_END, self._at)
        if end < 0:
            if self.kept_bytes >= LINE_BYTES_MAX:
                self._overlong = True
            if self._overlong:
                # The last byte may be the first half of the line's end.
                self._at = max(self._at, len(buffer) - 1)
            return None
        overlong = self._overlong or end + len(_END) - self._at > LINE_BYTES_MAX
        self._overlong = False
        line = b"" if overlong else bytes(buffer[self._at : end])
        self._at = end + len(_END)
        return Request(b"", BAD_FORMAT) if overlong else parse_line(line)

    def _next_body(self, put: Request) -> Request | None:
        size = put.numbers[3]
        if self._put is None:
            self._put = put
            if size > self._body_bytes_max:
                put.fault = JOB_TOO_BIG
                self._skip = size + len(_END)
        if put.fault:
            skipped = min(self._skip, self.kept_bytes)
            self._at += skipped
            self._skip -= skipped
            if self._skip:
                return None
        elif self.kept_bytes < size + len(_END):
            return None
        else:
            end = self._at + size
            put.body = bytes(self._buffer[self._at : end])
            self._at = end + len(_END)
            if self._buffer[end : self._at] != _END:
                put.fault = EXPECTED_CRLF
        self._put = None
        return put


def pack_job(word: bytes, job_id: int, body: bytes) -> bytes:
    """RESERVED or FOUND."""
    return b"%b %d %d\r\n%b\r\n" % (word, job_id, len(body), body)


def pack_data(data: bytes) -> bytes:
    return b"OK %d\r\n%b\r\n" % (len(data), data)


def pack_stats(stats: dict[str, bytes | int]) -> bytes:
    """A mapping, as YAML."""
    lines = [
        b"%b: %b\n" % (key.encode(), value if isinstance(value, bytes) else b"%d" % value)
        for key, value in stats.items()
    ]
    return pack_data(b"---\n" + b"".join(lines))


def pack_list(names: Sequence[bytes]) -> bytes:
    """A list, as YAML."""
    return pack_data(b"---\n" + b"".join([b"- %b\n" % name for name in names]))
