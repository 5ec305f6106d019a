"""Turns a batch into one statement, or into several if it is large.

Invariant: what a commit adds to the counts is known before it is sent, so it needs no answer but whether it is
kept. Parts are evaluated from left to right: lines are removed before ends are written, so that a job that ends
again stays in the history. No part has more than `PART_ROWS` rows, or than `PART_BYTES` of content and one row.
No statement has more content than the largest part, or `PART_BYTES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from hiringhall.core.jobs import OUTPUT, RESULT_CUT
from hiringhall.core.states import DONE, FAILED
from hiringhall.storage.retention import UNBOUNDED, drop_time_us
from hiringhall.storage.rule_rows import encode_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import Batch, EndRow, JobRow, OutputRow
    from hiringhall.storage.contract import Retention
    from hiringhall.storage.known_terms import KnownTerms
    from hiringhall.storage.postgres.output import OutputWriter
    from hiringhall.storage.retention import Section, Sections

DAY_US: Final = 86_400_000_000
_PACK: Final = msgspec.msgpack.Encoder().encode
PART_ROWS: Final = 20_000
PART_BYTES: Final = 16 << 20
_JOB_VALUES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16, 20)
"""The columns of jobs that cannot be NULL, except the id."""
_END_VALUES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 20)
"""The same of lines."""
RUN_MIN: Final = 4
"""If the ids of ended jobs are in runs of this length on average, they are removed run by run."""
_HEAD: Final = 8
"""Arguments of `hall_commit` before the parts."""

Column = Sequence[Any]
Row = TypeVar("Row", "EndRow", "JobRow", "OutputRow", int)
Place = tuple[int, int]
"""A shelf, and a day: 0 for all shelves but the first."""


class Removed:
    """Lines that a batch takes out of the history: what the shelves lose by it."""

    __slots__ = ("counts", "ids")

    def __init__(self, ids: list[int], counts: dict[Place, tuple[int, int]]) -> None:
        self.ids = ids
        self.counts = counts


class Part(NamedTuple):
    """A function of the database with its arguments. It returns how many bytes fewer the live jobs have."""

    function: str
    values: tuple[Column | bool, ...]

    def call(self, first: int) -> str:
        numbers = ", ".join([f"${number}" for number in range(first, first + len(self.values))])
        return f"{self.function}({numbers})"

    @property
    def sql(self) -> str:
        """The part as a statement of its own."""
        return f"SELECT {self.call(1)}"


class Commit:
    """A commit that is ready to be sent, and what it changes in the counts."""

    __slots__ = (
        "batch",
        "content_bytes",
        "drop_us",
        "ids",
        "is_large",
        "job_bytes",
        "jobs",
        "parts",
        "shelves",
        "touched",
    )

    def __init__(self) -> None:
        self.batch = 0
        self.parts: list[Part] = []
        self.is_large = False
        """Its parts are statements of their own, before the one that commits."""
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
        self.parts.append(Part(function, values))

    def pieces(self, rows: list[Row], sizes: list[int] | None = None) -> Iterator[list[Row]]:
        """Rows in lists that are not too long for one part."""
        if len(rows) <= PART_ROWS and (sizes is None or sum(sizes) <= PART_BYTES):
            yield rows
            return
        self.is_large = True
        start = size = 0
        for place in range(len(rows)):
            if place - start >= PART_ROWS or size >= PART_BYTES:
                yield rows[start:place]
                start, size = place, 0
            size += sizes[place] if sizes is not None else 0
        yield rows[start:]

    def count(self, place: Place, lines: int, content_bytes: int) -> None:
        counted = self.shelves.setdefault(place, [0, 0])
        counted[0] += lines
        counted[1] += content_bytes

    def statement(self, incarnation: int, freed_bytes: int = 0) -> tuple[str, list[Any]]:
        """The one statement that commits, and its arguments. It has the parts, unless they were sent before;
        then these have freed so many bytes.
        """
        calls: list[str] = []
        values: list[Any] = []
        for part in () if self.is_large else self.parts:
            calls.append(part.call(_HEAD + len(values) + 1))
            values += part.values
        sql = f"SELECT hall_commit($1, $2, $3, $4, $5, $6, $7, $8, ARRAY[{', '.join(calls)}]::bigint[])"
        return sql, [*self._head(incarnation, freed_bytes), *values]

    def _head(self, incarnation: int, freed_bytes: int) -> tuple[Any, ...]:
        shelves, days = [place[0] for place in self.shelves], [place[1] for place in self.shelves]
        lines, sizes = (
            [count[0] for count in self.shelves.values()],
            [count[1] for count in self.shelves.values()],
        )
        job_bytes = self.job_bytes - freed_bytes
        return incarnation, self.batch, self.jobs, job_bytes, shelves, days, lines, sizes


class BatchWriter:
    """Turns batches into commits."""

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
        self._sections = sections
        self._output = output

    def commit(self, batch: Batch, live: set[int], removed: Removed) -> Commit:
        """`live` are the jobs that it removes, which is what `batch.deletes` says."""
        made = Commit()
        if removed.ids:
            made.add("hall_take_lines", removed.ids)
            for place, (lines, content_bytes) in removed.counts.items():
                made.count(place, -lines, -content_bytes)
        for ids in made.pieces(batch.deletes) if batch.deletes else ():
            firsts, lasts = _runs(sorted(ids))
            if len(firsts) * RUN_MIN <= len(ids):
                made.add("hall_take_runs", firsts, lasts)
            else:
                made.add("hall_take", ids)
        if batch.output and self._output.keeps:
            for said in made.pieces(batch.output, [len(row.data) for row in batch.output]):
                made.add("hall_output", *self._output.columns(said))
                made.content_bytes += sum([len(row.data) for row in said])
        if batch.ends:
            made.jobs -= len(live)
            self._add_ends(made, batch.ends)
        if batch.inserts:
            self._add_inserts(made, batch.inserts)
        if batch.updates:
            for jobs in made.pieces(batch.updates):
                self._add_updates(made, jobs)
        if batch.payloads:
            sizes = [len(payload) for payload in batch.payloads.values()]
            for ids in made.pieces(list(batch.payloads), sizes):
                made.add("hall_replace", ids, [batch.payloads[job_id] for job_id in ids])
            made.content_bytes += sum(sizes)
        self._add_notes(made, batch)
        if made.content_bytes > PART_BYTES:  # of all parts together
            made.is_large = True
        return made

    def committed(self) -> None:
        """The batch is kept."""
        self.terms.committed()

    def rolled_back(self) -> None:
        """The batch is not kept."""
        self.terms.rolled_back()
        self._output.forget()

    def _add_inserts(self, made: Commit, rows: list[JobRow]) -> None:
        columns: list[Column] = list(zip(*rows, strict=True))
        content_bytes = _job_bytes(columns)
        if len(rows) <= PART_ROWS and content_bytes <= PART_BYTES:
            self._add_jobs(made, columns, content_bytes)
            return
        for jobs in made.pieces(rows, [len(row.key) + len(row.payload) for row in rows]):
            columns = list(zip(*jobs, strict=True))
            self._add_jobs(made, columns, _job_bytes(columns))

    def _add_jobs(self, made: Commit, columns: list[Column], content_bytes: int) -> None:
        made.ids += columns[0]
        made.jobs += len(columns[0])
        made.job_bytes += content_bytes
        made.content_bytes += content_bytes
        columns[4] = self.terms.ids(columns[4])
        columns[18] = _or_nulls(columns[18])
        made.add("hall_insert", *_job_columns(columns))

    def _add_updates(self, made: Commit, rows: list[JobRow]) -> None:
        columns: list[Column] = list(zip(*rows, strict=True))
        columns[4] = self.terms.ids(columns[4])
        columns = _job_columns(columns)
        made.add("hall_update", columns[0], columns[4], columns[5], *columns[7:18], columns[19], columns[20])

    def _add_ends(self, made: Commit, rows: list[EndRow]) -> None:
        """Most batches need no look at single rows: the columns show that none of them is special."""
        columns: list[Column] = list(zip(*rows, strict=True))
        if _longest(columns[5]) > self._result_bytes_max or _longest(columns[13]) > self._payload_bytes_max:
            rows = [self._cut(row) for row in rows]
            columns = list(zip(*rows, strict=True))
        ruled = self._sections.ruled
        if len(rows) <= PART_ROWS and FAILED not in columns[3] and ruled.keys().isdisjoint(columns[1]):
            content_bytes = _content_bytes(columns)
            if content_bytes <= PART_BYTES:
                self._add_lines(made, columns, content_bytes)
                return
        apart = [row for row in rows if row.state == FAILED or row.queue in ruled]
        common = [row for row in rows if row.state != FAILED and row.queue not in ruled]
        for chosen in (apart, common):
            sizes = [len(row.key) + len(row.result) + len(row.payload) for row in chosen]
            for lines in made.pieces(chosen, sizes) if chosen else ():
                shelves = [self._shelf_of(made, row) for row in lines] if chosen is apart else []
                columns = list(zip(*lines, strict=True))
                self._add_lines(made, columns, _content_bytes(columns), shelves)

    def _add_lines(
        self, made: Commit, columns: list[Column], content_bytes: int, shelves: Sequence[int] = ()
    ) -> None:
        """Add lines with this content. Those with shelves go to the table of lines that are kept apart."""
        made.ids += columns[0]
        said: Column = ()
        if any(columns[14]):
            said = [
                self._output.kept_bytes(job_id) if extras and OUTPUT in extras else 0
                for job_id, extras in zip(columns[0], columns[14], strict=True)
            ]
        columns[14] = _packed(columns[14])
        drops: Column = ()
        if any(terms.keep_us for terms in set(columns[12])):
            ends = zip(columns[12], columns[3], columns[9], strict=True)
            drops = [drop_time_us(terms, state, ended_us) for terms, state, ended_us in ends]
            made.drop_us = min([made.drop_us, *filter(None, drops)])
        self._count(made, columns, content_bytes, said, shelves)
        columns[12] = self.terms.ids(columns[12])
        columns[16], columns[19] = _packed(columns[16]), _packed(columns[19])
        columns[18] = _or_nulls(columns[18])
        columns[20] = _dialects(columns[20])
        for place in _END_VALUES:
            columns[place] = _short(columns[place])
        more = [_short(column or (0,)) for column in (shelves, said, drops)]
        made.add("hall_end_history_apart" if shelves else "hall_end_history", *columns, *more)

    def _shelf_of(self, made: Commit, row: EndRow) -> int:
        section = self._sections.ruled.get(row.queue, self._sections.common)
        if section is not self._sections.common:
            made.touched.add(section)
        return (section.dead if row.state == FAILED else section.others).number

    def _count(
        self, made: Commit, columns: list[Column], content_bytes: int, said: Column, shelves: Column
    ) -> None:
        """Note what each shelf has more. `content_bytes` is without extras and output."""
        more_bytes = [len(packed or b"") for packed in columns[14]]
        content_bytes += sum(more_bytes) + sum(said)
        made.content_bytes += content_bytes
        first_day, last_day = min(columns[9]) // DAY_US, max(columns[9]) // DAY_US
        if not shelves and first_day == last_day:
            made.count((0, first_day), len(columns[0]), content_bytes)
            return
        sizes = [len(key) + len(result) + len(payload)
                 for key, result, payload in zip(columns[2], columns[5], columns[13], strict=True)]  # fmt: skip
        for extra in (more_bytes, said):
            if extra:
                sizes = [size + more for size, more in zip(sizes, extra, strict=True)]
        places = [(shelf, 0) for shelf in shelves] or [(0, ended_us // DAY_US) for ended_us in columns[9]]
        for place, size in zip(places, sizes, strict=True):
            made.count(place, 1, size)

    def _add_notes(self, made: Commit, batch: Batch) -> None:
        fresh = self.terms.fresh
        if batch.rules:
            rules = [(queue, rules) for queue, rules in batch.rules.items() if rules is not None]
            made.add(
                "hall_rule",
                [queue for queue, _ in rules],
                [encode_rules(each) for _, each in rules],
                [queue for queue, each in batch.rules.items() if each is None],
            )
        if batch.windows:
            windows = [window for window in batch.windows.values() if window is not None]
            over = [name for name, window in batch.windows.items() if window is None]
            opened = zip(*windows, strict=True) if windows else [[]] * 4
            made.add("hall_throttle", *opened, [queue for queue, _ in over], [key for _, key in over])
        if not (fresh or batch.fired or batch.paused or batch.flows):
            return
        terms = [(terms_id, *self.terms.by_id[terms_id].as_tuple()) for terms_id in fresh]
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

    def _cut(self, row: EndRow) -> EndRow:
        """A line as it is kept: with the beginning of a long result, and of a long payload unless it FAILED."""
        if len(row.result) > self._result_bytes_max:
            extras = {**(row.extras or {}), RESULT_CUT: b""} if row.state == DONE else row.extras
            row = row._replace(result=row.result[: self._result_bytes_max], extras=extras)
        if len(row.payload) > self._payload_bytes_max and row.state != FAILED:
            cut = len(row.payload) if self._payload_bytes_max else 0
            row = row._replace(payload=row.payload[: self._payload_bytes_max], payload_cut=cut)
        return row


def _job_columns(columns: list[Column]) -> list[Column]:
    """The columns of jobs as they are sent, except flows."""
    for place in (11, 12, 17, 19):
        columns[place] = _packed(columns[place])
    columns[20] = _dialects(columns[20])
    for place in _JOB_VALUES:
        columns[place] = _short(columns[place])
    return columns


def _runs(ids: list[int]) -> tuple[list[int], list[int]]:
    """The first and the last of each run of ids that follow one another."""
    breaks = [place for place, (before, after) in enumerate(pairwise(ids), 1) if after - before != 1]
    return [ids[place] for place in (0, *breaks)], [ids[place - 1] for place in (*breaks, len(ids))]


def _longest(column: Column) -> int:
    return max(map(len, column))


def _job_bytes(columns: list[Column]) -> int:
    """Of the keys and payloads of jobs."""
    return sum(map(len, columns[2])) + sum(map(len, columns[3]))


def _content_bytes(columns: list[Column]) -> int:
    """Of the keys, results and payloads of lines."""
    return sum(map(len, columns[2])) + sum(map(len, columns[5])) + sum(map(len, columns[13]))


def _short(column: Column) -> Column:
    """Of a column in which every row has the same value, that value is enough."""
    first = column[0]
    return column[:1] if first == column[-1] and column.count(first) == len(column) else column


def _or_nulls(column: Column) -> Column:
    return [value or None for value in column] if any(column) else ()


def _packed(column: Column) -> Column:
    return [_PACK(value) if value else None for value in column] if any(column) else ()


def _dialects(column: Column) -> Column:
    encoded = {name: name.encode("ascii", "replace") for name in set(column)}
    return [encoded[name] for name in column] if len(encoded) > 1 else list(encoded.values())
