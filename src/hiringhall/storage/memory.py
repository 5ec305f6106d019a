"""A store in memory, for simulations and for halls without durable data.

Invariant: it behaves exactly as the other stores do. Its rows survive `close`, so that a simulated hall can
crash and open again with what was committed.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.changes import (
    OUTPUT_PAGE_BYTES,
    PAGE_RESULT_BYTES,
    HistoryPage,
    Loaded,
    OutputPage,
    output_bytes,
)
from hiringhall.core.jobs import PROVIDER, RESULT_CUT
from hiringhall.core.states import DONE, FAILED
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.retention import (
    LINE_BYTES,
    UNBOUNDED,
    CommitSize,
    Expiry,
    Section,
    Sections,
    drop_time_us,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hiringhall.core.changes import Batch, EndRow, Firing, FlowRow, JobRow, OutputRow, WindowRow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.rules.queue_rules import QueueRules
    from hiringhall.storage.contract import HistoryQuery
    from hiringhall.storage.retention import Shelf

STALE_ENTRIES_MIN: Final = 1000
"""A shelf's heap may always hold this many entries of lines that were removed."""
WALKED_MAX: Final = 8192
"""Lines that are looked at for one page."""
FIRST_EPOCHS: Final = ids.EPOCH_MAX // 2
"""A random first epoch is below this, so that at least as many epochs are left."""

_BY_END = attrgetter("ended_us", "id")
_Entry = tuple[int, int]
"""When a line ended, or is dropped, and its id."""


