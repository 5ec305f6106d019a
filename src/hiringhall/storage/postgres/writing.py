"""Turns a batch into one statement.

Invariant: what the statement adds to the counts is known before it is sent, so a commit needs no answer but
whether it is kept. Parts are evaluated from left to right: lines are removed before ends are written, so that a
job that ends again stays in the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.core.jobs import OUTPUT, RESULT_CUT
from hiringhall.core.states import DONE, FAILED
from hiringhall.storage.retention import UNBOUNDED, drop_time_us

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, EndRow, JobRow
    from hiringhall.core.terms import Terms
    from hiringhall.storage.contract import Retention
    from hiringhall.storage.postgres.output import OutputWriter
    from hiringhall.storage.retention import Section, Sections

DAY_US: Final = 86_400_000_000
_PACK: Final = msgspec.msgpack.Encoder().encode
_HEAD: Final = 8
"""Arguments of `hall_commit` before the parts."""

Column = Sequence[Any]
Place = tuple[int, int]
"""A shelf, and a day: 0 for all shelves but the first."""


class Removed:
    """Lines that a batch takes out of the history: what the shelves lose by it."""

    __slots__ = ("counts", "ids")

    def __init__(self, ids: list[int], counts: dict[Place, tuple[int, int]]) -> None:
        self.ids = ids
        self.counts = counts


class Statement:
    """A commit that is ready to be sent, and what it changes in the counts."""

    __slots__ = (
        "batch",
        "content_bytes",
        "drop_us",
        "ids",
        "job_bytes",
        "jobs",
        "parts",
        "shelves",
        "touched",
        "values",
    )

    def __init__(self) -> None:
        self.batch = 0
        self.parts: list[str] = []
        self.values: list[Any] = []
        self.jobs = 0
        self.job_bytes = 0
        self.shelves: dict[Place, list[int]] = {}
        """Lines and bytes that each shelf has more, by day."""
        self.touched: set[Section] = set()
        """Sections with their own rules that it adds to."""
        self.drop_us = UNBOUNDED
        """The earliest time at which one of its lines is dropped because its job says so."""
        self.content_bytes = 0
        self.ids: list[int] = []
        """The jobs that it inserts or ends, to name them if a failed server loses the commit."""

    def add(self, function: str, *values: Column | bool) -> None:
        first = _HEAD + len(self.values) + 1
        numbers = ", ".join([f"${number}" for number in range(first, first + len(values))])
        self.parts.append(f"{function}({numbers})")
        self.values += values

    def count(self, place: Place, lines: int, content_bytes: int) -> None:
        counted = self.shelves.setdefault(place, [0, 0])
        counted[0] += lines
        counted[1] += content_bytes

    @property
    def sql(self) -> str:
        return f"SELECT hall_commit($1, $2, $3, $4, $5, $6, $7, $8, ARRAY[{', '.join(self.parts)}]::bigint[])"

    def arguments(self, incarnation: int) -> list[Any]:
        shelves, days = [place[0] for place in self.shelves], [place[1] for place in self.shelves]
        lines, sizes = (
            [count[0] for count in self.shelves.values()],
            [count[1] for count in self.shelves.values()],
        )
        head = (incarnation, self.batch, self.jobs, self.job_bytes, shelves, days, lines, sizes)
        return [*head, *self.values]


class BatchWriter:
    """Turns batches into statements. Knows which terms are stored."""

    def __init__(
        self,
        terms: dict[int, Terms],
        terms_id_max: int,
        retention: Retention,
        sections: Sections,
        output: OutputWriter,
    ) -> None:
        self.terms = terms
        self._terms_id_max = terms_id_max
        self._ids = {kept.as_tuple(): terms_id for terms_id, kept in terms.items()}
        self._fresh: list[int] = []
        """Terms that the current batch adds, until it is committed or rolled back."""
        self._result_bytes_max = retention.result_bytes_max
        self._payload_bytes_max = retention.payload_bytes_max
        self._sections = sections
        self._output = output

    def statement(self, batch: Batch, live: set[int], removed: Removed) -> Statement:
        """`live` are the jobs that it removes, which is what `batch.deletes` says."""
        made = Statement()
        ends = [self._cut(row) for row in batch.ends]
        if batch.ends or removed.ids:
            made.add("hall_take", batch.deletes, removed.ids)
            for place, (lines, content_bytes) in removed.counts.items():
                made.count(place, -lines, -content_bytes)
        if batch.output and (columns := self._output.columns(batch.output)):
            made.add("hall_output", *columns)
            made.content_bytes += sum(map(len, columns[4]))  # type: ignore[arg-type]
        if ends:
            self._add_ends(made, ends, live)
        if batch.inserts:
            self._add_jobs(made, batch.inserts)
        if batch.updates:
            self._add_updates(made, batch.updates)
        self._add_notes(made, batch)
        return made

    def know(self, terms: dict[int, Terms]) -> None:
        """These terms are stored, and no others."""
        self.terms.clear()
        self.terms |= terms
        self._ids = {kept.as_tuple(): terms_id for terms_id, kept in terms.items()}

    def committed(self) -> None:
        """The batch is kept."""
        self._fresh.clear()

    def rolled_back(self) -> None:
        """The batch is not kept, and neither are the terms it added."""
        for terms_id in self._fresh:
            del self._ids[self.terms.pop(terms_id).as_tuple()]
        self._fresh.clear()
        self._output.forget()

    def _add_jobs(self, made: Statement, rows: list[JobRow]) -> None:
        columns: list[Column] = list(zip(*rows, strict=True))
        made.ids += columns[0]
        made.jobs += len(rows)
        content_bytes = sum(map(len, columns[2])) + sum(map(len, columns[3]))
        made.job_bytes += content_bytes
        made.content_bytes += content_bytes
        columns[4] = self._terms_ids(columns[4])
        for place in (7, 9, 10, 13, 15, 16):
            columns[place] = _or_empty(columns[place])
        for place in (11, 12, 17, 19):
            columns[place] = _packed(columns[place])
        columns[18] = _or_nulls(columns[18])
        columns[20] = _dialects(columns[20])
        made.add("hall_insert", *columns)

    def _add_updates(self, made: Statement, rows: list[JobRow]) -> None:
        columns: list[Column] = list(zip(*rows, strict=True))
        columns[4] = self._terms_ids(columns[4])
        for place in (7, 9, 10, 13, 15, 16):
            columns[place] = _or_empty(columns[place])
        for place in (11, 12, 17, 19):
            columns[place] = _packed(columns[place])
        columns[20] = _dialects(columns[20])
        made.add("hall_update", columns[0], columns[4], columns[5], *columns[7:18], columns[19], columns[20])

    def _add_ends(self, made: Statement, rows: list[EndRow], live: set[int]) -> None:
        made.jobs -= len(live)
        ruled = self._sections.ruled
        apart = [row for row in rows if row.state == FAILED or row.queue in ruled]
        if apart:
            self._add_lines(made, apart, apart=True)
            rows = [row for row in rows if row.state != FAILED and row.queue not in ruled]
        if rows:
            self._add_lines(made, rows, apart=False)

    def _add_lines(self, made: Statement, rows: list[EndRow], *, apart: bool) -> None:
        columns: list[Column] = list(zip(*rows, strict=True))
        made.ids += columns[0]
        columns[14] = _packed(columns[14])
        said: Column = []
        if columns[14]:
            said = [self._output.kept_bytes(row.id) if OUTPUT in (row.extras or ()) else 0 for row in rows]
        drops: Column = []
        if any(row.terms.keep_us for row in rows):
            drops = [drop_time_us(row.terms, row.state, row.ended_us) for row in rows]
            made.drop_us = min([made.drop_us, *filter(None, drops)])
        shelves: Column = [self._shelf_of(made, row) for row in rows] if apart else []
        self._count(made, columns, said, shelves)
        columns[12] = self._terms_ids(columns[12])
        for place in (4, 11, 13, 15, 17):
            columns[place] = _or_empty(columns[place])
        columns[16], columns[19] = _packed(columns[16]), _packed(columns[19])
        columns[18] = _or_nulls(columns[18])
        columns[20] = _dialects(columns[20])
        made.add("hall_end", apart, *columns, shelves, _or_empty(said), drops)

    def _shelf_of(self, made: Statement, row: EndRow) -> int:
        section = self._sections.ruled.get(row.queue, self._sections.common)
        if section is not self._sections.common:
            made.touched.add(section)
        return (section.dead if row.state == FAILED else section.others).number

    def _count(self, made: Statement, columns: list[Column], said: Column, shelves: Column) -> None:
        """Note what each shelf has more."""
        sizes = [len(key) + len(result) + len(payload)
                 for key, result, payload in zip(columns[2], columns[5], columns[13], strict=True)]  # fmt: skip
        for extra in (list(map(len, [packed or b"" for packed in columns[14]])), said):
            if extra:
                sizes = [size + more for size, more in zip(sizes, extra, strict=True)]
        made.content_bytes += sum(sizes)
        if shelves:
            for shelf, size in zip(shelves, sizes, strict=True):
                made.count((shelf, 0), 1, size)
            return
        days = [ended_us // DAY_US for ended_us in columns[9]]
        if min(days) == max(days):
            made.count((0, days[0]), len(sizes), sum(sizes))
            return
        for day, size in zip(days, sizes, strict=True):
            made.count((0, day), 1, size)

    def _add_notes(self, made: Statement, batch: Batch) -> None:
        if not (self._fresh or batch.fired or batch.paused or batch.flows):
            return
        terms = [(terms_id, *self.terms[terms_id].as_tuple()) for terms_id in self._fresh]
        fired = [(name.encode(), firing) for name, firing in batch.fired.items() if firing is not None]
        flows = [row for row in batch.flows.values() if row is not None]
        made.add(
            "hall_note",
            list(map(int, chain.from_iterable(terms))),
            [name for name, _ in fired],
            [firing.due_us for _, firing in fired],
            [firing.plan for _, firing in fired],
            [name.encode() for name, firing in batch.fired.items() if firing is None],
            [queue for queue, paused in batch.paused.items() if paused],
            [queue for queue, paused in batch.paused.items() if not paused],
            *(zip(*flows, strict=True) if flows else [[]] * 6),
            [name for name, row in batch.flows.items() if row is None],
        )

    def _terms_ids(self, column: Column) -> list[int]:
        """The id of each terms. Jobs of one batch mostly share them."""
        ids = {terms: self._terms_id(terms) for terms in set(column)}
        return [ids[terms] for terms in column]

    def _terms_id(self, terms: Terms) -> int:
        columns = terms.as_tuple()
        terms_id = self._ids.get(columns)
        if terms_id is None:
            terms_id = self._terms_id_max = self._terms_id_max + 1
            self._ids[columns] = terms_id
            self.terms[terms_id] = terms
            self._fresh.append(terms_id)
        return terms_id

    def _cut(self, row: EndRow) -> EndRow:
        """A line as it is kept: with the beginning of a long result, and of a long payload unless it FAILED."""
        if len(row.result) > self._result_bytes_max:
            extras = {**(row.extras or {}), RESULT_CUT: b""} if row.state == DONE else row.extras
            row = row._replace(result=row.result[: self._result_bytes_max], extras=extras)
        if len(row.payload) > self._payload_bytes_max and row.state != FAILED:
            cut = len(row.payload) if self._payload_bytes_max else 0
            row = row._replace(payload=row.payload[: self._payload_bytes_max], payload_cut=cut)
        return row


def _or_empty(column: Column) -> Column:
    """A column in which every row has the default is left out."""
    return column if any(column) else ()


def _or_nulls(column: Column) -> Column:
    return [value or None for value in column] if any(column) else ()


def _packed(column: Column) -> Column:
    return [_PACK(value) if value else None for value in column] if any(column) else ()


def _dialects(column: Column) -> Column:
    if not any(column):
        return ()
    encoded = {name: name.encode("ascii", "replace") for name in set(column)}
    return [encoded[name] for name in column]
