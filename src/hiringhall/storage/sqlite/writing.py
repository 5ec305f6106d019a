"""Turns a batch into SQL statements.

Invariant: revived jobs are removed from the history before ends are written, so that a job that ends again
stays in it, and output is written before ends, whose lines count it. The rest of a batch may be written in any
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.jobs import OUTPUT, RESULT_CUT
from hiringhall.core.states import DONE, FAILED
from hiringhall.core.terms import TERMS_FIELDS
from hiringhall.storage.retention import UNBOUNDED, drop_time_us
from hiringhall.storage.rows import END_COLUMNS, TERMS_COLUMNS, pack
from hiringhall.storage.rule_rows import encode_rules
from hiringhall.storage.sqlite.statements import CHUNK_BYTES_MAX, Bulk, Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import Batch, EndRow, JobRow
    from hiringhall.storage.contract import Retention
    from hiringhall.storage.known_terms import KnownTerms
    from hiringhall.storage.retention import Section, Sections
    from hiringhall.storage.sqlite.output import OutputWriter
    from hiringhall.storage.sqlite.statements import Value

# The columns that most rows use. The statement for such rows has constants for the other columns, so that no
# values are bound for them: NULL for parents, extras, tries and flows, otherwise empty bytes or zero.
_JOB_PLAIN: Final = "id, queue, key, payload, terms, state, created_us, attempts, started_us"
_JOB_REST: Final = (
    "due_us, failures, losses, ready_us, holder, worker, dialect, parents, extras, tries, flow, all_parents"
)
_UPDATE_PLAIN: Final = "id, terms, state, attempts, ready_us, started_us, holder, worker, dialect"
_UPDATE_REST: Final = "due_us, failures, losses, parents, extras, tries, all_parents"
_END_PLAIN: Final = (
    "id, queue, key, state, result, worker, created_us, ready_us, started_us, ended_us, attempts, terms,"
    " payload, dialect"
)
_END_REST: Final = "code, losses, shelf, payload_cut, output_bytes, drop_us, extras, tries, flow, all_parents"
_EMPTY: Final = {
    "holder": "x''",
    "worker": "x''",
    "dialect": "x''",
    "parents": "NULL",
    "extras": "NULL",
    "tries": "NULL",
    "flow": "NULL",
    "all_parents": "NULL",
}

_INSERT: Final = "INSERT INTO {table} ({columns}) SELECT {values} FROM (VALUES {rows}) WHERE column1"
_UPDATE: Final = "UPDATE jobs SET {changes} FROM (VALUES {rows}) WHERE id = column1"
_LATEST: Final = " ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in [*END_COLUMNS.split(", "), "shelf", "output_bytes", "drop_us"]
)
"""The latest end wins. A dead letter may run again and end within one commit. And a failed commit may still be
on disk, if the error came after the write; then its ends are written again."""
_INSERT_TERMS: Final = f"INSERT INTO terms ({TERMS_COLUMNS}) VALUES (?{', ?' * len(TERMS_FIELDS)})"  # noqa: S608, our own names
_MARK: Final = (
    "INSERT INTO schedules (name, due_us, plan) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET due_us = excluded.due_us, plan = excluded.plan"
)
_UNMARK: Final = "DELETE FROM schedules WHERE name = ?"
_KEEP_OUTPUT: Final = (
    "UPDATE history SET output_bytes = 0 WHERE id IN (SELECT value FROM json_each(?)) AND output_bytes > 0"
)
_PAUSE: Final = "INSERT OR IGNORE INTO paused (queue) VALUES (?)"
_RESUME: Final = "DELETE FROM paused WHERE queue = ?"
_SET_RULES: Final = (
    "INSERT INTO queue_rules (queue, rules) VALUES (?, ?)"
    " ON CONFLICT (queue) DO UPDATE SET rules = excluded.rules"
)
_CLEAR_RULES: Final = "DELETE FROM queue_rules WHERE queue = ?"
_OPEN_WINDOW: Final = (
    "INSERT INTO windows (queue, key, job, until_us) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (queue, key) DO UPDATE SET job = excluded.job, until_us = excluded.until_us"
)
_CLOSE_WINDOW: Final = "DELETE FROM windows WHERE queue = ? AND key = ?"
_REPLACE_PAYLOAD: Final = "UPDATE jobs SET payload = ? WHERE id = ?"
_SET_FLOW: Final = (
    "INSERT INTO flows (name, created_us, ended_us, done, failed, cancelled) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET created_us = excluded.created_us, ended_us = excluded.ended_us,"
    " done = excluded.done, failed = excluded.failed, cancelled = excluded.cancelled"
)
_DROP_FLOW: Final = "DELETE FROM flows WHERE name = ?"
_DIALECTS: Final[dict[str, bytearray]] = {"": bytearray()}
"""Names of dialects as values to bind. They are never changed."""
_REVIVE: Final = "DELETE FROM history WHERE id IN (SELECT value FROM json_each(?))"


def _insert(table: str, plain: str, rest: str, *, full: bool, tail: str = "") -> tuple[str, int]:
    values, width = _values(plain, rest, full=full)
    text = _INSERT.replace("{table}", table).replace("{columns}", ", ".join(values))
    return text.replace("{values}", ", ".join(values.values())) + tail, width


def _update(plain: str, rest: str, *, full: bool) -> tuple[str, int]:
    values, width = _values(plain, rest, full=full)
    changes = ", ".join([f"{column} = {value}" for column, value in values.items() if column != "id"])
    return _UPDATE.replace("{changes}", changes), width


def _values(plain: str, rest: str, *, full: bool) -> tuple[dict[str, str], int]:
    """The expression for each column, and the number of values in a row."""
    bound = (f"{plain}, {rest}" if full else plain).split(", ")
    values = {column: f"column{place}" for place, column in enumerate(bound, 1)}
    for column in rest.split(", "):
        if not full:
            values[column] = _EMPTY.get(column, "0")
        elif _EMPTY.get(column) == "NULL":
            values[column] = f"NULLIF({values[column]}, x'')"
    return values, len(bound)


def _dialect(name: str) -> bytearray:
    """The name of a dialect as it is stored; there are few."""
    stored = _DIALECTS.get(name)
    if stored is None:
        stored = _DIALECTS[name] = bytearray(name.encode("ascii", "replace"))
    return stored


class BatchWriter:
    """Turns batches into statements. Knows which terms are in the file."""

    def __init__(
        self,
        terms: KnownTerms,
        retention: Retention,
        sections: Sections,
        output: OutputWriter,
    ) -> None:
        self.terms = terms
        self._result_bytes_max = retention.result_bytes_max
        self._payload_bytes_max = retention.payload_bytes_max
        self._output = output
        self._sections = sections
        """Their shelves count what the statements add."""
        self.touched: set[Section] = set()
        """Sections with their own rules that the current batch adds to."""
        self.drop_us = UNBOUNDED
        """The earliest time at which a line of the current batch is dropped because its job says so."""
        jobs, updates, ends = (_JOB_PLAIN, _JOB_REST), (_UPDATE_PLAIN, _UPDATE_REST), (_END_PLAIN, _END_REST)
        self._jobs = Bulk(*_insert("jobs", *jobs, full=False))
        self._jobs_full = Bulk(*_insert("jobs", *jobs, full=True))
        self._updates = Bulk(*_update(*updates, full=False))
        self._updates_full = Bulk(*_update(*updates, full=True))
        self._ends = Bulk(*_insert("history", *ends, full=False, tail=_LATEST))
        self._ends_full = Bulk(*_insert("history", *ends, full=True, tail=_LATEST))

    def statements(self, batch: Batch) -> Iterator[Statement]:
        """`batch.deletes` needs no statement: each of these jobs has an end, and a trigger deletes the job."""
        self.touched.clear()
        self.drop_us = UNBOUNDED
        if batch.revived:
            yield Statement(_KEEP_OUTPUT, [str(batch.revived)])
            yield Statement(_REVIVE, [str(batch.revived)])
        if batch.output:
            yield from self._output.statements(batch.output)
        if batch.ends:
            yield from self._write_ends(batch.ends)
        if batch.inserts:
            yield from self._write_jobs(batch.inserts)
        if batch.updates:
            yield from self._write_updates(batch.updates)
        for job_id, payload in batch.payloads.items():
            yield Statement(_REPLACE_PAYLOAD, [bytearray(payload), job_id])
        for name, firing in batch.fired.items():
            if firing is None:
                yield Statement(_UNMARK, [name])
            else:
                yield Statement(_MARK, [name, firing.due_us, bytearray(firing.plan)])
        for queue, paused in batch.paused.items():
            yield Statement(_PAUSE if paused else _RESUME, [bytearray(queue)])
        for queue, rules in batch.rules.items():
            if rules is None:
                yield Statement(_CLEAR_RULES, [bytearray(queue)])
            else:
                yield Statement(_SET_RULES, [bytearray(queue), bytearray(encode_rules(rules))])
        for (queue, key), window in batch.windows.items():
            if window is None:
                yield Statement(_CLOSE_WINDOW, [bytearray(queue), bytearray(key)])
            else:
                yield Statement(_OPEN_WINDOW, [bytearray(queue), bytearray(key), window.job, window.until_us])
        for flow, row in batch.flows.items():
            if row is None:
                yield Statement(_DROP_FLOW, [bytearray(flow)])
            else:
                yield Statement(_SET_FLOW, [bytearray(flow), *row[1:]])

    def committed(self) -> None:
        """The batch is on disk."""
        self.terms.committed()

    def rolled_back(self) -> None:
        """The batch is not on disk."""
        self.terms.rolled_back()
        self._output.rolled_back()

    # The rows are unpacked in the head of each loop because that is the fastest way to read all their fields.
    # Rows of one turn mostly share their terms, queue and worker, so those are converted only when they change.

    def _write_jobs(self, rows: list[JobRow]) -> Iterator[Statement]:
        plain: list[Value] = []
        full: list[Value] = []
        plain_bytes = full_bytes = 0
        terms_before = queue_before = None
        terms_id = 0
        queue_value = bytearray()
        for (job_id, queue, key, payload, terms, state, created_us, due_us, attempts, failures, losses, parents,
             extras, ready_us, started_us, holder, worker, tries, flow, all_parents,
             dialect) in rows:  # fmt: skip
            if terms is not terms_before:
                terms_before = terms
                known = self.terms.find(terms)
                if known is None:
                    known = self.terms.add(terms)
                    yield Statement(_INSERT_TERMS, [known, *terms.as_tuple()])
                terms_id = known
            if queue is not queue_before:
                queue_before = queue
                queue_value = bytearray(queue)
            line = (job_id, queue_value, bytearray(key), bytearray(payload), terms_id, state, created_us,
                    attempts, started_us)  # fmt: skip
            if (parents or extras or holder or due_us or failures or losses or ready_us or worker or dialect
                    or tries or flow):  # fmt: skip
                packed = pack(extras)
                full += line
                full += (due_us, failures, losses, ready_us, bytearray(holder), bytearray(worker),
                         _dialect(dialect), pack(parents), packed, pack(tries), bytearray(flow),
                         pack(all_parents))  # fmt: skip
                full_bytes += len(payload) + len(packed)
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

    def _write_updates(self, rows: list[JobRow]) -> Iterator[Statement]:
        plain: list[Value] = []
        full: list[Value] = []
        full_bytes = 0
        terms_before = None
        terms_id = 0
        for (job_id, _, _, _, terms, state, _, due_us, attempts, failures, losses, parents, extras, ready_us,
             started_us, holder, worker, tries, _, all_parents, dialect) in rows:  # fmt: skip
            if terms is not terms_before:
                terms_before = terms
                known = self.terms.find(terms)
                if known is None:
                    known = self.terms.add(terms)
                    yield Statement(_INSERT_TERMS, [known, *terms.as_tuple()])
                terms_id = known
            line = (
                job_id,
                terms_id,
                state,
                attempts,
                ready_us,
                started_us,
                bytearray(holder),
                bytearray(worker),
                _dialect(dialect),
            )
            if parents or extras or due_us or failures or losses or tries or all_parents:
                packed = pack(extras)
                full += line
                full += (due_us, failures, losses, pack(parents), packed, pack(tries), pack(all_parents))
                full_bytes += len(packed)
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
        payload_bytes_max = self._payload_bytes_max
        section = common = self._sections.common
        plain_rows = len(rows)
        terms_before = queue_before = worker_before = dialect_before = None
        terms_id = keep_us = 0
        queue_value = worker_value = dialect_value = bytearray()
        for (job_id, queue, key, state, code, result, worker, created_us, started_us, ended_us, attempts,
             losses, terms, payload, extras, ready_us, tries, cut, flow, all_parents,
             dialect) in rows:  # fmt: skip
            if terms is not terms_before:
                terms_before = terms
                known = self.terms.find(terms)
                if known is None:
                    known = self.terms.add(terms)
                    yield Statement(_INSERT_TERMS, [known, *terms.as_tuple()])
                terms_id = known
                keep_us = terms.keep_us
            if queue is not queue_before:
                queue_before = queue
                queue_value = bytearray(queue)
                section = self._sections.ruled.get(queue, common)
            if worker is not worker_before:
                worker_before = worker
                worker_value = bytearray(worker)
            if dialect is not dialect_before:
                dialect_before = dialect
                dialect_value = _dialect(dialect)
            kept = bytearray(result[:result_bytes_max])
            if len(result) > result_bytes_max and state == DONE:
                extras = {**(extras or {}), RESULT_CUT: b""}  # noqa: PLW2901 (the row is not used again)
            if len(payload) > payload_bytes_max and state != FAILED:
                cut = len(payload) if payload_bytes_max else 0  # noqa: PLW2901 (as above)
                payload = payload[:payload_bytes_max]  # noqa: PLW2901 (the row is not used again)
            line = (job_id, queue_value, bytearray(key), state, kept, worker_value, created_us, ready_us,
                    started_us, ended_us, attempts, terms_id, bytearray(payload),
                    dialect_value)  # fmt: skip
            drop_us = drop_time_us(terms, state, ended_us) if keep_us else 0
            if (extras or code or losses or tries or cut or drop_us or state == FAILED or flow
                    or section is not common):  # fmt: skip
                packed = pack(extras)
                said = self._output.kept_bytes(job_id) if extras and OUTPUT in extras else 0
                plain_rows -= 1
                if drop_us:
                    self.drop_us = min(self.drop_us, drop_us)
                shelf = section.dead if state == FAILED else section.others
                shelf.lines += 1
                if section is not common:
                    shelf.bytes += len(key) + len(kept) + len(payload) + len(packed) + said
                    self.touched.add(section)
                full += line
                full += (code, losses, shelf.number, cut, said, drop_us, packed, pack(tries), bytearray(flow),
                         pack(all_parents))  # fmt: skip
                full_bytes += len(kept) + len(payload) + len(packed)
                if len(full) >= self._ends_full.values_max or full_bytes >= CHUNK_BYTES_MAX:
                    yield from self._ends_full.statements(full, full_bytes)
                    full, full_bytes = [], 0
            else:
                plain += line
                plain_bytes += len(kept) + len(payload)
                if len(plain) >= self._ends.values_max or plain_bytes >= CHUNK_BYTES_MAX:
                    yield from self._ends.statements(plain, plain_bytes)
                    plain, plain_bytes = [], 0
        common.others.lines += plain_rows
        if plain:
            yield from self._ends.statements(plain, plain_bytes)
        if full:
            yield from self._ends_full.statements(full, full_bytes)
