"""Jobs come in: keys and joining, watchers, delays, finding, cancelling."""

from __future__ import annotations

import pytest
from hall_recorder import BACKGROUND, DETACHED, FOREGROUND, SECOND_US, Hall, Person, refused

from hiringhall.core.errors import BAD_REQUEST, CLOSING, STORE_DOWN
from hiringhall.core.jobs import JobSpec
from hiringhall.core.rules.debouncing import content_of
from hiringhall.core.states import CANCELLED, DELAYED, DONE, LEASED, QUEUED
from hiringhall.core.terms import HIGH, Terms


def test_a_client_hears_how_its_job_ends(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann)
    hall.turn()
    assert list(ann.watching) == [job]
    hall.core.finish(bob.takes("a"), b"42")
    ann.hears("done a 42")
    hall.turn()
    assert ann.watching == {}
    assert hall.core.jobs == {}
    assert (hall.core.counters.submitted, hall.core.counters.taken, hall.core.counters.done) == (1, 1, 1)


def test_ids_grow_and_carry_the_epoch() -> None:
    hall = Hall(epoch=5)
    ids = [hall.submit(name).id for name in "abc"]
    assert ids == [(5 << 36) + count for count in (1, 2, 3)]


def test_a_job_remembers_its_times_and_its_worker(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.me.name = b"bob the builder"
    job = hall.submit("a", terms=BACKGROUND)
    hall.after(3)
    lease = bob.takes("a")
    hall.after(4)
    hall.core.finish(lease, b"")
    created_us = job.created_us
    assert (job.started_us - created_us, job.ended_us - created_us) == (3, 7)
    assert (job.worker_name, job.attempts) == (b"bob the builder", 1)


def test_extras_stay_with_the_job_untouched(hall: Hall) -> None:
    extras = {"reducer": b"sum"}
    job = hall.core.submit(JobSpec(b"q", b"a", terms=DETACHED, extras=extras), None)
    assert hall.worker("bob").takes("a").job.extras is extras
    assert job.extras is extras


# --- keys


def test_a_live_job_with_the_same_key_is_joined(hall: Hall) -> None:
    ann, eve, bob = hall.person("ann"), hall.person("eve"), hall.worker("bob")
    job = hall.submit("a", by=ann, key="k")
    assert hall.submit("another payload", by=eve, key="k") is job
    lease = bob.takes("a")
    assert hall.submit("late", by=eve, key="k") is job
    bob.takes_nothing()
    hall.core.finish(lease, b"x")
    ann.hears("done a x")
    eve.hears("done a x", "done a x")
    assert (hall.core.counters.submitted, hall.core.counters.joined) == (1, 2)


def test_an_ended_job_is_not_joined(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = hall.submit("a", key="k", terms=BACKGROUND)
    hall.core.finish(bob.takes("a"), b"")
    second = hall.submit("b", key="k", terms=BACKGROUND)
    assert second is not first
    assert hall.core.find_key(b"q", b"k") is second
    assert hall.core.find(first.id) is first


def test_a_key_belongs_to_its_queue(hall: Hall) -> None:
    first, second = hall.submit("a", "p", key="k"), hall.submit("b", "q", key="k")
    assert first is not second
    assert hall.core.find_key(b"p", b"k") is first
    assert hall.core.find_key(b"q", b"k") is second
    assert hall.core.find_key(b"nowhere", b"k") is None
    assert hall.core.find_key_anywhere(b"k") is first
    hall.core.cancel(first)
    assert hall.core.find_key_anywhere(b"k") is second
    hall.core.cancel(second)
    assert hall.core.find_key_anywhere(b"k") is None


def test_without_a_key_nothing_is_joined(hall: Hall) -> None:
    assert hall.submit("a") is not hall.submit("a")


def test_a_background_join_makes_a_foreground_job_durable(hall: Hall) -> None:
    ann = hall.person("ann")
    terms = Terms(
        priority=HIGH,
        failures_max=4,
        backoff_us=5,
        backoff_max_us=6,
        losses_max=7,
        lease_us=8,
        run_us=9,
        expire_us=10,
        logged=True,
        skill=11,
        takes_us=12,
        quits_max=13,
        key_is_work=True,
        keep_us=14,
    )
    job = hall.submit("a", by=ann, key="k", terms=terms)
    assert hall.submit("a", key="k", terms=BACKGROUND) is job
    # Only these two change, and only for this job.
    assert job.terms.as_tuple() == (HIGH, True, True, 4, 5, 6, 7, 8, 9, 0, 10, True, 11, 12, 13, True, 14)
    assert not terms.durable
    batch = hall.commit()
    assert [row.payload for row in batch.inserts] == [b"a"]
    assert job.stored
    ann.leaves()
    assert job.state == QUEUED


def test_a_foreground_join_leaves_a_background_job_as_it_is(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", key="k", terms=BACKGROUND)
    hall.commit()
    assert hall.submit("a", by=ann, key="k", terms=FOREGROUND) is job
    assert job.terms is BACKGROUND
    assert hall.commit().empty
    ann.leaves()
    assert job.state == QUEUED


def test_a_detached_join_keeps_the_job_without_storing_it(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, key="k")
    hall.submit("a", key="k", terms=DETACHED)
    ann.leaves()
    assert job.state == QUEUED
    assert hall.commit().empty


def test_a_worker_may_already_have_the_job_when_it_becomes_durable(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    hall.submit("a", by=ann, key="k")
    lease = bob.takes("a")
    hall.submit("a", key="k", terms=BACKGROUND)
    assert [row.state for row in hall.commit().inserts] == [LEASED]
    ann.leaves()
    hall.core.finish(lease, b"r")
    batch = hall.commit()
    assert [row.result for row in batch.ends] == [b"r"]
    assert batch.deletes == [lease.job.id]


# --- delays


def test_a_delayed_job_waits_and_then_wakes_a_sleeper(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("later", due_us=hall.core.now_us + 5 * SECOND_US)
    bob.takes_nothing()
    bob.sleeps()
    hall.turn()
    assert job.state == DELAYED
    assert hall.core.next_deadline() == job.due_us
    hall.after(5 * SECOND_US - 1)
    bob.hears()
    hall.after(1)
    bob.hears("woken")
    bob.takes("later")


def test_delayed_jobs_come_due_in_order_of_their_time(hall: Hall) -> None:
    now_us = hall.core.now_us
    for name, due_us in (("c", 30), ("a", 10), ("b", 20), ("b2", 20)):
        hall.submit(name, due_us=now_us + due_us)
    bob = hall.worker("bob")
    hall.after(100)
    for name in ("a", "b", "b2", "c"):
        bob.takes(name)


def test_a_time_that_has_passed_is_no_delay(hall: Hall) -> None:
    assert hall.submit("a", due_us=hall.core.now_us).state == QUEUED
    assert hall.submit("b", due_us=1).state == QUEUED


def test_a_delayed_job_can_be_joined(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", key="k", due_us=hall.core.now_us + 10, terms=BACKGROUND)
    assert hall.submit("a", key="k", by=ann) is job
    hall.core.cancel(job)
    ann.hears("cancelled a")


# --- watchers


def test_a_job_that_nobody_waits_for_is_dropped(hall: Hall) -> None:
    ann, eve = hall.person("ann"), hall.person("eve")
    job = hall.submit("a", by=ann)
    hall.core.watch(job, eve)
    ann.leaves()
    assert job.state == QUEUED
    hall.core.unwatch(job, eve)
    assert job.state == CANCELLED
    assert job.result == b"nobody waits for it any more"
    hall.worker("bob").takes_nothing()


@pytest.mark.parametrize("how", ["held", "delayed", "queued"])
def test_dropped_wherever_it_waits(hall: Hall, how: str) -> None:
    ann = hall.person("ann")
    due_us = hall.core.now_us + 9 if how == "delayed" else 0
    job = hall.submit("a", by=ann, key="k", due_us=due_us, parents=((b"q", b"p"),) if how == "held" else ())
    ann.leaves()
    assert job.state == CANCELLED
    assert hall.core.find_key(b"q", b"k") is None
    hall.after(10)
    assert hall.core.next_deadline() == 0


def test_a_job_in_work_is_not_dropped_but_does_not_come_back(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann)
    lease = bob.takes("a")
    ann.leaves()
    assert job.state == LEASED
    hall.core.release(lease)
    assert job.state == CANCELLED
    # `revoked` is for a lease that ended without its worker's doing; this one was given back.
    bob.hears()
    assert hall.core.counters.cancelled == 1


def test_a_job_in_work_that_nobody_waits_for_can_still_finish(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann)
    lease = bob.takes("a")
    ann.leaves()
    hall.core.finish(lease, b"")
    assert job.state == DONE


def test_who_watches_twice_hears_twice_and_leaves_once(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann)
    hall.core.watch(job, ann)
    hall.turn()
    hall.core.unwatch(job, ann)
    assert job.state == CANCELLED
    ann.hears()


def test_unwatching_what_one_does_not_watch_is_nothing(hall: Hall) -> None:
    ann, eve = hall.person("ann"), hall.person("eve")
    job = hall.submit("a", by=ann)
    hall.core.unwatch(job, eve)
    assert job.state == QUEUED


def test_watching_an_ended_job_is_nothing(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", terms=BACKGROUND)
    hall.core.cancel(job)
    hall.core.watch(job, ann)
    assert ann.watching == {}
    hall.turn()


def test_progress_and_chunks_reach_every_watcher_in_order(hall: Hall) -> None:
    ann, eve, bob = hall.person("ann"), hall.person("eve"), hall.worker("bob")
    job = hall.submit("a", by=ann)
    hall.core.watch(job, eve)
    lease = bob.takes("a")
    hall.core.progress(lease, 1, 2)
    hall.core.chunk(lease, b"half")
    hall.core.chunk(lease, b"careful", warning=True)
    eve.hears("progressed a 1/2", "chunked a half", "warned a careful")
    eve.leaves()
    hall.core.progress(lease, 2, 2)
    hall.core.finish(lease, b"")
    ann.hears("progressed a 1/2", "chunked a half", "warned a careful", "progressed a 2/2", "done a")


def test_progress_without_watchers_is_kept_for_those_who_ask(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a")
    lease = bob.takes("a")
    hall.core.progress(lease, 3, 4)
    hall.core.chunk(lease, b"to nobody")
    assert (job.numerator, job.denominator) == (3, 4)
    hall.core.release(lease)
    bob.takes("a")
    assert (job.numerator, job.denominator) == (0, 0), "a new attempt starts at nought"


# --- refusals that depend on the hall


def test_while_the_store_is_in_trouble_only_durable_jobs_are_refused(hall: Hall) -> None:
    ann = hall.person("ann")
    fore = hall.submit("a", by=ann, key="k")
    hall.core.table.store_trouble = "no space left on the disk"
    with refused(STORE_DOWN):
        hall.submit("b", terms=BACKGROUND)
    with refused(STORE_DOWN):
        hall.submit("b", key="k", terms=BACKGROUND)
    assert not fore.terms.durable
    hall.submit("c", by=ann)
    bob = hall.worker("bob")
    bob.takes("a")
    bob.takes("c")
    assert hall.commit().empty
    assert hall.core.store_trouble == "", "a commit that works ends the trouble"
    hall.submit("b", terms=BACKGROUND)
    hall.turn()


def test_while_the_hall_closes_nothing_is_handed_out(hall: Hall) -> None:
    ann, bob, carl = hall.person("ann"), hall.worker("bob"), hall.worker("carl")
    hall.submit("a", terms=BACKGROUND)
    bob.sleeps()
    carl.offers(1)
    hall.core.close()
    hall.turn()
    bob.takes_nothing()
    with refused(CLOSING):
        hall.submit("b", by=ann)
    hall.submit("c", terms=BACKGROUND)
    assert len(hall.commit().inserts) == 2


def test_a_hall_that_withheld_its_jobs_hands_them_out_again(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    hall.submit("a", terms=BACKGROUND)
    hall.submit("b", terms=BACKGROUND)
    bob.sleeps()
    carl.offers(1)
    hall.core.withhold(True)
    hall.turn()
    carl.hears()
    hall.core.withhold(False)
    hall.turn()
    carl.hears("assigned a")
    bob.hears("woken")


@pytest.mark.parametrize("state", ["queued", "leased"])
def test_cancelling_tells_watchers_and_worker_why(hall: Hall, state: str) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, key="k")
    if state == "leased":
        bob.takes("a")
    hall.core.cancel(job, b"changed my mind")
    hall.turn()
    ann.hears("cancelled a changed my mind")
    bob.hears(*(["revoked a"] if state == "leased" else []))
    assert hall.submit("b", by=ann, key="k") is not job
    bob.takes("b")


def test_many_cancelled_jobs_leave_the_rest_in_order(hall: Hall) -> None:
    jobs = [hall.submit(str(number)) for number in range(1000)]
    for number, job in enumerate(jobs):
        if number % 10:
            hall.core.cancel(job)
    hall.turn()
    bob = hall.worker("bob")
    for number in range(0, 1000, 10):
        bob.takes(str(number))
    bob.takes_nothing()


def _client_and_worker_in_one(hall: Hall) -> Person:
    both = hall.worker("both")
    hall.submit("a", by=both)
    return both


def test_one_may_work_on_ones_own_job(hall: Hall) -> None:
    both = _client_and_worker_in_one(hall)
    hall.core.finish(both.takes("a"), b"self")
    both.hears("done a self")


def test_one_who_works_on_ones_own_job_and_leaves_takes_it_along(hall: Hall) -> None:
    both = _client_and_worker_in_one(hall)
    job = both.takes("a").job
    both.leaves()
    assert job.state == CANCELLED
    assert hall.core.jobs == {}


def test_a_due_time_that_no_store_could_keep_is_refused(hall: Hall) -> None:
    with refused(BAD_REQUEST):
        hall.submit("late", due_us=(1 << 62) + 1, terms=BACKGROUND)
    assert hall.submit("later", due_us=1 << 62, terms=BACKGROUND).state == DELAYED


def test_a_join_can_be_left_in_the_turn_in_which_it_was_made(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, key="k")
    before = content_of(job)
    hall.turn()
    assert hall.submit("again", key="k", terms=BACKGROUND) is job
    assert job.terms.durable
    hall.core.submissions.leave_join(job, before)
    hall.turn()
    assert (job.terms, job.terms_before, len(hall.core.ledger)) == (before.terms, None, 0)


def test_a_job_that_is_withdrawn_keeps_the_priority_that_its_worker_gave_it(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, key="k")
    assert hall.submit("again", key="k", terms=BACKGROUND) is job
    lease = bob.takes("a")
    hall.core.renew(lease, job.terms.replace(priority=HIGH))
    hall.core.release(lease)
    assert hall.commit_fails() == ["a"]
    assert (job.terms.priority, job.terms.durable) == (HIGH, False)
    bob.takes("a")
