"""A paused queue: none of its jobs starts, however its worker asks, also after a restart; what runs goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Disk, Hall, refused
from hiring_stories import WINDOW_US, bids, crier, engagement_of, hire, some_rules

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, STORE_DOWN, WRONG_STATE, BrokenLaw
from hiringhall.core.jobs import JobSpec
from hiringhall.core.leases import PERFORMING
from hiringhall.core.limits import Limits
from hiringhall.core.reasons import why
from hiringhall.core.states import CANCELLED, DELAYED, DONE, HELD, LEASED, QUEUED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hall_recorder import Person

EXPIRES = Terms(detached=True, expire_us=SECOND_US)


def pause(hall: Hall, queue: str = "q") -> None:
    hall.core.pause_queue(queue.encode())
    hall.turn()


def resume(hall: Hall, queue: str = "q") -> None:
    hall.core.resume_queue(queue.encode())
    hall.turn()


def test_who_pulls_finds_nothing_until_the_queue_is_resumed(hall: Hall) -> None:
    bob = hall.worker("bob", "q", "other")
    job = hall.submit("a")
    hall.submit("b", "other")
    pause(hall)
    assert why(hall.core, job) == "its queue is paused"
    assert bob.takes_from("q") == ""
    bob.takes("b")
    bob.takes_nothing()
    assert (job.queue.ready, hall.core.is_paused(b"q"), hall.core.is_paused(b"other")) == (1, True, False)
    resume(hall)
    bob.takes("a")


def test_who_takes_turns_goes_on_with_the_other_queues(hall: Hall) -> None:
    bob = hall.worker("bob", "q", "other")
    hall.core.take_turns(bob.me)
    for number in range(2):
        hall.submit(f"a{number}")
        hall.submit(f"b{number}", "other")
    pause(hall)
    bob.takes("b0")
    bob.takes("b1")
    bob.takes_nothing()
    resume(hall)
    bob.takes("a0")


@pytest.mark.parametrize("skill", [0, 3])
def test_slots_stay_empty_and_sleepers_asleep(hall: Hall, skill: int) -> None:
    bob, eve = hall.worker("bob", "q"), hall.worker("eve", "q")
    for person in (bob, eve):
        hall.core.needs.rate(person.me, b"q", 5)
    pause(hall)
    bob.offers(1)
    eve.sleeps()
    for name in ("a", "b"):
        hall.submit(name, terms=Terms(detached=True, skill=skill))
    hall.turn()
    hall.after(SECOND_US)
    bob.hears()
    eve.hears()
    assert hall.core.spare(b"q") == 0
    resume(hall)
    bob.hears("assigned a")
    eve.hears("woken")
    eve.takes("b")


def test_who_was_woken_before_finds_nothing_and_sleeps_on(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.sleeps()
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    pause(hall)
    bob.takes_nothing()
    bob.sleeps()
    hall.after(SECOND_US)
    bob.hears()
    resume(hall)
    bob.hears("woken")
    bob.takes("a")


def test_a_job_named_by_its_id_is_refused(hall: Hall) -> None:
    bob = hall.worker("bob")
    ready, later = hall.submit("a"), hall.submit("b", due_us=hall.core.now_us + SECOND_US)
    pause(hall)
    for job in (ready, later):
        with refused(WRONG_STATE):
            hall.core.take_job(bob.me, job)
    assert (ready.state, later.state) == (QUEUED, DELAYED)
    resume(hall)
    assert hall.core.take_job(bob.me, later).job is later


def test_a_resident_is_given_nothing(hall: Hall) -> None:
    ann = hall.core.residents.get(b"q", b"ann")
    hall.submit("a", terms=BACKGROUND)
    pause(hall)
    assert hall.core.take(ann, b"q") is None
    resume(hall)
    assert hall.core.take(ann, b"q") is not None


def test_what_runs_goes_on_and_comes_back_to_a_paused_queue(hall: Hall) -> None:
    bob = hall.worker("bob")
    for name in ("a", "b", "c"):
        hall.submit(name, terms=Terms(detached=True, failures_max=1, backoff_us=1))
    leases = [bob.takes(name) for name in ("a", "b", "c")]
    pause(hall)
    hall.core.progress(leases[0], 1, 2)
    hall.core.finish(leases[0], b"done")
    hall.core.release(leases[1])
    hall.core.fail(leases[2])
    hall.after(SECOND_US)
    assert [lease.job.state for lease in leases] == [DONE, QUEUED, QUEUED]
    bob.takes_nothing()
    resume(hall)
    bob.takes("b")


def test_delays_parents_and_expiry_go_on(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent = hall.submit("parent", "other", key="p")
    child = hall.submit("child", parents=((b"other", b"p"),))
    later = hall.submit("later", due_us=hall.core.now_us + SECOND_US)
    pause(hall)
    expiring = hall.submit("expiring", terms=EXPIRES)
    assert (parent.state, child.state, later.state, expiring.state) == (QUEUED, HELD, DELAYED, QUEUED)
    hall.core.finish(hall.worker("eve", "other").takes("parent"), b"")
    hall.after(SECOND_US)
    assert (child.state, later.state, expiring.state) == (QUEUED, QUEUED, CANCELLED)
    bob.takes_nothing()
    resume(hall)
    bob.takes("child")
    bob.takes("later")


# --- workers that are hired


def test_a_paused_queue_is_not_announced(hall: Hall) -> None:
    market = crier(hall)
    pause(hall)
    job = hall.submit("a")
    market.attended_by(2)
    hall.after(10 * SECOND_US)
    market.hears()
    bob = hall.person("bob")
    with refused(WRONG_STATE):
        bids(bob, job)
    resume(hall)
    market.hears("announced a")


@pytest.mark.parametrize("bid", [False, True])
def test_what_is_announced_is_withdrawn(hall: Hall, bid: bool) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    if bid:
        bids(bob, job)
    pause(hall)
    hall.after(10 * WINDOW_US)
    market.hears()
    bob.hears()
    assert job.state == QUEUED
    resume(hall)
    market.hears("announced a")
    hire(hall, bob, job)


def test_a_delayed_job_is_announced_ahead_once_its_queue_is_resumed(hall: Hall) -> None:
    market = crier(hall, ahead_us=60 * SECOND_US)
    job = hall.submit("a", due_us=hall.core.now_us + 30 * SECOND_US)
    pause(hall)
    other = hall.submit("b", due_us=hall.core.now_us + 30 * SECOND_US)
    hall.after(SECOND_US)
    market.hears()
    resume(hall)
    hall.after(1)
    market.hears("announced a", "announced b")
    assert (job.state, other.state) == (DELAYED, DELAYED)


def test_who_was_hired_and_has_not_begun_is_dismissed(hall: Hall) -> None:
    market = crier(hall)
    job, performed = hall.submit("a"), hall.submit("b")
    hall.turn()
    market.hears("announced a", "announced b")
    bob, eve = hall.person("bob"), hall.person("eve")
    bids(bob, job, SECOND_US)
    bids(eve, performed)
    hall.after(WINDOW_US)
    bob.hears("hired a")
    eve.hears("hired b")
    begun = engagement_of(performed)
    hall.core.hiring.arrive(begun)
    hall.core.hiring.perform(begun)
    pause(hall)
    bob.hears("revoked a")
    assert (job.state, job.losses, performed.state, begun.stage) == (QUEUED, 0, LEASED, PERFORMING)
    market.hears()


def test_a_provider_hires_nobody_for_a_paused_queue(hall: Hall) -> None:
    provider, bob = hall.person("provider"), hall.worker("bob")
    spec = JobSpec(b"q", b"a", b"", Terms())
    pause(hall)
    with refused(WRONG_STATE):
        hall.core.hiring.engage(spec, bob.me, 0, provider, some_rules())
    resume(hall)
    engagement = hall.core.hiring.engage(spec, bob.me, 0, provider, some_rules())
    pause(hall)
    assert engagement.job.state == CANCELLED
    provider.hears("cancelled a its worker does not do it")
    bob.takes_nothing()


# --- what is stored


def restart(disk: Disk, limits: Limits | None = None) -> Hall:
    hall = Hall(limits)
    hall.core.restore(disk.load())
    hall.turn()
    return hall


def kept(hall: Hall, disk: Disk) -> None:
    disk.apply(hall.commit())
    disk.compare(hall.core)


def test_a_pause_and_its_end_survive_a_restart() -> None:
    hall, disk = Hall(), Disk()
    hall.submit("a", terms=BACKGROUND)
    pause(hall)
    pause(hall, "empty")
    assert len(hall.core.ledger) == 3
    kept(hall, disk)
    hall = restart(disk)
    bob = hall.worker("bob")
    bob.takes_nothing()
    assert sorted(hall.core.paused_queues.queues) == [b"empty", b"q"]
    resume(hall)
    resume(hall, "empty")
    resume(hall, "never paused")
    kept(hall, disk)
    hall = restart(disk)
    hall.worker("bob").takes("a")


def test_what_did_not_reach_the_disk_is_written_with_the_next_commit() -> None:
    hall, disk = Hall(), Disk()
    pause(hall)
    pause(hall, "other")
    batch = hall.core.seal()
    resume(hall, "other")
    hall.fail_commit(batch)
    assert sorted(hall.core.paused_queues.queues) == [b"q"]
    for verb in (hall.core.pause_queue, hall.core.resume_queue):
        with refused(STORE_DOWN):
            verb(b"q")
    kept(hall, disk)
    assert disk.paused == {b"q"}


def test_what_is_paused_already_is_not_written_again(hall: Hall) -> None:
    pause(hall)
    hall.commit()
    pause(hall)
    resume(hall, "other")
    assert len(hall.core.ledger) == 0


def test_pauses_are_bounded_and_their_names_checked() -> None:
    hall = Hall(Limits(queues_max=20))
    pause(hall, "a")
    pause(hall, "b")
    with refused(HALL_FULL):
        hall.core.pause_queue(b"c")
    with refused(BAD_REQUEST):
        Hall().core.pause_queue(b"")
    resume(hall, "a")
    pause(hall, "c")
    assert sorted(restart(_stored(hall), Limits(queues_max=1)).core.paused_queues.queues) == [b"b", b"c"]


def _stored(hall: Hall) -> Disk:
    disk = Disk()
    kept(hall, disk)
    return disk


def test_a_paused_queue_is_not_dropped(hall: Hall) -> None:
    pause(hall)
    with refused(WRONG_STATE):
        hall.core.length_limits.drop(hall.core.queues[b"q"])
    assert not hall.core.queues[b"q"].idle
    resume(hall)
    hall.core.length_limits.drop(hall.core.queues[b"q"])


def test_the_audit_finds_a_job_that_began_in_a_paused_queue(hall: Hall) -> None:
    bob: Person = hall.worker("bob")
    hall.submit("a")
    pause(hall)
    hall.core.advance(hall.core.now_us + 1)
    queue = hall.core.queues[b"q"]
    queue.paused_us, paused_us = 0, queue.paused_us
    queue.closed = False
    with pytest.raises(BrokenLaw, match="listed while it is paused"):
        hall.core.audit()
    bob.takes("a")
    queue.paused_us = paused_us
    queue.closed = True
    with pytest.raises(BrokenLaw, match="begun before the pause"):
        hall.core.audit()
    hall.people.clear()
    queue.paused_us = hall.core.now_us
