"""A batch as statements.

The law: what is revived leaves the history before anything ends, so that what ends again stays; the rest of
a batch may come in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from hiringhall.storage.sqlite.rows import END_COLUMNS, JOB_COLUMNS, TERMS_COLUMNS, pack_extras, pack_parents
from hiringhall.storage.sqlite.statements import CHUNK_BYTES_MAX, Bulk, Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import Batch, EndRow, JobRow, JobUpdate
    from hiringhall.core.jobs import Terms
    from hiringhall.storage.sqlite.statements import Value

# Most jobs have no parents and no extras, and most ends keep no payload: their statements leave those
# columns to their defaults.
_JOB_COLUMNS_PLAIN: Final = JOB_COLUMNS.removesuffix(", parents, extras")
_END_COLUMNS_PLAIN: Final = END_COLUMNS.removesuffix(", payload, extras")

_INSERT: Final = "INSERT INTO {table} ({columns}) SELECT * FROM (VALUES {rows}) WHERE column1"
_LATEST: Final = " ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in END_COLUMNS.split(", ")
)
"""The latest end stands. A dead letter may run again and end within one commit; and a commit that failed may
be on disk all the same, when the fault came between the write and the answer, and its ends come again."""

_UPDATE: Final = """
UPDATE jobs SET terms = column2, state = column3, due_us = column4, attempts = column5, failures = column6,
losses = column7, parents = column8 FROM (VALUES {rows}) WHERE id = column1
"""
_INSERT_TERMS: Final = f"INSERT INTO terms ({TERMS_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608, our own names
_REVIVE: Final = "DELETE FROM history WHERE id IN (SELECT value FROM json_each(?))"


def _insert(table: str, columns: str, tail: str = "") -> tuple[str, int]:
    return _INSERT.replace("{table}", table).replace("{columns}", columns) + tail, columns.count(",") + 1


class BatchWriter:
    """Turns batches into statements and knows which terms the file has."""

    def __init__(self, terms: dict[int, Terms], terms_id_max: int, result_bytes_max: int) -> None:
        self.terms = terms
        self._terms_id_max = terms_id_max
        self._ids = {kept.as_tuple(): terms_id for terms_id, kept in terms.items()}
        self._fresh: list[int] = []
        """Terms that the batch at hand brings, until it is known whether it was kept."""
        self._result_bytes_max = result_bytes_max
        self._jobs = Bulk(*_insert("jobs", _JOB_COLUMNS_PLAIN), live=1)
        self._jobs_full = Bulk(*_insert("jobs", JOB_COLUMNS), live=1)
        self._ends = Bulk(*_insert("history", _END_COLUMNS_PLAIN, _LATEST), lines=1)
        self._ends_full = Bulk(*_insert("history", END_COLUMNS, _LATEST), lines=1)
        self._updates = Bulk(_UPDATE, 8)

    def statements(self, batch: Batch) -> Iterator[Statement]:
        """`batch.deletes` needs none: each of them ends, and a trigger takes the job out with its end."""
        if batch.revived:
            ids = msgspec.json.encode(batch.revived).decode()
            yield Statement(_REVIVE, [ids], lines=-1)
        if batch.ends:
            yield from self._write_ends(batch.ends)
        if batch.inserts:
            yield from self._write_jobs(batch.inserts)
        if batch.updates:
            yield from self._write_updates(batch.updates)

    def kept(self) -> None:
        """The batch is on disk."""
        self._fresh.clear()

    def forget(self) -> None:
        """The batch is not on disk: neither are the terms it brought."""
        for terms_id in self._fresh:
            del self._ids[self.terms.pop(terms_id).as_tuple()]
        self._fresh.clear()

    def _write_jobs(self, rows: list[JobRow]) -> Iterator[Statement]:
        full: list[JobRow] = []
        values: list[Value] = []
        payload_bytes = 0
        values_max = self._jobs.values_max
        terms = queue = None
        terms_id = 0
        queue_value = bytearray()
        for row in rows:
            if row.parents or row.extras:
                full.append(row)
                continue
            # Rows of one turn mostly share their queue and terms: those are looked up when they change.
            if row.terms is not terms:
                terms = row.terms
                yield from self._bring(terms)
                terms_id = self._ids[terms.as_tuple()]
            if row.queue is not queue:
                queue = row.queue
                queue_value = bytearray(queue)
            payload = row.payload
            values += (row.id, queue_value, bytearray(row.key), bytearray(payload), terms_id, row.state,
                       row.created_us, row.due_us, row.attempts, row.failures, row.losses)  # fmt: skip
            payload_bytes += len(payload)
            if len(values) >= values_max or payload_bytes >= CHUNK_BYTES_MAX:
                yield from self._jobs.statements(values, payload_bytes)
                values, payload_bytes = [], 0
        if values:
            yield from self._jobs.statements(values, payload_bytes)
        if full:
            yield from self._write_jobs_full(full)

    def _write_jobs_full(self, rows: list[JobRow]) -> Iterator[Statement]:
        values: list[Value] = []
        payload_bytes = 0
        for row in rows:
            yield from self._bring(row.terms)
            values += (row.id, bytearray(row.queue), bytearray(row.key), bytearray(row.payload),
                       self._ids[row.terms.as_tuple()], row.state, row.created_us, row.due_us,
                       row.attempts, row.failures, row.losses, pack_parents(row.parents),
                       pack_extras(row.extras))  # fmt: skip
            payload_bytes += len(row.payload)
            if len(values) >= self._jobs_full.values_max or payload_bytes >= CHUNK_BYTES_MAX:
                yield from self._jobs_full.statements(values, payload_bytes)
                values, payload_bytes = [], 0
        if values:
            yield from self._jobs_full.statements(values, payload_bytes)

    def _write_ends(self, rows: list[EndRow]) -> Iterator[Statement]:
        full: list[EndRow] = []
        values: list[Value] = []
        result_bytes = 0
        values_max = self._ends.values_max
        result_bytes_max = self._result_bytes_max
        terms = queue = worker = None
        terms_id = 0
        queue_value = worker_value = bytearray()
        for row in rows:
            if row.payload or row.extras:
                full.append(row)
                continue
            if row.terms is not terms:
                terms = row.terms
                yield from self._bring(terms)
                terms_id = self._ids[terms.as_tuple()]
            if row.queue is not queue:
                queue = row.queue
                queue_value = bytearray(queue)
            if row.worker is not worker:
                worker = row.worker
                worker_value = bytearray(worker)
            result = bytearray(row.result[:result_bytes_max])
            values += (row.id, queue_value, bytearray(row.key), row.state, row.code, result, worker_value,
                       row.created_us, row.started_us, row.ended_us, row.attempts, row.losses,
                       terms_id)  # fmt: skip
            result_bytes += len(result)
            if len(values) >= values_max or result_bytes >= CHUNK_BYTES_MAX:
                yield from self._ends.statements(values, result_bytes)
                values, result_bytes = [], 0
        if values:
            yield from self._ends.statements(values, result_bytes)
        if full:
            yield from self._write_ends_full(full)

    def _write_ends_full(self, rows: list[EndRow]) -> Iterator[Statement]:
        values: list[Value] = []
        kept_bytes = 0
        for row in rows:
            yield from self._bring(row.terms)
            result = bytearray(row.result[: self._result_bytes_max])
            values += (row.id, bytearray(row.queue), bytearray(row.key), row.state, row.code, result,
                       bytearray(row.worker), row.created_us, row.started_us, row.ended_us, row.attempts,
                       row.losses, self._ids[row.terms.as_tuple()], bytearray(row.payload),
                       pack_extras(row.extras))  # fmt: skip
            kept_bytes += len(result) + len(row.payload)
            if len(values) >= self._ends_full.values_max or kept_bytes >= CHUNK_BYTES_MAX:
                yield from self._ends_full.statements(values, kept_bytes)
                values, kept_bytes = [], 0
        if values:
            yield from self._ends_full.statements(values, kept_bytes)

    def _write_updates(self, rows: list[JobUpdate]) -> Iterator[Statement]:
        values: list[Value] = []
        for row in rows:
            yield from self._bring(row.terms)
            values += (row.id, self._ids[row.terms.as_tuple()], row.state, row.due_us, row.attempts,
                       row.failures, row.losses, pack_parents(row.parents))  # fmt: skip
            if len(values) >= self._updates.values_max:
                yield from self._updates.statements(values, 0)
                values = []
        if values:
            yield from self._updates.statements(values, 0)

    def _bring(self, terms: Terms) -> Iterator[Statement]:
        """The statement that adds the terms, when the file has none like them."""
        columns = terms.as_tuple()
        if columns not in self._ids:
            self._terms_id_max += 1
            self._ids[columns] = self._terms_id_max
            self.terms[self._terms_id_max] = terms
            self._fresh.append(self._terms_id_max)
            yield Statement(_INSERT_TERMS, [self._terms_id_max, *columns])
