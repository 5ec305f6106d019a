"""The dwork door and its store: what is on disk before it is said, what a restart keeps, and what is taken
back when the store fails.
"""

from __future__ import annotations

import pytest
from dwork_said import Said, SaidTask
from dwork_session_room import EXIT, NOT_FOUND, OK, Guest, Room, create, task

from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.peer import Peer
from hiringhall.core.states import FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions


def held_room() -> tuple[Room, Guest]:
    """The store answers when the story says so; "t" and "u" are stored, and w holds "t"."""
    room = Room()
    guest = room.guest()
    assert guest.creates(b"t", b"u") == OK
    assert guest.steals(b"w") == [b"t"]
    room.wait(SECOND_US)
    room.held = True
    return room, guest


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
    room, guest = held_room()
    guest.says(WRITES[write])
    assert guest.hears() == []
    room.commit()
    (answer,) = guest.hears()
    assert answer.type in (wire.OK, wire.TRANSFER)


def test_who_changes_nothing_is_answered_at_once() -> None:
    room, guest = held_room()
    guest.says(create(b"new"))
    others = (Said(wire.OK), Said(wire.LOOKUP, name=b"t"))
    for request in others:
        assert room.guest().asks(request).type in (wire.OK, wire.NOT_FOUND)
    assert guest.hears() == []


@pytest.mark.parametrize("write", WRITES)
def test_a_door_in_memory_waits_for_no_disk(write: str) -> None:
    room = Room(DworkOptions(durable=False))
    guest = room.guest()
    room.held = True
    assert guest.creates(b"t", b"u") == OK
    assert guest.steals(b"w") == [b"t"]
    assert guest.asks(WRITES[write]).type in (wire.OK, wire.TRANSFER)
    assert room.desk.batches == []


# --- restarts


def test_a_restart_keeps_tasks_edges_and_assignments() -> None:
    room = Room()
    guest = room.guest()
    guest.creates(b"a", b"b", b"c", task(b"next", b"a"), task(b"last", b"next", b"never"))
    guest.steals(b"w", 2)
    before = room.snapshot()
    guest = room.restart()
    assert room.snapshot() == before
    assert guest.steals(b"v", 9) == [b"c"]
    assert guest.looks_up(b"a").location == b"w"
    assert guest.transfers(b"v", task(b"b")) == NOT_FOUND
    assert guest.completes(b"w", b"a", b"b") == OK
    assert guest.steals(b"v", 9) == [b"next"]
    guest = room.restart()
    assert room.waits_for(b"last") == [b"never", b"next"]
    assert room.done() == [b"a", b"b"]
    assert guest.completes(b"v", b"next", b"c") == OK


def test_a_location_that_held_something_before_a_restart_can_be_marked_down() -> None:
    room = Room()
    guest = room.guest()
    guest.creates(b"a", b"b", b"c")
    guest.steals(b"w", 2)
    guest = room.restart()
    assert guest.leaves_as(b"w") == OK
    assert guest.steals(b"v", 9) == [b"a", b"b", b"c"]
    guest = room.restart()
    assert guest.leaves_as(b"w") == NOT_FOUND
    assert guest.completes(b"v", b"a", b"b", b"c") == OK


def test_that_a_location_holds_nothing_is_told_once_that_is_on_disk() -> None:
    """Otherwise a crash gives its task back to it, after somebody was told that it holds none."""
    room = Room()
    guest, other = room.guest(), room.guest()
    guest.creates(b"t")
    assert guest.steals(b"w") == [b"t"]
    room.held = True
    guest.says(Said(wire.EXIT, location=b"w"))
    other.says(Said(wire.EXIT, location=b"w"))
    assert (guest.hears(), other.hears()) == ([], [])
    room.held = False
    room.commit()
    room.wait(50_000)
    assert (guest.hears(), other.hears()) == ([OK], [NOT_FOUND])


def test_what_a_busy_hall_has_given_is_on_disk_a_moment_later() -> None:
    room, guest = held_room()
    room.guest().says(create(b"busy"))
    assert guest.steals(b"w") == [b"u"], "told before it is on disk"
    room.held = False
    room.commit()
    room.wait(50_000)
    guest = room.die()
    assert guest.steals(b"v", 9) == [b"busy"]
    assert guest.completes(b"w", b"t", b"u") == OK


def test_what_a_busy_hall_had_given_when_it_died_is_ready_again() -> None:
    room, guest = held_room()
    room.guest().says(create(b"busy"))
    assert guest.steals(b"w") == [b"u"]
    guest = room.die()
    assert guest.completes(b"w", b"u") == Said(wire.NOT_FOUND, (SaidTask(b"u", b""),))
    assert guest.steals(b"v", 9) == [b"u"]
    assert guest.completes(b"v", b"u") == OK


