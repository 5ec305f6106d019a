"""A job as users see it, ended or not, and how it is written as JSON.

Invariant: no data is lost. Bytes stay bytes; in JSON they are text if they are UTF-8, otherwise base64 in a
field with another name.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping  # noqa: TC003 (a NamedTuple looks its types up)
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.changes import DATA, LOG, WARNING
from hiringhall.core.jobs import OUTPUT
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import HIGH, LOW, NORMAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.core.changes import EndRow, JobRow, OutputRow
    from hiringhall.core.jobs import ParentRef, Try

ENDED_STATES: Final = {"done": DONE, "failed": FAILED, "cancelled": CANCELLED}
LIVE_STATES: Final = {"running": LEASED, "queued": QUEUED, "delayed": DELAYED, "held": HELD}
STATES: Final = {**ENDED_STATES, **LIVE_STATES}
"""Every state by its name for users."""
PRIORITIES: Final = {"high": HIGH, "normal": NORMAL, "low": LOW}

_STATE_WORDS: Final = {state: word for word, state in STATES.items()}
PRIORITY_WORDS: Final = {priority: word for word, priority in PRIORITIES.items()}
_OUTPUT_WORDS: Final = {DATA: "data", WARNING: "warning", LOG: "log"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

BYTES_FIELDS: Final = ("queue", "key", "flow", "worker", "result", "payload")


class Attempt(NamedTuple):
    """An attempt that did not end its job."""

    started: datetime | None
    ended: datetime | None
    """None: its end is unknown."""
    worker: bytes
    code: int
    """The code of a failure; or 0: released, 122: too many workers quit, 123: the hall stopped, 124: timeout,
    125: its worker was lost.
    """
    dialect: str = ""
    """The dialect of the worker; empty: unknown."""


class OutputLine(NamedTuple):
    """What a worker said while the job ran."""

    at: datetime
    kind: str
    """data, warning or log."""
    data: bytes


class Record(NamedTuple):
    """One job. Times are aware, in UTC; None: there is none."""

    id: int
    queue: bytes
    key: bytes
    """Empty: it has none."""
    state: str
    """One of `STATES`."""
    code: int
    """0 for success; for a failure, the code of its worker, or 124 and above if the hall failed it."""
    result: bytes
    """The result, the error of the failure, or the reason of the cancellation."""
    worker: bytes
    """The worker of the latest attempt."""
    created: datetime
    due: datetime | None
    """A live job does not start before this time."""
    started: datetime | None
    """Start of the latest attempt."""
    ended: datetime | None
    attempts: int
    losses: int
    """Number of workers that were lost while they held it."""
    tries: tuple[Attempt, ...]
    """The attempts before the latest, at most the last sixteen."""
    payload: bytes
    """Of an ended job that has not failed, its beginning; empty if the job is not durable."""
    parents: tuple[ParentRef, ...]
    """The parents that a held job still waits for, by id or by (queue, key)."""
    extras: Mapping[str, bytes]
    """Data of its dialect."""
    priority: str
    """high, normal or low."""
    retries: int
    """How many failures are followed by another attempt."""
    losses_max: int
    """It fails after this many lost workers; 0: no limit."""
    quits_max: int
    """It fails after this many hired workers quit; 0: no limit."""
    payload_bytes: int
    """The size of the whole payload: more than `payload` has if only its beginning is kept."""
    output: tuple[OutputLine, ...] = ()
    """The latest of what its workers said, oldest first, if it was asked for."""
    flow: bytes = b""
    """The name of the flow that it belongs to; empty: none."""
    dialect: str = ""
    """The dialect of the worker of the latest attempt; empty: unknown."""

    @property
    def latest(self) -> datetime:
        """The time for `since` and `until`: its end; while it runs, its start; before that, `created`."""
        if self.ended is not None:
            return self.ended
        return self.started if self.started is not None and self.state == "running" else self.created

    def as_json(self) -> dict[str, object]:
        """All fields as JSON values."""
        line: dict[str, object] = {"id": self.id, "state": self.state, "code": self.code}
        for name in BYTES_FIELDS:
            put_bytes(line, name, getattr(self, name))
        line["payload_bytes"] = self.payload_bytes
        for name, moment in (
            ("created", self.created),
            ("due", self.due),
            ("started", self.started),
            ("ended", self.ended),
        ):
            line[name] = written(moment)
        line["priority"] = self.priority
        line["retries"] = self.retries
        line["attempts"] = self.attempts
        line["losses"] = self.losses
        line["dialect"] = self.dialect
        line["tries"] = [_try_as_json(attempt) for attempt in self.tries]
        line["parents"] = [parent_as_json(parent) for parent in self.parents]
        put_extras(line, self.extras)
        line["output"] = [_output_as_json(said) for said in self.output]
        return line


def output_lines(rows: Iterable[OutputRow]) -> tuple[OutputLine, ...]:
    return tuple(
        OutputLine(as_moment(row.at_us) or _EPOCH, _OUTPUT_WORDS.get(row.kind, "data"), row.data)
        for row in rows
    )


def has_output(row: EndRow | JobRow) -> bool:
    """Whether its workers have said something that was kept."""
    return row.extras is not None and OUTPUT in row.extras


def ended_record(row: EndRow) -> Record:
    """A line of the history."""
    return Record(
        row.id,
        row.queue,
        row.key,
        _STATE_WORDS[row.state],
        row.code,
        row.result,
        row.worker,
        as_moment(row.created_us) or _EPOCH,
        None,
        as_moment(row.started_us),
        as_moment(row.ended_us),
        row.attempts,
        row.losses,
        _attempts(row.tries),
        row.payload,
        (),
        own_extras(row),
        PRIORITY_WORDS[row.terms.priority],
        row.terms.failures_max,
        row.terms.losses_max,
        row.terms.quits_max,
        row.payload_cut or len(row.payload),
        flow=row.flow,
        dialect=row.dialect,
    )


def live_record(row: JobRow) -> Record:
    """A job that has not ended, in its last stored state."""
    return Record(
        row.id,
        row.queue,
        row.key,
        _STATE_WORDS[row.state],
        0,
        b"",
        row.worker or row.holder,
        as_moment(row.created_us) or _EPOCH,
        as_moment(row.due_us),
        as_moment(row.started_us),
        None,
        row.attempts,
        row.losses,
        _attempts(row.tries),
        row.payload,
        row.parents,
        own_extras(row),
        PRIORITY_WORDS[row.terms.priority],
        row.terms.failures_max,
        row.terms.losses_max,
        row.terms.quits_max,
        len(row.payload),
        flow=row.flow,
        dialect=row.dialect,
    )


def as_moment(at_us: int) -> datetime | None:
    """A time of the hall as a datetime; None for 0. One that is too late for a datetime becomes the latest."""
    if at_us <= 0:
        return None
    try:
        return _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:
        return _LAST


def as_microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def written(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def put_bytes(line: dict[str, object], name: str, data: bytes) -> None:
    """Store bytes as text, or, if they are not UTF-8, as base64 in a field with another name."""
    try:
        line[name] = data.decode()
    except UnicodeDecodeError:
        line[f"{name}_base64"] = base64.b64encode(data).decode()


def put_extras(line: dict[str, object], extras: Mapping[str, bytes]) -> None:
    """Store each value as `put_bytes` does."""
    text: dict[str, str] = {}
    line["extras"] = text
    encoded: dict[str, str] = {}
    for name, data in extras.items():
        try:
            text[name] = data.decode()
        except UnicodeDecodeError:
            encoded[name] = base64.b64encode(data).decode()
    if encoded:
        line["extras_base64"] = encoded


def parent_as_json(parent: ParentRef) -> dict[str, object]:
    if isinstance(parent, int):
        return {"id": parent}
    named: dict[str, object] = {}
    put_bytes(named, "queue", parent[0])
    put_bytes(named, "key", parent[1])
    return named


def _try_as_json(attempt: Attempt) -> dict[str, object]:
    line: dict[str, object] = {"started": written(attempt.started), "ended": written(attempt.ended)}
    put_bytes(line, "worker", attempt.worker)
    line["code"] = attempt.code
    line["dialect"] = attempt.dialect
    return line


def _output_as_json(said: OutputLine) -> dict[str, object]:
    line: dict[str, object] = {"at": written(said.at), "kind": said.kind}
    put_bytes(line, "data", said.data)
    return line


def own_extras(row: EndRow | JobRow) -> dict[str, bytes]:
    """Its extras without the mark of the core."""
    return {name: data for name, data in (row.extras or {}).items() if name != OUTPUT}


def _attempts(tries: Iterable[Try]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(as_moment(started_us), as_moment(ended_us), worker, code, dialect)
        for started_us, ended_us, worker, code, dialect in tries
    )
