"""The shelves of the history in the file: which exist, what they hold, and what is dropped from them.

Invariant: no statement returns a row for each line. Python releases the GIL for every row that it fetches, so
facts about many lines are returned as one row for each shelf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.storage.retention import UNBOUNDED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from hiringhall.storage.retention import Sections, Shelf

_COMMON_MAX: Final = 1
"""Shelves up to this number hold the lines of all queues without rules of their own."""
_CONTENT: Final = (
    "COALESCE(length(key) + length(result) + length(payload) + COALESCE(length(extras), 0), 0) + output_bytes"
)
_USED: Final = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_MOVE_BACK: Final = (
    "UPDATE history SET shelf = (SELECT dead FROM shelves WHERE shelves.id = history.shelf)"
    " WHERE shelf IN (SELECT value FROM json_each(?))"
)
_MOVE_IN: Final = (
    "UPDATE history SET shelf = shelves.id FROM shelves WHERE history.shelf <= 1"
    " AND shelves.queue = history.queue AND shelves.dead = history.shelf"
)
_DROP: Final = (
    "DELETE FROM history WHERE id IN"
    " (SELECT id FROM history WHERE shelf = ? AND ended_us < ? ORDER BY ended_us LIMIT ?)"
)
_TAKE: Final = "DELETE FROM history WHERE id IN (SELECT value FROM json_each(?))"
_WEIGH: Final = f"""
SELECT shelf, COUNT(*), SUM({_CONTENT}) FROM history
WHERE id IN (SELECT value FROM json_each(?)) GROUP BY shelf
"""  # noqa: S608, our own names
_CHOOSE: Final = """
SELECT shelf, COUNT(*), SUM(content), json_group_array(id) FROM (
    SELECT id, shelf, content,
        SUM(content + :line_bytes) OVER (ORDER BY ended_us, id) - content - :line_bytes AS content_before
    FROM ({oldest} ORDER BY ended_us LIMIT :lines_max)
) WHERE content_before < :bytes_max GROUP BY shelf
"""
_OLDEST: Final = f"""
SELECT id, shelf, ended_us, {_CONTENT} AS content FROM history
WHERE shelf = {{number}} AND ended_us < :before_us
"""  # noqa: S608, our own names

_DUE: Final = f"""
SELECT shelf, COUNT(*), SUM(content), json_group_array(id) FROM (
    SELECT id, shelf, {_CONTENT} AS content FROM history INDEXED BY history_by_drop
    WHERE drop_us > 0 AND drop_us <= ? ORDER BY drop_us LIMIT ?
) GROUP BY shelf
"""  # noqa: S608, our own names
_NEXT_DROP: Final = (
    "SELECT drop_us FROM history INDEXED BY history_by_drop WHERE drop_us > 0 ORDER BY drop_us LIMIT 1"
)


def ruled_queues(connection: sqlite3.Connection) -> list[bytes]:
    """The queues that have shelves of their own in the file."""
    rows = connection.execute("SELECT queue FROM shelves WHERE queue IS NOT NULL AND dead = 0")
    return [queue for (queue,) in rows.fetchall()]


def arrange(connection: sqlite3.Connection, queues: Collection[bytes]) -> dict[bytes, int]:
    """Give shelves to exactly these queues and move their lines to them. Return the first shelf number of each
    queue. Must run in a transaction.
    """
    numbers: dict[bytes, int] = {}
    gone: list[int] = []
    for number, queue, dead in connection.execute(
        "SELECT id, queue, dead FROM shelves WHERE queue IS NOT NULL"
    ):
        if queue not in queues:
            gone.append(number)
        elif not dead:
            numbers[queue] = number
    if gone:
        connection.execute(_MOVE_BACK, (str(gone),))
        connection.execute("DELETE FROM shelves WHERE id IN (SELECT value FROM json_each(?))", (str(gone),))
    new = [queue for queue in queues if queue not in numbers]
    if new:
        (number,) = connection.execute("SELECT MAX(id) + 1 FROM shelves").fetchone()
        for queue in new:
            rows = [(number, queue, 0), (number + 1, queue, 1)]
            connection.executemany("INSERT INTO shelves (id, queue, dead) VALUES (?, ?, ?)", rows)
            numbers[queue] = number
            number += 2
        connection.execute(_MOVE_IN)
    return numbers


class SqliteShelves:
    """The shelves of an open file."""

    def __init__(self, connection: sqlite3.Connection, sections: Sections) -> None:
        self.sections = sections
        self._connection = connection
        self._choices: dict[tuple[int, ...], str] = {}
        self._replaced: dict[int, tuple[int, int]] = {}
        """For each shelf: how many lines later ends have replaced, and how much content those lines had."""

    def recount(self) -> None:
        """Count everything. Lines are counted with the index; content only where a queue has its own rules."""
        for shelf in self.sections.shelves.values():
            content = "0" if shelf.number <= _COMMON_MAX else f"COALESCE(SUM({_CONTENT}), 0)"
            shelf.lines, shelf.bytes = self._connection.execute(
                f"SELECT COUNT(*), {content} FROM history WHERE shelf = ?",  # noqa: S608, our own names
                (shelf.number,),
            ).fetchone()
        self._replaced = self._count_replaced()

    def subtract_replaced(self) -> int:
        """Subtract the lines that later ends have replaced since the last call. Return their number."""
        before, self._replaced = self._replaced, self._count_replaced()
        lines = 0
        for number, (replaced, replaced_bytes) in self._replaced.items():
            shelf = self.sections.shelves[number]
            shelf.lines -= replaced - before[number][0]
            shelf.bytes -= replaced_bytes - before[number][1]
            lines += replaced - before[number][0]
        return lines

    def subtract_lines(self, ids: str) -> None:
        """Subtract these lines from the counts: they are about to be deleted."""
        self._subtract(self._connection.execute(_WEIGH, (ids,)).fetchall())

    def drop(
        self, shelves: Sequence[Shelf], before_us: int, lines_max: int, bytes_max: int, line_bytes: int
    ) -> int:
        if lines_max <= 0:
            return 0
        if bytes_max == UNBOUNDED and len(shelves) == 1 and shelves[0].number <= _COMMON_MAX:
            values = (shelves[0].number, before_us, lines_max)
            dropped = self._connection.execute(_DROP, values).rowcount
            shelves[0].lines -= dropped
            return dropped
        sql = self._choice(tuple([shelf.number for shelf in shelves]))
        bounds = {
            "before_us": before_us,
            "lines_max": lines_max,
            "bytes_max": bytes_max,
            "line_bytes": line_bytes,
        }
        return self._take(self._connection.execute(sql, bounds).fetchall())

    def drop_due(self, now_us: int, lines_max: int) -> int:
        return self._take(self._connection.execute(_DUE, (now_us, lines_max)).fetchall())

    def next_drop_us(self) -> int:
        found = self._connection.execute(_NEXT_DROP).fetchone()
        return UNBOUNDED if found is None else int(found[0])

    def used_bytes(self) -> int:
        (used,) = self._connection.execute(_USED).fetchone()
        assert isinstance(used, int)
        return used

    def latest(self, lines_max: int) -> list[int]:
        """The ids of the lines that ended last, oldest first."""
        shelves = _merged("SELECT id, ended_us FROM history WHERE shelf = {number}", self.sections.shelves)
        sql = f"SELECT id FROM ({shelves} ORDER BY ended_us DESC, id DESC LIMIT ?) ORDER BY ended_us, id"  # noqa: S608, our own names
        return [job_id for (job_id,) in self._connection.execute(sql, (max(0, lines_max),)).fetchall()]

    def _choice(self, numbers: tuple[int, ...]) -> str:
        sql = self._choices.get(numbers)
        if sql is None:
            sql = self._choices[numbers] = _CHOOSE.replace("{oldest}", _merged(_OLDEST, numbers))
        return sql

    def _take(self, chosen: Sequence[tuple[int, int, int, bytearray]]) -> int:
        """Delete lines: for each shelf their number, their content and their ids. Return how many."""
        for _, _, _, ids in chosen:
            self._connection.execute(_TAKE, (ids.decode(),))
        return self._subtract([row[:3] for row in chosen])

    def _subtract(self, counted: Iterable[tuple[int, int, int]]) -> int:
        """Subtract lines and content from each shelf. Return the number of lines."""
        total = 0
        for number, lines, content_bytes in counted:
            shelf = self.sections.shelves[number]
            shelf.lines -= lines
            shelf.bytes -= content_bytes
            total += lines
        return total

    def _count_replaced(self) -> dict[int, tuple[int, int]]:
        rows = self._connection.execute("SELECT id, replaced, replaced_bytes FROM shelves").fetchall()
        return {number: (replaced, replaced_bytes) for number, replaced, replaced_bytes in rows}


def _merged(select: str, numbers: Iterable[int]) -> str:
    """The lines of several shelves. The index returns each shelf by time, so SQLite only merges them."""
    return " UNION ALL ".join([select.replace("{number}", str(number)) for number in numbers])
