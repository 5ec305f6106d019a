"""Reads a database for commands and the web, beside a running hall or without one.

Invariant: nothing is written, and no transaction stays open between two calls.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hiringhall.core.changes import Firing
from hiringhall.storage.contract import StoreError
from hiringhall.storage.history_contract import EndCount, Quarantined
from hiringhall.storage.postgres.connecting import Database
from hiringhall.storage.postgres.faults import explain
from hiringhall.storage.postgres.output import find_output
from hiringhall.storage.postgres.reading import (
    CUT,
    IDS_MAX,
    INTEGER_MAX,
    Conditions,
    JobPages,
    find_ids,
    find_lines,
    find_page,
    read_lines,
)
from hiringhall.storage.postgres.schema import check_version, migrations
from hiringhall.storage.rows import TERMS_COLUMNS, decode, decode_terms, end_row, job_rows

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from hiringhall.core.changes import EndRow, HistoryQuery, JobRow, OutputPage
    from hiringhall.core.terms import Terms
    from hiringhall.storage.rows import RawRow

_T = TypeVar("_T")
_SETTINGS: Final = {"default_transaction_read_only": "on", "enable_seqscan": "on", "plan_cache_mode": "auto"}
_CONTENT_ROWS: Final = 100
"""Lines whose content is read at once: results may be long."""

_TERMS: Final = f"SELECT {TERMS_COLUMNS} FROM terms"  # noqa: S608 (our own names)
_ENDS: Final = """
SELECT ended_us / $3, queue, state, count(*), count(*) FILTER (WHERE started_us > 0),
    COALESCE(sum(GREATEST(0, started_us - GREATEST(created_us, ready_us)))
        FILTER (WHERE started_us > 0), 0)::bigint,
    COALESCE(sum(GREATEST(0, ended_us - started_us)) FILTER (WHERE started_us > 0), 0)::bigint
