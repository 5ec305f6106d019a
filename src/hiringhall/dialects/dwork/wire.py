r"""The messages of dwork: QueryMsg <-> bytes, in protobuf's proto2 encoding, for both roles.

Invariant: `parse` raises nothing but `BadMessage`, looks at each byte once, and checks every length against the
bytes that are left. Names are bytes: they need not be UTF-8.

    08 00  12 0A  0A 03 "cut"  12 03 "me1"      a Create of one task
    |      |      |            TaskMsg.origin
    |      |      TaskMsg.name
    |      QueryMsg.task, 10 bytes
    QueryMsg.type
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

CREATE: Final = 0
STEAL: Final = 1
COMPLETE: Final = 2
TRANSFER: Final = 3
LOOKUP: Final = 4
NOT_FOUND: Final = 5
OK: Final = 6
EXIT: Final = 7
ERROR: Final = 8

PENDING: Final = 0
STOLEN: Final = 1
WAITING: Final = 2
COPYING: Final = 3
READY: Final = 4
STARTED: Final = 5
DONE: Final = 6
RECORDED: Final = 7

# A tag is the number of a field, shifted by three bits, and the wire type of its value.
_NUMBER: Final = 0
_FIXED_64: Final = 1
_TEXT: Final = 2
_GROUP_START: Final = 3
_GROUP_END: Final = 4
_FIXED_32: Final = 5

_HEAD_BYTES_MAX: Final = 5
"""A tag or a length is a number of 32 bits."""
_NUMBER_BYTES_MAX: Final = 10
GROUP_DEPTH_MAX: Final = 100
"""The limit for nested groups, as in protobuf's own parsers."""
_INT64_MIN: Final = -(1 << 63)

# The name of each message and of its fields by number, for error messages; "" is an unused number.
_QUERY: Final = ("QueryMsg", "type", "task", "name", "n", "", "location")
_TASK: Final = ("TaskMsg", "name", "origin", "", "pred", "succ", "log")
_DEP: Final = ("Dep", "name", "location")
_LOG: Final = ("LogMsg", "state", "time")


class BadMessage(Exception):
    """The message is refused; the text says why, for people."""


class Task:
    """A TaskMsg."""

    __slots__ = ("log", "name", "origin", "preds", "succs")

    def __init__(
        self,
        name: bytes,
        origin: bytes,
        preds: list[bytes] | None = None,
        succs: list[bytes] | None = None,
        log: list[tuple[int, int]] | None = None,
    ) -> None:
        self.name = name
        self.origin = origin
        self.preds = preds
        """Names of tasks. None means empty, here and in the two fields below."""
        self.succs = succs
        self.log = log
        """States, each with its time in microseconds."""


class Query:
    """A QueryMsg. None means that the field is absent."""

    __slots__ = ("location", "n", "name", "tasks", "type")

    def __init__(
        self, kind: int, tasks: list[Task], name: bytes | None, n: int | None, location: bytes | None
    ) -> None:
        self.type = kind
        self.tasks = tasks
        self.name = name
        self.n = n
        self.location = location


def answer_route(envelope: list[bytes]) -> list[bytes] | None:
    """The frames before an answer: the identity, and the empty frame if the peer (a REQ) sent one."""
    if len(envelope) == 1 or (len(envelope) == 2 and not envelope[1]):
        return envelope
    return None


def parse(body: bytes) -> Query:
    """Parse one whole message. Raises BadMessage."""
    kind = -1
    tasks: list[Task] = []
    name: bytes | None = None
    n: int | None = None
    location: bytes | None = None
    at: i64 = 0
    end: i64 = len(body)
    while at < end:
        tag, at = _tag(body, at, end)
        if tag == 2 << 3 | _TEXT:
            at, after = _span(body, at, end)
            tasks.append(_task(body, at, after))
        elif tag == 1 << 3 | _NUMBER:
            kind, after = _choice(body, at, end, ERROR, "QueryMsg.type")
        elif tag == 6 << 3 | _TEXT:
            at, after = _span(body, at, end)
            location = body[at:after]
        elif tag == 4 << 3 | _NUMBER:
            number, after = _number(body, at, end, _NUMBER_BYTES_MAX)
            n = _int32(number)
        elif tag == 3 << 3 | _TEXT:
            at, after = _span(body, at, end)
            name = body[at:after]
        else:
            after = _skip(body, tag, at, end, _QUERY)
        at = after
    if kind < 0:
        raise BadMessage("a QueryMsg without type")
    return Query(kind, tasks, name, n, location)


