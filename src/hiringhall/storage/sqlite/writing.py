"""A batch as statements.

The law: what is revived leaves the history before anything ends, so that what ends again stays; the rest of
a batch may come in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from hiringhall.storage.sqlite.rows import END_COLUMNS, TERMS_COLUMNS, pack
from hiringhall.storage.sqlite.statements import CHUNK_BYTES_MAX, Bulk, Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import Batch, EndRow, JobRow, JobUpdate
    from hiringhall.core.jobs import Terms
    from hiringhall.storage.sqlite.statements import Value

# Most rows leave these columns empty: a statement for such rows binds nothing for them. The columns that the
# full statements have besides come last.
_JOB_COLUMNS: Final = (
    "id, queue, key, payload, terms, state, created_us, due_us, attempts, failures, losses, started_us"
)
_JOB_COLUMNS_FULL: Final = _JOB_COLUMNS + ", ready_us, holder, parents, extras"
_UPDATE_COLUMNS: Final = "id, terms, state, due_us, attempts, failures, losses, ready_us, started_us, holder"
_UPDATE_COLUMNS_FULL: Final = _UPDATE_COLUMNS + ", parents, extras"
_END_COLUMNS: Final = END_COLUMNS.replace(" payload, extras,", "")
_END_COLUMNS_FULL: Final = _END_COLUMNS + ", payload, extras"

_INSERT: Final = "INSERT INTO {table} ({columns}) SELECT {values} FROM (VALUES {rows}) WHERE column1"
_UPDATE: Final = "UPDATE jobs SET {changes} FROM (VALUES {rows}) WHERE id = column1"
_LATEST: Final = " ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in END_COLUMNS.split(", ")
)
"""The latest end stands. A dead letter may run again and end within one commit; and a commit that failed may
be on disk all the same, when the fault came between the write and the answer, and its ends come again."""
_INSERT_TERMS: Final = f"INSERT INTO terms ({TERMS_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608, our own names
_REVIVE: Final = "DELETE FROM history WHERE id IN (SELECT value FROM json_each(?))"


def _insert(table: str, columns: str, tail: str = "") -> tuple[str, int]:
    values = _values(columns)
    text = _INSERT.replace("{table}", table).replace("{columns}", columns)
    return text.replace("{values}", ", ".join(values.values())) + tail, len(values)


def _update(columns: str, tail: str = "") -> tuple[str, int]:
    values = _values(columns)
    changes = ", ".join([f"{column} = {value}" for column, value in values.items() if column != "id"])
    return _UPDATE.replace("{changes}", changes + tail), len(values)


def _values(columns: str) -> dict[str, str]:
    """For each column the expression that finds its value in a row of values."""
    values = {column: f"column{place}" for place, column in enumerate(columns.split(", "), 1)}
    for column in values.keys() & {"parents", "extras"}:
        values[column] = f"NULLIF({values[column]}, x'')"
    return values


class BatchWriter:
    """Turns batches into statements and knows which terms the file has."""

    def __init__(self, terms: dict[int, Terms], terms_id_max: int, result_bytes_max: int) -> None:
        self.terms = terms
        self._terms_id_max = terms_id_max
        self._ids = {kept.as_tuple(): terms_id for terms_id, kept in terms.items()}
        self._fresh: list[int] = []
        """Terms that the batch at hand brings, until it is known whether it was kept."""
        self._result_bytes_max = result_bytes_max
        self._jobs = Bulk(*_insert("jobs", _JOB_COLUMNS), live=1)
        self._jobs_full = Bulk(*_insert("jobs", _JOB_COLUMNS_FULL), live=1)
        self._updates = Bulk(*_update(_UPDATE_COLUMNS, ", parents = NULL, extras = NULL"))
        self._updates_full = Bulk(*_update(_UPDATE_COLUMNS_FULL))
        self._ends = Bulk(*_insert("history", _END_COLUMNS, _LATEST), lines=1)
        self._ends_full = Bulk(*_insert("history", _END_COLUMNS_FULL, _LATEST), lines=1)

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

    # Rows of one turn mostly share their queue, terms and worker: those are looked up when they change.

    def _write_jobs(self, rows: list[JobRow]) -> Iterator[Statement]:
        plain: list[Value] = []
        full: list[Value] = []
        plain_bytes = full_bytes = 0
        terms = queue = None
        terms_id = 0
        queue_value = bytearray()
        for row in rows:
            if row.terms is not terms:
                terms = row.terms
                yield from self._bring(terms)
                terms_id = self._ids[terms.as_tuple()]
            if row.queue is not queue:
                queue = row.queue
                queue_value = bytearray(queue)
            payload = row.payload
            line = (row.id, queue_value, bytearray(row.key), bytearray(payload), terms_id, row.state,
                    row.created_us, row.due_us, row.attempts, row.failures, row.losses,
                    row.started_us)  # fmt: skip
            if row.parents or row.extras or row.holder or row.ready_us:
                extras = pack(row.extras)
                full += line
                full += (row.ready_us, bytearray(row.holder), pack(row.parents), extras)
                full_bytes += len(payload) + len(extras)
                if len(full) >= self._jobs_full.values_max or full_bytes >= CHUNK_BYTES_MAX:
                    yield from self._jobs_full.statements(full, full_bytes)
                    full, full_bytes = [], 0
            else:
                plain += line
                plain_bytes += len(payload)
                if len(plain) >= self._jobs.values_max or plain_bytes >= CHUNK_BYTES_MAX:
                    yield from self._jobs.statements(plain, plain_bytes)
                    plain, plain_bytes = [], 0
        if plain:
            yield from self._jobs.statements(plain, plain_bytes)
        if full:
            yield from self._jobs_full.statements(full, full_bytes)

    def _write_updates(self, rows: list[JobUpdate]) -> Iterator[Statement]:
        plain: list[Value] = []
        full: list[Value] = []
        full_bytes = 0
        terms = None
        terms_id = 0
        for row in rows:
            if row.terms is not terms:
                terms = row.terms
                yield from self._bring(terms)
                terms_id = self._ids[terms.as_tuple()]
            line = (row.id, terms_id, row.state, row.due_us, row.attempts, row.failures, row.losses,
                    row.ready_us, row.started_us, bytearray(row.holder))  # fmt: skip
            if row.parents or row.extras:
                extras = pack(row.extras)
                full += line
                full += (pack(row.parents), extras)
                full_bytes += len(extras)
                if len(full) >= self._updates_full.values_max or full_bytes >= CHUNK_BYTES_MAX:
                    yield from self._updates_full.statements(full, full_bytes)
                    full, full_bytes = [], 0
            else:
                plain += line
                if len(plain) >= self._updates.values_max:
                    yield from self._updates.statements(plain, 0)
                    plain = []
        if plain:
            yield from self._updates.statements(plain, 0)
        if full:
            yield from self._updates_full.statements(full, full_bytes)

    def _write_ends(self, rows: list[EndRow]) -> Iterator[Statement]:
        plain: list[Value] = []
        full: list[Value] = []
        plain_bytes = full_bytes = 0
        result_bytes_max = self._result_bytes_max
        terms = queue = worker = None
        terms_id = 0
        queue_value = worker_value = bytearray()
        for row in rows:
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
            line = (row.id, queue_value, bytearray(row.key), row.state, row.code, result, worker_value,
                    row.created_us, row.started_us, row.ended_us, row.attempts, row.losses, terms_id,
                    row.ready_us)  # fmt: skip
            if row.payload or row.extras:
                payload = row.payload
                extras = pack(row.extras)
                full += line
                full += (bytearray(payload), extras)
                full_bytes += len(result) + len(payload) + len(extras)
                if len(full) >= self._ends_full.values_max or full_bytes >= CHUNK_BYTES_MAX:
                    yield from self._ends_full.statements(full, full_bytes)
                    full, full_bytes = [], 0
            else:
                plain += line
                plain_bytes += len(result)
                if len(plain) >= self._ends.values_max or plain_bytes >= CHUNK_BYTES_MAX:
                    yield from self._ends.statements(plain, plain_bytes)
                    plain, plain_bytes = [], 0
        if plain:
            yield from self._ends.statements(plain, plain_bytes)
        if full:
            yield from self._ends_full.statements(full, full_bytes)

    def _bring(self, terms: Terms) -> Iterator[Statement]:
        """The statement that adds the terms, when the file has none like them."""
        columns = terms.as_tuple()
        if columns not in self._ids:
            self._terms_id_max += 1
            self._ids[columns] = self._terms_id_max
            self.terms[self._terms_id_max] = terms
            self._fresh.append(self._terms_id_max)
            yield Statement(_INSERT_TERMS, [self._terms_id_max, *columns])