class MemoryStore:
    """Keeps rows in dicts. Tests inject faults with a store that wraps this one.

    `epoch` is the epoch of the first `load`, 1 or more. The default is random, so that the handle of a job
    that was lost with its process does not match a job of the next process.
    """

    def __init__(self, retention: Retention | None = None, epoch: int | None = None) -> None:
        self._retention = Retention() if retention is None else retention
        numbers = {queue: 2 * place for place, queue in enumerate(self._retention.queues, 1)}
        output = _MemoryOutput(self._retention.output_bytes_max)
        self._shelves = _MemoryShelves(Sections(self._retention, numbers), output)
        self._expiry = Expiry(self._shelves.sections, self._retention, UNBOUNDED)
        self._epoch = secrets.randbelow(FIRST_EPOCHS) if epoch is None else epoch - 1
        self._jobs: dict[int, JobRow] = {}
        self._fired: dict[str, Firing] = {}
        self._paused: dict[bytes, None] = {}
        self._flows: dict[bytes, FlowRow] = {}
        self._rules: dict[bytes, QueueRules] = {}
        self._windows: dict[tuple[bytes, bytes], WindowRow] = {}

    def load(self, ended_max: int) -> Loaded:
        self._epoch += 1
        latest = sorted(self._shelves.lines.values(), key=_BY_END)
        ended = [_shortened(row) for row in latest[max(0, len(latest) - ended_max) :]]
        flows = sorted(self._flows.values(), key=attrgetter("created_us", "name"))
        return Loaded(
            self._epoch,
            self.live(),
            ended,
            dict(self._fired),
            sorted(self._paused),
            flows,
            dict(self._rules),
            list(self._windows.values()),
        )

    def commit(self, batch: Batch, now_us: int) -> None:
        for row in batch.inserts:
            if row.id in self._jobs:
                raise StoreError(f"job {row.id} is already stored: the batch was not committed")
        for job_id in batch.revived:
            self._shelves.take(job_id)
        for line in batch.output:
            self._shelves.output.add(line)
        for end in batch.ends:
            self._write_end(end)
        for row in batch.inserts:
            self._put_job(row)
        for update in batch.updates:
            before = self._jobs.get(update.id)
            if before is not None:
                self._put_job(before.updated(update, batch.payloads.get(update.id)))
        for name, firing in batch.fired.items():
            if firing is None:
                self._fired.pop(name, None)
            else:
                self._fired[name] = firing
        for queue, paused in batch.paused.items():
            if paused:
                self._paused[queue] = None
            else:
                self._paused.pop(queue, None)
        for queue, rules in batch.rules.items():
            if rules is None:
                self._rules.pop(queue, None)
            else:
                self._rules[queue] = rules
        for key, window in batch.windows.items():
            if window is None:
                self._windows.pop(key, None)
            else:
                self._windows[key] = window
        for flow, flow_row in batch.flows.items():
            if flow_row is None:
                self._flows.pop(flow, None)
            else:
                self._flows[flow] = flow_row
        self._expire(batch, now_us)

    def settle(self) -> bool:
        """The outcome of a commit to memory is always known."""
        raise StoreError("no commit has an unknown outcome")

    def next_expiry_us(self) -> int:
        return self._expiry.next_us

    def check(self) -> None:
        """Memory loses nothing while the process lives."""

    def probe(self) -> None:
        """Memory can always take a commit."""

    def history(self, query: HistoryQuery) -> list[EndRow]:
        lines = self._shelves.lines
        if query.id is not None:
            rows = [lines[query.id]] if query.id in lines else []
        else:
            rows = list(lines.values())
        found = [row for row in rows if _matches(row, query)]
        found.sort(key=attrgetter("id"), reverse=True)
        return found[: query.limit]

    def page(self, query: HistoryQuery) -> HistoryPage:
        if query.id is not None:
            return HistoryPage([_cut(row) for row in self.history(query)], 0)
        ids = self._shelves.sorted_ids()
        place = len(ids) if query.before_id is None else bisect_left(ids, query.before_id)
        last = max(place - WALKED_MAX, 0)
        found: list[EndRow] = []
        while place > last:
            place -= 1
            row = self._shelves.lines.get(ids[place])
            if row is not None and _matches(row, query):
                found.append(_cut(row) if not query.brief else _cut(row)._replace(result=b""))
                if len(found) >= query.limit:
                    break
        return HistoryPage(found, ids[place] if place else 0)

    def latest_ends(self, refs: Sequence[ParentRef]) -> list[EndRow]:
        lines = self._shelves.lines
        wanted = set(refs)
        names: dict[ParentRef, EndRow] = {}
        for row in sorted(lines.values(), key=_BY_END):
            if (row.queue, row.key) in wanted and PROVIDER not in (row.extras or {}):
                names[row.queue, row.key] = row
        found = [*names.values(), *[lines[ref] for ref in refs if isinstance(ref, int) and ref in lines]]
        return [_shortened(row) for row in found]

    def output(self, job_id: int, position: int) -> OutputPage:
        return self._shelves.output.find(job_id, position)

    def live(self) -> Iterator[JobRow]:
        return iter([self._jobs[job_id] for job_id in sorted(self._jobs)])

    def count(self) -> tuple[int, int]:
        return len(self._jobs), len(self._shelves.lines)

    def close(self) -> None:
        """Nothing to do: the rows stay for the next `load`."""

    def _put_job(self, row: JobRow) -> None:
        self._take_job(row.id)
        self._jobs[row.id] = row._replace(extras=None) if row.extras == {} else row
        self._shelves.jobs_bytes += _job_bytes(row)

    def _take_job(self, job_id: int) -> None:
        row = self._jobs.pop(job_id, None)
        if row is not None:
            self._shelves.jobs_bytes -= _job_bytes(row)

    def _write_end(self, end: EndRow) -> None:
        """An end removes the job from the live jobs and replaces an earlier end of it."""
        self._take_job(end.id)
        self._shelves.take(end.id)
        result = end.result[: self._retention.result_bytes_max]
        payload, cut = end.payload, 0
        payload_bytes_max = self._retention.payload_bytes_max
        if len(payload) > payload_bytes_max and end.state != FAILED:
            payload, cut = payload[:payload_bytes_max], len(payload) if payload_bytes_max else 0
        extras = end.extras or None
        if len(result) < len(end.result) and end.state == DONE:
            extras = {**(extras or {}), RESULT_CUT: b""}
        self._shelves.put(end._replace(result=result, payload=payload, extras=extras, payload_cut=cut))

    def _expire(self, batch: Batch, now_us: int) -> None:
        sections = self._shelves.sections.all
        content_bytes = sum([len(end.result) + len(end.payload) for end in batch.ends])
        content_bytes += sum([len(row.payload) for row in batch.inserts])
        content_bytes += sum([output_bytes(line.data) for line in batch.output])
        rows = len(batch.inserts) + len(batch.ends)
        added = CommitSize(len(batch.ends), rows, content_bytes, self._shelves.next_drop_us())
        if self._expiry.due(now_us, added, sections):
            self._expiry.run(self._shelves, now_us, added, sections)
        else:
            self._expiry.skip(added)


