"""Queries of the history, and pages of it with bounded work.

Invariant: a page looks at a bounded number of lines. If they do not have enough matches, it is short, and says
where to go on. Ids are chosen first and lines read later, so that no result is read in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from hiringhall.core.changes import PAGE_RESULT_BYTES
from hiringhall.core.jobs import PROVIDER
from hiringhall.core.states import FAILED
from hiringhall.storage.rows import END_COLUMNS, JOB_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.core.changes import HistoryQuery
    from hiringhall.core.jobs import ParentRef
    from hiringhall.storage.postgres.connecting import Database
    from hiringhall.storage.rows import RawRow

PAGE_ROWS: Final = 1000
"""Rows read at a time. Nothing stays open between two pages, so others may write."""
FIRST_PAGE_ROWS: Final = 16
PAGE_BYTES: Final = 8 << 20
"""Payloads of a page of jobs, if they are as long as those of the page before."""
_ID, _PAYLOAD = (JOB_COLUMNS.split(", ").index(name) for name in ("id", "payload"))
_ENDED_US, _END_PAYLOAD = (END_COLUMNS.split(", ").index(name) for name in ("ended_us", "payload"))
LINES_MAX: Final = 128
"""Lines of one page: each may have a long result, of which only the beginning is kept."""
BRIEF_MAX: Final = 1000
"""The same, without results."""
IDS_MAX: Final = 8192
"""Ids of one page that has only ids."""
WALKED_MAX: Final = 8192
"""Lines that are looked at, one after the other."""
INTEGER_MAX: Final = (1 << 63) - 1

_CUT_RESULT: Final = f"substr(result, 1, {PAGE_RESULT_BYTES})"
_EMPTY: Final = "''::bytea"
_KEPT_PAYLOAD: Final = f"CASE state WHEN {FAILED} THEN payload ELSE ''::bytea END"


def _columns(result: str = "result", payload: str = "payload") -> str:
    return END_COLUMNS.replace(" result,", f" {result},").replace(" payload,", f" {payload},")


WHOLE: Final = END_COLUMNS
SHORT: Final = _columns(_EMPTY, _KEPT_PAYLOAD)
"""Without results, and without payloads unless the job FAILED."""
CUT: Final = _columns(_CUT_RESULT, _EMPTY)
"""As in a page."""
BRIEF: Final = _columns(_EMPTY, _EMPTY)

_JOBS: Final = f"SELECT {JOB_COLUMNS} FROM jobs WHERE id > $1 ORDER BY id LIMIT $2"  # noqa: S608 (our own names)
_JOBS_DOWN: Final = _JOBS.replace("id > $1", "id < $1").replace("ORDER BY id", "ORDER BY id DESC")
_FIRST_OF_LATEST: Final = """
SELECT ended_us, id FROM (SELECT ended_us, id FROM lines ORDER BY ended_us DESC, id DESC LIMIT $1) AS latest
ORDER BY ended_us, id LIMIT 1
"""
_ENDS: Final = f"""
SELECT {SHORT} FROM lines WHERE ended_us >= $1 AND (ended_us, id) > ($1, $2) ORDER BY ended_us, id LIMIT $3
"""  # noqa: S608 (our own names)
"""The first condition is for partitions, which the second does not rule out."""
_NAMED: Final = """
SELECT DISTINCT ON (wanted.queue, wanted.key) lines.id
FROM unnest($1::bytea[], $2::bytea[]) AS wanted (queue, key) JOIN lines
ON lines.key = wanted.key AND lines.queue = wanted.queue AND lines.key <> ''
WHERE lines.extras IS NULL OR position($3::bytea IN lines.extras) = 0
ORDER BY wanted.queue, wanted.key, lines.ended_us DESC, lines.id DESC
"""
_UNKEYED: Final = """
SELECT id FROM lines WHERE key = '' AND queue = $1 AND (extras IS NULL OR position($2::bytea IN extras) = 0)
ORDER BY ended_us DESC, id DESC LIMIT 1
"""
_PROVIDER_MARK: Final = msgspec.msgpack.encode(PROVIDER)
"""The extras of a provider's job contain this."""


class Conditions:
    """What a query asks for, as SQL and its values."""

    def __init__(self, query: HistoryQuery) -> None:
        self.values: list[object] = []
        self.texts: list[str] = []
        self._add("id < {}", query.before_id)
        for name in ("id", "queue", "key", "flow", "state"):
            self._add(f"{name} = {{}}", getattr(query, name))
        if query.key:
            self.texts.append("key <> ''")  # as in the index
        self._add("ended_us >= {}", query.ended_from_us)
        self._add("ended_us <= {}", query.ended_to_us)

    @property
    def where(self) -> str:
        return " AND ".join(self.texts) or "true"

    def bound(self, value: object) -> str:
        """A place for a value."""
        self.values.append(value)
        return f"${len(self.values)}"

    def _add(self, text: str, value: object) -> None:
        if value is not None:
            self.texts.append(text.format(self.bound(value)))


async def find_lines(database: Database, query: HistoryQuery) -> list[RawRow]:
    """The lines of the history that match a query, newest first."""
    asked = Conditions(query)
    limit = asked.bound(max(0, query.limit))
    sql = f"SELECT id FROM lines WHERE {asked.where} ORDER BY id DESC LIMIT {limit}"  # noqa: S608 (our own names)
    ids = [row[0] for row in await database.fetch(sql, *asked.values)]
    return await read_lines(database, ids, WHOLE)


