"""A provider of its own chooses a worker itself: its job is one of the hall's, promised to that worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, FOREGROUND, HOUR_US, SECOND_US, Disk, Hall, Person, refused
from hiring_stories import ANSWER_US, BUFFER_US, STAGE_NAMES, STAGES, some_rules

from hiringhall.core.errors import CLOSING, HALL_FULL, STALE_LEASE, TOO_LARGE, WRONG_STATE
from hiringhall.core.jobs import JobSpec
from hiringhall.core.leases import ARRIVED, CALLED, HIRED, PERFORMING
from hiringhall.core.limits import Limits
from hiringhall.core.states import CANCELLED, DONE, HELD, LEASED, QUEUED
from hiringhall.core.terms import HOLD, Terms

if TYPE_CHECKING:
    from hiringhall.core.leases import Engagement

RULES = some_rules()
PATIENCE_US = 30 * SECOND_US


def bidder(hall: Hall, name: str = "bob") -> Person:
    """Somebody who is told of jobs by announcement."""
    person = hall.person(name)
    person.me.bids = True
    return person


def engage(
    hall: Hall,
    worker: Person,
    master: Person,
    in_us: int = 0,
    *,
    key: str = "forge-1",
    patience_us: int = 0,
    terms: Terms = FOREGROUND,
) -> Engagement:
    spec = JobSpec(b"q", b"forge", key.encode(), terms)
    return hall.core.hiring.engage(spec, worker.me, hall.core.now_us + in_us, master, RULES, patience_us)


def bring_to(hall: Hall, engagement: Engagement, stage: int) -> None:
    if stage >= ARRIVED:
        assert not hall.core.hiring.arrive(engagement), "the provider says when"
    if stage >= CALLED:
        hall.core.hiring.call(engagement, SECOND_US)
    if stage == PERFORMING:
        hall.core.hiring.perform(engagement)
    hall.turn()


# --- a worker that bids


def test_hired_called_performing_dismissed(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith)
    job = engagement.job
    hall.turn()
    assert (job.state, engagement.stage, engagement.provider) == (LEASED, HIRED, smith)
    bring_to(hall, engagement, PERFORMING)
    hall.after(HOUR_US)  # it is the provider who is satisfied, or not
    hall.core.finish(engagement, b"")
    smith.hears("done forge")
    assert (job.state, job.attempts) == (DONE, 1)
    assert job.queue.average_run_us == HOUR_US
    assert not bob.me.leases


@pytest.mark.parametrize("stage", STAGES, ids=STAGE_NAMES)
def test_dismissed_or_gone_at_every_stage(hall: Hall, stage: int) -> None:
    """A provider that goes away calls its jobs off."""
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith)
    bring_to(hall, engagement, stage)
    hall.core.cancel(engagement.job, b"its provider is gone")
    smith.hears("cancelled forge its provider is gone")
    bob.hears("revoked forge")
    assert bob.me.promise is None
    hall.turn()
    engage(hall, bob, smith)


@pytest.mark.parametrize("stage", STAGES, ids=STAGE_NAMES)
@pytest.mark.parametrize("leaves", [False, True], ids=["quits", "leaves"])
def test_its_worker_does_not_do_it(hall: Hall, stage: int, leaves: bool) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith)
    bring_to(hall, engagement, stage)
    if leaves:
        hall.core.leave(bob)
    else:
        hall.core.hiring.quit(engagement)
    smith.hears("cancelled forge its worker does not do it")
    lost = int(leaves and stage == PERFORMING)
    assert (engagement.job.state, engagement.job.losses) == (CANCELLED, lost)
    hall.turn()


def test_no_start_in_time(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    engage(hall, bob, smith, SECOND_US)
    hall.after(SECOND_US + BUFFER_US - 1)
    smith.hears()
    hall.after(1)
    smith.hears("cancelled forge its worker does not do it")
    bob.hears("revoked forge")


def test_no_performing_in_time(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    bring_to(hall, engage(hall, bob, smith), CALLED)
    hall.after(ANSWER_US)
    smith.hears("cancelled forge its worker does not do it")
    bob.hears("revoked forge")


def test_promised_for_a_moment_that_is_over(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith, -HOUR_US)
    hall.after(BUFFER_US - 1)
    assert engagement.job.state == LEASED
    hall.after(1)
    smith.hears("cancelled forge its worker does not do it")
    bob.hears("revoked forge")


@pytest.mark.parametrize("stage", [ARRIVED, PERFORMING], ids=["arrived", "performing"])
def test_a_provider_that_cannot_be_seen_is_silent(hall: Hall, stage: int) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith, patience_us=PATIENCE_US)
    bring_to(hall, engagement, stage)
    said_us = SECOND_US if stage == PERFORMING else 0
    hall.after(said_us + PATIENCE_US - 1)
    hall.core.hiring.hear_provider(engagement)
    hall.after(PATIENCE_US - 1)
    smith.hears()
    hall.after(1)
    smith.hears("cancelled forge its provider is silent")
    bob.hears("revoked forge")
    assert bob.me.promise is None


@pytest.mark.parametrize("stage", [ARRIVED, PERFORMING], ids=["arrived", "performing"])
def test_a_provider_that_can_be_seen_may_take_its_time(hall: Hall, stage: int) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith)
    bring_to(hall, engagement, stage)
    hall.after(100 * HOUR_US)
    assert engagement.job.state == LEASED


# --- what is refused


def test_a_worker_has_one_next_place(hall: Hall) -> None:
    smith, miller, bob = hall.person("smith"), hall.person("miller"), bidder(hall)
    first = engage(hall, bob, smith)
    with refused(WRONG_STATE):
        engage(hall, bob, miller, key="mill-1")
    bring_to(hall, first, PERFORMING)
    second = engage(hall, bob, miller, key="mill-1")
    assert bob.me.promise is second


def test_a_worker_that_left(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    worker = bob.me
    bob.leaves()
    with refused(WRONG_STATE):
        hall.core.hiring.engage(JobSpec(b"q", b"forge"), worker, 0, smith, RULES)


@pytest.mark.parametrize("stage", STAGES)
def test_a_client_that_uses_its_id_as_a_key_has_a_job_of_its_own(hall: Hall, stage: int) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith)
    job = hall.submit("precious", key="forge-1", terms=BACKGROUND)
    assert job is not engagement.job
    if stage > HIRED:
        hall.core.hiring.arrive(engagement)
    if stage > ARRIVED:
        hall.core.hiring.call(engagement, SECOND_US)
    if stage > CALLED:
        hall.core.hiring.perform(engagement)
    smith.leaves()
    hall.turn()
    bob.heard.clear()
    assert (job.state, job.payload, hall.core.find_key(b"q", b"forge-1")) == (QUEUED, b"precious", job)


def test_a_job_of_a_client_with_the_same_key_is_in_nobodys_way(hall: Hall) -> None:
    job = hall.submit("precious", key="forge-1", terms=BACKGROUND)
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith)
    assert engagement.job is not job
    hall.core.cancel(engagement.job)
    smith.hears("cancelled forge")
    bob.hears("revoked forge")
    assert hall.core.find_key(b"q", b"forge-1") is job


def test_bounds(hall: Hall) -> None:
    small = Hall(Limits(jobs_max=1, key_bytes_max=10))
    smith, bob = small.person("smith"), bidder(small)
    with refused(TOO_LARGE):
        engage(small, bob, smith, key="k" * 11)
    hall.core.close()
    with refused(CLOSING):
        engage(hall, bidder(hall), hall.person("smith"))


def test_a_full_hall_still_hires_for_providers() -> None:
    full = Hall(Limits(jobs_max=1))
    full.submit("a")
    engagement = engage(full, bidder(full), full.person("smith"))
    assert engagement.job.state == LEASED
    with refused(HALL_FULL):
        full.submit("b")


def test_a_child_that_waits_for_such_a_name_waits_for_a_client(hall: Hall) -> None:
    child = hall.submit("child", parents=((b"q", b"forge-1"),))
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith)
    bring_to(hall, engagement, PERFORMING)
    hall.core.finish(engagement, b"")
    hall.turn()
    smith.hears("done forge")
    assert child.state == HELD


def end_of_a_providers_job(hall: Hall) -> int:
    """It is done, goes to the history, and is kept as the parent of a job that named it by its number."""
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith, terms=Terms(logged=True))
    follower = hall.submit("follower", parents=(engagement.job.id,))
    bring_to(hall, engagement, PERFORMING)
    hall.core.finish(engagement, b"")
    hall.turn()
    smith.hears("done forge")
    assert follower.state == QUEUED
    hall.core.cancel(follower)
    return engagement.job.id


def waits_for_a_clients_job(hall: Hall) -> None:
    child = hall.submit("child", parents=((b"q", b"forge-1"),))
    assert child.state == HELD
    hall.submit("precious", key="forge-1", terms=BACKGROUND)
    hall.core.finish(hall.worker("carl").takes("precious"), b"")
    hall.turn()
    assert child.state == QUEUED


def test_an_ended_job_of_a_provider_is_not_found_by_its_key_as_a_parent(hall: Hall) -> None:
    number = end_of_a_providers_job(hall)
    assert hall.core.find(number) is not None
    waits_for_a_clients_job(hall)


def test_after_a_restart_it_is_not_found_by_its_key_either(hall: Hall) -> None:
    number = end_of_a_providers_job(hall)
    disk, again = Disk(), Hall()
    disk.apply(hall.commit())
    again.core.restore(disk.load())
    assert again.core.find(number) is not None
    waits_for_a_clients_job(again)


def test_a_child_that_holds_for_a_failed_job_of_a_provider_does_not_wait_for_its_key(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    engagement = engage(hall, bob, smith)
    holding = Terms(detached=True, on_parent_failure=HOLD)
    child = hall.submit("child", parents=(engagement.job.id,), terms=holding)
    hall.core.cancel(engagement.job)
    late = hall.submit("late", parents=(engagement.job.id,), terms=holding)
    smith.hears("cancelled forge")
    bob.heard.clear()
    hall.submit("other", key="forge-1", terms=BACKGROUND)
    hall.core.finish(hall.worker("carl").takes("other"), b"")
    hall.turn()
    assert (child.state, late.state) == (HELD, HELD)


# --- workers of other dialects


def test_a_sleeper_is_woken_for_what_it_was_promised(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    carl.sleeps()
    hall.turn()
    engagement = engage(hall, carl, smith)
    hall.turn()
    carl.hears("woken")
    assert hall.core.counters.woken == 1
    assert carl.takes("forge") is engagement
    smith.hears("joined forge")
    hall.turn()
    assert (engagement.stage, engagement.job.attempts) == (PERFORMING, 1)
    hall.core.finish(engagement, b"sword")
    smith.hears("done forge sword")


def test_one_with_a_free_slot_is_given_it_at_once(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    carl.offers(2)
    engagement = engage(hall, carl, smith)
    hall.turn()
    carl.hears("assigned forge")
    smith.hears("joined forge")
    hall.turn()
    assert (carl.me.credit, engagement.stage) == (1, PERFORMING)


def test_one_at_work_has_it_before_all_else(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    hall.submit("a")
    hall.submit("b")
    lease = carl.takes("a")
    engage(hall, carl, smith, SECOND_US)
    hall.core.finish(lease, b"")
    carl.takes("forge")
    smith.hears("joined forge")
    carl.takes("b")
    hall.turn()


def test_one_asked_for_another_queue_keeps_what_it_was_promised(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl", "q", "p")
    hall.submit("a", "p")
    engage(hall, carl, smith)
    assert carl.takes_from("p") == "a"
    assert carl.takes_from("q") == "forge"
    smith.hears("joined forge")


@pytest.mark.parametrize("how", ["fails", "releases", "leaves"])
def test_one_that_does_not_do_it(hall: Hall, how: str) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    engagement = engage(hall, carl, smith)
    carl.takes("forge")
    if how == "fails":
        hall.core.fail(engagement, 7, b"no iron")
        smith.hears("joined forge", "failed forge 7 no iron")
    elif how == "releases":
        hall.core.release(engagement)
        smith.hears("joined forge", "cancelled forge its worker does not do it")
    else:
        carl.leaves()
        smith.hears("joined forge", "cancelled forge its worker does not do it")
    hall.turn()


@pytest.mark.parametrize("how", ["dismissed", "too late"])
def test_one_that_never_heard_of_it_is_not_told_to_stop(hall: Hall, how: str) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    engagement = engage(hall, carl, smith)
    if how == "dismissed":
        hall.core.cancel(engagement.job)
        smith.hears("cancelled forge")
    else:
        hall.after(BUFFER_US)
        smith.hears("cancelled forge its worker does not do it")
    hall.turn()
    carl.hears()
    hall.submit("a")
    carl.takes("a")
    with refused(STALE_LEASE):
        hall.core.finish(engagement, b"")


def test_one_at_it_is_told_to_stop(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    engagement = engage(hall, carl, smith)
    carl.takes("forge")
    hall.core.cancel(engagement.job)
    smith.hears("joined forge", "cancelled forge")
    carl.hears("revoked forge")


def test_one_that_comes_while_the_hall_closes_gets_nothing(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    engage(hall, carl, smith)
    hall.core.close()
    carl.takes_nothing()
    hall.turn()
    hall.after(BUFFER_US)
    smith.hears("cancelled forge its worker does not do it")


def test_a_silent_provider_frees_a_worker_of_another_dialect(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    engage(hall, carl, smith, patience_us=PATIENCE_US)
    carl.takes("forge")
    hall.after(PATIENCE_US)
    smith.hears("joined forge", "cancelled forge its provider is silent")
    carl.hears("revoked forge")
    assert not carl.me.leases


def test_the_run_limit_of_a_worker_holds_for_what_it_was_promised(hall: Hall) -> None:
    smith = hall.person("smith")
    carl = hall.person("carl").can("q", run_us=SECOND_US)
    engage(hall, carl, smith)
    carl.takes("forge")
    hall.after(SECOND_US)
    carl.hears("revoked forge")
    smith.hears("joined forge", "failed forge 124 it exceeded its run limit")
    assert hall.core.counters.expired == 1
