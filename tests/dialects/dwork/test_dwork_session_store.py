"""The dwork door and its store: what is on disk before it is said, what a restart keeps, and what is taken
back when the store fails.
"""

from __future__ import annotations

import pytest

from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.peer import Peer
from hiringhall.core.states import FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions
from stage.dwork import EXIT, NOT_FOUND, OK, DworkGuest, DworkHall, create, task
from stage.dwork_said import Said, SaidTask


def held_hall() -> tuple[DworkHall, DworkGuest]:
    """The store answers when the story says so; "t" and "u" are stored, and w holds "t"."""
    hall = DworkHall()
    guest = hall.guest()
    assert guest.creates(b"t", b"u") == OK
    assert guest.steals(b"w") == [b"t"]
    hall.wait(SECOND_US)
    hall.held = True
    return hall, guest


WRITES = {
    "create": create(b"new"),
    "more dependencies": create(task(b"u", b"later")),
    "steal": Said(wire.STEAL, location=b"w"),
    "complete": Said(wire.COMPLETE, (SaidTask(b"t", b""),), location=b"w"),
    "transfer": Said(wire.TRANSFER, (SaidTask(b"t", b""),), location=b"w"),
    "exit": Said(wire.EXIT, location=b"w"),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_change_is_answered_when_it_is_on_disk(write: str) -> None:
    hall, guest = held_hall()
    guest.says(WRITES[write])
    assert guest.hears() == []
    hall.turn_that_commits()
    (answer,) = guest.hears()
    assert answer.type in (wire.OK, wire.TRANSFER)


def test_who_changes_nothing_is_answered_at_once() -> None:
    hall, guest = held_hall()
    guest.says(create(b"new"))
    others = (Said(wire.OK), Said(wire.LOOKUP, name=b"t"))
    for request in others:
        assert hall.guest().asks(request).type in (wire.OK, wire.NOT_FOUND)
    assert guest.hears() == []


@pytest.mark.parametrize("write", WRITES)
def test_a_door_in_memory_waits_for_no_disk(write: str) -> None:
    hall = DworkHall(DworkOptions(durable=False))
    guest = hall.guest()
    hall.held = True
    assert guest.creates(b"t", b"u") == OK
    assert guest.steals(b"w") == [b"t"]
    assert guest.asks(WRITES[write]).type in (wire.OK, wire.TRANSFER)
    assert hall.requests.batches == []


# --- restarts


def test_a_restart_keeps_tasks_edges_and_assignments() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"c", task(b"next", b"a"), task(b"last", b"next", b"never"))
    guest.steals(b"w", 2)
    before = hall.snapshot()
    guest = hall.restart()
    assert hall.snapshot() == before
    assert guest.steals(b"v", 9) == [b"c"]
    assert guest.looks_up(b"a").location == b"w"
    assert guest.transfers(b"v", task(b"b")) == NOT_FOUND
    assert guest.completes(b"w", b"a", b"b") == OK
    assert guest.steals(b"v", 9) == [b"next"]
    guest = hall.restart()
    assert hall.waits_for(b"last") == [b"never", b"next"]
    assert hall.done() == [b"a", b"b"]
    assert guest.completes(b"v", b"next", b"c") == OK


def test_a_location_that_held_something_before_a_restart_can_be_marked_down() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"c")
    guest.steals(b"w", 2)
    guest = hall.restart()
    assert guest.leaves_as(b"w") == OK
    assert guest.steals(b"v", 9) == [b"a", b"b", b"c"]
    guest = hall.restart()
    assert guest.leaves_as(b"w") == NOT_FOUND
    assert guest.completes(b"v", b"a", b"b", b"c") == OK


def test_that_a_location_holds_nothing_is_told_once_that_is_on_disk() -> None:
    """Otherwise a crash gives its task back to it, after somebody was told that it holds none."""
    hall = DworkHall()
    guest, other = hall.guest(), hall.guest()
    guest.creates(b"t")
    assert guest.steals(b"w") == [b"t"]
    hall.held = True
    guest.says(Said(wire.EXIT, location=b"w"))
    other.says(Said(wire.EXIT, location=b"w"))
    assert (guest.hears(), other.hears()) == ([], [])
    hall.held = False
    hall.turn_that_commits()
    hall.wait(50_000)
    assert (guest.hears(), other.hears()) == ([OK], [NOT_FOUND])


def test_what_a_busy_hall_has_given_is_on_disk_a_moment_later() -> None:
    hall, guest = held_hall()
    hall.guest().says(create(b"busy"))
    assert guest.steals(b"w") == [b"u"], "told before it is on disk"
    hall.held = False
    hall.turn_that_commits()
    hall.wait(50_000)
    guest = hall.die()
    assert guest.steals(b"v", 9) == [b"busy"]
    assert guest.completes(b"w", b"t", b"u") == OK


