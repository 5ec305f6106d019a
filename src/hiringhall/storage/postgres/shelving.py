"""The shelves of the history in PostgreSQL: which exist, what they hold, and what is dropped from them.

Invariant: the table `counts` and the counts in memory are the same after each statement, and each drop is one
statement, behind the fence. Lines that are kept by the rules for all queues are partitioned by day. A day with
more than `DAY_LINES_MIN` lines is dropped as a whole, when all its lines are too old, since deleting so many
rows would cost more than writing them did; of a smaller day each line is dropped at its time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from hiringhall.storage.contract import StoreError
from hiringhall.storage.postgres.writing import DAY_US
from hiringhall.storage.retention import LINE_BYTES, UNBOUNDED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hiringhall.storage.postgres.connecting import Connection, Database
    from hiringhall.storage.postgres.writing import Commit, Place
    from hiringhall.storage.retention import Sections, Shelf

DAY_LINES_MIN: Final = 10_000

_COLUMNS: Final = """
moved.id, moved.queue, key, state, code, result, worker, created_us, started_us, ended_us, attempts, losses,
terms, payload, extras, ready_us, tries, payload_cut, flow, all_parents, dialect, {shelf}, output_bytes, drop_us
"""
_MOVE_BACK: Final = f"""
WITH moved AS (DELETE FROM history_apart WHERE shelf = ANY($1::integer[]) AND state <> 5 RETURNING *)
INSERT INTO history SELECT {_COLUMNS.format(shelf="0")} FROM moved
"""  # noqa: S608 (our own names)
_MOVE_IN: Final = f"""
WITH moved AS (DELETE FROM history WHERE queue = ANY($1::bytea[]) RETURNING *)
INSERT INTO history_apart
SELECT {_COLUMNS.format(shelf="shelves.id")} FROM moved JOIN shelves USING (queue) WHERE NOT dead
"""  # noqa: S608 (our own names)
_RENUMBER: Final = """
UPDATE history_apart SET shelf = COALESCE((
    SELECT id FROM shelves WHERE shelves.queue = history_apart.queue AND shelves.dead
), 1) WHERE state = 5
"""
_CONTENT: Final = """
octet_length(key) + octet_length(result) + octet_length(payload) + COALESCE(octet_length(extras), 0)
+ output_bytes
"""
_COUNT_ALL: Final = f"""
INSERT INTO counts (shelf, day, lines, bytes)
SELECT shelf, CASE shelf WHEN 0 THEN ended_us / {DAY_US} ELSE 0 END, count(*), sum({_CONTENT})
FROM lines GROUP BY 1, 2
UNION ALL
SELECT id, 0, 0, 0 FROM shelves WHERE id > 0 AND id NOT IN (SELECT shelf FROM history_apart)
"""  # noqa: S608 (our own names)
_NEEDED_DAYS: Final = f"""
SELECT DISTINCT (ended_us / {DAY_US})::integer FROM history_apart
WHERE shelf = ANY($1::integer[]) AND state <> 5
"""  # noqa: S608 (our own number)
_WEIGH: Final = f"""
SELECT shelf, (CASE shelf WHEN 0 THEN ended_us / {DAY_US} ELSE 0 END)::integer, count(*),
    sum({_CONTENT})::bigint
