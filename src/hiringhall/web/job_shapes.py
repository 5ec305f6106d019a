"""Jobs as the API answers them: in lists, one with everything, its output, its attempts."""

from datetime import datetime
from typing import Any

from msgspec import UNSET

from hiringhall.web.shapes import Answer, Id
from hiringhall.web.values import Encoded


class JobLine(Answer, frozen=True, kw_only=True):
    """A job in a list."""

    id: Id
    queue: str
    queue_base64: Encoded = UNSET
    key: str
    key_base64: Encoded = UNSET
    state: str
    """held, delayed, queued, running, done, failed or cancelled."""
    situation: str
    """What a person needs to know of its state in a word."""
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    due: datetime | None
    attempts: int
    attempts_max: int
    """0: not known."""
    losses: int
    worker: str
    worker_base64: Encoded = UNSET
    dialect: str
    priority: str
    durable: bool
    code: int
    flow: str
    flow_base64: Encoded = UNSET
    payload: str
    """The beginning, if it has not ended."""
    result: str
    """The beginning, if it has ended."""


class Parent(Answer, frozen=True, kw_only=True):
    """A job that another waits for. The id is null if the parent was named and is not known yet."""

    id: Id | None
    queue: str
    queue_base64: Encoded = UNSET
    key: str
    key_base64: Encoded = UNSET
    state: str


class TryLine(Answer, frozen=True, kw_only=True):
    """An attempt that did not end the job."""

    started: datetime | None
    ended: datetime | None
    worker: str
    worker_base64: Encoded = UNSET
    dialect: str
    code: int


class WorkerError(Answer, frozen=True, kw_only=True):
    """The exception of a job function."""

    type: str
    text: str
    traceback: str


class Job(JobLine, frozen=True, kw_only=True):
    """A job, live or ended."""

    why: str
    """Why it is not running; empty: it is, or has ended."""
    failures: int
    terms: dict[str, Any]
    """Those that differ from the defaults; times in seconds."""
    progress: tuple[int, int] | None
    remaining_s: float | None
    payload: str
    """At most its first 64 KiB."""
    payload_base64: Encoded = UNSET
    payload_bytes: int
    result_base64: Encoded = UNSET
    result_bytes: int
    truncated: bool
    """The hall no longer has the whole result."""
    parents: list[Parent]
    children: list[Id]
    children_count: int
    tries: list[TryLine]
    error: WorkerError | None


class JobList(Answer, frozen=True, kw_only=True):
    """A page of jobs. It may have fewer than `limit` although there are more."""

    items: list[JobLine]
    next: str | None


class JobCount(Answer, frozen=True, kw_only=True):
    count: int
    complete: bool
    """False: there are at least so many; the rest was not looked at."""


class OutputLine(Answer, frozen=True, kw_only=True):
    """What a worker said while it ran a job."""

    at: datetime | None
    kind: str
    """data, warning or log."""
    text: str
    text_base64: Encoded = UNSET


class Output(Answer, frozen=True, kw_only=True):
    lines: list[OutputLine]
    next: str
    """The position after these lines."""


class Submitted(Answer, frozen=True, kw_only=True):
    """The ids of the jobs, in the order of the request. A live job with the same key is joined."""

    ids: list[Id]


class Unchanged(Answer, frozen=True, kw_only=True):
    """A job that was not changed, and why."""

    id: Id
    code: str
    detail: str


class Changed(Answer, frozen=True, kw_only=True):
    """What a change of many jobs did."""

    changed: int
    failed: list[Unchanged]
    """At most 100 of those that were not changed."""
    failed_count: int


class Retried(Answer, frozen=True, kw_only=True):
    """What a retry of the dead letters of a queue did."""

    retried: int
    failed: list[Unchanged]
    failed_count: int
