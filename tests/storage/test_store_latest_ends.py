"""The latest end of each name, from every store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store_rows import NOW_US, batch, end

from hiringhall.core.states import DONE, FAILED

if TYPE_CHECKING:
    from store_house import House


def test_the_latest_end_of_each_name_is_found(house: House) -> None:
    first, second, other = (
        end(1, queue=b"q", key=b"k"),
        end(2, queue=b"q", key=b"k"),
        end(3, queue=b"p", key=b"k"),
    )
    house.store.commit(batch(ends=[first, second._replace(state=FAILED), other]), NOW_US)
    found = house.store.latest_ends([(b"q", b"k"), (b"p", b"k"), (b"q", b"unheard of")])
    assert sorted((row.id, row.state) for row in found) == [(2, FAILED), (3, DONE)]


def test_a_name_means_the_job_that_ended_last_and_not_the_one_that_came_last(house: House) -> None:
    retried = end(1, queue=b"q", key=b"k")
    retried = retried._replace(ended_us=retried.ended_us + 1000)
    house.store.commit(batch(ends=[retried, end(2, queue=b"q", key=b"k")]), NOW_US)
    assert [row.id for row in house.store.latest_ends([(b"q", b"k")])] == [1]


def test_ends_are_found_by_id_beside_names_and_across_blocks_of_ids(house: House) -> None:
    ids = [1 << 36 | 5, 3 << 36 | 9, 3 << 36 | 9 + (1 << 14)]
    house.store.commit(batch(ends=[end(number, queue=b"q", key=b"%d" % number) for number in ids]), NOW_US)
    wanted = [ids[0], 77, (b"q", b"%d" % ids[1]), (b"q", b"%d" % ids[2])]
    found = house.store.latest_ends(wanted)
    assert sorted(row.id for row in found) == ids
    assert {row.result for row in found} == {b""}, "results are left out"
    assert house.store.latest_ends([]) == []


def test_the_key_of_a_providers_job_names_it_to_nobody_else(house: House) -> None:
    provided = end(2, queue=b"q", key=b"k", extras={"provider": b"", "other": b"x"})
    house.store.commit(batch(ends=[end(1, queue=b"q", key=b"k", extras={"other": b"x"}), provided]), NOW_US)
    assert [row.id for row in house.store.latest_ends([(b"q", b"k")])] == [1]
    assert [row.id for row in house.store.latest_ends([2])] == [2]