def _task(body: bytes, at: i64, end: i64) -> Task:
    name: bytes | None = None
    origin: bytes | None = None
    preds: list[bytes] | None = None
    succs: list[bytes] | None = None
    log: list[tuple[int, int]] | None = None
    while at < end:
        tag, at = _tag(body, at, end)
        if tag == 1 << 3 | _TEXT:
            at, after = _span(body, at, end)
            name = body[at:after]
        elif tag == 2 << 3 | _TEXT:
            at, after = _span(body, at, end)
            origin = body[at:after]
        elif tag == 4 << 3 | _TEXT:
            at, after = _span(body, at, end)
            if preds is None:
                preds = []
            preds.append(_dep(body, at, after))
        elif tag == 5 << 3 | _TEXT:
            at, after = _span(body, at, end)
            if succs is None:
                succs = []
            succs.append(_dep(body, at, after))
        elif tag == 6 << 3 | _TEXT:
            at, after = _span(body, at, end)
            if log is None:
                log = []
            log.append(_log(body, at, after))
        else:
            after = _skip(body, tag, at, end, _TASK)
        at = after
    if name is None or origin is None:
        raise BadMessage("a TaskMsg without " + ("name" if name is None else "origin"))
    return Task(name, origin, preds, succs, log)


def _dep(body: bytes, at: i64, end: i64) -> bytes:
    """The name of the task. Its location is ignored: the hall knows where the task is."""
    name: bytes | None = None
    while at < end:
        tag, at = _tag(body, at, end)
        if tag == 1 << 3 | _TEXT:
            at, after = _span(body, at, end)
            name = body[at:after]
        elif tag == 2 << 3 | _TEXT:
            _, after = _span(body, at, end)
        else:
            after = _skip(body, tag, at, end, _DEP)
        at = after
    if name is None:
        raise BadMessage("a Dep without name")
    return name


def _log(body: bytes, at: i64, end: i64) -> tuple[int, int]:
    state = -1
    time_us: int | None = None
    while at < end:
        tag, at = _tag(body, at, end)
        if tag == 1 << 3 | _NUMBER:
            state, at = _choice(body, at, end, RECORDED, "LogMsg.state")
        elif tag == 2 << 3 | _NUMBER:
            time_us, at = _number(body, at, end, _NUMBER_BYTES_MAX)
        else:
            at = _skip(body, tag, at, end, _LOG)
    if state < 0 or time_us is None:
        raise BadMessage("a LogMsg without " + ("state" if state < 0 else "time"))
    return state, time_us


