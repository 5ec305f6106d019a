"""Rows for the storage tests: short to write, with every field that matters settable."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hiringhall.core.changes import Batch, EndRow, JobRow
from hiringhall.core.states import DONE, QUEUED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hiringhall.core.changes import Firing, FlowRow, OutputRow
    from hiringhall.core.jobs import ParentRef, Try

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
NOW_US = 1_760_000_000_000_000
TERMS = Terms(durable=True, detached=True)
NO_ATTEMPT = (0, 0, b"", b"", (), b"no flow", (), "")
"""The last fields of a row whose job was not started."""


def job(
    job_id: int,
    queue: bytes = b"reverse",
    key: bytes = b"",
    payload: bytes = b"hello",
    terms: Terms = TERMS,
    state: int = QUEUED,
    parents: tuple[ParentRef, ...] = (),
    extras: dict[str, bytes] | None = None,
    due_us: int = 0,
    failures: int = 0,
    losses: int = 0,
    ready_us: int = 0,
    holder: bytes = b"",
    worker: bytes = b"",
    tries: tuple[Try, ...] = (),
    flow: bytes = b"",
    all_parents: tuple[ParentRef, ...] = (),
    dialect: str = "",
) -> JobRow:
    return JobRow(
        job_id,
        queue,
        key,
        payload,
        terms,
        state,
        NOW_US + job_id,
        due_us,
        4,
        failures,
        losses,
        parents,
        extras,
        ready_us,
        NOW_US - 3,
        holder,
        worker,
        tries,
        flow,
        all_parents,
        dialect,
    )


def end(
    job_id: int,
    queue: bytes = b"reverse",
    key: bytes = b"",
    state: int = DONE,
    result: bytes = b"olleh",
    ended_us: int = NOW_US,
    terms: Terms = TERMS,
    payload: bytes = b"",
    extras: dict[str, bytes] | None = None,
    code: int = 0,
    losses: int = 0,
    ready_us: int = NOW_US - 4,
    tries: tuple[Try, ...] = (),
    flow: bytes = b"",
    all_parents: tuple[ParentRef, ...] = (),
    dialect: str = "",
) -> EndRow:
    return EndRow(
        job_id,
        queue,
        key,
        state,
        code,
        result,
        b"ann",
        NOW_US - 5,
        NOW_US - 3,
        ended_us,
        4,
        losses,
        terms,
        payload,
        extras,
        ready_us,
        tries,
        0,
        flow,
        all_parents,
        dialect,
    )


def update_of(
    job_id: int,
    terms: Terms,
    state: int,
    due_us: int,
    attempts: int,
    failures: int,
    losses: int,
    parents: tuple[ParentRef, ...],
    extras: dict[str, bytes] | None = None,
    *latest: int | bytes | str | tuple[Try, ...],
    **named: int | bytes | str | tuple[Try, ...],
) -> JobRow:
    """A row of an update. A store must not write its queue, key, payload, time of creation and flow."""
    fields = (terms, state, 1, due_us, attempts, failures, losses, parents, extras, *latest)
    row = JobRow._make((job_id, b"no queue", b"no key", b"no payload", *fields, *NO_ATTEMPT[len(latest) :]))
    return row._replace(**named)


def batch(
    inserts: Iterable[JobRow] = (),
    updates: Iterable[JobRow] = (),
    ends: Iterable[EndRow] = (),
    deletes: Iterable[int] = (),
    revived: Iterable[int] = (),
    fired: Mapping[str, Firing | None] = MappingProxyType({}),
    output: Iterable[OutputRow] = (),
    paused: Mapping[bytes, bool] = MappingProxyType({}),
    flows: Mapping[bytes, FlowRow | None] = MappingProxyType({}),
) -> Batch:
    made = Batch()
    made.inserts += inserts
    made.updates += updates
    made.ends += ends
    made.deletes += deletes
    made.revived += revived
    made.fired |= fired
    made.output += output
    made.paused |= paused
    made.flows |= flows
    return made


def plain_job(row: JobRow) -> tuple[object, ...]:
    """A row whose terms compare by their values."""
    return (*row[:4], row.terms.as_tuple(), *row[5:])


def plain_end(row: EndRow) -> tuple[object, ...]:
    return (*row[:12], row.terms.as_tuple(), *row[13:])