FROM lines WHERE ended_us >= $1 AND ended_us < $2 GROUP BY 1, 2, 3
"""
_CONTENT: Final = """
SELECT id, key, worker, result, payload FROM lines WHERE id = ANY($1::bigint[]) ORDER BY id DESC
"""
_COUNT: Final = "SELECT jobs, (SELECT COALESCE(sum(lines), 0)::bigint FROM counts) FROM writer"
_QUARANTINE: Final = """
SELECT source, id, reason, to_char(set_aside_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM quarantine ORDER BY number
"""


class PostgresHistoryReader:
    """Reads, and changes no stored data. Rows that cannot be decoded are left out."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, "hiringhall history", _SETTINGS)
        try:
            self._read(self._check())
        except BaseException:
            self._database.close()
            raise

    def history(self, query: HistoryQuery) -> list[EndRow]:
        return self.page(query)[0]

    def page(self, query: HistoryQuery) -> tuple[list[EndRow], int | None]:
        rows = self._read(find_lines(self._database, query))
        return decode(rows, end_row, self._terms(), []), rows[-1][0] if rows else None

    def search(self, query: HistoryQuery, text: bytes, limit_s: float) -> tuple[list[EndRow], int]:
        rows, before_id = self._read(self._search(query, text, time.monotonic() + limit_s))
        return decode(rows, end_row, self._terms(), []), before_id

    def output(self, job_id: int, position: int) -> OutputPage:
        return self._read(find_output(self._database, job_id, position))

    def live(self) -> Iterator[JobRow]:
        return self._jobs(-INTEGER_MAX, newest_first=False)

    def latest(self, before_id: int | None = None) -> Iterator[JobRow]:
        return self._jobs(INTEGER_MAX if before_id is None else before_id, newest_first=True)

    def ends(self, from_us: int, to_us: int, bucket_us: int) -> list[EndCount]:
        return [EndCount(*row) for row in self._fetch(_ENDS, from_us, to_us, bucket_us)]

    def count_lines(self, query: HistoryQuery, text: bytes, limit_s: float) -> tuple[int, int]:
        stop_s = time.monotonic() + limit_s
        if not text and query.key is None and query.before_id is None:
            counted = self._read(self._count_matching(query, limit_s / 2))
            if counted is not None:
                return counted, 0
        return self._read(self._count_slowly(query, text, stop_s))

    def count(self) -> tuple[int, int]:
        live, lines = self._fetch(_COUNT)[0]
        return live, lines

    def firings(self) -> dict[str, Firing]:
        rows = self._fetch("SELECT name, due_us, plan FROM schedules")
        return {name.decode(errors="replace"): Firing(due_us, plan) for name, due_us, plan in rows}

    def quarantined(self) -> list[Quarantined]:
        return [Quarantined(*row) for row in self._fetch(_QUARANTINE)]

    def close(self) -> None:
        self._database.close()

    def _read(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for a question, on a new connection if the last one is gone."""

        async def connected() -> _T:
            try:
                if await self._database.current() is None:
                    await self._database.connect()
            except BaseException:
                work.close()
                raise
            return await work

        return self._database.run(connected())

    def _fetch(self, sql: str, *values: object) -> list[RawRow]:
        return [tuple(row) for row in self._read(self._database.fetch(sql, *values))]

    def _terms(self) -> dict[int, Terms]:
        return decode_terms(self._fetch(_TERMS))

    async def _check(self) -> None:
        connection = await self._database.current()
        assert connection is not None
        try:
            version = await check_version(connection, self._database.place)
        except StoreError:
            raise
        except Exception as error:
            raise explain(error, self._database.place) from error
        if version < migrations()[-1][0]:
            raise StoreError(
                f"{self._database.place} is empty or from an older version: start a hall on it once"
            )

    def _jobs(self, place: int, *, newest_first: bool) -> Iterator[JobRow]:
        pages = JobPages(self._database, place, newest_first=newest_first)
        while page := self._read(pages.next()):
            yield from job_rows(page, self._terms(), [])

    async def _search(self, query: HistoryQuery, text: bytes, stop_s: float) -> tuple[list[RawRow], int]:
        if text:
            ids, before_id = await self._with_text(query, text, query.limit, stop_s)
            return await read_lines(self._database, ids, CUT), before_id
        found: list[RawRow] = []
        while True:
            rows, before_id = await find_page(self._database, query._replace(limit=query.limit - len(found)))
            found += rows
            if not before_id or len(found) >= query.limit or time.monotonic() > stop_s:
                return found, before_id
            query = query._replace(before_id=before_id)

    async def _count_matching(self, query: HistoryQuery, limit_s: float) -> int | None:
        """How many lines match; None: that takes longer than `limit_s`."""
        asked = Conditions(query)
        connection = await self._database.current()
        assert connection is not None
        try:
            counted: int = await connection.fetchval(
                f"SELECT count(*) FROM lines WHERE {asked.where}",  # noqa: S608 (our own names)
                *asked.values,
                timeout=max(limit_s, 0.01),
            )
        except TimeoutError:
            return None
        except Exception as error:
            raise explain(error, self._database.place) from error
        return counted

    async def _count_slowly(self, query: HistoryQuery, text: bytes, stop_s: float) -> tuple[int, int]:
        query = query._replace(limit=IDS_MAX)
        if text:
            ids, before_id = await self._with_text(query, text, None, stop_s)
            return len(ids), before_id
        number = 0
        while True:
            ids, before_id = await find_ids(self._database, query)
            number += len(ids)
            if not before_id or time.monotonic() > stop_s:
                return number, before_id
            query = query._replace(before_id=before_id)

    async def _with_text(
        self, query: HistoryQuery, text: bytes, most: int | None, stop_s: float
    ) -> tuple[list[int], int]:
        """The ids of lines that contain a text, and the id below which to go on."""
        sought = text.lower()
        found: list[int] = []
        query = query._replace(limit=IDS_MAX)
        while True:
            ids, before_id = await find_ids(self._database, query)
            for start in range(0, len(ids), _CONTENT_ROWS):
                rows = await self._database.fetch(_CONTENT, ids[start : start + _CONTENT_ROWS])
                for number, *parts in rows:
                    if any(sought in part.lower() for part in parts):
                        found.append(number)
                        if len(found) == most:
                            return found, number
                if rows and time.monotonic() > stop_s:
                    return found, rows[-1][0]
            if not before_id or time.monotonic() > stop_s:
                return found, before_id
            query = query._replace(before_id=before_id)
