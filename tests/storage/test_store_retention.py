"""Which lines of the history go, and which stay, in every store: by age, by number and by size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_rows import DAY_US, HOUR_US, NOW_US, batch, end, job

from hiringhall.core.jobs import RESULT_CUT
from hiringhall.core.states import CANCELLED, FAILED
from hiringhall.storage.contract import (
    RULED_QUEUES_MAX,
    HistoryQuery,
    QueueRetention,
    Retention,
    StoreError,
)
from hiringhall.storage.retention import DROP_MIN, QUEUES_PER_CHECK

if TYPE_CHECKING:
    from store_house import House


class TestAllQueuesTogether:
    @pytest.fixture
    def retention(self) -> Retention:
        return Retention(age_us=DAY_US, dead_age_us=10 * DAY_US, rows_max=600, result_bytes_max=4)

    def test_old_lines_go_and_dead_letters_stay_longer(self, house: House) -> None:
        house.store.commit(batch(ends=[end(1), end(2, state=FAILED), end(3, state=CANCELLED)]), NOW_US)
        house.store.commit(batch(ends=[end(4, ended_us=NOW_US + HOUR_US)]), NOW_US + HOUR_US)
        house.store.commit(batch(), NOW_US + DAY_US)
        assert house.ids() == [4, 3, 2, 1]
        house.store.commit(batch(), NOW_US + DAY_US + HOUR_US)
        assert house.ids() == [4, 2]
        house.store.commit(batch(), NOW_US + 9 * DAY_US)
        assert house.ids() == [2]
        house.store.commit(batch(), NOW_US + 11 * DAY_US)
        assert house.ids() == []
        assert house.store.count() == (0, 0)

    def test_too_many_lines_are_cut_to_the_newest(self, house: House) -> None:
        for start in range(0, 1000, 100):
            ends = [end(i + 1, ended_us=NOW_US + i) for i in range(start, start + 100)]
            house.store.commit(batch(ends=ends), NOW_US + start)
        kept = house.ids()
        assert 500 <= len(kept) <= 600
        assert kept == list(range(1000, 1000 - len(kept), -1))
        assert house.store.count() == (0, len(kept))

    def test_dead_letters_go_for_room_only_when_nothing_else_can(self, house: House) -> None:
        dead = [end(i, state=FAILED, ended_us=NOW_US + i) for i in range(1, 401)]
        house.store.commit(batch(ends=dead), NOW_US)
        house.store.commit(batch(ends=[end(i, ended_us=NOW_US + i) for i in range(401, 802)]), NOW_US)
        assert len(house.ids(HistoryQuery(state=FAILED, limit=1000))) == 400
        more = [end(i, state=FAILED, ended_us=NOW_US + i) for i in range(802, 1102)]
        house.store.commit(batch(ends=more), NOW_US)
        assert house.ids() == list(range(1101, 801, -1)) + list(range(400, 100, -1))

    def test_one_commit_drops_a_bounded_number(self, house: House) -> None:
        house.store.commit(batch(ends=[end(i) for i in range(1, 601)]), NOW_US)
        house.store.commit(batch(), NOW_US + 2 * DAY_US)
        assert 0 < len(house.ids()) < 600
        house.store.commit(batch(), NOW_US + 2 * DAY_US)
        assert house.ids() == []

    def test_a_failed_commit_drops_nothing(self, house: House) -> None:
        house.store.commit(batch(inserts=[job(1)], ends=[end(2)]), NOW_US)
        with pytest.raises(StoreError):
            house.store.commit(batch(inserts=[job(1)]), NOW_US + 2 * DAY_US)
        assert house.ids() == [2]
        house.store.commit(batch(), NOW_US + 2 * DAY_US)
        assert house.ids() == []

    def test_long_results_are_cut(self, house: House) -> None:
        ends = [
            end(1, result=b"12345"),
            end(2, result=b"1234"),
            end(3, state=FAILED, result=b"abcdef", payload=b"whole"),
        ]
        house.store.commit(batch(ends=ends), NOW_US)
        kept = house.store.history(HistoryQuery())
        assert [(row.result, row.payload) for row in kept] == [
            (b"abcd", b"whole"),
            (b"1234", b""),
            (b"1234", b""),
        ]
        assert [row.extras for row in kept] == [None, None, {RESULT_CUT: b""}]


class TestQueuesWithRulesOfTheirOwn:
    @pytest.fixture
    def retention(self) -> Retention:
        brief = QueueRetention(age_us=HOUR_US, dead_age_us=2 * HOUR_US)
        few = QueueRetention(rows_max=10)
        small = QueueRetention(bytes_max=1000)
        queues = {b"brief": brief, b"few\x00\xff": few, b"small": small}
        return Retention(age_us=DAY_US, dead_age_us=10 * DAY_US, rows_max=600, queues=queues)

    def kept(self, house: House, queue: bytes) -> list[int]:
        return house.ids(HistoryQuery(queue=queue, limit=10_000))

    def test_each_has_its_ages(self, house: House) -> None:
        ends = [end(1, queue=b"brief"), end(2, queue=b"brief", state=FAILED), end(3), end(4, state=FAILED)]
        house.store.commit(batch(ends=ends), NOW_US)
        house.store.commit(batch(), NOW_US + HOUR_US)
        assert house.ids() == [4, 3, 2, 1]
        house.store.commit(batch(), NOW_US + HOUR_US + 2_000_000)
        assert house.ids() == [4, 3, 2]
        house.store.commit(batch(), NOW_US + 3 * HOUR_US)
        assert house.ids() == [4, 3]
        house.store.commit(batch(), NOW_US + 2 * DAY_US)
        assert house.ids() == [4]

    def test_each_has_its_number(self, house: House) -> None:
        for i in range(1, 101, 5):
            ends = [
                end(j, queue=b"few\x00\xff" if j % 2 else b"many", ended_us=NOW_US + j) for j in range(i, i + 5)
            ]
            house.store.commit(batch(ends=ends), NOW_US)
        assert self.kept(house, b"few\x00\xff") == list(range(99, 79, -2))
        assert self.kept(house, b"many") == list(range(100, 0, -2))
        assert house.store.count() == (0, 60)

    def test_each_has_its_size(self, house: House) -> None:
        """Keys, results, payloads and extras count; the oldest go until there is room, and a little more."""
        for i in range(1, 12):
            ends = [end(i, queue=b"small", key=b"k" * 50, result=b"r" * 50, ended_us=NOW_US + i)]
            house.store.commit(batch(ends=ends), NOW_US)
            assert self.kept(house, b"small") == list(range(i, 0, -1))[: 9 if i == 11 else 10]
        large = [end(20, queue=b"small", state=FAILED, payload=b"p" * 500, result=b"", extras={"": b"e" * 300})]
        house.store.commit(batch(ends=large), NOW_US)
        assert self.kept(house, b"small") == [20, 11]
        assert house.store.count() == (0, 2)

    def test_the_numbers_of_others_do_not_count(self, house: House) -> None:
        ends = [end(i, queue=b"brief", ended_us=NOW_US + i) for i in range(1, 701)]
        ends += [end(i, ended_us=NOW_US + i) for i in range(701, 1301)]
        house.store.commit(batch(ends=ends), NOW_US)
        assert house.store.count() == (0, 1300)

    def test_dead_letters_go_last(self, house: House) -> None:
        few = b"few\x00\xff"
        dead = [end(i, queue=few, state=FAILED, ended_us=NOW_US + i) for i in range(1, 9)]
        house.store.commit(batch(ends=dead), NOW_US)
        house.store.commit(batch(ends=[end(i, queue=few, ended_us=NOW_US + i) for i in range(9, 20)]), NOW_US)
        assert self.kept(house, few) == [19, 18, *range(8, 0, -1)]
        more = [end(i, queue=few, state=FAILED, ended_us=NOW_US + i) for i in range(20, 25)]
        house.store.commit(batch(ends=more), NOW_US)
        assert self.kept(house, few) == [24, 23, 22, 21, 20, 8, 7, 6, 5, 4]

    def test_what_is_revived_or_ends_again_counts_no_more(self, house: House) -> None:
        small = b"small"
        dead = [end(i, queue=small, state=FAILED, result=b"r" * 100, ended_us=NOW_US + i) for i in range(1, 11)]
        house.store.commit(batch(ends=dead), NOW_US)
        house.store.commit(batch(revived=[1, 2], inserts=[job(1, queue=small), job(2, queue=small)]), NOW_US)
        again = [end(i, queue=small, result=b"s" * 100, ended_us=NOW_US + 20) for i in (3, 4, 1)]
        house.store.commit(batch(ends=again, deletes=[1]), NOW_US)
        assert house.store.count() == (1, 9)
        house.store.commit(batch(ends=[end(11, queue=small, result=b"t" * 100, ended_us=NOW_US + 21)]), NOW_US)
        assert self.kept(house, small) == [11, 10, 9, 8, 7, 6, 5, 4, 3, 1]
        house.store.commit(batch(ends=[end(12, queue=small, result=b"t" * 100, ended_us=NOW_US + 22)]), NOW_US)
        assert self.kept(house, small) == [12, 11, 10, 9, 8, 7, 6, 5, 4]
        house.reopen()
        assert house.store.count() == (1, 9)

    def test_all_of_them_are_loaded_together(self, house: House) -> None:
        queues = (b"brief", b"any", b"small", b"few\x00\xff")
        states = (FAILED, CANCELLED, CANCELLED)
        ends = [
            end(i, queue=queues[i % 4], state=states[i % 3], ended_us=NOW_US + i * 7 % 31) for i in range(1, 30)
        ]
        house.store.commit(batch(ends=ends), NOW_US)
        house.reopen(ended_max=12)
        latest = sorted(ends, key=lambda row: (row.ended_us, row.id))[-12:]
        assert [row.id for row in house.ended()] == [row.id for row in latest]
        dead = sorted([row.id for row in ends if row.state == FAILED], reverse=True)
        assert house.ids(HistoryQuery(state=FAILED)) == dead
        since = sorted([row.id for row in ends if row.ended_us >= NOW_US + 20], reverse=True)
        assert house.ids(HistoryQuery(ended_from_us=NOW_US + 20, limit=3)) == since[:3]


class TestManyQueuesWithRules:
    @pytest.fixture
    def retention(self) -> Retention:
        brief = QueueRetention(age_us=HOUR_US)
        return Retention(queues={b"q%d" % i: brief for i in range(RULED_QUEUES_MAX)})

    def test_their_ages_are_looked_at_in_turns(self, house: House) -> None:
        ends = [end(i + 1, queue=b"q%d" % i) for i in range(RULED_QUEUES_MAX)]
        house.store.commit(batch(ends=ends), NOW_US)
        left: list[int] = []
        for second in range(RULED_QUEUES_MAX // QUEUES_PER_CHECK + 1):
            house.store.commit(batch(), NOW_US + 2 * HOUR_US + second * 1_000_000)
            left.append(house.store.count()[1])
        assert left[0] == RULED_QUEUES_MAX - QUEUES_PER_CHECK
        assert left[-1] == 0

    def test_the_latest_of_all(self, house: House) -> None:
        ends = [end(i + 1, queue=b"q%d" % (i % RULED_QUEUES_MAX), ended_us=NOW_US + i) for i in range(300)]
        house.store.commit(batch(ends=ends), NOW_US)
        house.reopen(ended_max=250)
        assert [row.id for row in house.ended()] == list(range(51, 301))


def test_too_many_queues_with_rules(house: House) -> None:
    queues = {b"q%d" % i: QueueRetention() for i in range(RULED_QUEUES_MAX + 1)}
    with pytest.raises(
        StoreError, match="101 queues have retention rules of their own: at most 100 are allowed"
    ):
        type(house)(house.kind, house.folder / "other", Retention(queues=queues))


class TestTheWholeStore:
    @pytest.fixture
    def retention(self) -> Retention:
        rules = QueueRetention()
        return Retention(bytes_max=1 << 20, queues={b"own": rules, b"another": rules})

    def test_the_oldest_go_whichever_their_queue(self, house: House) -> None:
        queues = (b"own", b"any", b"another", b"whatever")
        for i in range(0, 2000, 20):
            ends = [
                end(j, queue=queues[j % 4], result=b"r" * 1000, ended_us=NOW_US + j)
                for j in range(i + 1, i + 21)
            ]
            house.store.commit(batch(ends=ends), NOW_US + i)
        kept = house.ids()
        assert kept == list(range(2000, 2000 - len(kept), -1))
        assert 550 < len(kept) < 1000
        assert house.store.count() == (0, len(kept))

    def test_dead_letters_go_last(self, house: House) -> None:
        dead = [end(i, state=FAILED, payload=b"p" * 1000, ended_us=NOW_US + i) for i in range(1, 501)]
        house.store.commit(batch(ends=dead), NOW_US)
        for i in range(501, 2501, 20):
            ends = [end(j, result=b"r" * 1000, ended_us=NOW_US + j) for j in range(i, i + 20)]
            house.store.commit(batch(ends=ends), NOW_US + i)
        assert len(house.ids(HistoryQuery(state=FAILED, limit=1000))) == 500
        for i in range(2501, 4501, 20):
            more = [end(j, state=FAILED, payload=b"p" * 1000, ended_us=NOW_US + j) for j in range(i, i + 20)]
            house.store.commit(batch(ends=more), NOW_US + i)
        kept = house.ids()
        assert 600 < len(kept) < 1000
        assert kept == list(range(4500, 4500 - len(kept), -1))

    def test_jobs_never_go(self, house: House) -> None:
        house.store.commit(batch(ends=[end(i, result=b"r" * 1000) for i in range(1, 301)]), NOW_US)
        for i in range(1000, 4000, 100):
            jobs = [job(j, payload=b"p" * 1000) for j in range(i, i + 100)]
            house.store.commit(batch(inserts=jobs), NOW_US)
        assert house.store.count() == (3000, 0)
        house.store.commit(batch(ends=[end(5000)]), NOW_US)
        house.store.commit(batch(ends=[end(i) for i in range(1000, 4000)], deletes=range(1000, 4000)), NOW_US)
        house.store.commit(batch(ends=[end(5001)]), NOW_US)
        assert house.ids(HistoryQuery(limit=1)) == [5001]
        assert house.store.count() > (0, 2900)

    def test_small_old_lines_make_room_for_large_ones(self, house: House) -> None:
        ends = [end(i, result=b"", ended_us=NOW_US + i) for i in range(1, 5 * DROP_MIN + 1)]
        house.store.commit(batch(ends=ends), NOW_US)
        for i in range(10_000, 10_100):
            house.store.commit(batch(ends=[end(i, result=b"r" * 50_000, ended_us=NOW_US + i)]), NOW_US + i)
        kept = house.ids()
        assert 10 < len(kept) < 21
        assert kept == list(range(10_099, 10_099 - len(kept), -1))
