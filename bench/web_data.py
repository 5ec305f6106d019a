"""A large hall for the measurements of its web: a long history, many queued jobs, many queues, many workers.

The history and the jobs are written to the store before the hall starts; the workers connect to it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from crowd import Worker

from hiringhall.core import ids
from hiringhall.core.changes import Batch, EndRow, JobRow
from hiringhall.core.states import CANCELLED, DONE, FAILED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.gearman import wire
from hiringhall.storage.contract import Retention
from hiringhall.storage.sqlite import DATABASE, SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

DAY_US = 86_400_000_000
SPAN_US = 30 * DAY_US
"""The history reaches so far back."""
KEPT = "100d"
"""The hall that uses the data must keep it so long."""
BATCH = 5000
FAILED_EVERY = 50
CANCELLED_ONLY = 3
"""So many lines are of cancelled jobs, the oldest: a search for them finds nothing for a long time."""
TERMS = Terms(durable=True, detached=True)


def fill(folder: Path, lines: int, jobs: int, queues: int) -> None:
    """Write a history and queued jobs into an empty data folder."""
    folder.mkdir(parents=True)
    kept = Retention(age_us=100 * DAY_US, dead_age_us=100 * DAY_US)
    store = SqliteStore(folder / DATABASE, kept, print)
    try:
        store.load(10)
        now_us = time.time_ns() // 1000
        for first in range(1, lines + 1, BATCH):
            batch = Batch()
            batch.ends += [
                _line(number, lines, queues, now_us) for number in range(first, min(first + BATCH, lines + 1))
            ]
            store.commit(batch, now_us)
        for first in range(1, jobs + 1, BATCH):
            batch = Batch()
            batch.inserts += [
                _job(lines + number, queues, now_us) for number in range(first, min(first + BATCH, jobs + 1))
            ]
            store.commit(batch, now_us)
    finally:
        store.close()


def _line(number: int, lines: int, queues: int, now_us: int) -> EndRow:
    ended_us = now_us - SPAN_US * (lines - number + 1) // lines
    state = FAILED if number % FAILED_EVERY == 0 else CANCELLED if number <= CANCELLED_ONLY else DONE
    return EndRow(
        id=ids.make(1, number),
        queue=queue_name(number % queues),
        key=b"key-%d" % number,
        state=state,
        code=0,
        result=b'{"made": "picture-%d.png", "bytes": 48231}' % number,
        worker=b"worker-%d" % (number % 64),
        created_us=ended_us - 2_000_000,
        started_us=ended_us - 1_000_000,
        ended_us=ended_us,
        attempts=1,
        losses=0,
        terms=TERMS,
        payload=b'{"source": "picture-%d.tiff", "width": 640}' % number,
        extras=None,
        dialect="native",
    )


def _job(number: int, queues: int, now_us: int) -> JobRow:
    return JobRow(
        id=ids.make(1, number),
        queue=queue_name(number % queues),
        key=b"key-%d" % number,
        payload=b'{"source": "picture-%d.tiff", "width": 640}' % number,
        terms=TERMS,
        state=QUEUED,
        created_us=now_us,
        due_us=0,
        attempts=0,
        failures=0,
        losses=0,
        parents=(),
        extras=None,
    )


def queue_name(number: int) -> bytes:
    return b"queue-%d" % number


class Staff:
    """Workers that can do the queues, and ask for nothing."""

    def __init__(self, port: int, count: int, queues: int) -> None:
        self._workers = [Worker(("127.0.0.1", port)) for _ in range(count)]
        for number, worker in enumerate(self._workers):
            worker.send(
                wire.pack_request(wire.SET_CLIENT_ID, b"worker-%d" % number),
                wire.pack_request(wire.CAN_DO, queue_name(number % queues)),
            )
        for worker in self._workers:
            worker.heard_until_mark()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
