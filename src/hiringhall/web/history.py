"""Ended jobs: lists and counts, from the read side of the store where there is one.

Invariant: the history is read in threads of its own, each with its own connection, and one request reads for a
bounded time; what is left is the next page. Without a data folder the hall is asked.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.records import History
from hiringhall.records.record import as_microseconds, as_moment
from hiringhall.storage.contract import StoreError
from hiringhall.web import describing, filters, job_shapes
from hiringhall.web.cursors import read_position
from hiringhall.web.hall import Shared
from hiringhall.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from hiringhall.records import Record
    from hiringhall.web.calls import Call
    from hiringhall.web.questions import HistoryCount, HistoryQuestion

THREADS: Final = 4
READ_S: Final = 0.12
"""How long one request reads. One page of its work may come on top."""
COUNT_MAX: Final = 1_000_000
_Found = TypeVar("_Found")
_encode: Final = msgspec.msgpack.Encoder().encode
_log = logging.getLogger("hiringhall")


class Found(NamedTuple):
    """A page of the history."""

    lines: list[dict[str, Any]]
    before: int
    """Where the next page begins; 0: there is none."""


class Reader:
    """The history in a data folder, read by some threads."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="history")
        self._local = threading.local()
        self._shared = Shared()

    async def shared(self, question: Any, read: Callable[[History], _Found]) -> _Found:
        """As `run`; what the same question was answered in the last second will do."""
        found: _Found = await self._shared.get(_encode(question), lambda: self.run(read))
        return found

    async def run(self, read: Callable[[History], _Found]) -> _Found:
        """Call `read` in one of the threads. Raises Problem."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, read)

    async def payload(self, number: int) -> bytes:
        """The payload of a durable job, as far as it is kept; empty: nothing is."""

        def read(history: History) -> bytes:
            record = next(history.find(id=number), None)
            return record.payload if record is not None else b""

        return await self.run(read)

    def _read(self, read: Callable[[History], _Found]) -> _Found:
        history: History | None = getattr(self._local, "history", None)
        try:
            if history is None:
                history = self._local.history = History(self._folder)
            return read(history)
        except (StoreError, OSError) as error:
            self._local.history = None
            if history is not None:
                history.close()
            raise Problem("history_unreadable", f"the history cannot be read: {error}") from error

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def lines(call: Call) -> job_shapes.JobList:
    query: HistoryQuestion = call.query
    if not filters.may_match(query):
        return job_shapes.JobList(items=[], next=None)
    found = await page(call, filters.ended(query), read_position(query.cursor), query.limit)
    following = str(found.before) if found.before else None
    return job_shapes.JobList(items=[describing.job_line(line) for line in found.lines], next=following)


async def count(call: Call) -> job_shapes.JobCount:
    """How many match, as far as they can be read in time."""
    query: HistoryCount = call.query
    if not filters.may_match(query):
        return job_shapes.JobCount(count=0, complete=True)
    wanted = filters.ended(query)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + max(READ_S, query.wait)
    number, before = 0, 0
    while True:
        found, before = await _counted(call, wanted, before)
        number += found
        if not before or number >= COUNT_MAX or loop.time() > until_s:
            return job_shapes.JobCount(count=number, complete=not before)


async def _counted(call: Call, wanted: dict[str, Any], before: int) -> tuple[int, int]:
    """How many match below the id `before`, or of all, and where to go on; 0: that is all."""
    reader = call.services.history
    if reader is None:
        asked = await _asked_page(call, wanted, before, wire.LIST_MAX)
        return len(asked.lines), asked.before
    return await reader.shared(
        ("count", wanted, before),
        lambda history: history.count_ended(**_filters(wanted), before_id=before or None, limit_s=READ_S),
    )


async def every(call: Call, wanted: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """All ended jobs that match, page by page, newest first."""
    before = 0
    while True:
        found = await page(call, wanted, before, wire.LIST_MAX)
        for line in found.lines:
            yield line
        before = found.before
        if not before:
            return


async def page(call: Call, wanted: dict[str, Any], before: int, limit: int) -> Found:
    """Some of the lines that match, newest first, those below the id `before`; 0: from the newest on."""
    reader = call.services.history
    if reader is not None:
        return await reader.shared(
            ("page", wanted, before, limit), lambda history: _read_page(history, wanted, before, limit)
        )
    return await _asked_page(call, wanted, before, limit)


async def _asked_page(call: Call, wanted: dict[str, Any], before: int, limit: int) -> Found:
    """As `page`, from the hall. It does not search for texts: that is done here."""
    wanted = dict(wanted)
    sought: bytes = wanted.pop("text", b"").lower()
    body = {**wanted, "count": limit, **({"before": before} if before else {})}
    found, following = await call.hall.shared(wire.HISTORY, body)
    chosen = [line for line in found if not sought or _has_text(sought, line)]
    return Found(chosen, following or 0)


def _has_text(sought: bytes, line: dict[str, Any]) -> bool:
    return any(sought in line[name].lower() for name in ("key", "worker", "result"))


def _read_page(history: History, wanted: dict[str, Any], before: int, limit: int) -> Found:
    # One more than wanted tells whether there is another page.
    records, following = history.search(
        **_filters(wanted), before_id=before or None, limit=limit + 1, limit_s=READ_S
    )
    if len(records) > limit:
        records = records[:limit]
        following = records[-1].id
    return Found([_described(record) for record in records], following)


def _filters(wanted: dict[str, Any]) -> dict[str, Any]:
    """The filters of the native protocol as arguments of `History`."""
    return {
        **{name: wanted[name] for name in ("queue", "key", "state", "text") if name in wanted},
        "since": as_moment(wanted["from_us"]) if wanted.get("from_us") else None,
        "until": as_moment(wanted["to_us"]) if "to_us" in wanted else None,
    }


def _described(record: Record) -> dict[str, Any]:
    """As the native protocol describes a line of the history."""
    return {
        "id": record.id,
        "queue": record.queue,
        "key": record.key,
        "state": record.state,
        "created_us": _us(record.created),
        "started_us": _us(record.started),
        "ended_us": _us(record.ended),
        "attempts": record.attempts,
        "attempts_max": record.retries + 1,
        "losses": record.losses,
        "worker": record.worker,
        "dialect": getattr(record, "dialect", ""),
        "flow": getattr(record, "flow", b""),
        "priority": record.priority,
        "code": record.code,
        "result": record.result,
    }


def _us(at: datetime | None) -> int:
    return as_microseconds(at) if at is not None else 0
