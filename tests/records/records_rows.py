"""A data folder with the rows that a test needs, written by the store itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import Batch, EndRow, JobRow
from hiringhall.core.states import DONE, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.storage.contract import Retention
from hiringhall.storage.sqlite import DATABASE, SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hiringhall.core.jobs import ParentRef, Try

NOW_US: Final = 1_760_000_000_000_000
"""2025-10-09 08:53:20 in UTC."""
SECOND_US: Final = 1_000_000
FIRST_ID: Final = (1 << 36) + 1
TERMS: Final = Terms(durable=True, detached=True)


def fill(folder: Path, ends: Iterable[EndRow] = (), jobs: Iterable[JobRow] = ()) -> Path:
    """The folder, with these lines of history and these live jobs in it."""
    warnings: list[str] = []
    store = SqliteStore(folder / DATABASE, Retention(), warnings.append)
    store.load(0)
    batch = Batch()
    batch.ends = list(ends)
    batch.inserts = list(jobs)
    store.commit(batch, NOW_US)
    store.close()
    assert not warnings
    return folder


def end(
    job_id: int,
    *,
    queue: bytes = b"resize",
    key: bytes = b"",
    state: int = DONE,
    code: int = 0,
    result: bytes = b"320x200",
    ended_us: int = NOW_US,
    payload: bytes = b"",
    extras: dict[str, bytes] | None = None,
    tries: tuple[Try, ...] = (),
) -> EndRow:
    return EndRow(
        job_id,
        queue,
        key,
        state,
        code,
        result,
        b"ann",
        ended_us - 3 * SECOND_US,
        ended_us - 2 * SECOND_US,
        ended_us,
        len(tries) + 1,
        0,
        TERMS,
        payload,
        extras,
        0,
        tries,
    )


def job(
    job_id: int,
    *,
    queue: bytes = b"resize",
    key: bytes = b"",
    payload: bytes = b"a photo",
    terms: Terms = TERMS,
    state: int = QUEUED,
    due_us: int = 0,
    started_us: int = 0,
    parents: tuple[ParentRef, ...] = (),
    extras: dict[str, bytes] | None = None,
    worker: bytes = b"",
    tries: tuple[Try, ...] = (),
) -> JobRow:
    return JobRow(
        job_id,
        queue,
        key,
        payload,
        terms,
        state,
        NOW_US,
        due_us,
        len(tries) + (1 if started_us else 0),
        0,
        0,
        parents,
        extras,
        0,
        started_us,
        b"",
        worker,
        tries,
    )
