"""Converts rows of a database to rows of the core and back.

Invariant: a row is checked before it becomes a row of the core. One that this code would not have
written is a `BadRow` and is moved to the quarantine.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from hiringhall.core.changes import EndRow, JobRow
from hiringhall.core.jobs import Try
from hiringhall.core.states import CANCELLED, DELAYED, DONE, HELD, LEASED, QUEUED
from hiringhall.core.terms import HOLD, PRIORITIES, TERMS_FIELDS, Terms, terms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hiringhall.core.jobs import ParentRef

TERMS_COLUMNS: Final = ", ".join(("id", *TERMS_FIELDS))
JOB_COLUMNS: Final = (
    "id, queue, key, payload, terms, state, created_us, due_us, attempts, failures, losses, parents, extras,"
    " ready_us, started_us, holder, worker, tries, flow, all_parents, dialect"
)
END_COLUMNS: Final = (
    "id, queue, key, state, code, result, worker, created_us, started_us, ended_us, attempts, losses, terms,"
    " payload, extras, ready_us, tries, payload_cut, flow, all_parents, dialect"
)

RawRow = tuple[Any, ...]
"""A row as it was read: int, float, bytes, None, or bytearray for a value that was stored as text."""
BadId = tuple[int, str]
"""The id of a bad row, and what is wrong with it."""
_Row = TypeVar("_Row")

_NONE: Final = type(None)
_JOB_HEAD: Final = (int, bytes, bytes, bytes, int, int, int, int, int, int, int)
_JOB_TAIL: Final = (int, int, bytes, bytes)
_JOB_TYPES: Final = (*_JOB_HEAD, bytes, bytes, *_JOB_TAIL, bytes, bytes, bytes, bytes)
_JOB_OPTIONAL: Final = frozenset((11, 12, 17, 18, 19))
"""The columns of a job that may be NULL."""
_JOB_SHAPES: Final = frozenset(
    (*_JOB_HEAD, parents, extras, *_JOB_TAIL, tries, flow, all_parents, bytes)
    for parents, extras, tries, flow, all_parents in product((_NONE, bytes), repeat=5)
)
_END_HEAD: Final = (int, bytes, bytes, int, int, bytes, bytes, int, int, int, int, int, int, bytes)
_END_TYPES: Final = (*_END_HEAD, bytes, int, bytes, int, bytes, bytes, bytes)
_END_SHAPES: Final = frozenset(
    (*_END_HEAD, extras, int, tries, int, flow, all_parents, bytes)
    for extras, tries, flow, all_parents in product((_NONE, bytes), repeat=4)
)
_END_OPTIONAL: Final = frozenset((14, 16, 18, 19))
_LIVE_STATES: Final = frozenset((HELD, DELAYED, QUEUED, LEASED))
_ENDED_STATES: Final = frozenset(range(DONE, CANCELLED + 1))
_TERMS_SHAPE: Final = (int,) * (1 + len(TERMS_FIELDS))

_PARENTS: Final = msgspec.msgpack.Decoder(tuple[int | tuple[bytes, bytes], ...])
_TRIES: Final = msgspec.msgpack.Decoder(tuple[Try, ...])
_TRIES_8: Final = msgspec.msgpack.Decoder(tuple[tuple[int, int, bytes, int], ...])
"""As they were written before version 9: without dialects."""
_EXTRAS: Final = msgspec.msgpack.Decoder(dict[str, bytes])
_PACKER: Final = msgspec.msgpack.Encoder()


class BadRow(Exception):
    """A row that this code would not have written, with the reason."""


def pack(value: tuple[ParentRef, ...] | tuple[Try, ...] | dict[str, bytes] | None) -> bytearray:
    """Encode parents, tries or extras. Empty if there are none; the statements turn that into NULL."""
    return bytearray(_PACKER.encode(value)) if value else bytearray()


def job_row(raw: RawRow, terms: dict[int, Terms]) -> JobRow:
    if tuple(map(type, raw)) not in _JOB_SHAPES:
        raise BadRow(_misfit(raw, JOB_COLUMNS, _JOB_TYPES))
    if raw[5] not in _LIVE_STATES:
        raise BadRow(f"state {raw[5]} is not a state of a live job")
    parents = () if raw[11] is None else _parents(raw[11])
    extras = None if raw[12] is None else _extras(raw[12])
    tries = () if raw[17] is None else _tries(raw[17])
    shared = _shared_terms(raw[4], terms)
    flow = raw[18] or b""
    all_parents = () if raw[19] is None else _parents(raw[19])
    rest = (tries, flow, all_parents, _dialect(raw[20]))
    return JobRow._make((*raw[:4], shared, *raw[5:11], parents, extras, *raw[13:17], *rest))


def job_rows(page: list[RawRow], terms: dict[int, Terms], bad: list[BadId]) -> list[JobRow]:
    """The same as `decode` with `job_row`. A page of good rows is converted by column, which is twice as fast:
    a hall that opens with a million jobs waits for this.
    """
    columns = _columns(page, _JOB_TYPES, _JOB_OPTIONAL)
    if columns is None or not set(columns[5]) <= _LIVE_STATES or not terms.keys() >= set(columns[4]):
        return decode(page, job_row, terms, bad)
    columns[4] = [terms[terms_id] for terms_id in columns[4]]
    try:
        columns[11] = _optional(columns[11], _parents, ())
        columns[12] = _optional(columns[12], _extras, None)
        columns[17] = _optional(columns[17], _tries, ())
        columns[19] = _optional(columns[19], _parents, ())
    except BadRow:
        return decode(page, job_row, terms, bad)
    columns[18] = [flow or b"" for flow in columns[18]]
    columns[20] = _dialects(columns[20])
    return list(map(JobRow._make, zip(*columns, strict=True)))


def end_row(raw: RawRow, terms: dict[int, Terms]) -> EndRow:
    if tuple(map(type, raw)) not in _END_SHAPES:
        raise BadRow(_misfit(raw, END_COLUMNS, _END_TYPES))
    if raw[3] not in _ENDED_STATES:
        raise BadRow(f"state {raw[3]} is not a state of an ended job")
    extras = None if raw[14] is None else _extras(raw[14])
    tries = () if raw[16] is None else _tries(raw[16])
    flow = raw[18] or b""
    all_parents = () if raw[19] is None else _parents(raw[19])
    shared = _shared_terms(raw[12], terms)
    rest = (tries, raw[17], flow, all_parents, _dialect(raw[20]))
    return EndRow._make((*raw[:12], shared, raw[13], extras, raw[15], *rest))


def end_rows(page: list[RawRow], terms: dict[int, Terms], bad: list[BadId]) -> list[EndRow]:
    """The same as `decode` with `end_row`, by column as in `job_rows`."""
    columns = _columns(page, _END_TYPES, _END_OPTIONAL)
    if columns is None or not set(columns[3]) <= _ENDED_STATES or not terms.keys() >= set(columns[12]):
        return decode(page, end_row, terms, bad)
    columns[12] = [terms[terms_id] for terms_id in columns[12]]
    try:
        columns[14] = _optional(columns[14], _extras, None)
        columns[16] = _optional(columns[16], _tries, ())
        columns[19] = _optional(columns[19], _parents, ())
    except BadRow:
        return decode(page, end_row, terms, bad)
    columns[18] = [flow or b"" for flow in columns[18]]
    columns[20] = _dialects(columns[20])
    return list(map(EndRow._make, zip(*columns, strict=True)))


def _columns(
    page: list[RawRow], types: tuple[type, ...], optional: frozenset[int]
) -> list[Sequence[Any]] | None:
    """A page by column; None: a value has not the type of its column."""
    columns: list[Sequence[Any]] = list(zip(*page, strict=True)) or [()] * len(types)
    for number, (column, wanted) in enumerate(zip(columns, types, strict=True)):
        found = set(map(type, column))
        if number in optional:
            found.discard(_NONE)
        if found and found != {wanted}:
            return None
    return columns


def _optional(column: Sequence[Any], read: Callable[[bytes], object], missing: object) -> list[object]:
    """What the values of a column say, of which some, and often all, are missing. Raises BadRow."""
    return [missing if data is None else read(data) for data in column]


def _dialects(column: Sequence[bytes]) -> list[str]:
    names = {data: _dialect(data) for data in set(column)}
    return [names[data] for data in column]


def decode(
    rows: Iterable[RawRow],
    make: Callable[[RawRow, dict[int, Terms]], _Row],
    terms: dict[int, Terms],
    bad: list[BadId],
) -> list[_Row]:
    """The rows that can be decoded. The ids and errors of the others are added to `bad`."""
    good: list[_Row] = []
    for raw in rows:
        try:
            good.append(make(raw, terms))
        except BadRow as error:
            bad.append((raw[0], str(error)))
    return good


def decode_terms(rows: Iterable[RawRow]) -> dict[int, Terms]:
    """All valid terms by id. A job whose terms are not among them is a bad row."""
    found: dict[int, Terms] = {}
    for raw in rows:
        if tuple(map(type, raw)) != _TERMS_SHAPE or min(raw) < 0 or raw[1] >= PRIORITIES or raw[10] > HOLD:
            continue
        found[raw[0]] = terms_of(raw[1:])
    return found


def _shared_terms(terms_id: int, terms: dict[int, Terms]) -> Terms:
    try:
        return terms[terms_id]
    except KeyError:
        raise BadRow(f"its terms {terms_id} are unknown") from None


def _parents(packed: bytes) -> tuple[ParentRef, ...]:
    try:
        return _PARENTS.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRow(f"its parents cannot be read: {error}") from error


def _tries(packed: bytes) -> tuple[Try, ...]:
    try:
        return _TRIES.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            return tuple((*attempt, "") for attempt in _TRIES_8.decode(packed))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BadRow(f"its tries cannot be read: {error}") from error


def _dialect(data: bytes) -> str:
    return data.decode("ascii", "replace")


def _extras(packed: bytes) -> dict[str, bytes]:
    try:
        return _EXTRAS.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRow(f"its extras cannot be read: {error}") from error


def _misfit(raw: RawRow, columns: str, types: tuple[type, ...]) -> str:
    for name, value, wanted in zip(columns.split(", "), raw, types, strict=True):
        optional = name in {"parents", "extras", "tries", "flow", "all_parents"} and value is None
        if type(value) is not wanted and not optional:
            found = "text" if type(value) is bytearray else "nothing" if value is None else type(value).__name__
            return f"its {name} must be {wanted.__name__}, not {found}"
    return "it has the wrong number of columns"