async def read_lines(database: Database, ids: Sequence[int], columns: str) -> list[RawRow]:
    """The lines with these ids, in their order."""
    sql = f"SELECT {columns} FROM lines WHERE id = ANY($1::bigint[])"  # noqa: S608 (our own names)
    found: dict[int, RawRow] = {}
    for start in range(0, len(ids), PAGE_ROWS):
        for row in await database.fetch(sql, ids[start : start + PAGE_ROWS]):
            found[row[0]] = tuple(row)
    return [found[job_id] for job_id in ids if job_id in found]


async def find_page(database: Database, query: HistoryQuery) -> tuple[list[RawRow], int]:
    """Lines of the history that match a query, newest first, and the id below which to go on; 0: no more."""
    ids, before_id = await find_ids(database, query, BRIEF_MAX if query.brief else LINES_MAX)
    return await read_lines(database, ids, BRIEF if query.brief else CUT), before_id


async def find_ids(database: Database, query: HistoryQuery, limit_max: int = IDS_MAX) -> tuple[list[int], int]:
    """As `find_page`, only the ids."""
    limit = min(query.limit, limit_max)
    asked = Conditions(query)
    floor = 0
    if query.id is None and asked.where != "true" and asked.texts != ["id < $1"]:
        floor = await _floor(database, query)
        asked.texts.append(f"id >= {asked.bound(floor)}")
    most = asked.bound(max(0, limit))
    sql = f"SELECT id FROM lines WHERE {asked.where} ORDER BY id DESC LIMIT {most}"  # noqa: S608 (our own names)
    ids = [row[0] for row in await database.fetch(sql, *asked.values)]
    return ids, ids[-1] if ids and len(ids) == limit else floor


async def _floor(database: Database, query: HistoryQuery) -> int:
    """The id down to which lines are looked at; 0: all of them. Keys and flows are found by index: of
    these, the matching lines count.
    """
    asked = Conditions(
        query._replace(
            state=None,
            ended_from_us=None,
            ended_to_us=None,
            queue=query.queue if query.key else None,
        )
    )
    skipped = asked.bound(WALKED_MAX - 1)
    sql = f"SELECT id FROM lines WHERE {asked.where} ORDER BY id DESC OFFSET {skipped} LIMIT 1"  # noqa: S608 (our own names)
    found = await database.fetch(sql, *asked.values)
    return found[0][0] if found else 0


async def find_latest(database: Database, refs: Sequence[ParentRef]) -> list[int]:
    """The given ids, and for each (queue, key) the id of its line that ended last."""
    names = list(dict.fromkeys([ref for ref in refs if not isinstance(ref, int)]))
    found = [ref for ref in refs if isinstance(ref, int)]
    keyed = [name for name in names if name[1]]
    if keyed:
        columns = [[name[0] for name in keyed], [name[1] for name in keyed]]
        found += [row[0] for row in await database.fetch(_NAMED, *columns, _PROVIDER_MARK)]
    for queue, key in names:
        if not key:
            found += [row[0] for row in await database.fetch(_UNKEYED, queue, _PROVIDER_MARK)]
    return found


class PageSize:
    """How many rows the next page has. It follows from the content of the one before, so that large payloads
    are not all in memory twice.
    """

    def __init__(self) -> None:
        self.rows = FIRST_PAGE_ROWS

    def note(self, page: list[RawRow], payload: int) -> None:
        """A page was read, with the payloads in this column."""
        size = max(sum([len(row[payload]) for row in page]), 1)
        fitting = len(page) * PAGE_BYTES // size
        self.rows = max(1, min(fitting, 4 * self.rows, PAGE_ROWS))


class JobPages:
    """The live jobs that follow an id, ordered by id, page by page."""

    def __init__(self, database: Database, after_id: int, *, newest_first: bool = False) -> None:
        self._database = database
        self._last_id = after_id
        self._sql = _JOBS_DOWN if newest_first else _JOBS
        self._size = PageSize()

    async def next(self) -> list[RawRow]:
        """The next page, of records, which are as good as tuples; empty: there are no more jobs."""
        page = list(await self._database.fetch(self._sql, self._last_id, self._size.rows))
        if page:
            self._last_id = page[-1][_ID]
            self._size.note(page, _PAYLOAD)
        return page


class EndPages:
    """The lines that ended last, oldest first and without results, page by page."""

    def __init__(self, database: Database, lines_max: int) -> None:
        self._database = database
        self._lines_max = lines_max
        self._last: tuple[int, int] | None = None
        """When the line before the next page ended, and its id; None: nothing was read yet."""
        self._size = PageSize()

    async def next(self) -> list[RawRow]:
        """The next page; empty: there are no more lines."""
        if self._last is None:
            found = await self._database.fetch(_FIRST_OF_LATEST, max(0, self._lines_max))
            if not found:
                return []
            ((ended_us, first_id),) = found
            self._last = ended_us, first_id - 1
        page = list(await self._database.fetch(_ENDS, *self._last, self._size.rows))
        if page:
            self._last = page[-1][_ENDED_US], page[-1][_ID]
            self._size.note(page, _END_PAYLOAD)
        return page