def _tag(body: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """The tag at `at`, which is before `end`, and where its value starts."""
    tag: i64 = body[at]
    if tag < 0x80:
        return tag, at + 1
    tag, at = _number(body, at, end, _HEAD_BYTES_MAX)
    if tag >> 32:
        raise BadMessage("a tag of more than 32 bits")
    return tag, at


def _span(body: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Start and end of the text or message whose length is at `at`."""
    if at == end:
        raise BadMessage("the message ends before a length")
    size: i64 = body[at]
    at += 1
    if size >= 0x80:
        size, at = _number(body, at - 1, end, _HEAD_BYTES_MAX)
    if size > end - at:
        raise BadMessage(f"a field has {size} bytes, but only {end - at} are left")
    return at, at + size


def _number(body: bytes, at: i64, end: i64, bytes_max: i64) -> tuple[i64, i64]:
    """The int64 at `at`, and where it ends: seven bits in a byte, lowest first; the last byte is below 0x80."""
    value: i64 = 0
    shift: i64 = 0
    last = min(end, at + bytes_max)
    while at < last:
        byte: i64 = body[at]
        at += 1
        if shift == 63:
            # Only one bit of a tenth byte counts, the sign.
            value += _INT64_MIN * (byte & 1)
        else:
            value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    if last == end:
        raise BadMessage("the message ends within a number")
    raise BadMessage(f"a number of more than {bytes_max} bytes")


def _int32(number: i64) -> i64:
    """The lower half of an int64, as protobuf truncates it."""
    number &= 0xFFFF_FFFF
    return number - (1 << 32) if number >> 31 else number


def _choice(body: bytes, at: i64, end: i64, highest: i64, what: str) -> tuple[i64, i64]:
    """A value of an enum that goes from 0 to `highest`."""
    number, at = _number(body, at, end, _NUMBER_BYTES_MAX)
    number = _int32(number)
    if not 0 <= number <= highest:
        raise BadMessage(f"{what} is {number}, not 0 to {highest}")
    return number, at


def _skip(body: bytes, tag: i64, at: i64, end: i64, message: tuple[str, ...]) -> i64:
    """The end of an unknown field. A known field with a wrong wire type is refused."""
    field = tag >> 3
    wire_type = tag & 7
    if field == 0:
        raise BadMessage(f"a field with the number 0 in a {message[0]}")
    if field < len(message) and message[field]:
        raise BadMessage(f"{message[0]}.{message[field]} with wire type {wire_type}")
    if wire_type == _GROUP_START:
        return _skip_group(body, field, at, end)
    return _skip_value(body, field, wire_type, at, end, message[0])


def _skip_group(body: bytes, field: i64, at: i64, end: i64) -> i64:
    """The end of a group: after the end tag with its number. All groups in it must have ended before."""
    open_groups: list[int] = [field]
    while open_groups:
        if at == end:
            raise BadMessage(f"the message ends within group {open_groups[-1]}")
        tag, at = _tag(body, at, end)
        field = tag >> 3
        wire_type = tag & 7
        if field == 0:
            raise BadMessage(f"a field with the number 0 in group {open_groups[-1]}")
        if wire_type == _GROUP_START:
            if len(open_groups) == GROUP_DEPTH_MAX:
                raise BadMessage(f"more than {GROUP_DEPTH_MAX} nested groups")
            open_groups.append(field)
        elif wire_type == _GROUP_END:
            opened = open_groups.pop()
            if opened != field:
                raise BadMessage(f"group {opened} ends as group {field}")
        else:
            at = _skip_value(body, field, wire_type, at, end, "group")
    return at


def _skip_value(body: bytes, field: i64, wire_type: i64, at: i64, end: i64, within: str) -> i64:
    """The end of a value that is not a group."""
    if wire_type == _NUMBER:
        _, at = _number(body, at, end, _NUMBER_BYTES_MAX)
    elif wire_type == _TEXT:
        _, at = _span(body, at, end)
    elif wire_type in (_FIXED_64, _FIXED_32):
        at += 8 if wire_type == _FIXED_64 else 4
        if at > end:
            raise BadMessage(f"the message ends within field {field} of a {within}")
    else:
        raise BadMessage(f"field {field} of a {within} with wire type {wire_type}")
    return at


# --- encoding


def _pack_number(value: int) -> bytes:
    """The inverse of `_number`; a negative number is written with 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


_SIZES_MADE: Final = 1024
_SIZES: Final = [_pack_number(number) for number in range(_SIZES_MADE)]
"""The lengths of small fields, made in advance."""
_TYPES: Final = [bytes((1 << 3 | _NUMBER, number)) for number in range(ERROR + 1)]
_STATES: Final = [bytes((1 << 3 | _NUMBER, number, 2 << 3 | _NUMBER)) for number in range(RECORDED + 1)]
"""A LogMsg up to its time."""


def _pack_size(size: int) -> bytes:
    return _SIZES[size] if size < _SIZES_MADE else _pack_number(size)


def encode(
    type: int,  # noqa: A002
    tasks: list[bytes] | None = None,
    name: bytes | None = None,
    n: int | None = None,
    location: bytes | None = None,
) -> bytes:
    """A whole message; tasks come from `encode_task`."""
    parts = [_TYPES[type]]
    if tasks is not None:
        for task in tasks:
            parts.append(b"\x12%b" % _pack_size(len(task)))
            parts.append(task)
    if name is not None:
        parts.append(b"\x1a%b%b" % (_pack_size(len(name)), name))
    if n is not None:
        parts.append(b"\x20%b" % _pack_number(n))
    if location is not None:
        parts.append(b"\x32%b%b" % (_pack_size(len(location)), location))
    return b"".join(parts)


def encode_task(
    name: bytes,
    origin: bytes,
    preds: list[bytes] | None = None,
    succs: list[bytes] | None = None,
    log: bytes = b"",
) -> bytes:
    """A TaskMsg; its log is the joined output of `encode_log`."""
    return b"\x0a%b%b\x12%b%b%b%b%b" % (
        _pack_size(len(name)),
        name,
        _pack_size(len(origin)),
        origin,
        b"" if preds is None else _pack_deps(b"\x22", preds),
        b"" if succs is None else _pack_deps(b"\x2a", succs),
        log,
    )


def _pack_deps(tag: bytes, names: list[bytes]) -> bytes:
    packed: list[bytes] = []
    for name in names:
        size = _pack_size(len(name))
        packed.append(b"%b%b\x0a%b%b" % (tag, _pack_size(1 + len(size) + len(name)), size, name))
    return b"".join(packed)


def encode_log(state: int, time_us: int) -> bytes:
    """One entry of a task's log, as a field of its TaskMsg."""
    time = _pack_time(time_us)
    return b"\x32%b%b%b" % (_SIZES[3 + len(time)], _STATES[state], time)


def _pack_time(time_us: int) -> bytes:
    """As `_pack_number`. A time from 1987 to 4253 has eight bytes, which are computed without a loop."""
    if not 1 << 49 <= time_us < 1 << 56:
        return _pack_number(time_us)
    # Halves of 28 bits are moved apart to 32 each, quarters of 14 to 16 each, eighths of 7 to 8 each.
    bits: i64 = time_us
    bits = bits & 0x0FFF_FFFF | (bits & 0x00FF_FFFF_F000_0000) << 4
    bits = bits & 0x0000_3FFF_0000_3FFF | (bits & 0x0FFF_C000_0FFF_C000) << 2
    bits = bits & 0x007F_007F_007F_007F | (bits & 0x3F80_3F80_3F80_3F80) << 1
    packed: int = bits | 0x0080_8080_8080_8080
    return packed.to_bytes(8, "little")