def test_what_a_busy_hall_had_given_when_it_died_is_ready_again() -> None:
    hall, guest = held_hall()
    hall.guest().says(create(b"busy"))
    assert guest.steals(b"w") == [b"u"]
    guest = hall.die()
    assert guest.completes(b"w", b"u") == Said(wire.NOT_FOUND, (SaidTask(b"u", b""),))
    assert guest.steals(b"v", 9) == [b"u"]
    assert guest.completes(b"v", b"u") == OK


def test_a_finished_predecessor_is_met_after_a_restart() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"p")
    guest.steals(b"w")
    guest.completes(b"w", b"p")
    guest = hall.restart()
    assert guest.asks(Said(wire.STEAL, location=b"w")) == EXIT
    assert guest.creates(task(b"t", b"p")) == OK
    assert guest.steals(b"w") == [b"t"]


def test_finished_predecessors_are_remembered_by_number_whatever_their_origins_weigh() -> None:
    hall = DworkHall(limits=Limits(ended_bytes_max=1000, ended_max=50))
    guest = hall.guest()
    for number in range(20):
        name = b"%d" % number
        assert guest.asks(Said(wire.CREATE, (SaidTask(name, bytes(500)),))) == OK
        assert guest.steals(b"w") == [name]
        assert guest.completes(b"w", name) == OK
    assert guest.creates(task(b"next", b"0", b"19")) == OK
    assert hall.state(b"next") == QUEUED


def test_what_was_not_committed_never_was() -> None:
    hall, guest = held_hall()
    guest.says(Said(wire.COMPLETE, (SaidTask(b"t", b""),), location=b"w"), create(b"new"))
    guest = hall.die()
    assert guest.completes(b"w", b"t") == OK
    assert guest.steals(b"w", 9) == [b"u"]


# --- the store fails


def test_a_create_that_could_not_be_stored_is_an_error_and_the_tasks_are_gone() -> None:
    hall, guest = held_hall()
    guest.says(create(b"a", b"b", task(b"c", b"a")))
    hall.turn_that_fails("the disk is full")
    (answer,) = guest.hears()
    assert answer == Said(wire.ERROR, name=b"the disk is full")
    assert sorted(job.key for job in hall.scheduler.jobs.values()) == [b"t", b"u"]
    assert guest.is_refused(create(b"a")) == "'a': the disk is full"
    hall.recover()
    assert guest.creates(b"a", b"b", task(b"c", b"a")) == OK
    assert guest.steals(b"w", 9) == [b"u", b"a", b"b"]


def test_a_create_is_not_confirmed_by_a_commit_that_held_only_part_of_it() -> None:
    """The first task is on its way to the disk already, for somebody else; the second one's commit fails."""
    hall, guest = held_hall()
    first = hall.guest()
    first.says(create(b"a"))
    guest.says(create(b"a", b"b"))
    hall.turn_that_commits()
    assert first.hears() == [OK]
    hall.turn_that_fails()
    hall.recover()
    (answer,) = guest.hears()
    gone = hall.scheduler.find_key(b"dwork", b"b") is None
    assert answer.type == (wire.ERROR if gone else wire.OK)
    assert hall.state(b"a") == QUEUED


def test_a_completion_that_could_not_be_stored_is_confirmed_when_it_is() -> None:
    hall, guest = held_hall()
    guest.says(Said(wire.COMPLETE, (SaidTask(b"t", b""),), location=b"w"))
    hall.turn_that_fails()
    assert guest.hears() == []
    hall.recover()
    assert guest.hears() == [OK]
    assert hall.done() == [b"t"]


def test_a_task_that_was_handed_out_before_it_was_taken_back_cannot_be_completed() -> None:
    """It ran for nothing: nobody was promised anything of it."""
    hall, guest = held_hall()
    worker = hall.guest()
    guest.says(create(b"new"))
    assert worker.steals(b"w", 9) == [b"u", b"new"]
    hall.turn_that_fails()
    (refused,) = guest.hears()
    assert refused.type == wire.ERROR
    hall.recover()
    assert worker.completes(b"w", b"u", b"new") == Said(wire.NOT_FOUND, (SaidTask(b"new", b""),))
    assert hall.done() == [b"u"]
    assert guest.creates(b"new") == OK
    assert worker.steals(b"w", 9) == [b"new"]
    assert worker.completes(b"w", b"new") == OK


def test_a_door_in_memory_goes_on_while_the_store_fails() -> None:
    hall, guest = held_hall()
    other = hall.guest(DworkOptions(queue=b"fleeting", durable=False))
    guest.says(create(b"new"))
    hall.turn_that_fails()
    assert guest.hears()[0].type == wire.ERROR
    assert other.creates(b"x", task(b"y", b"x")) == OK
    assert other.steals(b"w") == [b"x"]
    assert other.completes(b"w", b"x") == OK
    assert other.steals(b"w") == [b"y"]


# --- a create that is sent again, because its answer was lost


