"""Queries the history, page by page.

Invariant: no read transaction stays open between two pages, so a reader and a running hall do not block each
other. A page has as many lines as fit into a few megabytes.
"""

from __future__ import annotations

import heapq
import re
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.changes import EndRow, JobRow
from hiringhall.records.record import (
    ENDED_STATES,
    LIVE_STATES,
    STATES,
    Record,
    as_microseconds,
    ended_record,
    has_output,
    live_record,
    output_lines,
)
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.opening import open_history

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from hiringhall.core.changes import OutputRow
    from hiringhall.storage.history_contract import EndCount

PAGE_ROWS_FIRST: Final = 100
PAGE_ROWS_MAX: Final = 2000
PAGE_BYTES: Final = 4 << 20
"""The target size of a page. The number of rows of the next page follows from the size of the last."""

_HANDLE: Final = re.compile(r"[\x21-\x7e]+:([0-9]+)")
_BY_ID: Final = attrgetter("id")

Row = EndRow | JobRow
"""A job of the store, ended or not."""


class History:
    """A hall's history and its unfinished jobs. Use it in `with`, or `close` it."""

    def __init__(self, data_folder: Path | str) -> None:
        """A data folder, or the URL of a database. Raises StoreError if it has no history, or none that this
        version can read.
        """
        self._reader = open_history(data_folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

    def count(self) -> tuple[int, int]:
        """The number of unfinished jobs and the number of history lines."""
        return self._reader.count()

    def get(self, *, id: int | None = None, handle: str | bytes | None = None) -> Record | None:  # noqa: A002 (its name)
        """One job in any state, with its output; None: it is unknown, or was dropped from the history."""
        if id is None and handle is None:
            raise ValueError("give the id or the handle of the job")
        return next(self.find(id=id, handle=handle, output=True), None)

    def find(
        self,
        *,
        id: int | None = None,  # noqa: A002 (its name)
        handle: str | bytes | None = None,
        key: str | bytes | None = None,
        queue: str | bytes | None = None,
        state: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before_id: int | None = None,
        limit: int | None = None,
        output: bool = False,
        live: bool = True,
    ) -> Iterator[Record]:
        """The jobs that match all arguments, newest first. They are read lazily.

        Without a state, only ended jobs match; with an id, handle or key, unfinished jobs match too. `since`
        and `until` are aware and apply to a record's `latest`. To page, pass the id of the last record as
        `before_id`. With `output`, a record has what the job's workers said. Without `live`, only ended jobs
        match. Raises ValueError for an invalid state, id, handle, limit or time, and StoreError.
        """
        if state is not None and state not in STATES:
            raise ValueError(f'"{state}" is not a state; the states are {", ".join(STATES)}')
        if handle is not None:
            named = job_id_of(handle)
            if id not in {None, named}:
                raise ValueError(f"the handle belongs to job {named}, not to job {id}")
            id = named  # noqa: A001 (its name)
        if limit is not None and limit < 0:
            raise ValueError(f"limit {limit} is not valid; it must be 0 or more, or None for all")
        for number in (id, before_id):
            if number is not None and not ids.in_bounds(number):
                raise ValueError(f"{number} is not a valid id; ids are from 1 to {ids.MAX}")
        for moment in (since, until):
            if moment is not None and moment.tzinfo is None:
                raise ValueError(f"{moment} has no time zone: pass an aware datetime")
        query = HistoryQuery(
            id=id,
            queue=_as_bytes(queue),
            key=_as_bytes(key),
            state=None if state is None else STATES[state],
            ended_from_us=None if since is None else as_microseconds(since),
            ended_to_us=None if until is None else as_microseconds(until),
            before_id=before_id,
        )
        rows = self._find(query, state, limit) if live else self._ended(query, limit)
        found = islice(rows, limit)
        return map(self._with_output if output else as_record, found)

    def ends(self, from_us: int, to_us: int, bucket_us: int) -> list[EndCount]:
        """What ended from one time until before another, in microseconds, counted by time, queue and state."""
        return self._reader.ends(from_us, to_us, bucket_us)

    def search(
        self,
        *,
        key: bytes | None = None,
        queue: bytes | None = None,
        state: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        text: bytes = b"",
        before_id: int | None = None,
        limit: int,
        limit_s: float,
    ) -> tuple[list[Record], int]:
        """The ended jobs that match and are found in `limit_s`, newest first, and the `before_id` to go on
        with; 0: there are no more. `text` is in the key, worker, payload or result, ASCII letters in either
        case. These records have no payload, and the beginning of the result.
        """
        query = _ended_query(key, queue, state, since, until)
        query = query._replace(before_id=before_id, limit=limit)
        rows, following = self._reader.search(query, text, limit_s)
        return [ended_record(row) for row in rows], following

    def count_ended(
        self,
        *,
        key: bytes | None = None,
        queue: bytes | None = None,
        state: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        text: bytes = b"",
        before_id: int | None = None,
        limit_s: float = 1.0,
    ) -> tuple[int, int]:
        """How many ended jobs match, as for `search`, as far as that is known after `limit_s`; and the
        `before_id` to go on counting with, 0: that is all.
        """
        query = _ended_query(key, queue, state, since, until)._replace(before_id=before_id)
        return self._reader.count_lines(query, text, limit_s)

    def unfinished(self) -> Iterator[JobRow]:
        """The durable jobs that have not ended, oldest first, as rows of the store."""
        return self._reader.live()

    def _with_output(self, row: Row) -> Record:
        record = as_record(row)
        if not has_output(row):
            return record
        said: list[OutputRow] = []
        page = self._reader.output(row.id, 0)
        said += page.lines
        while page.more:
            page = self._reader.output(row.id, page.end)
            said += page.lines
        return record._replace(output=output_lines(said))

    def _find(self, query: HistoryQuery, state: str | None, limit: int | None) -> Iterator[Row]:
        if query.id is not None:
            return self._one(query, state)
        if state in LIVE_STATES:
            return self._live(query, limit)
        ended = self._ended(query, limit)
        if query.key is None or state in ENDED_STATES:
            return ended
        # Live jobs first and all at once: a job that ends meanwhile is found among the ended ones.
        return _merged(iter(list(self._live(query, limit))), ended)

    def _one(self, query: HistoryQuery, state: str | None) -> Iterator[Row]:
        if state in LIVE_STATES:
            searches = [self._live]
        elif state in ENDED_STATES:
            searches = [self._ended]
        else:  # The history once more at the end: the job may have ended while the live jobs were searched.
            searches = [self._ended, self._live, self._ended]
        for search in searches:
            found = next(search(query, 1), None)
            if found is not None:
                yield found
                return

    def _ended(self, query: HistoryQuery, limit: int | None) -> Iterator[Row]:
        rows_max = PAGE_ROWS_FIRST if limit is None else min(limit, PAGE_ROWS_FIRST)
        while True:
            page, last_id = self._reader.page(query._replace(limit=rows_max))
            yield from page
            if last_id is None or query.id is not None:
                return
            query = query._replace(before_id=last_id)
            if page:
                weight = sum([len(row.result) + len(row.payload) + 100 for row in page])
                rows_max = max(1, min(PAGE_ROWS_MAX, len(page) * PAGE_BYTES // weight))

    def _live(self, query: HistoryQuery, limit: int | None) -> Iterator[Row]:
        before_id = query.before_id if query.id is None else query.id + 1
        found = (row for row in self._latest(before_id, query) if _may_match(row, query))
        yield from islice((row for row in found if _is_within(live_record(row), query)), limit)

    def _latest(self, before_id: int | None, query: HistoryQuery) -> Iterator[JobRow]:
        """Newest first; only one row if the query has an id."""
        rows = self._reader.latest(before_id)
        return rows if query.id is None else islice(rows, 1)


def job_id_of(handle: str | bytes) -> int:
    """The id of the job with this handle: the number after the last colon, with any prefix of a door."""
    text = handle.decode("ascii", "replace") if isinstance(handle, bytes) else handle
    match = _HANDLE.fullmatch(text)
    number = ids.parse(match[1].encode()) if match is not None else 0
    if not number:
        raise ValueError(f'"{text}" is not a valid handle; handles look like H:hall:68719476737')
    return number


def _ended_query(
    key: bytes | None, queue: bytes | None, state: str | None, since: datetime | None, until: datetime | None
) -> HistoryQuery:
    return HistoryQuery(
        key=key,
        queue=queue,
        state=None if state is None else ENDED_STATES[state],
        ended_from_us=None if since is None else as_microseconds(since),
        ended_to_us=None if until is None else as_microseconds(until),
    )


def _as_bytes(name: str | bytes | None) -> bytes | None:
    return name.encode(errors="surrogateescape") if isinstance(name, str) else name


def _may_match(row: JobRow, query: HistoryQuery) -> bool:
    return (
        (query.id is None or row.id == query.id)
        and (query.queue is None or row.queue == query.queue)
        and (query.key is None or row.key == query.key)
        and (query.state is None or row.state == query.state)
        and (query.before_id is None or row.id < query.before_id)
    )


def _is_within(record: Record, query: HistoryQuery) -> bool:
    at_us = as_microseconds(record.latest)
    return (query.ended_from_us is None or at_us >= query.ended_from_us) and (
        query.ended_to_us is None or at_us <= query.ended_to_us
    )


def as_record(row: Row) -> Record:
    return ended_record(row) if isinstance(row, EndRow) else live_record(row)


def _merged(live: Iterator[Row], ended: Iterator[Row]) -> Iterator[Row]:
    """Both are newest first. A job that ended between the two queries is in both; its end is used."""
    before: Row | None = None
    for row in heapq.merge(live, ended, key=_BY_ID, reverse=True):
        if before is not None and before.id != row.id:
            yield before
        before = row
    if before is not None:
        yield before
