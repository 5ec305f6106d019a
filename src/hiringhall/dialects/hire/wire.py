"""Reads and writes the lines of the hire protocol: `UUID VERB field:field`, or the same in a compact form.

Invariants: a line that was written is read back unchanged; a line that is not exactly one of the eight kinds is
refused with a reason, whatever bytes it contains.

    6fa459ea-ee8a-3ca4-894e-db77e160355e AVAIL 16fd2706-8baf-433b-82eb-8c7fada847da:2.5:40
    !b6RZ6u6KPKSJTtt34WA1XgAFv0nBouvQzuC64x_rahH2g:2.5:40     (compact: it starts with !)
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import hexlify, unhexlify
from typing import Final, NamedTuple

ANNOUNCE: Final = b"ANNOUNCE"
AVAIL: Final = b"AVAIL"
HIRE: Final = b"HIRE"
START: Final = b"START"
PERFORM: Final = b"PERFORM"
PERFORMING: Final = b"PERFORMING"
DISMISS: Final = b"DISMISS"
QUIT: Final = b"QUIT"

_ID: Final = 0
_WORKER: Final = 1
_TYPE: Final = 2
_TIME: Final = 3
_SKILL: Final = 4

FIELDS: Final[dict[bytes, tuple[int, ...]]] = {
    ANNOUNCE: (_ID, _TYPE),
    AVAIL: (_ID, _TIME, _SKILL),
    HIRE: (_WORKER, _ID),
    START: (_ID,),
    PERFORM: (_ID, _TYPE, _TIME),
    PERFORMING: (_ID,),
    DISMISS: (_WORKER, _ID),
    QUIT: (_ID,),
}
"""The verbs, with the kinds of their fields."""

_LETTERS: Final = {
    ANNOUNCE: b"N",
    AVAIL: b"A",
    HIRE: b"H",
    START: b"S",
    PERFORM: b"P",
    PERFORMING: b"G",
    DISMISS: b"D",
    QUIT: b"Q",
}
_VERBS: Final = {letter: verb for verb, letter in _LETTERS.items()}

LINE_BYTES_MAX: Final = 4096
OPENING_BYTES: Final = 37
"""A UUID and a space."""
ID_BYTES_MAX: Final = 255
"""A job's id."""
TYPE_BYTES_MAX: Final = 1536
"""A type as it is written: the longest queue name, some of it written as %3A."""
SKILL_MAX: Final = 1_000_000
TIME_US_MAX: Final = 31_536_000_000_000
COMPACT: Final = b"!"
COMMENT: Final = b"#"
"""Starts a line for people; such a line is ignored."""
_UUID_BYTES: Final = 16
_UUID_SHORT: Final = 22
_PLACES: Final = 6
_UUID: Final = re.compile(rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_BID: Final = re.compile(rb"([^\x00-\x20\x7f:]{1,255}):([0-9]{1,7})(?:\.([0-9]{1,6}))?:([0-9]{1,6})")
"""The fields of most AVAIL lines, read at once for speed. All other lines are read field by field."""
_SEPARATOR: Final = re.compile(rb"[\x00-\x20\x7f:]")


class BadLine(Exception):
    """A line that is refused; the text tells its sender why."""


class Line(NamedTuple):
    """One line. The id of a worker is the 16 bytes of its UUID; the id of a job is text, as in a line that is
    not compact.
    """

    speaker: bytes
    verb: bytes
    job: bytes
    worker: bytes = b""
    type: bytes = b""
    """The name of the queue, decoded."""
    time_us: int = 0
    skill: int = 0


def read_line(text: bytes) -> Line:
    """One line without its end. Raises BadLine."""
    if len(text) > LINE_BYTES_MAX:
        raise BadLine(f"a line may have {LINE_BYTES_MAX} bytes")
    if text[:1] == COMPACT:
        return _read_compact(text)
    # 6fa459ea-ee8a-3ca4-894e-db77e160355e QUIT 16fd2706-8baf-433b-82eb-8c7fada847da
    words = text.split(b" ")
    if len(words) != 3:
        raise BadLine("a line must be UUID VERB field:field, with single spaces")
    speaker = read_uuid(words[0])
    if speaker is None:
        raise BadLine("a line must start with the UUID of its sender")
    return _read_words(speaker, words[1], words[2])


def read_rest(speaker: bytes, text: bytes) -> Line:
    """The rest of a line, after the known UUID of its speaker and a space. Raises BadLine."""
    words = text.split(b" ")
    if len(words) != 2:
        raise BadLine("a line must be UUID VERB field:field, with single spaces")
    return _read_words(speaker, words[0], words[1])


def write_line(line: Line, *, compact: bool = False) -> bytes:
    """The line without its end."""
    fields: list[bytes] = []
    for kind in FIELDS[line.verb]:
        if kind == _ID:
            fields.append(_short_id(line.job) if compact else line.job)
        elif kind == _WORKER:
            fields.append(_short(line.worker) if compact else write_uuid(line.worker))
        elif kind == _TYPE:
            fields.append(write_type(line.type))
        elif kind == _TIME:
            fields.append(write_time(line.time_us))
        else:
            fields.append(b"%d" % line.skill)
    if compact:
        return COMPACT + _short(line.speaker) + _LETTERS[line.verb] + b":".join(fields)
    return write_uuid(line.speaker) + b" " + line.verb + b" " + b":".join(fields)


def read_uuid(text: bytes) -> bytes | None:
    """The 16 bytes of a UUID in its usual spelling, in either case; None: it is not a UUID."""
    return unhexlify(text.replace(b"-", b"")) if _UUID.fullmatch(text) is not None else None


def write_uuid(uuid: bytes) -> bytes:
    digits = hexlify(uuid)
    return b"-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def read_time(text: bytes) -> int:
    """Microseconds, from seconds with any number of decimal places; they are rounded."""
    whole, dot, places = text.partition(b".")
    if not whole.isdigit() or len(whole) > 8 or (dot and not places.isdigit()):
        raise BadLine("a time must be a number of seconds, such as 2.5")
    time_us = int(whole) * 1_000_000 + (int(places[:_PLACES].ljust(_PLACES, b"0")) if dot else 0)
    if places[_PLACES : _PLACES + 1] >= b"5":
        time_us += 1
    if time_us > TIME_US_MAX:
        raise BadLine("a time must be at most a year")
    return time_us


def is_brief_number(text: bytes) -> bool:
    """Whether it is a number of up to six digits, which every time and every skill may be."""
    return len(text) <= 6 and text.isdigit()


def write_time(time_us: int) -> bytes:
    seconds, rest = divmod(max(time_us, 0), 1_000_000)
    return b"%d" % seconds if not rest else (b"%d.%06d" % (seconds, rest)).rstrip(b"0")


def write_type(name: bytes) -> bytes:
    """A queue's name as one word: bytes that would end the word are written as %3A."""
    if not _has_separator(name) and b"%" not in name:
        return name
    return b"".join(
        [b"%%%02X" % byte if byte <= 32 or byte in (37, 58, 127) else bytes((byte,)) for byte in name]
    )


def read_type(word: bytes) -> bytes:
    if b"%" not in word:
        return word
    parts = word.split(b"%")
    name = [parts[0]]
    for part in parts[1:]:
        if len(part) < 2:
            raise BadLine("a % in a type must be followed by two hexadecimal digits")
        try:
            name.append(unhexlify(part[:2]) + part[2:])
        except ValueError as error:
            raise BadLine("a % in a type must be followed by two hexadecimal digits") from error
    return b"".join(name)


def _read_words(speaker: bytes, verb: bytes, fields: bytes) -> Line:
    if verb == AVAIL:
        bid = _BID.fullmatch(fields)
        if bid is not None:
            job, whole, places, skill = bid.groups()
            time_us = int(whole) * 1_000_000 + (int(places.ljust(_PLACES, b"0")) if places else 0)
            return Line._make((speaker, AVAIL, _read_id(job, compact=False), b"", b"", time_us, int(skill)))
    elif verb not in FIELDS:
        raise BadLine("the verb must be one of " + ", ".join([verb.decode() for verb in FIELDS]))
    return _read_fields(speaker, verb, fields, compact=False)


def _read_compact(text: bytes) -> Line:
    speaker = _long(text[1 : 1 + _UUID_SHORT])
    verb = _VERBS.get(text[1 + _UUID_SHORT : 2 + _UUID_SHORT])
    if speaker is None:
        raise BadLine("a compact line must start with ! and 22 characters of base64url")
    if verb is None:
        raise BadLine("the letter after the UUID must be one of " + ", ".join(_letters()))
    return _read_fields(speaker, verb, text[2 + _UUID_SHORT :], compact=True)


def _read_fields(speaker: bytes, verb: bytes, text: bytes, *, compact: bool) -> Line:
    kinds = FIELDS[verb]
    fields = text.split(b":")
    if len(fields) != len(kinds):
        raise BadLine(f"{verb.decode()} takes {len(kinds)} fields, separated by colons")
    job = worker = name = b""
    time_us = skill = 0
    for kind, field in zip(kinds, fields, strict=True):
        if kind == _TIME:
            time_us = read_time(field)
        elif kind == _SKILL:
            if not field.isdigit() or len(field) > 7 or int(field) > SKILL_MAX:
                raise BadLine(f"a skill must be a whole number up to {SKILL_MAX}")
            skill = int(field)
        elif kind == _WORKER:
            found = _long(field) if compact else read_uuid(field)
            if found is None:
                raise BadLine("a worker must be named by its UUID")
            worker = found
        elif not field or len(field) > _bytes_max(kind, field, compact=compact) or _has_separator(field):
            raise BadLine("an id must have 1 to 255 bytes, a type 1 to 1536; no spaces or control characters")
        elif kind == _TYPE:
            name = read_type(field)
        else:
            job = _read_id(field, compact=compact)
    return Line(speaker, verb, job, worker, name, time_us, skill)


def _bytes_max(kind: int, field: bytes, *, compact: bool) -> int:
    if kind == _TYPE:
        return TYPE_BYTES_MAX
    # The dot before an id is not part of it.
    return ID_BYTES_MAX + 1 if compact and field[:1] == b"." else ID_BYTES_MAX


def _read_id(field: bytes, *, compact: bool) -> bytes:
    """A job's id, as in a line that is not compact. A UUID is put in lower case: ids are compared as bytes."""
    if not compact:
        lower = field.lower()
        return field if lower == field or _UUID.fullmatch(field) is None else lower
    if field[:1] == b".":
        if len(field) == 1 or read_uuid(field[1:]) is not None:
            raise BadLine("an id that is a UUID must be written as 22 characters, any other id after a dot")
        return field[1:]
    uuid = _long(field)
    if uuid is None:
        raise BadLine("an id must be 22 characters of base64url, or a dot and the id")
    return write_uuid(uuid)


def _short_id(job: bytes) -> bytes:
    uuid = read_uuid(job)
    return b"." + job if uuid is None else _short(uuid)


def _short(uuid: bytes) -> bytes:
    return urlsafe_b64encode(uuid)[:_UUID_SHORT]


def _long(text: bytes) -> bytes | None:
    if len(text) != _UUID_SHORT:
        return None
    try:
        uuid = urlsafe_b64decode(text + b"==")
    except ValueError:
        return None
    # The library skips characters that are not base64 and ignores unused bits: both are errors here.
    return uuid if len(uuid) == _UUID_BYTES and _short(uuid) == text else None


def _has_separator(word: bytes) -> bool:
    """Whether it contains a byte that ends a word or a field, or a control character."""
    return _SEPARATOR.search(word) is not None


def _letters() -> list[str]:
    return [letter.decode() for letter in _VERBS]