class _MemoryShelves:
    """The lines of the history, and for each shelf a heap of them by end time. Entries of removed lines stay in
    the heap until they reach its head.
    """

    def __init__(self, sections: Sections, output: _MemoryOutput) -> None:
        self.sections = sections
        self.output = output
        self.lines: dict[int, EndRow] = {}
        self._ids: list[int] | None = None
        """The ids of all lines, and some of lines that were removed, sorted; None until a page is asked for."""
        self.jobs_bytes = 0
        self._lines_bytes = 0
        self._heaps: dict[int, list[_Entry]] = {number: [] for number in sections.shelves}
        self._drops: list[_Entry] = []
        """A heap of when lines are dropped because their jobs say so, and their ids."""

    def put(self, row: EndRow) -> None:
        shelf = self._shelf(row)
        heap = self._heaps[shelf.number]
        self.lines[row.id] = row
        if self._ids is not None:
            self._note_id(self._ids, row.id)
        heappush(heap, (row.ended_us, row.id))
        shelf.lines += 1
        shelf.bytes += self._content_bytes(row)
        self._lines_bytes += _content_bytes(row) + LINE_BYTES
        if len(heap) > 2 * shelf.lines + STALE_ENTRIES_MIN:
            heap[:] = {entry for entry in heap if self._stands(shelf, entry)}
            heapify(heap)
        drop_us = _drop_us(row)
        if drop_us:
            heappush(self._drops, (drop_us, row.id))
            if len(self._drops) > 2 * len(self.lines) + STALE_ENTRIES_MIN:
                self._drops = [*{entry for entry in self._drops if self._drops_at(entry)}]
                heapify(self._drops)

    def sorted_ids(self) -> list[int]:
        """The ids of all lines, and some of lines that were removed, sorted."""
        if self._ids is None:
            self._ids = sorted(self.lines)
        return self._ids

    def _note_id(self, ids: list[int], job_id: int) -> None:
        """Most ids are larger than all before, or nearly: only the end of the list moves."""
        if len(ids) > 2 * len(self.lines) + STALE_ENTRIES_MIN:
            self._ids = None  # sorted anew if it is needed again
            return
        place = bisect_left(ids, job_id)
        if place == len(ids) or ids[place] != job_id:
            ids.insert(place, job_id)

    def take(self, job_id: int) -> None:
        row = self.lines.pop(job_id, None)
        if row is not None:
            shelf = self._shelf(row)
            shelf.lines -= 1
            shelf.bytes -= self._content_bytes(row)
            self._lines_bytes -= _content_bytes(row) + LINE_BYTES

    def drop(
        self, shelves: Sequence[Shelf], before_us: int, lines_max: int, bytes_max: int, line_bytes: int
    ) -> int:
        dropped = dropped_bytes = 0
        while dropped < lines_max and dropped_bytes < bytes_max:
            heads = [(heap[0], heap) for shelf in shelves if (heap := self._standing(shelf))]
            if not heads or min(heads)[0][0] >= before_us:
                break
            _, job_id = heappop(min(heads)[1])
            dropped += 1
            dropped_bytes += self._content_bytes(self.lines[job_id]) + line_bytes
            self.take(job_id)
            self.output.drop(job_id)
        return dropped

    def drop_due(self, now_us: int, lines_max: int) -> int:
        dropped = 0
        while dropped < lines_max and self.next_drop_us() <= now_us:
            _, job_id = heappop(self._drops)
            self.take(job_id)
            self.output.drop(job_id)
            dropped += 1
        return dropped

    def next_drop_us(self) -> int:
        while self._drops and not self._drops_at(self._drops[0]):
            heappop(self._drops)
        return self._drops[0][0] if self._drops else UNBOUNDED

    def used_bytes(self) -> int:
        return self.jobs_bytes + self._lines_bytes + self.output.bytes

    def _content_bytes(self, row: EndRow) -> int:
        return _content_bytes(row) + self.output.kept_bytes(row.id)

    def _shelf(self, row: EndRow) -> Shelf:
        section: Section = self.sections.ruled.get(row.queue, self.sections.common)
        return section.dead if row.state == FAILED else section.others

    def _standing(self, shelf: Shelf) -> list[_Entry]:
        """The shelf's heap, without stale entries at its head."""
        heap = self._heaps[shelf.number]
        while heap and not self._stands(shelf, heap[0]):
            heappop(heap)
        return heap

    def _stands(self, shelf: Shelf, entry: _Entry) -> bool:
        row = self.lines.get(entry[1])
        return row is not None and row.ended_us == entry[0] and self._shelf(row) is shelf

    def _drops_at(self, entry: _Entry) -> bool:
        row = self.lines.get(entry[1])
        return row is not None and _drop_us(row) == entry[0]


