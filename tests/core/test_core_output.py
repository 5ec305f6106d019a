"""What workers say about durable jobs goes to the store with the next commit, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, DETACHED, SECOND_US, START_US, Hall, Person

from hiringhall.core.changes import (
    DATA,
    LOG,
    OUTPUT_LINE_BYTES,
    OUTPUT_PAGE_BYTES,
    WARNING,
    Batch,
    OutputPage,
    OutputRow,
    output_bytes,
)
from hiringhall.core.jobs import OUTPUT
from hiringhall.core.output import GATHERED_BYTES_MAX, OUTPUT_BYTES_MAX, Output
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease


def leased(hall: Hall, terms: Terms = BACKGROUND, watcher: Person | None = None) -> Lease:
    """A job, on disk, with a worker."""
    hall.submit("a", terms=terms, by=watcher)
    lease = hall.worker("bob").takes("a")
    hall.commit()
    return lease


def lines(batch: Batch) -> list[tuple[int, bytes]]:
    return [(line.kind, line.data) for line in batch.output]


def test_everything_that_is_said_is_in_the_next_batch(hall: Hall) -> None:
    lease = leased(hall)
    hall.core.chunk(lease, b"one")
    hall.core.chunk(lease, b"two", warning=True)
    hall.after(SECOND_US)
    hall.core.log(lease, b"three")
    batch = hall.commit()
    assert lines(batch) == [(DATA, b"one"), (WARNING, b"two"), (LOG, b"three")]
    assert {line.job for line in batch.output} == {lease.job.id}
    assert [line.at_us - START_US for line in batch.output] == [0, 0, SECOND_US]
    (row,) = batch.updates
    assert row.extras == {OUTPUT: b""}
    hall.core.log(lease, b"four")
    batch = hall.commit()
    assert (lines(batch), batch.updates) == ([(LOG, b"four")], [])
    hall.core.finish(lease, b"")
    (end,) = hall.commit().ends
    assert end.extras == {OUTPUT: b""}


def test_a_job_that_says_nothing_has_no_mark(hall: Hall) -> None:
    lease = leased(hall)
    hall.core.progress(lease, 1, 2)
    hall.core.finish(lease, b"")
    batch = hall.commit()
    assert (batch.output, batch.ends[0].extras) == ([], None)


def test_the_log_reaches_watchers(hall: Hall) -> None:
    ann = hall.person("ann")
    lease = leased(hall, watcher=ann)
    hall.core.log(lease, b"hello")
    ann.hears("logged a hello")


@pytest.mark.parametrize("terms", [DETACHED, Terms(detached=True, logged=True)])
def test_a_job_in_memory_keeps_none(hall: Hall, terms: Terms) -> None:
    lease = leased(hall, terms)
    hall.core.chunk(lease, b"one")
    hall.core.log(lease, b"two")
    assert len(hall.core.ledger) == 0
    assert lease.job.extras is None


def test_a_hall_that_keeps_none(hall: Hall) -> None:
    hall.core.ledger.output.keep_up_to(0)
    lease = leased(hall)
    hall.core.chunk(lease, b"one")
    assert len(hall.core.ledger) == 0
    assert lease.job.extras is None


def test_it_is_dropped_when_a_commit_fails_and_until_the_store_works(hall: Hall) -> None:
    lease = leased(hall)
    hall.core.chunk(lease, b"in the batch")
    batch = hall.core.seal()
    hall.core.chunk(lease, b"meanwhile")
    hall.core.withdraw(batch, "disk full")
    hall.core.chunk(lease, b"in trouble")
    again = hall.core.seal()
    assert lines(again) == []
    hall.core.committed(again)
    hall.core.chunk(lease, b"it works")
    assert lines(hall.commit()) == [(DATA, b"it works")]


def test_a_retry_adds_to_it(hall: Hall) -> None:
    lease = leased(hall, BACKGROUND.replace(failures_max=1))
    hall.core.log(lease, b"first")
    hall.core.fail(lease)
    assert lines(hall.commit()) == [(LOG, b"first")]
    hall.after(2 * SECOND_US)
    hall.core.log(hall.worker("cat").takes("a"), b"second")
    assert lines(hall.commit()) == [(LOG, b"second")]


def test_of_a_line_that_is_too_long_the_end_is_kept() -> None:
    output = Output()
    output.add(1, 0, DATA, b"x" * OUTPUT_BYTES_MAX + b"end")
    batch = Batch()
    output.seal(batch)
    (line,) = batch.output
    assert output_bytes(line.data) == OUTPUT_BYTES_MAX
    assert line.data.endswith(b"xend")


def test_a_setting_that_is_smaller_than_a_line_keeps_an_empty_one() -> None:
    output = Output()
    output.keep_up_to(OUTPUT_LINE_BYTES - 1)
    output.add(1, 0, DATA, b"abc")
    batch = Batch()
    output.seal(batch)
    assert [line.data for line in batch.output] == [b""]


def gathered_after_flood(jobs: int, line: bytes) -> list[OutputRow]:
    """Twice as many bytes as may wait are said, by so many jobs in turns."""
    output = Output()
    for number in range(2 * GATHERED_BYTES_MAX // output_bytes(line)):
        output.add(number % jobs, number, DATA, line)
        assert output._bytes <= GATHERED_BYTES_MAX
    batch = Batch()
    output.seal(batch)
    return batch.output


def test_a_flood_of_one_job_leaves_its_latest_lines() -> None:
    line = b"x" * 1000
    kept = gathered_after_flood(1, line)
    said = 2 * GATHERED_BYTES_MAX // output_bytes(line)
    assert len(kept) >= OUTPUT_BYTES_MAX // output_bytes(line)
    assert [row.at_us for row in kept] == list(range(said - len(kept), said))


def test_a_flood_of_many_jobs_leaves_the_latest_lines() -> None:
    kept = gathered_after_flood(1000, b"x" * 1000)
    assert kept[-1].at_us == 2 * GATHERED_BYTES_MAX // output_bytes(b"x" * 1000) - 1
    assert [row.at_us for row in kept] == sorted(row.at_us for row in kept)
    assert sum(output_bytes(row.data) for row in kept) <= GATHERED_BYTES_MAX


def test_lines_that_are_not_on_disk_follow_those_that_are() -> None:
    output = Output()
    stored = OutputPage([OutputRow(1, 0, DATA, b"stored", 0)], output_bytes(b"stored"))
    assert output.complete(stored, 1, 0) == stored
    output.add(1, 1, LOG, b"sealed")
    output.seal(Batch())
    output.add(2, 1, LOG, b"of another job")
    output.add(1, 2, LOG, b"gathered")
    whole = output.complete(stored, 1, 0)
    assert [line.data for line in whole.lines] == [b"stored", b"sealed", b"gathered"]
    position = whole.lines[2].position
    later = output.complete(OutputPage([], stored.end), 1, position)
    assert [line.data for line in later.lines] == [b"gathered"]
    assert later.end == whole.end == position + output_bytes(b"gathered")
    assert output.complete(OutputPage([], stored.end), 1, whole.end) == ([], whole.end, False)
    cut = OutputPage(stored.lines, stored.end, more=True)
    assert output.complete(cut, 1, 0) == cut
    output.committed()
    assert [line.data for line in output.complete(stored, 1, 0).lines] == [b"stored", b"gathered"]


def test_lines_that_are_not_on_disk_come_in_pages() -> None:
    output = Output()
    for number in range(30):
        output.add(1, START_US, DATA, bytes([number]) * (OUTPUT_PAGE_BYTES // 8))
    said: list[OutputRow] = []
    position = 0
    while True:
        page = output.complete(OutputPage([], 0), 1, position)
        assert sum([output_bytes(line.data) for line in page.lines]) < OUTPUT_PAGE_BYTES * 9 // 8
        said += page.lines
        position = page.end
        if not page.more:
            break
    assert [line.data[0] for line in said] == list(range(30))