def test_a_finished_predecessor_is_met_after_a_restart() -> None:
    room = Room()
    guest = room.guest()
    guest.creates(b"p")
    guest.steals(b"w")
    guest.completes(b"w", b"p")
    guest = room.restart()
    assert guest.asks(Said(wire.STEAL, location=b"w")) == EXIT
    assert guest.creates(task(b"t", b"p")) == OK
    assert guest.steals(b"w") == [b"t"]


def test_finished_predecessors_are_remembered_by_number_whatever_their_origins_weigh() -> None:
    room = Room(limits=Limits(ended_bytes_max=1000, ended_max=50))
    guest = room.guest()
    for number in range(20):
        name = b"%d" % number
        assert guest.asks(Said(wire.CREATE, (SaidTask(name, bytes(500)),))) == OK
        assert guest.steals(b"w") == [name]
        assert guest.completes(b"w", name) == OK
    assert guest.creates(task(b"next", b"0", b"19")) == OK
    assert room.state(b"next") == QUEUED


def test_what_was_not_committed_never_was() -> None:
    room, guest = held_room()
    guest.says(Said(wire.COMPLETE, (SaidTask(b"t", b""),), location=b"w"), create(b"new"))
    guest = room.die()
    assert guest.completes(b"w", b"t") == OK
    assert guest.steals(b"w", 9) == [b"u"]


# --- the store fails


def test_a_create_that_could_not_be_stored_is_an_error_and_the_tasks_are_gone() -> None:
    room, guest = held_room()
    guest.says(create(b"a", b"b", task(b"c", b"a")))
    room.fail("the disk is full")
    (answer,) = guest.hears()
    assert answer == Said(wire.ERROR, name=b"the disk is full")
    assert sorted(job.key for job in room.hall.jobs.values()) == [b"t", b"u"]
    assert guest.is_refused(create(b"a")) == "'a': the disk is full"
    room.recover()
    assert guest.creates(b"a", b"b", task(b"c", b"a")) == OK
    assert guest.steals(b"w", 9) == [b"u", b"a", b"b"]


def test_a_create_is_not_confirmed_by_a_commit_that_held_only_part_of_it() -> None:
    """The first task is on its way to the disk already, for somebody else; the second one's commit fails."""
    room, guest = held_room()
    first = room.guest()
    first.says(create(b"a"))
    guest.says(create(b"a", b"b"))
    room.commit()
    assert first.hears() == [OK]
    room.fail()
    room.recover()
    (answer,) = guest.hears()
    gone = room.hall.find_key(b"dwork", b"b") is None
    assert answer.type == (wire.ERROR if gone else wire.OK)
    assert room.state(b"a") == QUEUED


def test_a_completion_that_could_not_be_stored_is_confirmed_when_it_is() -> None:
    room, guest = held_room()
    guest.says(Said(wire.COMPLETE, (SaidTask(b"t", b""),), location=b"w"))
    room.fail()
    assert guest.hears() == []
    room.recover()
    assert guest.hears() == [OK]
    assert room.done() == [b"t"]


def test_a_task_that_was_handed_out_before_it_was_taken_back_cannot_be_completed() -> None:
    """It ran for nothing: nobody was promised anything of it."""
    room, guest = held_room()
    worker = room.guest()
    guest.says(create(b"new"))
    assert worker.steals(b"w", 9) == [b"u", b"new"]
    room.fail()
    (refused,) = guest.hears()
    assert refused.type == wire.ERROR
    room.recover()
    assert worker.completes(b"w", b"u", b"new") == Said(wire.NOT_FOUND, (SaidTask(b"new", b""),))
    assert room.done() == [b"u"]
    assert guest.creates(b"new") == OK
    assert worker.steals(b"w", 9) == [b"new"]
    assert worker.completes(b"w", b"new") == OK


def test_a_door_in_memory_goes_on_while_the_store_fails() -> None:
    room, guest = held_room()
    other = room.guest(DworkOptions(queue=b"fleeting", durable=False))
    guest.says(create(b"new"))
    room.fail()
    assert guest.hears()[0].type == wire.ERROR
    assert other.creates(b"x", task(b"y", b"x")) == OK
    assert other.steals(b"w") == [b"x"]
    assert other.completes(b"w", b"x") == OK
    assert other.steals(b"w") == [b"y"]


# --- a create that is sent again, because its answer was lost


