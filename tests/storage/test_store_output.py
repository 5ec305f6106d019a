"""What every store keeps of a job beside its result: the start of its payload, and the end of its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_rows import DAY_US, NOW_US, batch, end, job

from hiringhall.core.changes import DATA, LOG, OUTPUT_LINE_BYTES, OUTPUT_PAGE_BYTES, WARNING, OutputRow
from hiringhall.core.jobs import OUTPUT
from hiringhall.core.states import CANCELLED, DONE, FAILED
from hiringhall.storage.contract import HistoryQuery, QueueRetention, Retention, StoreError

if TYPE_CHECKING:
    from store_house import House

MARK = {OUTPUT: b""}
"""The extras of a job that has output."""


def said(job_id: int, *lines: bytes, kind: int = DATA) -> list[OutputRow]:
    return [OutputRow(job_id, NOW_US + place, kind, data) for place, data in enumerate(lines)]


def output(house: House, job_id: int, position: int = 0) -> list[bytes]:
    return [line.data for line in house.store.output(job_id, position).lines]


class TestPayloads:
    @pytest.fixture
    def retention(self) -> Retention:
        return Retention(payload_bytes_max=4)

    @pytest.mark.parametrize(
        ("state", "payload", "kept", "cut"),
        [
            (DONE, b"", b"", 0),
            (DONE, b"\x00\xff12", b"\x00\xff12", 0),
            (DONE, b"12345", b"1234", 5),
            (CANCELLED, b"12345", b"1234", 5),
            (FAILED, b"12345", b"12345", 0),
        ],
    )
    def test_the_history_keeps_its_beginning_and_all_of_a_dead_letter(
        self, house: House, state: int, payload: bytes, kept: bytes, cut: int
    ) -> None:
        house.store.commit(batch(ends=[end(1, state=state, payload=payload), end(2)]), NOW_US)
        for _ in range(2):
            (line,) = house.store.history(HistoryQuery(id=1))
            assert (line.payload, line.payload_cut) == (kept, cut)
            house.reopen()

    def test_a_hall_does_not_load_those_that_it_cannot_need(self, house: House) -> None:
        ends = [end(1, key=b"a", payload=b"abc"), end(2, key=b"b", state=FAILED, payload=b"abcde")]
        house.store.commit(batch(ends=ends), NOW_US)
        house.reopen()
        assert [row.payload for row in house.ended()] == [b"", b"abcde"]
        found = house.store.latest_ends([(b"reverse", b"a"), (b"reverse", b"b")])
        assert sorted(row.payload for row in found) == [b"", b"abcde"]

    def test_an_end_that_replaces_another_replaces_its_payload(self, house: House) -> None:
        house.store.commit(batch(ends=[end(1, state=FAILED, payload=b"12345")]), NOW_US)
        house.store.commit(batch(ends=[end(1, payload=b"12345")]), NOW_US)
        (line,) = house.store.history(HistoryQuery(id=1))
        assert (line.payload, line.payload_cut) == (b"1234", 5)
        house.store.commit(batch(ends=[end(1, state=FAILED, payload=b"12345")]), NOW_US)
        (line,) = house.store.history(HistoryQuery(id=1))
        assert (line.payload, line.payload_cut) == (b"12345", 0)


class TestNoPayloads:
    @pytest.fixture
    def retention(self) -> Retention:
        return Retention(payload_bytes_max=0)

    def test_only_a_dead_letter_has_one(self, house: House) -> None:
        ends = [end(1, payload=b"abc"), end(2, state=FAILED, payload=b"abc")]
        house.store.commit(batch(ends=ends), NOW_US)
        lines = house.store.history(HistoryQuery())
        assert [(line.payload, line.payload_cut) for line in lines] == [(b"abc", 0), (b"", 0)]


class TestOutput:
    @pytest.fixture
    def retention(self) -> Retention:
        rules = QueueRetention(age_us=DAY_US, dead_age_us=DAY_US, bytes_max=1000)
        return Retention(age_us=DAY_US, dead_age_us=DAY_US, output_bytes_max=400, queues={b"small": rules})

    def test_lines_come_back_in_order_and_survive_the_end(self, house: House) -> None:
        lines = [
            *said(1, b"a\x00"),
            *said(2, b"other"),
            *said(1, b"", kind=WARNING),
            *said(1, b"\xff", kind=LOG),
        ]
        house.store.commit(batch(inserts=[job(1, extras=MARK), job(2, extras=MARK)], output=lines), NOW_US)
        house.reopen()
        house.store.commit(batch(ends=[end(1, extras=MARK)], deletes=[1], output=said(1, b"last")), NOW_US)
        house.reopen()
        page = house.store.output(1, 0)
        assert [(line.kind, line.data) for line in page.lines] == [
            (DATA, b"a\x00"),
            (WARNING, b""),
            (LOG, b"\xff"),
            (DATA, b"last"),
        ]
        assert [line.at_us for line in page.lines] == [NOW_US] * 4
        assert not page.more
        assert output(house, 2) == [b"other"]

    def test_reading_goes_on_where_it_stopped(self, house: House) -> None:
        house.store.commit(batch(inserts=[job(1, extras=MARK)], output=said(1, b"a", b"b")), NOW_US)
        page = house.store.output(1, 0)
        assert house.store.output(1, page.end) == ([], page.end, False)
        house.store.commit(batch(output=said(1, b"c")), NOW_US)
        assert output(house, 1, page.end) == [b"c"]
        assert house.store.output(1, 1 << 62).end == house.store.output(1, 0).end
        assert house.store.output(99, 5) == ([], 0, False)

    def test_the_latest_are_kept(self, house: House) -> None:
        size = 50
        line_bytes = size + OUTPUT_LINE_BYTES
        lines = [b"%d" % number * size for number in range(10)]
        house.store.commit(batch(inserts=[job(1, extras=MARK)], output=said(1, *lines[:7])), NOW_US)
        assert output(house, 1) == lines[7 - 400 // line_bytes : 7]
        house.reopen()
        for data in lines[7:]:
            house.store.commit(batch(output=said(1, data)), NOW_US)
        assert output(house, 1) == lines[10 - 400 // line_bytes :]
        assert [line.position for line in house.store.output(1, 0).lines] == [
            number * line_bytes for number in range(10 - 400 // line_bytes, 10)
        ]

    def test_it_goes_with_the_line_of_its_job(self, house: House) -> None:
        ends = [end(1, extras=MARK), end(2, extras=MARK, ended_us=NOW_US + DAY_US // 2), end(3)]
        house.store.commit(batch(ends=ends, output=[*said(1, b"a"), *said(2, b"b")]), NOW_US)
        house.store.commit(batch(), NOW_US + DAY_US + 1)
        assert house.ids() == [2]
        assert (output(house, 1), output(house, 2)) == ([], [b"b"])
        assert house.store.count() == (0, 1)

    def test_a_job_that_runs_again_keeps_it(self, house: House) -> None:
        dead = end(1, state=FAILED, extras=MARK)
        house.store.commit(batch(ends=[dead], output=said(1, b"first")), NOW_US)
        house.store.commit(batch(revived=[1], inserts=[job(1, extras=MARK)]), NOW_US)
        assert output(house, 1) == [b"first"]
        house.store.commit(batch(output=said(1, b"second")), NOW_US)
        house.store.commit(batch(ends=[dead], deletes=[1]), NOW_US)
        assert output(house, 1) == [b"first", b"second"]
        house.store.commit(batch(ends=[end(1, extras=MARK)], output=said(1, b"third")), NOW_US)
        assert output(house, 1) == [b"first", b"second", b"third"]
        house.store.commit(batch(), NOW_US + DAY_US + 1)
        assert output(house, 1) == []

    def test_it_counts_for_the_size_of_a_queue(self, house: House) -> None:
        """Each line of the history has 300 bytes with its output, so that three fit into 1000 bytes."""
        data = b"x" * (300 - len(OUTPUT) - OUTPUT_LINE_BYTES)
        for job_id in range(1, 11):
            row = end(job_id, queue=b"small", extras=MARK, result=b"", ended_us=NOW_US + job_id)
            house.store.commit(batch(ends=[row], output=said(job_id, data)), NOW_US)
            assert len(house.ids()) <= 3
        assert house.ids() == [10, 9, 8]
        assert [output(house, job_id) for job_id in (7, 8)] == [[], [data]]
        house.reopen()
        house.store.commit(batch(ends=[end(11, queue=b"small", extras=MARK)], output=said(11, data)), NOW_US)
        assert len(house.ids()) <= 3


class TestALotOfOutput:
    @pytest.fixture
    def retention(self) -> Retention:
        return Retention(output_bytes_max=8 * OUTPUT_PAGE_BYTES)

    def test_it_is_read_page_by_page(self, house: House) -> None:
        lines = [b"%d" % number * (OUTPUT_PAGE_BYTES // 2) for number in range(5)]
        house.store.commit(batch(inserts=[job(1, extras=MARK)], output=said(1, *lines)), NOW_US)
        read: list[bytes] = []
        position, pages, more = 0, 0, True
        while more:
            page = house.store.output(1, position)
            read += [line.data for line in page.lines]
            position, more, pages = page.end, page.more, pages + 1
        assert read == lines
        assert pages == 3


class TestNoOutput:
    @pytest.fixture
    def retention(self) -> Retention:
        return Retention(output_bytes_max=0)

    def test_none_is_kept(self, house: House) -> None:
        house.store.commit(batch(ends=[end(1, extras=MARK)], output=said(1, b"a")), NOW_US)
        assert output(house, 1) == []


def test_a_commit_that_fails_leaves_no_line(house: House) -> None:
    house.store.commit(batch(inserts=[job(1, extras=MARK)], output=said(1, b"a")), NOW_US)
    end_before = house.store.output(1, 0).end
    with pytest.raises(StoreError):
        house.store.commit(batch(inserts=[job(1)], output=said(1, b"lost")), NOW_US)
    assert output(house, 1) == [b"a"]
    house.store.commit(batch(output=said(1, b"b")), NOW_US)
    assert output(house, 1, end_before) == [b"b"]
