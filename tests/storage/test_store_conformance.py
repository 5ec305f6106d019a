"""What every store must do, told once and run against each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_rows import NOW_US, TERMS, batch, end, job, plain_end, plain_job, update_of

from hiringhall.core.changes import Firing, FlowRow
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import HIGH, HOLD, LOW, Terms
from hiringhall.storage.contract import HistoryQuery, StoreError

if TYPE_CHECKING:
    from store_house import House

    from hiringhall.core.changes import EndRow, JobRow

ODD_TERMS = Terms(
    priority=LOW,
    durable=True,
    failures_max=5,
    backoff_us=1,
    backoff_max_us=2**62,
    losses_max=0,
    lease_us=30_000_000,
    run_us=1,
    on_parent_failure=HOLD,
    expire_us=2**62,
    logged=True,
    quits_max=2**62,
    key_is_work=True,
    keep_us=2**62,
)
TRIES = ((1, 2**62, b"", 0, ""), (3, 0, b"ann\x00\xff", 255, "gearman"))

JOBS = [
    job(1),
    job(2, queue=b"\x00\xff", key=b"k\x00\xfe", payload=b""),
    job(3, key=b"unique", terms=ODD_TERMS, state=DELAYED),
    job(4, state=HELD, parents=(1, 2**62, (b"reverse", b"k\x00"), (b"", b""))),
    job(5, extras={"reducer": b"sum\x00", "": b""}),
    job(6, state=HELD, parents=((b"q", b"k"),), extras={"ä": b"\xff"}, terms=Terms(priority=HIGH)),
    job(7, payload=b"\x00\xff" * (1 << 19)),
    job(8, payload=b"z" * (3 << 20), extras={"big": b"y" * 100_000}),
    job(9, ready_us=2**62),
    job(10, holder=b"host\x00\xff:1", ready_us=1),
    job(11, holder=b"host", state=HELD, parents=(1,), extras={"name": b"ann"}, due_us=1, failures=2, losses=3),
    job(12, due_us=2**62, state=DELAYED),
    job(13, failures=2**62),
    job(14, losses=2**62),
    job(15)._replace(attempts=0, started_us=0),
    job(16, state=LEASED, worker=b"ann\x00\xff", dialect="gearman_draft"),
    job(17, tries=TRIES),
    job(18, state=LEASED, holder=b"host", worker=b"host", tries=TRIES[:1], extras={"a": b"b"}, parents=(1,)),
    job(19, terms=Terms(durable=True, expire_us=1)),
    job(20, terms=Terms(logged=True)),
    job(2**62 + 1),
]

UPDATES = [
    update_of(1, TERMS, QUEUED, 0, 0, 0, 0, ()),
    update_of(1, ODD_TERMS, DELAYED, 2**62, 0, 0, 0, ()),
    update_of(1, TERMS, QUEUED, 0, 2**62, 0, 0, ()),
    update_of(1, TERMS, QUEUED, 0, 0, 2**62, 0, ()),
    update_of(1, TERMS, QUEUED, 0, 0, 0, 2**62, ()),
    update_of(1, TERMS, HELD, 0, 0, 0, 0, (7, (b"", b"\xff"))),
    update_of(1, TERMS, QUEUED, 0, 0, 0, 0, (), {"note": b"\x00"}),
    update_of(1, TERMS, QUEUED, 0, 0, 0, 0, (), None, ready_us=2**62),
    update_of(1, TERMS, QUEUED, 0, 1, 0, 0, (), None, started_us=2**62, holder=b"host\x00\xff:1"),
    update_of(1, ODD_TERMS, HELD, 1, 2, 3, 4, (5,), {"": b"y" * (3 << 19)}, 6, 7, b"host"),
    update_of(1, TERMS, LEASED, 0, 1, 0, 0, (), started_us=2**62, worker=b"ann\x00\xff"),
    update_of(1, TERMS, QUEUED, 0, 1, 0, 0, (), tries=TRIES),
    update_of(1, ODD_TERMS, LEASED, 1, 2, 3, 4, (5,), {"a": b""}, 6, 7, b"host", b"host", TRIES[1:]),
    update_of(1, TERMS, QUEUED, 0, 0, 0, 0, (), all_parents=(7, (b"", b"\xff"))),
]

ENDS = [
    end(1),
    end(2, queue=b"\x00\xff", key=b"k\x00\xfe", result=b""),
    end(3, key=b"unique", terms=ODD_TERMS, state=CANCELLED, result=b"not wanted"),
    end(4, state=FAILED, payload=b"again\x00", extras={"reducer": b"sum"}),
    end(5, state=FAILED, payload=b"", extras={"only": b"extras"}),
    end(6, result=b"\x00r" * (1 << 19)),
    end(7, state=FAILED, payload=b"p" * (2 << 20)),
    end(8, extras={"name": b"ann", "host": b"\xff"}, ready_us=2**62),
    end(9, state=CANCELLED, extras={"big": b"y" * (3 << 19)}),
    end(10, code=2**40),
    end(11, losses=2**40),
    end(12, ready_us=0),
    end(13, tries=TRIES, dialect="wmp"),
    end(14, state=FAILED, payload=b"again", code=1, losses=2, extras={"a": b"b"}, tries=TRIES[:1]),
    end(15, state=FAILED),
    end(16, terms=Terms(logged=True)),
    end(17, flow=b"\x00\xff"),
    end(18, state=FAILED, flow=b"nightly", all_parents=(7, (b"", b"\xff"))),
    end(2**62 + 1),
]


def test_a_new_store_is_empty(house: House) -> None:
    assert house.loaded.epoch == 1
    assert list(house.loaded.jobs) == []
    assert house.ended() == []
    assert house.store.count() == (0, 0)


def test_each_load_bumps_the_epoch(house: House) -> None:
    assert [house.reopen().epoch for _ in range(3)] == [2, 3, 4]


@pytest.mark.parametrize("row", JOBS, ids=lambda row: str(row.id))
def test_a_job_comes_back_as_it_was(house: House, row: JobRow) -> None:
    house.store.commit(batch(inserts=[row]), NOW_US)
    assert house.jobs() == [plain_job(row)]
    assert [plain_job(kept) for kept in house.reopen().jobs] == [plain_job(row)]


@pytest.mark.parametrize("row", ENDS, ids=lambda row: str(row.id))
def test_a_line_of_history_comes_back_as_it_was(house: House, row: EndRow) -> None:
    house.store.commit(batch(ends=[row]), NOW_US)
    assert house.lines() == [plain_end(row._replace(result=row.result[: 1 << 20]))]
    house.reopen()
    assert house.lines(HistoryQuery(id=row.id)) == [plain_end(row)]


def test_all_kinds_of_rows_in_one_batch(house: House) -> None:
    house.store.commit(
        batch(inserts=reversed(JOBS), ends=[end(100), end(101, state=FAILED, payload=b"x")]), NOW_US
    )
    assert house.store.count() == (len(JOBS), 2)
    assert [plain_job(row) for row in house.reopen().jobs] == [plain_job(row) for row in JOBS]
    assert house.ids() == [101, 100]


@pytest.mark.parametrize("extras", [None, {"a": b"b"}])
@pytest.mark.parametrize("rows", [1, 2, 3, 63, 64, 65, 1023, 1024, 1025, 2500])
def test_a_batch_of_any_size(house: House, rows: int, extras: dict[str, bytes] | None) -> None:
    """With extras and without: those are different statements."""
    ids = range(1, rows + 1)
    house.store.commit(batch(inserts=[job(i, key=b"%d" % i, extras=extras) for i in ids]), NOW_US)
    assert [row.key for row in house.reopen().jobs] == [b"%d" % i for i in ids]
    updates = [update_of(i, TERMS, QUEUED, 0, 1, 0, 0, (), extras, 0, i, b"host %d" % i) for i in ids]
    house.store.commit(batch(updates=updates), NOW_US)
    assert [(row.started_us, row.holder) for row in house.store.live()] == [(i, b"host %d" % i) for i in ids]
    house.store.commit(batch(ends=[end(i, extras=extras) for i in ids], deletes=ids), NOW_US)
    assert house.store.count() == (0, rows)
    assert house.ids() == list(reversed(ids))


def test_empty_extras_are_none(house: House) -> None:
    ends = [end(3, extras={}), end(4, extras={}, payload=b"p")]
    house.store.commit(batch(inserts=[job(1, extras={}), job(2, extras={}, parents=(1,))], ends=ends), NOW_US)
    assert [row.extras for row in house.reopen().jobs] == [None, None]
    assert [row.extras for row in house.store.history(HistoryQuery())] == [None, None]
    updates = [update_of(1, TERMS, QUEUED, 0, 0, 0, 0, (), {}), update_of(2, TERMS, HELD, 0, 0, 0, 0, (1,), {})]
    house.store.commit(batch(updates=updates), NOW_US)
    assert [row.extras for row in house.reopen().jobs] == [None, None]


def test_jobs_submitted_alike_share_their_terms(house: House) -> None:
    alike = [Terms(durable=True, lease_us=5) for _ in range(4)]
    house.store.commit(batch(inserts=[job(i, terms=alike[i]) for i in (1, 2)]), NOW_US)
    house.store.commit(batch(inserts=[job(3, terms=alike[3])]), NOW_US)
    assert [row.terms.as_tuple() for row in house.reopen().jobs] == [alike[0].as_tuple()] * 3


@pytest.mark.parametrize("update", UPDATES, ids=[str(number) for number in range(len(UPDATES))])
def test_an_update_changes_all_of_its_columns_and_no_others(house: House, update: JobRow) -> None:
    before = job(
        1, key=b"k", state=HELD, parents=(5, (b"q", b"k")), extras={"a": b"b"}, holder=b"h", ready_us=9
    )
    before = before._replace(worker=b"w", tries=TRIES, due_us=10, attempts=11, failures=12, losses=13)
    other = before._replace(id=2)
    house.store.commit(batch(inserts=[before, other]), NOW_US)
    house.store.commit(batch(updates=[update]), NOW_US)
    after = before.updated(update)
    assert [plain_job(row) for row in house.reopen().jobs] == [plain_job(after), plain_job(other)]


def test_updates_of_all_kinds_in_one_batch(house: House) -> None:
    jobs = [job(job_id) for job_id in range(1, len(UPDATES) + 1)]
    updates = [update._replace(id=row.id) for row, update in zip(jobs, UPDATES, strict=True)]
    house.store.commit(batch(inserts=jobs), NOW_US)
    house.store.commit(batch(updates=updates), NOW_US)
    after = [row.updated(update) for row, update in zip(jobs, updates, strict=True)]
    assert [plain_job(row) for row in house.reopen().jobs] == [plain_job(row) for row in after]


def test_a_holder_takes_a_job_gives_it_back_and_another_ends_it(house: House) -> None:
    house.store.commit(batch(inserts=[job(1), job(2, holder=b"west")]), NOW_US)
    house.store.commit(batch(updates=[update_of(1, TERMS, QUEUED, 0, 1, 0, 0, (), holder=b"east")]), NOW_US)
    assert [row.holder for row in house.reopen().jobs] == [b"east", b"west"]
    house.store.commit(batch(updates=[update_of(2, TERMS, QUEUED, 0, 1, 0, 0, ())]), NOW_US)
    assert [row.holder for row in house.reopen().jobs] == [b"east", b""]
    house.store.commit(batch(ends=[end(1)], deletes=[1]), NOW_US)
    assert [row.id for row in house.reopen().jobs] == [2]
    assert house.lines() == [plain_end(end(1))]


def test_a_job_that_runs_is_lost_with_its_worker_and_runs_again(house: House) -> None:
    house.store.commit(batch(inserts=[job(1)]), NOW_US)
    runs = update_of(1, TERMS, LEASED, 0, 1, 0, 0, (), started_us=5, worker=b"ann")
    house.store.commit(batch(updates=[runs]), NOW_US)
    assert [(row.state, row.worker, row.tries) for row in house.reopen().jobs] == [(LEASED, b"ann", ())]
    lost = (5, 6, b"ann", 125, "native")
    again = runs._replace(attempts=2, losses=1, started_us=7, worker=b"bob", tries=(lost,), dialect="gearman")
    house.store.commit(batch(updates=[again]), NOW_US)
    assert [(row.worker, row.tries, row.dialect) for row in house.reopen().jobs] == [
        (b"bob", (lost,), "gearman")
    ]
    house.store.commit(batch(ends=[end(1, losses=1, tries=(lost,))], deletes=[1]), NOW_US)
    assert [row.tries for row in house.store.history(HistoryQuery(id=1))] == [(lost,)]
    assert [row.tries for row in house.reopen().ended] == [(lost,)]


class TestSchedules:
    def test_how_far_each_has_come_is_kept_with_its_jobs(self, house: House) -> None:
        assert house.loaded.fired == {}
        first = {"nightly": Firing(5, b"\x00\xff"), "ö ": Firing(2**62, b"")}
        house.store.commit(batch(inserts=[job(1)], fired=first), NOW_US)
        assert house.reopen().fired == first
        house.store.commit(batch(fired={"nightly": Firing(6, b"other")}), NOW_US)
        assert house.reopen().fired == {**first, "nightly": Firing(6, b"other")}
        assert house.store.count() == (1, 0)

    def test_one_is_forgotten_and_may_come_back(self, house: House) -> None:
        house.store.commit(batch(fired={"a": Firing(1, b"x"), "b": Firing(2, b"y")}), NOW_US)
        house.store.commit(batch(fired={"a": None, "never known": None}), NOW_US)
        assert house.reopen().fired == {"b": Firing(2, b"y")}
        house.store.commit(batch(fired={"a": Firing(3, b"z")}), NOW_US)
        assert house.reopen().fired == {"b": Firing(2, b"y"), "a": Firing(3, b"z")}

    def test_what_a_store_told_is_not_changed_by_what_comes(self, house: House) -> None:
        house.store.commit(batch(fired={"a": Firing(1, b"x")}), NOW_US)
        told = house.reopen().fired
        house.store.commit(batch(fired={"a": Firing(2, b"x")}), NOW_US)
        assert told == {"a": Firing(1, b"x")}

    def test_a_firing_fails_with_its_job(self, house: House) -> None:
        house.store.commit(batch(inserts=[job(1)], fired={"a": Firing(1, b"x")}), NOW_US)
        with pytest.raises(StoreError):
            house.store.commit(
                batch(inserts=[job(1)], fired={"a": Firing(2, b"x"), "b": Firing(2, b"")}), NOW_US
            )
        assert house.reopen().fired == {"a": Firing(1, b"x")}


class TestPausedQueues:
    def test_what_is_paused_is_kept_until_it_is_resumed(self, house: House) -> None:
        assert house.loaded.paused == []
        house.store.commit(batch(inserts=[job(1)], paused={b"q": True, b"\xff\x00": True, b"a": True}), NOW_US)
        assert house.reopen().paused == [b"a", b"q", b"\xff\x00"]
        house.store.commit(batch(paused={b"q": True, b"a": False, b"never known": False}), NOW_US)
        assert house.reopen().paused == [b"q", b"\xff\x00"]
        house.store.commit(batch(paused={b"a": True}), NOW_US)
        assert house.reopen().paused == [b"a", b"q", b"\xff\x00"]
        assert house.store.count() == (1, 0)

    def test_a_pause_fails_with_the_rest_of_its_batch(self, house: House) -> None:
        house.store.commit(batch(inserts=[job(1)], paused={b"a": True}), NOW_US)
        with pytest.raises(StoreError):
            house.store.commit(batch(inserts=[job(1)], paused={b"a": False, b"b": True}), NOW_US)
        assert house.reopen().paused == [b"a"]


class TestFlows:
    def test_what_a_flow_counts_is_kept_until_it_is_dropped(self, house: House) -> None:
        assert house.loaded.flows == []
        nightly, other = FlowRow(b"nightly", 5, 0, 1, 2, 3), FlowRow(b"\x00\xff", 4, 9, 2**40, 0, 0)
        house.store.commit(batch(inserts=[job(1)], flows={b"nightly": nightly, b"\x00\xff": other}), NOW_US)
        assert house.reopen().flows == [other, nightly]
        later = nightly._replace(ended_us=7, done=8)
        house.store.commit(batch(flows={b"nightly": later, b"\x00\xff": None, b"unknown": None}), NOW_US)
        assert house.reopen().flows == [later]
        assert house.store.count() == (1, 0)

    def test_a_flow_fails_with_the_rest_of_its_batch(self, house: House) -> None:
        first = FlowRow(b"nightly", 5, 0, 1, 2, 3)
        house.store.commit(batch(inserts=[job(1)], flows={b"nightly": first}), NOW_US)
        with pytest.raises(StoreError):
            house.store.commit(batch(inserts=[job(1)], flows={b"nightly": None}), NOW_US)
        assert house.reopen().flows == [first]

    def test_the_history_lists_the_lines_of_one_flow(self, house: House) -> None:
        ends = [end(number, flow=b"f" if number % 3 else b"g", state=DONE) for number in range(1, 20)]
        ends += [end(20, flow=b"f", state=FAILED, payload=b"p"), end(21), end(22, flow=b"ff")]
        house.store.commit(batch(ends=ends), NOW_US)
        mine = [row.id for row in reversed(ends) if row.flow == b"f"]
        assert house.ids(HistoryQuery(flow=b"f")) == mine
        assert house.ids(HistoryQuery(flow=b"f", state=FAILED)) == [20]
        assert house.ids(HistoryQuery(flow=b"f", before_id=8, limit=2)) == [7, 5]
        assert house.ids(HistoryQuery(flow=b"f", queue=b"other")) == []
        seen: list[int] = []
        query = HistoryQuery(flow=b"f", limit=5, brief=True)
        while True:
            page = house.store.page(query)
            assert {(row.result, row.payload) for row in page.lines} <= {(b"", b"")}
            seen += [row.id for row in page.lines]
            if not page.before_id:
                break
            query = query._replace(before_id=page.before_id)
        assert seen == mine

    def test_a_page_of_a_flow_has_its_results_unless_it_is_brief(self, house: House) -> None:
        house.store.commit(batch(ends=[end(1, flow=b"f", result=b"r" * 5000)]), NOW_US)
        assert [len(row.result) for row in house.store.page(HistoryQuery(flow=b"f")).lines] == [4096]
        assert [row.id for row in house.store.page(HistoryQuery(flow=b"f", state=FAILED)).lines] == []


def test_an_update_of_a_job_that_is_gone_does_nothing(house: House) -> None:
    house.store.commit(batch(inserts=[job(1)]), NOW_US)
    house.store.commit(batch(ends=[end(1)], deletes=[1]), NOW_US)
    gone = [update_of(1, TERMS, QUEUED, 0, 0, 0, 0, ()), update_of(2, TERMS, HELD, 0, 0, 0, 0, (3,))]
    house.store.commit(batch(updates=gone), NOW_US)
    assert house.store.count() == (0, 1)
    assert list(house.reopen().jobs) == []


def test_an_ended_job_moves_to_the_history(house: House) -> None:
    house.store.commit(batch(inserts=[job(1), job(2)]), NOW_US)
    house.store.commit(batch(ends=[end(1)], deletes=[1]), NOW_US)
    assert house.store.count() == (1, 1)
    assert [row.id for row in house.reopen().jobs] == [2]
    assert [row.id for row in house.ended()] == [1]


def test_the_latest_end_stands(house: House) -> None:
    """A commit that failed after it reached the disk is tried again; a dead letter runs again and ends."""
    house.store.commit(batch(inserts=[job(5)], ends=[end(1, state=FAILED, payload=b"p"), end(3)]), NOW_US)
    house.store.commit(batch(ends=[end(1, result=b"second"), end(2), end(5)], deletes=[5]), NOW_US)
    assert house.store.count() == (0, 4)
    assert house.lines(HistoryQuery(id=1)) == [plain_end(end(1, result=b"second"))]
    house.store.commit(batch(ends=[end(2), end(6)]), NOW_US)
    assert house.store.count() == (0, 5)
    assert house.ids() == [6, 5, 3, 2, 1]
    assert house.ids(HistoryQuery(state=FAILED)) == []


def test_a_batch_that_was_kept_may_come_again(house: House) -> None:
    """After a fault nobody knows whether the batch before it reached the disk."""
    house.store.commit(batch(inserts=[job(1), job(2)]), NOW_US)
    done = batch(ends=[end(1)], deletes=[1])
    house.store.commit(done, NOW_US)
    with pytest.raises(StoreError):
        house.store.commit(batch(inserts=[job(2)]), NOW_US)
    house.store.commit(done, NOW_US)
    assert house.store.count() == (1, 1)
    assert (len(house.jobs()), house.ids()) == (1, [1])


def test_a_dead_letter_is_revived(house: House) -> None:
    house.store.commit(batch(ends=[end(1, state=FAILED, payload=b"hello"), end(2)]), NOW_US)
    house.store.commit(batch(revived=[1], inserts=[job(1)]), NOW_US)
    assert house.store.count() == (1, 1)
    assert [plain_job(row) for row in house.reopen().jobs] == [plain_job(job(1))]
    assert house.ids() == [2]


def test_a_dead_letter_is_revived_and_ends_within_one_batch(house: House) -> None:
    house.store.commit(batch(ends=[end(1, state=FAILED, payload=b"hello")]), NOW_US)
    house.store.commit(batch(revived=[1], ends=[end(1, state=DONE)]), NOW_US)
    assert house.lines() == [plain_end(end(1))]
    assert house.store.count() == (0, 1)


def test_a_batch_that_fails_leaves_nothing_behind(house: House) -> None:
    house.store.commit(batch(inserts=[job(1), job(2)], ends=[end(3, state=FAILED)]), NOW_US)
    jobs, lines = house.jobs(), house.lines()
    doomed = batch(
        inserts=[job(9, terms=ODD_TERMS), job(2)],
        updates=[update_of(1, TERMS, DELAYED, 1, 1, 1, 1, ())],
        ends=[end(1), end(4)],
        deletes=[1],
        revived=[3],
    )
    with pytest.raises(StoreError):
        house.store.commit(doomed, NOW_US)
    assert (house.jobs(), house.lines(), house.store.count()) == (jobs, lines, (2, 1))

    house.store.commit(batch(inserts=[job(9, terms=ODD_TERMS)], ends=[end(1)], deletes=[1]), NOW_US)
    assert [row.id for row in house.reopen().jobs] == [2, 9]
    assert next(iter(house.store.history(HistoryQuery()))).id == 3
    assert house.jobs()[1] == plain_job(job(9, terms=ODD_TERMS))


def test_an_empty_batch_is_no_trouble(house: House) -> None:
    house.store.commit(batch(), NOW_US)
    house.store.commit(batch(), NOW_US)
    assert house.store.count() == (0, 0)


def test_a_probe_of_a_sound_store_succeeds(house: House) -> None:
    house.store.probe()
    house.store.probe()
    assert house.store.count() == (0, 0)


def test_live_jobs_can_be_walked_while_others_are_committed(house: House) -> None:
    house.store.commit(batch(inserts=[job(i) for i in range(1, 2001)]), NOW_US)
    walk = house.store.live()
    seen = [next(walk).id]
    house.store.commit(batch(ends=[end(i) for i in range(1, 11)], deletes=range(1, 11)), NOW_US)
    seen += [row.id for row in walk]
    assert seen == sorted(seen)
    assert set(seen) >= set(range(11, 2001))


class TestLoadedEnds:
    def test_the_latest_come_oldest_first_without_results(self, house: House) -> None:
        ends = [
            end(
                i,
                state=FAILED if i % 3 == 0 else DONE,
                ended_us=NOW_US - i,
                payload=b"p" if i % 3 == 0 else b"",
                extras={"name": b"%d" % i} if i % 2 == 0 else None,
                ready_us=i,
            )
            for i in range(1, 21)
        ]
        house.store.commit(batch(ends=reversed(ends)), NOW_US)
        house.reopen(ended_max=5)
        latest = [plain_end(row._replace(result=b"")) for row in reversed(ends[:5])]
        assert [plain_end(row) for row in house.ended()] == latest

    def test_none_are_asked_for(self, house: House) -> None:
        house.store.commit(batch(ends=[end(1)]), NOW_US)
        house.reopen(ended_max=0)
        assert house.ended() == []

    def test_more_are_asked_for_than_there_are(self, house: House) -> None:
        house.store.commit(batch(ends=[end(1), end(2, state=FAILED)]), NOW_US)
        house.reopen(ended_max=10**9)
        assert [row.id for row in house.ended()] == [1, 2]
