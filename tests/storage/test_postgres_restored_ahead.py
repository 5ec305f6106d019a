"""What a standby has restored ahead is the hall that opens after the take-over."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from store_rows import NOW_US, TERMS, batch, end, job

from hiringhall.core import ids
from hiringhall.core.errors import BrokenLaw
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.states import DELAYED, LEASED, QUEUED
from hiringhall.engine.recovery import open_scheduler, restore_ahead
from hiringhall.storage.contract import Retention
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.postgres.members import MemberLink
from hiringhall.storage.postgres.membership import Predecessor
from stage.databases import postgres_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.core.changes import JobRow
    from hiringhall.core.scheduler import Scheduler

READ_US = NOW_US + 10 * SECOND_US
OPENED_US = READ_US + 3 * SECOND_US
ANN, BOB = Member("ann"), Member("bob")
RESIDENT, LATER, READY = 1, 2, 3


def rows() -> list[JobRow]:
    run_for_a_minute = TERMS.replace(run_us=60 * SECOND_US)
    return [
        job(RESIDENT, state=LEASED, holder=b"there", terms=run_for_a_minute),
        job(LATER, state=DELAYED, due_us=READ_US + 4 * SECOND_US),
        job(READY),
    ]


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[PostgresStore]:
    """The store of a member that is to take over; there are three jobs and an ended one."""
    url = postgres_url(tmp_path)
    with closing(PostgresStore(url, Retention(), lambda _: None, ANN)) as active:
        active.load(0)
        active.commit(batch(inserts=rows(), ends=[end(9)]), NOW_US)

        async def beat() -> Predecessor:
            link = MemberLink(url, ANN.name)
            try:
                await link.beat(active.incarnation)
                return Predecessor(active.incarnation, (await link.look()).beat)
            finally:
                await link.close()

        store = PostgresStore(url, Retention(), lambda _: None, BOB)
        store.take_over_from(asyncio.run(beat()))
        with closing(store):
            yield store


def opened(store: PostgresStore) -> Scheduler:
    """Restored ahead, and opened three seconds later."""
    loaded = store.read_ahead(100, lambda: False)
    assert loaded is not None
    scheduler = open_scheduler(store, Limits(), OPENED_US, restore_ahead(loaded, Limits(), READ_US))
    scheduler.audit()
    return scheduler


def test_it_has_the_jobs_and_gives_ids_of_its_own_epoch(taken: PostgresStore) -> None:
    scheduler = opened(taken)
    assert {number: found.state for number, found in scheduler.jobs.items()} == {
        RESIDENT: LEASED,
        LATER: DELAYED,
        READY: QUEUED,
    }
    assert scheduler.find(9) is not None
    assert not scheduler.issued(READY)
    added = scheduler.submit(JobSpec(b"reverse", b"more", terms=TERMS), None)
    assert (ids.epoch_of(added.id), scheduler.epoch) == (taken.incarnation, taken.incarnation)


def test_due_times_stay_and_what_a_worker_may_take_counts_from_the_opening(taken: PostgresStore) -> None:
    scheduler = opened(taken)
    assert scheduler.now_us == OPENED_US
    lease = scheduler.jobs[RESIDENT].lease
    assert lease is not None
    assert lease.run_until_us == OPENED_US + 60 * SECOND_US
    scheduler.advance(READ_US + 4 * SECOND_US - 1)
    assert scheduler.jobs[LATER].state == DELAYED
    scheduler.advance(READ_US + 4 * SECOND_US)
    assert scheduler.jobs[LATER].state == QUEUED


def test_what_was_not_restored_cannot_be_left_unread(taken: PostgresStore) -> None:
    """A bug of ours would lose all jobs: it stops the process."""
    taken.read_ahead(100, lambda: False)
    with pytest.raises(BrokenLaw, match="nothing was restored"):
        open_scheduler(taken, Limits(), OPENED_US)
