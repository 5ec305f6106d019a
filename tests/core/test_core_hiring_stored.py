"""What the store knows of hired workers: nothing until they perform, and then as of any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Disk, Hall, Person
from hiring_stories import (
    PERFORM_US,
    STAGE_NAMES,
    STAGES,
    WINDOW_US,
    Crier,
    bids,
    bring_to,
    crier,
    engagement_of,
    hire,
)

from hiringhall.core.leases import ARRIVED, PERFORMING
from hiringhall.core.states import CUT_SHORT, DONE, FAILED, LEASED, QUEUED, QUIT_TOO_OFTEN
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

EACH_STAGE = pytest.mark.parametrize("stage", STAGES, ids=STAGE_NAMES)


def announced(hall: Hall, terms: Terms = BACKGROUND, by: Person | None = None) -> tuple[Crier, Job]:
    market = crier(hall)
    job = hall.submit("a", terms=terms, by=by, key="a")
    hall.turn()
    market.hears("announced a")
    return market, job


def boot(disk: Disk, now_us: int) -> Hall:
    hall = Hall()
    hall.core.table.now_us = now_us
    hall.core.restore(disk.load())
    hall.turn()
    return hall


@EACH_STAGE
@pytest.mark.parametrize("noted", [False, True], ids=["quiet", "noted"])
def test_the_hall_is_killed(hall: Hall, stage: int, noted: bool) -> None:
    """The job is ready again; there was an attempt only if its worker performed."""
    disk = Disk()
    _, job = announced(hall)
    disk.apply(hall.commit())
    engagement = hire(hall, hall.person("bob"), job)
    bring_to(hall, engagement, stage)
    if stage == ARRIVED:
        engagement.begin_us = hall.core.now_us
    hall.core.ledger.flush_started()
    if noted:
        hall.core.ledger.note(job)
    disk.apply(hall.commit())
    after = boot(disk, hall.core.now_us + SECOND_US)
    (again,) = after.core.jobs.values()
    begun = int(stage == PERFORMING)
    assert (again.state, again.attempts, again.losses) == (QUEUED, begun, 0)
    assert [code for _, _, _, code, _ in again.tries or ()] == [CUT_SHORT] * begun
    market = crier(after)
    after.turn()
    market.hears("announced a")
    hire(after, after.person("carl"), again)
    after.close()


def test_hired_before_the_store_has_it(hall: Hall) -> None:
    """The commit takes longer than the window."""
    disk = Disk()
    _, job = announced(hall)
    engagement = hire(hall, hall.person("bob"), job)
    disk.apply(hall.commit())
    assert (disk.live[job.id].state, disk.live[job.id].attempts) == (QUEUED, 0)
    bring_to(hall, engagement, PERFORMING)
    hall.core.ledger.flush_started()
    disk.apply(hall.commit())
    assert (disk.live[job.id].state, disk.live[job.id].attempts) == (LEASED, 1)
    disk.compare(hall.core)


def test_done_by_the_clock_is_in_the_history(hall: Hall) -> None:
    disk = Disk()
    _, job = announced(hall)
    bob = hall.person("bob")
    hall.core.introduce(bob.me, b"bob")
    engagement = hire(hall, bob, job)
    bring_to(hall, engagement, PERFORMING)
    hall.after(PERFORM_US)
    bob.hears("revoked a")
    disk.apply(hall.commit())
    end = disk.history[job.id]
    assert (end.state, end.attempts, end.worker, end.losses) == (DONE, 1, b"bob", 0)
    assert end.ended_us - end.started_us == PERFORM_US


def test_the_store_fails_while_it_is_announced(hall: Hall) -> None:
    _, job = announced(hall)
    bids(hall.person("bob"), job)
    assert hall.commit_fails() == ["a"]
    hall.after(WINDOW_US)
    assert not hall.core.jobs


@EACH_STAGE
def test_the_store_fails_while_somebody_is_engaged(hall: Hall, stage: int) -> None:
    _, job = announced(hall)
    bob = hall.person("bob")
    engagement = hire(hall, bob, job)
    bring_to(hall, engagement, stage)
    assert hall.commit_fails() == ["a"]
    bob.hears("revoked a")
    assert bob.me.promise is None
    assert not hall.core.jobs


def test_withdrawn_but_watched_it_goes_on(hall: Hall) -> None:
    ann = hall.person("ann")
    _, job = announced(hall, by=ann)
    bob = hall.person("bob")
    engagement = hire(hall, bob, job)
    assert hall.commit_fails() == ["a"]
    bring_to(hall, engagement, PERFORMING)
    hall.after(PERFORM_US)
    ann.hears("done a")
    bob.hears("revoked a")


def test_made_durable_while_somebody_is_hired(hall: Hall) -> None:
    disk = Disk()
    ann = hall.person("ann")
    market = crier(hall)
    job = hall.submit("a", by=ann, key="a")
    hall.turn()
    market.hears("announced a")
    hire(hall, hall.person("bob"), job)
    hall.submit("again", terms=BACKGROUND, key="a")
    disk.apply(hall.commit())
    after = boot(disk, hall.core.now_us)
    (again,) = after.core.jobs.values()
    assert (again.state, again.attempts, again.tries) == (QUEUED, 0, None)
    assert engagement_of(job).stage == 0
    after.close()


def test_quits_are_counted_across_a_restart_and_from_nought_after_a_retry(hall: Hall) -> None:
    disk = Disk()
    terms = Terms(durable=True, detached=True, quits_max=2)
    market, job = announced(hall, terms)

    def quit_it(hall: Hall, job: Job) -> None:
        engagement = hire(hall, hall.person("bob"), job)
        bring_to(hall, engagement, PERFORMING)
        hall.core.hiring.quit(engagement)
        disk.apply(hall.commit())

    disk.apply(hall.commit())
    quit_it(hall, job)
    assert job.state == QUEUED
    market.heard.clear()
    after = boot(disk, hall.core.now_us + SECOND_US)
    again_market = crier(after)
    after.turn()
    again = after.core.jobs[job.id]
    assert again.terms.quits_max == 2
    quit_it(after, again)
    assert (again.state, again.code) == (FAILED, QUIT_TOO_OFTEN)
    after.core.retry(again)
    after.turn()
    quit_it(after, again)
    assert again.state == QUEUED
    again_market.heard.clear()


def test_a_count_of_quits_that_is_no_number_counts_from_nought(hall: Hall) -> None:
    """Extras can be imported, and hold anything."""
    market, job = announced(hall, Terms(durable=True, detached=True, quits_max=2))
    job.extras = {"quits": b"many", "reducer": b"sum"}
    engagement = hire(hall, hall.person("bob"), job)
    bring_to(hall, engagement, PERFORMING)
    hall.core.hiring.quit(engagement)
    hall.turn()
    assert (job.state, job.extras) == (QUEUED, {"quits": b"1", "reducer": b"sum"})
    market.heard.clear()
