"""A job as people and programs see it, whether it has ended or not, and how it is written in JSON.

The law: nothing is lost on the way. Bytes stay bytes; in JSON they are text where they are UTF-8, and
base64 in a field of another name where they are not.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping  # noqa: TC003 (a NamedTuple looks its types up)
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import HIGH, LOW, NORMAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.core.changes import EndRow, JobRow
    from hiringhall.core.jobs import ParentRef, Try

ENDED_STATES: Final = {"done": DONE, "failed": FAILED, "cancelled": CANCELLED}
LIVE_STATES: Final = {"running": LEASED, "queued": QUEUED, "delayed": DELAYED, "held": HELD}
STATES: Final = {**ENDED_STATES, **LIVE_STATES}
"""Every state by the word that people use for it."""
PRIORITIES: Final = {"high": HIGH, "normal": NORMAL, "low": LOW}

_STATE_WORDS: Final = {state: word for word, state in STATES.items()}
PRIORITY_WORDS: Final = {priority: word for word, priority in PRIORITIES.items()}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

BYTES_FIELDS: Final = ("queue", "key", "worker", "result", "payload")


class Attempt(NamedTuple):
    """An attempt that did not end its job."""

    started: datetime | None
    ended: datetime | None
    """None: nobody saw it end."""
    worker: bytes
    code: int
    """A failure's; or 0: given back, 122: too many workers quit, 123: the hall ended, 124: it took too long,
    125: its worker was lost.
    """


class Record(NamedTuple):
    """One job. Times are aware, in UTC; None where there is none."""

    id: int
    queue: bytes
    key: bytes
    """Empty: it had none."""
    state: str
    """One of `STATES`."""
    code: int
    """0 for success; a failure's code is what its worker gave, or 124 and above for the hall's own reasons."""
    result: bytes
    """The result, what the failure said, or why it was cancelled."""
    worker: bytes
    """Who had the latest attempt."""
    created: datetime
    due: datetime | None
    """Of a live job: not before this time."""
    started: datetime | None
    """Start of the latest attempt."""
    ended: datetime | None
    attempts: int
    losses: int
    """Workers that were lost while they had it."""
    tries: tuple[Attempt, ...]
    """The attempts before the latest; the last sixteen of them."""
    payload: bytes
    """Kept while the job is live, and of dead letters."""
    parents: tuple[ParentRef, ...]
    """Of a held job: whom it still waits for, by id or by (queue, key)."""
    extras: Mapping[str, bytes]
    """What its dialect keeps with it."""
    priority: str
    """high, normal or low."""
    retries: int
    """Failures that are followed by another attempt."""
    losses_max: int
    """Lost workers after which it has failed; 0: no limit."""
    quits_max: int
    """Hired workers that quit after which it has failed; 0: no limit."""

    @property
    def latest(self) -> datetime:
        """The time by which it is found: its end; while it runs, its start; before that, its coming."""
        if self.ended is not None:
            return self.ended
        return self.started if self.started is not None and self.state == "running" else self.created

    def as_json(self) -> dict[str, object]:
        """All of it as values that JSON has."""
        line: dict[str, object] = {"id": self.id, "state": self.state, "code": self.code}
        for name in BYTES_FIELDS:
            put_bytes(line, name, getattr(self, name))
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
        line["tries"] = [_try_as_json(attempt) for attempt in self.tries]
        line["parents"] = [parent_as_json(parent) for parent in self.parents]
        put_extras(line, self.extras)
        return line


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
        row.extras or {},
        PRIORITY_WORDS[row.terms.priority],
        row.terms.failures_max,
        row.terms.losses_max,
        row.terms.quits_max,
    )


def live_record(row: JobRow) -> Record:
    """A job that has not ended, as the store last heard of it."""
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
        row.extras or {},
        PRIORITY_WORDS[row.terms.priority],
        row.terms.failures_max,
        row.terms.losses_max,
        row.terms.quits_max,
    )


def as_moment(at_us: int) -> datetime | None:
    """A time of the hall's; one that no calendar has is the last that one has."""
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
    """Bytes become text; those that are not UTF-8 go to a field of their own, in base64."""
    try:
        line[name] = data.decode()
    except UnicodeDecodeError:
        line[f"{name}_base64"] = base64.b64encode(data).decode()


def put_extras(line: dict[str, object], extras: Mapping[str, bytes]) -> None:
    """As `put_bytes`, each of them."""
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
    return line


def _attempts(tries: Iterable[Try]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(as_moment(started_us), as_moment(ended_us), worker, code)
        for started_us, ended_us, worker, code in tries
    )