class _MemoryOutput:
    """The latest lines of each job, oldest first."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._lines: dict[int, list[OutputRow]] = {}

    def add(self, line: OutputRow) -> None:
        if not self._bytes_max:
            return
        lines = self._lines.setdefault(line.job, [])
        lines.append(line._replace(position=self._end(line.job)))
        start = self._end(line.job) - self._bytes_max
        dropped = [old for old in lines if old.position < start]
        del lines[: len(dropped)]
        self.bytes += output_bytes(line.data) - sum([output_bytes(old.data) for old in dropped])

    def drop(self, job_id: int) -> None:
        self.bytes -= sum([output_bytes(line.data) for line in self._lines.pop(job_id, ())])

    def find(self, job_id: int, position: int) -> OutputPage:
        page: list[OutputRow] = []
        room = OUTPUT_PAGE_BYTES
        for line in self._lines.get(job_id, ()):
            if line.position < position:
                continue
            if room <= 0:
                return OutputPage(page, line.position, more=True)
            page.append(line)
            room -= output_bytes(line.data)
        return OutputPage(page, self._end(job_id))

    def kept_bytes(self, job_id: int) -> int:
        """How much of a job counts; 0 only if it has said nothing."""
        end = self._end(job_id)
        return max(min(end, self._bytes_max), 1) if end else 0

    def _end(self, job_id: int) -> int:
        lines = self._lines.get(job_id)
        return lines[-1].position + output_bytes(lines[-1].data) if lines else 0


def _shortened(row: EndRow) -> EndRow:
    """Without its result, and without its payload unless the job FAILED."""
    return row._replace(result=b"", payload=row.payload if row.state == FAILED else b"")


def _drop_us(row: EndRow) -> int:
    return drop_time_us(row.terms, row.state, row.ended_us)


def _content_bytes(row: EndRow) -> int:
    return len(row.key) + len(row.result) + len(row.payload) + _extras_bytes(row.extras)


def _job_bytes(row: JobRow) -> int:
    return len(row.key) + len(row.payload) + _extras_bytes(row.extras) + LINE_BYTES


def _extras_bytes(extras: dict[str, bytes] | None) -> int:
    return sum([len(name) + len(value) for name, value in extras.items()]) if extras else 0


def _cut(row: EndRow) -> EndRow:
    """A line as a page has it."""
    return row._replace(result=row.result[:PAGE_RESULT_BYTES], payload=b"")


def _matches(row: EndRow, query: HistoryQuery) -> bool:
    return (
        (query.queue is None or row.queue == query.queue)
        and (query.key is None or row.key == query.key)
        and (query.flow is None or row.flow == query.flow)
        and (query.state is None or row.state == query.state)
        and (query.ended_from_us is None or row.ended_us >= query.ended_from_us)
        and (query.ended_to_us is None or row.ended_us <= query.ended_to_us)
        and (query.before_id is None or row.id < query.before_id)
    )