def test_a_create_can_be_repeated_while_its_tasks_are_worked_on() -> None:
    room = Room()
    guest = room.guest()
    guest.creates(b"a", task(b"b", b"a"))
    guest.steals(b"w")
    guest.completes(b"w", b"a")
    assert guest.steals(b"w") == [b"b"]
    assert guest.creates(task(b"b", b"a"), b"c") == OK, "b waits for nothing that is not met"
    assert (room.state(b"b"), room.state(b"c")) == (LEASED, QUEUED)


# --- memory jobs of other doors


def test_a_create_makes_a_memory_job_of_the_same_name_lasting() -> None:
    room = Room()
    onlooker = Peer()
    room.submit_elsewhere(b"payload", b"k", Terms(), onlooker)
    guest = room.guest()
    assert guest.creates(b"k") == OK
    room.hall.leave(onlooker)
    assert room.state(b"k") == QUEUED
    guest = room.restart()
    assert guest.steals(b"w") == [b"k"]


# --- predecessors that fail


@pytest.mark.parametrize("policy", [0, 1, 2])
def test_what_a_task_does_when_one_it_waits_for_failed(policy: int) -> None:
    room = Room(DworkOptions(on_parent_failure=policy))
    guest = room.guest()
    guest.creates(b"p", task(b"t", b"p"))
    worker = room.hall.worker(Peer())
    room.begin()
    room.hall.can_do(worker, b"dwork")
    lease = room.hall.take(worker)
    assert lease is not None
    room.hall.fail(lease)
    room.end()
    room.wait(SECOND_US)
    failed = sorted(row.key for row in room.history() if row.state == FAILED)
    assert failed == ([b"p", b"t"] if policy == 0 else [b"p"])
    if policy == 0:
        assert not room.hall.jobs
        return
    assert guest.creates(task(b"late", b"p")) == OK
    for name in (b"t", b"late"):
        assert room.state(name) == (QUEUED if policy == 1 else HELD)
    if policy == 2:
        assert guest.creates(b"p") == OK
        guest.steals(b"w")
        guest.completes(b"w", b"p")
        assert guest.steals(b"w", 9) == [b"t", b"late"]


# --- names that nobody can have


@pytest.mark.parametrize("name", [b"", b"n" * 4097])
def test_a_predecessor_that_can_never_exist_is_an_error(name: bytes) -> None:
    room = Room()
    assert room.guest().is_refused(create(task(b"t", name)))
    assert not room.hall.jobs


def test_a_predecessor_without_a_key_is_called_by_its_number_too() -> None:
    room = Room()
    job = room.submit_elsewhere(b"payload")
    guest = room.guest()
    guest.creates(task(b"t", b"#%d" % job.id))
    assert guest.steals(b"w", 9) == [b"#%d" % job.id]
    guest.completes(b"w", b"#%d" % job.id)
    assert guest.steals(b"w", 9) == [b"t"]


def test_an_error_is_short_however_long_the_name_that_it_tells_of() -> None:
    guest = Room().guest()
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
    room = Room()
    guest = room.guest()
    guest.creates(b"a", b"b", b"elsewhere", b"ready", task(b"after", b"b"))
    guest.steals(b"w", 2)
    guest.steals(b"v")
    before = room.snapshot()
    assert guest.is_refused(Said(wire.TRANSFER, (task(b"a", b"b"), second), location=b"w"))
    assert room.snapshot() == before
    assert room.state(b"a") == LEASED


@pytest.mark.parametrize("second", [task(b"b", b"ready", succs=(b"ready",)), task(b"b", b"a")])
def test_a_transfer_whose_own_tasks_wait_for_each_other_is_refused_and_changes_nothing(
    second: SaidTask,
) -> None:
    room = Room()
    guest = room.guest()
    guest.creates(b"a", b"b", b"ready")
    guest.steals(b"w", 2)
    before = room.snapshot()
    assert guest.is_refused(Said(wire.TRANSFER, (task(b"a", b"b"), second), location=b"w")).startswith("'b': ")
    assert room.snapshot() == before
    assert guest.completes(b"w", b"a", b"b") == OK


def test_a_hall_whose_store_is_slow_waits_for_it_and_does_not_turn_in_circles() -> None:
    room, guest = held_room()
    room.guest().says(create(b"busy"))
    assert guest.steals(b"w") == [b"u"]
    for _ in range(100):
        deadline_us = room.engine.next_deadline()
        if not 0 < deadline_us <= room.now_us + SECOND_US:
            break
        room.now_us = max(room.now_us, deadline_us)
        room.begin()
        room.end()
    else:
        raise AssertionError("a deadline that has passed comes again and again")
    room.commit()
