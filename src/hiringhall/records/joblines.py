"""Unfinished jobs as JSON Lines: writes the jobs of one hall, and reads them for another.

    {"id":68719476737,"queue":"mail","key":"welcome-7","payload":"to: ann","terms":{"failures_max":3}}

Invariant: what is written here can be read here, to the byte. Any other input is reported with its line
number. Ids are valid within one file only: the other hall gives the job a new id.
"""

from __future__ import annotations

import codecs
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from hiringhall.core import ids
from hiringhall.core.jobs import JobSpec
from hiringhall.core.terms import DEFAULT_TERMS, FAIL_WITH_PARENT, HOLD, RUN_ANYWAY, TERMS_FIELDS, Terms
from hiringhall.records.record import (
    LIVE_STATES,
    PRIORITIES,
    PRIORITY_WORDS,
    as_microseconds,
    as_moment,
    own_extras,
    parent_as_json,
    put_bytes,
    put_extras,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import JobRow
    from hiringhall.core.jobs import ParentRef

LINE_BYTES_MAX: Final = 1 << 29
"""Long enough for the largest payload with the longest escapes."""

_POLICIES: Final = {"fail": FAIL_WITH_PARENT, "run": RUN_ANYWAY, "hold": HOLD}
_POLICY_WORDS: Final = {policy: word for word, policy in _POLICIES.items()}
_STATE_WORDS: Final = {state: word for word, state in LIVE_STATES.items()}
_COPIED_TERMS: Final = tuple(
    name
    for name in TERMS_FIELDS
    if name not in {"priority", "durable", "detached", "logged", "on_parent_failure"}
)
"""The terms that are written unchanged."""
SKILL_MAX: Final = 1_000_000
TIME_US_MAX: Final = 36_500 * 86_400_000_000
"""The bounds of the skill and of the times of a job, as in the core."""
_MOMENT_HINT: Final = "write it as in 2026-03-01T12:30:00+00:00"

Number = Annotated[int, Meta(ge=0, le=(1 << 62))]
JobId = Annotated[int, Meta(ge=1, le=ids.MAX)]
Moment = Annotated[datetime, Meta(tz=True)]


class _TermsLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    priority: Literal["high", "normal", "low"] = "normal"
    failures_max: Number = DEFAULT_TERMS.failures_max
    backoff_us: Number = DEFAULT_TERMS.backoff_us
    backoff_max_us: Number = DEFAULT_TERMS.backoff_max_us
    losses_max: Number = DEFAULT_TERMS.losses_max
    lease_us: Number = DEFAULT_TERMS.lease_us
    run_us: Number = DEFAULT_TERMS.run_us
    expire_us: Number = DEFAULT_TERMS.expire_us
    skill: Annotated[int, Meta(ge=0, le=SKILL_MAX)] = DEFAULT_TERMS.skill
    takes_us: Annotated[int, Meta(ge=0, le=TIME_US_MAX)] = DEFAULT_TERMS.takes_us
    quits_max: Number = DEFAULT_TERMS.quits_max
    key_is_work: bool = DEFAULT_TERMS.key_is_work
    keep_us: Annotated[int, Meta(ge=0, le=TIME_US_MAX)] = DEFAULT_TERMS.keep_us
    on_parent_failure: Literal["fail", "run", "hold"] = "fail"


class _ParentLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: JobId | None = None
    queue: str | None = None
    queue_base64: bytes | None = None
    key: str | None = None
    key_base64: bytes | None = None


class _JobLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: JobId | None = None
    state: str = ""
    created: Moment | None = None
    queue: str | None = None
    queue_base64: bytes | None = None
    key: str | None = None
    key_base64: bytes | None = None
    flow: str | None = None
    flow_base64: bytes | None = None
    payload: str | None = None
    payload_base64: bytes | None = None
    due: Moment | None = None
    terms: _TermsLine = _TermsLine()
    parents: list[_ParentLine] = []
    extras: dict[str, str] = {}
    extras_base64: dict[str, bytes] = {}


_DECODER: Final = msgspec.json.Decoder(_JobLine)
_ENCODER: Final = msgspec.json.Encoder()
_HINTS: Final = {
    "`$.due`": _MOMENT_HINT,
    "`$.created`": _MOMENT_HINT,
    "`$.terms.priority`": f"it must be one of {', '.join(PRIORITIES)}",
    "`$.terms.on_parent_failure`": f"it must be one of {', '.join(_POLICIES)}",
}
"""What to write instead, by the path in msgspec's error message."""


class WrittenJob(NamedTuple):
    """A valid line of the file."""

    line: int
    """Its line number, from 1."""
    id: int | None
    """Its id within the file."""
    spec: JobSpec
    """Its parents are ids of this file, or (queue, key)."""


class ReadJobs(NamedTuple):
    """The content of a file."""

    jobs: list[WrittenJob]
    """Parents before their children, otherwise as in the file. Not usable if there are problems."""
    problems: list[tuple[int, str]]
    """Line number and text of each problem."""


def write_job(row: JobRow) -> bytes:
    """One line, with its newline."""
    line: dict[str, object] = {"id": row.id, "state": _STATE_WORDS[row.state]}
    line["created"] = written(as_moment(row.created_us))
    put_bytes(line, "queue", row.queue)
    if row.key:
        put_bytes(line, "key", row.key)
    if row.flow:
        put_bytes(line, "flow", row.flow)
    put_bytes(line, "payload", row.payload)
    due = as_moment(row.due_us)
    if due is not None:
        line["due"] = written(due)
    line["terms"] = {
        "priority": PRIORITY_WORDS[row.terms.priority],
        **{name: getattr(row.terms, name) for name in _COPIED_TERMS},
        "on_parent_failure": _POLICY_WORDS[row.terms.on_parent_failure],
    }
    if row.parents:
        line["parents"] = [parent_as_json(parent) for parent in row.parents]
    extras = own_extras(row)
    if extras:
        put_extras(line, extras)
    return _ENCODER.encode(line) + b"\n"


def read_jobs(file: IO[bytes]) -> ReadJobs:
    """Read a whole file, and sort its jobs so that they can be submitted in order."""
    jobs: list[WrittenJob] = []
    problems: list[tuple[int, str]] = []
    shared: dict[_TermsLine, Terms] = {}
    for number, text in _lines(file, problems):
        try:
            line = _DECODER.decode(text)
            jobs.append(WrittenJob(number, line.id, _spec(line, shared)))
        except (msgspec.MsgspecError, ValueError) as error:
            problems.append((number, _explained(str(error))))
    if not problems:
        jobs, problems = _in_order(jobs)
    return ReadJobs(jobs, problems)


def _explained(error: str) -> str:
    hint = next((hint for path, hint in _HINTS.items() if error.endswith(path)), "")
    return f"{error}; {hint}" if hint else error


def _lines(file: IO[bytes], problems: list[tuple[int, str]]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while text := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if number == 1:
            text = text.removeprefix(codecs.BOM_UTF8)  # Some editors write one.
        if len(text) > LINE_BYTES_MAX:
            problems.append((number, f"the line is longer than {LINE_BYTES_MAX} bytes; reading stopped here"))
            return
        if text.strip():
            yield number, text


def _spec(line: _JobLine, shared: dict[_TermsLine, Terms]) -> JobSpec:
    queue = _either("queue", line.queue, line.queue_base64)
    if not queue:
        raise ValueError("the queue is missing")
    terms = shared.get(line.terms)
    if terms is None:
        terms = shared[line.terms] = _terms(line.terms)
    extras = {name: text.encode() for name, text in line.extras.items()} | line.extras_base64
    if len(extras) < len(line.extras) + len(line.extras_base64):
        raise ValueError("extras and extras_base64 have the same name; remove one of them")
    return JobSpec(
        queue,
        _either("payload", line.payload, line.payload_base64),
        _either("key", line.key, line.key_base64),
        terms,
        0 if line.due is None else max(0, as_microseconds(line.due)),
        tuple(dict.fromkeys(map(_parent, line.parents))),
        extras or None,
        _either("flow", line.flow, line.flow_base64),
    )


def _parent(line: _ParentLine) -> ParentRef:
    queue = _either("a parent's queue", line.queue, line.queue_base64)
    key = _either("a parent's key", line.key, line.key_base64)
    if line.id is not None and not queue and not key:
        return line.id
    if line.id is None and queue and key:
        return queue, key
    raise ValueError("a parent must have an id, or a queue and a key")


def _either(name: str, text: str | None, encoded: bytes | None) -> bytes:
    if text is not None and encoded is not None:
        raise ValueError(f"{name} is given as text and in base64; remove one of them")
    return text.encode() if text is not None else encoded or b""


def _terms(line: _TermsLine) -> Terms:
    copied: dict[str, Any] = {name: getattr(line, name) for name in _COPIED_TERMS}
    return Terms(
        durable=True,
        detached=True,
        priority=PRIORITIES[line.priority],
        on_parent_failure=_POLICIES[line.on_parent_failure],
        **copied,
    )


def _in_order(jobs: list[WrittenJob]) -> tuple[list[WrittenJob], list[tuple[int, str]]]:
    problems: list[tuple[int, str]] = []
    known: dict[ParentRef, int] = {}
    """The index in `jobs` of the first job with an id or (queue, key); later ones with the key will join it."""
    for index, job in enumerate(jobs):
        if job.id is not None:
            first = known.setdefault(job.id, index)
            if first != index:
                problems.append((job.line, f"its id {job.id} is already used on line {jobs[first].line}"))
        if job.spec.key:
            known.setdefault((job.spec.queue, job.spec.key), index)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for index, job in enumerate(jobs):
        sorter.add(index)
        for parent in job.spec.parents:
            if parent in known:
                sorter.add(index, known[parent])
            elif isinstance(parent, int):
                problems.append(
                    (job.line, f"its parent {parent} is not in the file; remove it from the parents")
                )
    if problems:
        return jobs, problems
    try:
        return [jobs[index] for index in sorter.static_order()], []
    except CycleError as error:
        lines = sorted({jobs[index].line for index in error.args[1]})
        text = f"it depends on itself, through lines {', '.join(map(str, lines))}"
        return jobs, [(lines[0], text)]