FROM lines WHERE id = ANY($1::bigint[]) GROUP BY 1, 2
"""  # noqa: S608 (our own names)
_DROP: Final = "SELECT * FROM hall_drop($1, $2, $3, $4, $5, $6, $7)"
_DROP_DUE: Final = "SELECT * FROM hall_drop_due($1, $2, $3)"
_NEXT_DROP: Final = "SELECT drop_us FROM lines WHERE drop_us > 0 ORDER BY drop_us LIMIT 1"


async def ruled_queues(connection: Connection) -> list[bytes]:
    """The queues that have shelves of their own in the database."""
    rows = await connection.fetch("SELECT queue FROM shelves WHERE queue IS NOT NULL AND NOT dead")
    return [queue for (queue,) in rows]


async def arrange(connection: Connection, queues: Collection[bytes]) -> dict[bytes, int]:
    """Give shelves to exactly these queues and move their lines to them. Return the first shelf number of each
    queue.
    """
    rows = await connection.fetch("SELECT id, queue, dead FROM shelves WHERE queue IS NOT NULL")
    gone = [number for number, queue, _ in rows if queue not in queues]
    numbers: dict[bytes, int] = {queue: number for number, queue, dead in rows if queue in queues and not dead}
    new = [queue for queue in queues if queue not in numbers]
    if not gone and not new:
        return numbers
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")  # there may be many lines
        for (day,) in await connection.fetch(_NEEDED_DAYS, gone):
            await connection.execute("SELECT hall_add_day($1)", day)
        await connection.execute("DELETE FROM shelves WHERE id = ANY($1::integer[])", gone)
        await connection.execute(_MOVE_BACK, gone)
        number = await connection.fetchval("SELECT MAX(id) + 1 FROM shelves")
        for queue in new:
            await connection.execute("INSERT INTO shelves VALUES ($1, $2, false)", number, queue)
            await connection.execute("INSERT INTO shelves VALUES ($1, $2, true)", number + 1, queue)
            numbers[queue] = number
            number += 2
        await connection.execute(_MOVE_IN, new)
        await connection.execute(_RENUMBER)
        await connection.execute("DELETE FROM counts")
        await connection.execute(_COUNT_ALL)
    return numbers


class PostgresShelves:
    """The shelves of an open database."""

    def __init__(self, database: Database, sections: Sections, incarnation: int) -> None:
        self.sections = sections
        self.jobs = 0
        self.job_bytes = 0
        self._bytes = 0
        """The content of all lines."""
        self._days: dict[int, int] = {}
        """The lines of each day that has a partition."""
        self._database = database
        self._incarnation = incarnation

    async def recount(self) -> None:
        """Read all counts."""
        fetch = self._database.fetch
        ((self.jobs, self.job_bytes),) = await fetch("SELECT jobs, job_bytes FROM writer")
        self._bytes = 0
        self._days.clear()
        for shelf in self.sections.shelves.values():
            shelf.lines = shelf.bytes = 0
        for shelf_number, day, lines, content_bytes in await fetch(
            "SELECT shelf, day, lines, bytes FROM counts"
        ):
            if shelf_number == 0:
                self._days[day] = 0
            self._add((shelf_number, day), lines, content_bytes)

    def committed(self, commit: Commit, job_bytes: int) -> None:
        """Count what a commit that is kept has changed. The live jobs now have `job_bytes`."""
        self.jobs += commit.jobs
        self.job_bytes = job_bytes
        for place, (lines, content_bytes) in commit.shelves.items():
            self._add(place, lines, content_bytes)

    async def prepare(self, commit: Commit) -> None:
        """Make the partitions that the lines of a commit need."""
        for shelf, day in commit.shelves:
            if shelf == 0 and day not in self._days:
                await self._database.fetch("SELECT hall_add_day($1)", day)
                self._days[day] = 0

    async def weigh(self, ids: list[int]) -> dict[Place, tuple[int, int]]:
        """The lines and the content of these jobs, by shelf and day."""
        rows = await self._database.fetch(_WEIGH, ids)
        return {(shelf, day): (lines, content_bytes) for shelf, day, lines, content_bytes in rows}

    def drop(
        self, shelves: Sequence[Shelf], before_us: int, lines_max: int, bytes_max: int, line_bytes: int
    ) -> int:
        if lines_max <= 0:
            return 0
        from_us = -UNBOUNDED
        if before_us < UNBOUNDED and shelves[0].number == 0:
            dropped = self._drop_days(before_us)
            if dropped:
                return dropped
            # Large days wait until all of their lines are due.
            waiting = [day for day, lines in self._days.items() if lines > DAY_LINES_MIN]
            smaller = [day for day in self._days if day not in waiting and day * DAY_US < before_us]
            if not smaller:
                return 0
            from_us = min(smaller) * DAY_US
            later = [day for day in waiting if day >= min(smaller)]
            before_us = min([before_us, *[day * DAY_US for day in later]])
        numbers = [shelf.number for shelf in shelves]
        values = (numbers, from_us, before_us, lines_max, bytes_max, line_bytes)
        return self._subtract(self._run(_DROP, *values))

    def drop_due(self, now_us: int, lines_max: int) -> int:
        return self._subtract(self._run(_DROP_DUE, now_us, lines_max))

    def next_drop_us(self) -> int:
        found = self._database.run(self._database.fetch(_NEXT_DROP))
        return found[0][0] if found else UNBOUNDED

    def used_bytes(self) -> int:
        """Content and rows. The tables take more room: indexes, and rows that are not vacuumed yet."""
        return self.job_bytes + self._bytes + LINE_BYTES * (self.jobs + self.sections.lines)

    def _drop_days(self, before_us: int) -> int:
        """Drop one day of which every line is too old, if they are many or none. How many lines that were."""
        for day in sorted(self._days):
            lines = self._days[day]
            if (day + 1) * DAY_US <= before_us and (lines > DAY_LINES_MIN or not lines):
                with suppress(StoreError):  # a reader holds it: it is tried again
                    self._run("SELECT hall_drop_day($1, $2)", day)
                    self._database.run(self.recount())
                    return lines
        return 0

    def _run(self, sql: str, *values: object) -> Sequence[Any]:
        return self._database.run(self._database.fetch(sql, self._incarnation, *values))

    def _subtract(self, rows: Sequence[Any]) -> int:
        for shelf, day, lines, content_bytes in rows:
            self._add((shelf, day), -lines, -content_bytes)
        return sum([lines for _, _, lines, _ in rows])

    def _add(self, place: Place, lines: int, content_bytes: int) -> None:
        shelf = self.sections.shelves[place[0]]
        shelf.lines += lines
        shelf.bytes += content_bytes
        self._bytes += content_bytes
        if place[0] == 0:
            self._days[place[1]] += lines
