"""Lines whose jobs say how long they are kept, in every store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_rows import DAY_US, HOUR_US, NOW_US, TERMS, batch, end, job

from hiringhall.core.changes import LOG, OutputRow
from hiringhall.core.jobs import OUTPUT
from hiringhall.core.states import CANCELLED, FAILED
from hiringhall.storage.contract import QueueRetention, Retention, StoreError
from hiringhall.storage.retention import DROP_MIN, IDLE_PAUSE_US, PAUSE_US

if TYPE_CHECKING:
    from store_house import House

SECOND_US = 1_000_000
BRIEF = TERMS.replace(keep_us=60 * SECOND_US)
LONG = TERMS.replace(keep_us=30 * DAY_US)


@pytest.fixture
def retention() -> Retention:
    rules = QueueRetention(age_us=DAY_US, dead_age_us=10 * DAY_US, bytes_max=1000)
    return Retention(age_us=DAY_US, dead_age_us=10 * DAY_US, rows_max=2000, queues={b"small": rules})


def test_a_line_goes_when_its_job_says_so_and_others_stay(house: House) -> None:
    ends = [end(1, terms=BRIEF), end(2), end(3, terms=BRIEF, state=CANCELLED), end(4, terms=LONG)]
    house.store.commit(batch(ends=ends), NOW_US)
    house.store.commit(batch(), NOW_US + 60 * SECOND_US - 1)
    assert house.ids() == [4, 3, 2, 1]
    house.store.commit(batch(), NOW_US + 62 * SECOND_US)
    assert house.ids() == [4, 2]
    assert house.store.count() == (0, 2)


def test_it_is_dropped_from_its_very_time_on(house: House) -> None:
    house.store.commit(batch(ends=[end(1, terms=BRIEF)]), NOW_US)
    house.store.commit(batch(), NOW_US + 60 * SECOND_US)
    assert house.ids() == []


def test_a_dead_letter_is_kept_by_its_own_rules(house: House) -> None:
    house.store.commit(batch(ends=[end(1, terms=BRIEF, state=FAILED), end(2, terms=BRIEF)]), NOW_US)
    house.store.commit(batch(), NOW_US + 9 * DAY_US)
    assert house.ids() == [1]
    house.store.commit(batch(), NOW_US + 11 * DAY_US)
    assert house.ids() == []


def test_a_dead_letter_that_succeeds_later_is_kept_from_its_last_end(house: House) -> None:
    house.store.commit(batch(ends=[end(i, terms=BRIEF, state=FAILED) for i in (1, 2)]), NOW_US)
    house.store.commit(batch(revived=[1], inserts=[job(1, terms=BRIEF)]), NOW_US + HOUR_US)
    again_us = NOW_US + 2 * HOUR_US
    again = [end(i, terms=BRIEF, ended_us=again_us) for i in (1, 2)]
    house.store.commit(batch(ends=again, deletes=[1]), again_us)
    house.store.commit(batch(), again_us + 59 * SECOND_US)
    assert house.ids() == [2, 1]
    house.store.commit(batch(), again_us + 61 * SECOND_US)
    assert house.ids() == []
    assert house.store.count() == (0, 0)


def test_an_end_that_is_replaced_by_a_failure_stays(house: House) -> None:
    house.store.commit(batch(ends=[end(1, terms=BRIEF)]), NOW_US)
    house.store.commit(batch(ends=[end(1, terms=BRIEF, state=FAILED)]), NOW_US)
    house.store.commit(batch(), NOW_US + HOUR_US)
    assert house.ids() == [1]
    assert house.store.count() == (0, 1)


def test_no_job_is_kept_longer_than_the_rules_say(house: House) -> None:
    house.store.commit(batch(ends=[end(1, terms=LONG), end(2, queue=b"small", terms=LONG)]), NOW_US)
    house.store.commit(batch(), NOW_US + DAY_US + 2 * SECOND_US)
    assert house.ids() == []
    many = [end(i, terms=LONG, ended_us=NOW_US + i) for i in range(10, 3010)]
    house.store.commit(batch(ends=many), NOW_US + DAY_US)
    assert house.store.count()[1] <= 2000


def test_the_room_of_a_queue_with_rules_of_its_own_is_free_again(house: House) -> None:
    ends = [end(i, queue=b"small", terms=BRIEF, result=b"r" * 100, ended_us=NOW_US + i) for i in range(1, 10)]
    house.store.commit(batch(ends=ends), NOW_US)
    house.store.commit(batch(), NOW_US + 62 * SECOND_US)
    more = [end(i, queue=b"small", result=b"r" * 100, ended_us=NOW_US + i) for i in range(100, 109)]
    house.store.commit(batch(ends=more), NOW_US + 62 * SECOND_US)
    assert house.ids() == list(range(108, 99, -1))


def test_its_output_goes_with_it(house: House) -> None:
    said = [OutputRow(1, NOW_US, LOG, b"hello")]
    house.store.commit(batch(ends=[end(1, terms=BRIEF, extras={OUTPUT: b""})], output=said), NOW_US)
    assert len(house.store.output(1, 0).lines) == 1
    house.store.commit(batch(), NOW_US + HOUR_US)
    assert house.store.output(1, 0).lines == []


def test_one_commit_drops_a_bounded_number_and_the_next_goes_on(house: House) -> None:
    count = 2 * DROP_MIN + 100
    house.store.commit(batch(ends=[end(i, terms=BRIEF) for i in range(1, count + 1)]), NOW_US)
    left: list[int] = []
    for _ in range(4):
        house.store.commit(batch(), NOW_US + HOUR_US)
        left.append(house.store.count()[1])
    assert left == [DROP_MIN + 100, 100, 0, 0]


def test_exactly_as_many_as_one_commit_drops(house: House) -> None:
    house.store.commit(batch(ends=[end(i, terms=BRIEF) for i in range(1, DROP_MIN + 1)]), NOW_US)
    house.store.commit(batch(), NOW_US + HOUR_US)
    assert house.store.count() == (0, 0)
    assert house.store.next_expiry_us() <= NOW_US + HOUR_US, "there may be more of them"
    house.store.commit(batch(), NOW_US + HOUR_US)
    assert house.store.next_expiry_us() == NOW_US + HOUR_US + IDLE_PAUSE_US


def test_lines_that_are_due_are_looked_for_once_in_a_while(house: House) -> None:
    """Not with every commit: a busy hall would drop them one by one."""
    ends = [end(i + 1, terms=BRIEF, ended_us=NOW_US + i * SECOND_US // 10) for i in range(20)]
    house.store.commit(batch(ends=ends), NOW_US + 2 * SECOND_US)
    left: list[int] = []
    for tenth in range(600, 631):
        house.store.commit(batch(), NOW_US + tenth * SECOND_US // 10)
        left.append(house.store.count()[1])
    assert (left[0], left[9], left[10], left[-1]) == (19, 19, 9, 0)
    assert len(set(left)) == 3


def test_it_is_known_when_the_next_line_is_due(house: House) -> None:
    house.store.commit(batch(ends=[end(1)]), NOW_US)
    assert house.store.next_expiry_us() == NOW_US + IDLE_PAUSE_US, "the rules of age"
    brief = TERMS.replace(keep_us=10 * SECOND_US)
    house.store.commit(batch(ends=[end(2, terms=BRIEF), end(3, terms=brief)]), NOW_US + 1)
    assert house.store.next_expiry_us() == NOW_US + 10 * SECOND_US
    house.store.commit(batch(), NOW_US + 10 * SECOND_US)
    assert house.ids() == [2, 1]
    assert house.store.next_expiry_us() == NOW_US + 60 * SECOND_US
    shortest, now_us = TERMS.replace(keep_us=1), NOW_US + 10 * SECOND_US
    house.store.commit(batch(ends=[end(4, terms=shortest, ended_us=now_us)]), now_us)
    assert house.store.next_expiry_us() == now_us + PAUSE_US, "at most once in this time"


def test_it_is_dropped_after_a_restart(house: House) -> None:
    house.store.commit(batch(ends=[end(1, terms=BRIEF), end(2, terms=LONG)]), NOW_US)
    house.reopen()
    assert house.store.next_expiry_us() <= NOW_US + 60 * SECOND_US
    house.store.commit(batch(), NOW_US + 61 * SECOND_US)
    assert house.ids() == [2]
    house.reopen()
    assert [row.terms.keep_us for row in house.ended()] == [30 * DAY_US]


def test_a_failed_commit_drops_nothing(house: House) -> None:
    house.store.commit(batch(inserts=[job(1)], ends=[end(2, terms=BRIEF)]), NOW_US)
    with pytest.raises(StoreError):
        house.store.commit(batch(inserts=[job(1)], ends=[end(3, terms=BRIEF)]), NOW_US + HOUR_US)
    assert house.ids() == [2]
    house.store.commit(batch(), NOW_US + HOUR_US)
    assert house.ids() == []


def test_the_end_of_a_job_that_stays_for_ever_is_no_overflow(house: House) -> None:
    forever = TERMS.replace(keep_us=(1 << 63) - 1)
    house.store.commit(batch(ends=[end(1, terms=forever)]), NOW_US)
    house.reopen()
    house.store.commit(batch(), NOW_US + HOUR_US)
    assert house.ids() == [1]