def test_a_create_can_be_repeated_while_its_tasks_are_worked_on() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", task(b"b", b"a"))
    guest.steals(b"w")
    guest.completes(b"w", b"a")
    assert guest.steals(b"w") == [b"b"]
    assert guest.creates(task(b"b", b"a"), b"c") == OK, "b waits for nothing that is not met"
    assert (hall.state(b"b"), hall.state(b"c")) == (LEASED, QUEUED)


# --- memory jobs of other doors


def test_a_create_makes_a_memory_job_of_the_same_name_lasting() -> None:
    hall = DworkHall()
    onlooker = Peer()
    hall.submit_elsewhere(b"payload", b"k", Terms(), onlooker)
    guest = hall.guest()
    assert guest.creates(b"k") == OK
    hall.scheduler.leave(onlooker)
    assert hall.state(b"k") == QUEUED
    guest = hall.restart()
    assert guest.steals(b"w") == [b"k"]


# --- predecessors that fail


@pytest.mark.parametrize("policy", [0, 1, 2])
def test_what_a_task_does_when_one_it_waits_for_failed(policy: int) -> None:
    hall = DworkHall(DworkOptions(on_parent_failure=policy))
    guest = hall.guest()
    guest.creates(b"p", task(b"t", b"p"))
    worker = hall.scheduler.worker(Peer())
    hall.begin()
    hall.scheduler.can_do(worker, b"dwork")
    lease = hall.scheduler.take(worker)
    assert lease is not None
    hall.scheduler.fail(lease)
    hall.end()
    hall.wait(SECOND_US)
    failed = sorted(row.key for row in hall.history() if row.state == FAILED)
    assert failed == ([b"p", b"t"] if policy == 0 else [b"p"])
    if policy == 0:
        assert not hall.scheduler.jobs
        return
    assert guest.creates(task(b"late", b"p")) == OK
    for name in (b"t", b"late"):
        assert hall.state(name) == (QUEUED if policy == 1 else HELD)
    if policy == 2:
        assert guest.creates(b"p") == OK
        guest.steals(b"w")
        guest.completes(b"w", b"p")
        assert guest.steals(b"w", 9) == [b"t", b"late"]


# --- names that nobody can have


@pytest.mark.parametrize("name", [b"", b"n" * 4097])
def test_a_predecessor_that_can_never_exist_is_an_error(name: bytes) -> None:
    hall = DworkHall()
    assert hall.guest().is_refused(create(task(b"t", name)))
    assert not hall.scheduler.jobs


def test_a_predecessor_without_a_key_is_called_by_its_number_too() -> None:
    hall = DworkHall()
    job = hall.submit_elsewhere(b"payload")
    guest = hall.guest()
    guest.creates(task(b"t", b"#%d" % job.id))
    assert guest.steals(b"w", 9) == [b"#%d" % job.id]
    guest.completes(b"w", b"#%d" % job.id)
    assert guest.steals(b"w", 9) == [b"t"]


def test_an_error_is_short_however_long_the_name_that_it_tells_of() -> None:
    guest = DworkHall().guest()
    assert len(guest.is_refused(create(b"\xff" * 1_000_000))) < 10_000
    assert len(guest.is_refused(create(task(b"t", succs=(b"\xff" * 1_000_000,))))) < 10_000


@pytest.mark.parametrize(
    "second",
    [
        task(b"b", b"after"),
        task(b"b", b"b"),
        task(b"b", b""),
        task(b"b", succs=(b"nobody",)),
        task(b"b", succs=(b"elsewhere",)),
        task(b"b", succs=(b"b",)),
    ],
)
def test_a_transfer_that_is_refused_changes_nothing(second: SaidTask) -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"elsewhere", b"ready", task(b"after", b"b"))
    guest.steals(b"w", 2)
    guest.steals(b"v")
    before = hall.snapshot()
    assert guest.is_refused(Said(wire.TRANSFER, (task(b"a", b"b"), second), location=b"w"))
    assert hall.snapshot() == before
    assert hall.state(b"a") == LEASED


@pytest.mark.parametrize("second", [task(b"b", b"ready", succs=(b"ready",)), task(b"b", b"a")])
def test_a_transfer_whose_own_tasks_wait_for_each_other_is_refused_and_changes_nothing(
    second: SaidTask,
) -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"ready")
    guest.steals(b"w", 2)
    before = hall.snapshot()
    assert guest.is_refused(Said(wire.TRANSFER, (task(b"a", b"b"), second), location=b"w")).startswith("'b': ")
    assert hall.snapshot() == before
    assert guest.completes(b"w", b"a", b"b") == OK


def test_a_hall_whose_store_is_slow_waits_for_it_and_does_not_turn_in_circles() -> None:
    hall, guest = held_hall()
    hall.guest().says(create(b"busy"))
    assert guest.steals(b"w") == [b"u"]
    for _ in range(100):
        deadline_us = hall.engine.next_deadline()
        if not 0 < deadline_us <= hall.now_us + SECOND_US:
            break
        hall.now_us = max(hall.now_us, deadline_us)
        hall.begin()
        hall.end()
    else:
        raise AssertionError("a deadline that has passed comes again and again")
    hall.turn_that_commits()
