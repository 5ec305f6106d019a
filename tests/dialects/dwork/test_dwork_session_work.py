"""The dwork door and its workers: completing, giving back, leaving; what a hall that closes says to them."""

from __future__ import annotations

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.peer import Peer
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions
from stage.dwork import (
    DETACHED,
    EXIT,
    NOT_FOUND,
    OK,
    DworkGuest,
    DworkHall,
    create,
    hall_with_a_held_task,
    task,
)
from stage.dwork_said import Said, SaidTask

# --- complete


def test_complete_records_the_known_and_lists_just_the_unknown() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"c", b"others", task(b"next", b"a", b"b"))
    guest.steals(b"w", 2)
    guest.steals(b"v")
    named = [SaidTask(name, b"result") for name in (b"nobody", b"a", b"c", b"b", b"others")]
    answer = guest.asks(Said(wire.COMPLETE, tuple(named), location=b"w"))
    assert answer == Said(wire.NOT_FOUND, (named[0], named[4]))
    assert sorted(hall.done()) == [b"a", b"b", b"c"]
    assert hall.state(b"next") == QUEUED
    assert hall.state(b"others") == QUEUED


@pytest.mark.parametrize("location", [b"v", b"never seen"])
def test_any_location_can_complete_a_task_that_another_holds(location: bytes) -> None:
    hall = hall_with_a_held_task()
    guest = hall.guest()
    guest.steals(b"v")
    assert guest.completes(location, b"held") == OK
    assert hall.done() == [b"held"]
    assert guest.completes(b"bench-1", b"held") == Said(wire.NOT_FOUND, (SaidTask(b"held", b""),))
    (row,) = hall.history()
    assert row.worker == b"bench-1", "who held it, and not who said that it is done"


@pytest.mark.parametrize("location", [b"v", b"never seen"])
def test_only_who_holds_a_task_can_complete_it_where_the_door_says_so(location: bytes) -> None:
    hall = DworkHall(DworkOptions(complete_by_holder=True))
    guest = hall.guest()
    guest.creates(b"held", b"idle")
    guest.steals(b"bench-1")
    guest.steals(b"v")
    assert guest.completes(location, b"held") == Said(wire.NOT_FOUND, (SaidTask(b"held", b""),))
    assert hall.state(b"held") == LEASED
    assert guest.completes(b"bench-1", b"held") == OK


def test_nobody_completes_what_a_worker_of_another_dialect_has() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"t")
    worker = hall.scheduler.worker(Peer())
    hall.begin()
    hall.scheduler.can_do(worker, b"dwork")
    lease = hall.scheduler.take(worker)
    assert lease is not None
    hall.end()
    assert guest.completes(b"w", b"t").type == wire.NOT_FOUND
    assert lease.job.lease is lease


@pytest.mark.parametrize("location", [b"w", OUTSIDE])
@pytest.mark.parametrize("kind", [wire.COMPLETE, wire.TRANSFER, wire.EXIT])
def test_no_location_touches_a_task_that_runs_outside_the_hall(kind: int, location: bytes) -> None:
    hall = DworkHall()
    hall.begin()
    job = hall.scheduler.reports.start(JobSpec(b"dwork", b"", b"t", DETACHED), b"elsewhere", 0)
    hall.end()
    tasks = (SaidTask(b"t", b""),) if kind != wire.EXIT else ()
    assert hall.guest().asks(Said(kind, tasks, location=location)).type == wire.NOT_FOUND
    assert job.state == LEASED


def test_a_task_is_completed_once() -> None:
    hall = hall_with_a_held_task()
    guest = hall.guest()
    answer = guest.completes(b"bench-1", b"held", b"held")
    assert answer == Said(wire.NOT_FOUND, (SaidTask(b"held", b""),))
    assert guest.completes(b"bench-1", b"held") == answer
    assert hall.done() == [b"held"]
    assert hall.scheduler.counters.stale == 2


def test_anybody_may_speak_for_a_location() -> None:
    hall = hall_with_a_held_task()
    assert hall.guest().completes(b"bench-1", b"held") == OK
    assert hall.guest().steals(b"bench-1") == [b"idle"]
    assert hall.guest().leaves_as(b"bench-1") == OK
    assert hall.guest().leaves_as(b"bench-1") == NOT_FOUND


def test_what_a_task_says_when_it_is_completed_is_its_result() -> None:
    hall = hall_with_a_held_task()
    hall.guest().asks(Said(wire.COMPLETE, (SaidTask(b"held", b"forty-two"),), location=b"bench-1"))
    (row,) = hall.history()
    assert (row.key, row.result, row.worker) == (b"held", b"forty-two", b"bench-1")


# --- transfer


def test_tasks_that_are_created_again_come_after_all_that_are_ready() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"c", b"d")
    guest.steals(b"w", 2)
    assert guest.transfers(b"w", task(b"b"), task(b"a")) == OK
    assert guest.steals(b"v", 9) == [b"c", b"d", b"b", b"a"]
    assert guest.completes(b"v", b"a") == OK


def test_a_worker_that_declines_a_task_is_given_the_others_before_it_is_given_that_one_again() -> None:
    hall = DworkHall()
    guest = hall.guest()
    names = [b"%d" % number for number in range(3)]
    guest.creates(*names)
    stolen: list[bytes] = []
    for _ in range(6):
        (name,) = guest.steals(b"w")
        assert guest.transfers(b"w", task(name)) == OK
        stolen.append(name)
    assert stolen == names + names


def test_a_task_that_was_created_again_is_no_longer_its_locations() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a")
    guest.steals(b"w")
    assert guest.transfers(b"w", task(b"a")) == OK
    assert guest.completes(b"w", b"a").type == wire.NOT_FOUND
    assert guest.steals(b"v") == [b"a"]
    assert guest.completes(b"v", b"a") == OK


def test_a_task_that_is_created_again_waits_for_what_it_names() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b")
    guest.steals(b"w")
    assert guest.transfers(b"w", task(b"a", b"b", b"later")) == OK
    assert hall.waits_for(b"a") == [b"b", b"later"]
    guest.creates(b"later")
    assert guest.steals(b"w", 9) == [b"b", b"later"]
    guest.completes(b"w", b"b", b"later")
    assert guest.steals(b"w", 9) == [b"a"]


def test_a_task_that_is_created_again_can_name_successors() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b")
    guest.steals(b"w")
    assert guest.transfers(b"w", task(b"a", succs=(b"b",))) == OK
    assert hall.waits_for(b"b") == [b"a"]


@pytest.mark.parametrize("turned", [False, True])
def test_tasks_that_are_created_again_together_can_wait_for_each_other(turned: bool) -> None:
    for tasks in ((task(b"a"), task(b"b", b"a")), (task(b"a", succs=(b"b",)), task(b"b"))):
        hall = DworkHall()
        guest = hall.guest()
        guest.creates(b"a", b"b")
        guest.steals(b"w", 2)
        assert guest.transfers(b"w", *(reversed(tasks) if turned else tasks)) == OK
        assert hall.waits_for(b"b") == [b"a"]
        assert guest.steals(b"w", 9) == [b"a"]


@pytest.mark.parametrize("unknown", [b"nobody", b"others", b"idle"])
def test_not_found_changes_nothing_at_all(unknown: bytes) -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"others", b"idle")
    guest.steals(b"w", 2)
    guest.steals(b"v")
    before = hall.snapshot()
    tasks = (task(b"a", b"idle"), task(unknown), task(b"b", b"new", succs=(b"idle",)))
    assert guest.transfers(b"w", *tasks) == NOT_FOUND
    assert hall.snapshot() == before
    assert guest.completes(b"w", b"a", b"b") == OK


def test_a_cycle_by_transfer_is_refused_and_nothing_is_changed() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", task(b"b", b"a"))
    guest.steals(b"w")
    before = hall.snapshot()
    assert guest.is_refused(Said(wire.TRANSFER, (task(b"a", b"b"),), location=b"w"))
    assert guest.is_refused(Said(wire.TRANSFER, (task(b"a", b"a"),), location=b"w"))
    assert hall.snapshot() == before
    assert guest.completes(b"w", b"a") == OK


def test_a_task_twice_in_one_transfer_is_given_back_once() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a")
    guest.steals(b"w")
    assert guest.transfers(b"w", task(b"a"), task(b"a")) == OK
    assert guest.steals(b"w", 9) == [b"a"]


# --- answers that cannot be delivered


def part_unreached(hall: DworkHall, guest: DworkGuest, delivered: int) -> None:
    """So many of the answers were passed on, and the next one cannot be."""
    guest.session.delivered = delivered
    hall.begin()
    guest.session.undelivered()
    hall.engine.leave(guest.session)
    hall.end()


def test_what_a_stealer_has_never_seen_is_given_back_without_blame() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"c", b"d", b"e")
    guest.steals(b"w")
    guest.steals(b"w", 2)
    guest.steals(b"w")
    part_unreached(hall, guest, 2)
    other = hall.guest()
    assert other.looks_up(b"a").location == b"w"
    assert other.steals(b"v", 9) == [b"b", b"c", b"d", b"e"]
    assert {job.losses for job in hall.scheduler.jobs.values()} == {0}


def test_what_was_delivered_stays_with_its_location() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b")
    guest.steals(b"w", 2)
    part_unreached(hall, guest, 2)
    assert (hall.state(b"a"), hall.state(b"b")) == (LEASED, LEASED)


def test_a_task_that_is_another_locations_by_now_is_not_given_back() -> None:
    hall = DworkHall()
    guest, other = hall.guest(), hall.guest()
    guest.creates(b"a")
    guest.steals(b"w")
    other.leaves_as(b"w")
    assert other.steals(b"w") == [b"a"]
    part_unreached(hall, guest, 1)
    assert hall.state(b"a") == LEASED
    assert other.completes(b"w", b"a") == OK


# --- exit


def test_the_tasks_of_a_location_that_is_marked_down_are_ready_again_in_their_order() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"b", b"c", b"d", b"e")
    guest.steals(b"w", 2)
    guest.steals(b"v")
    guest.steals(b"w")
    assert guest.leaves_as(b"w") == OK
    assert guest.steals(b"v", 9) == [b"a", b"b", b"d", b"e"]
    assert guest.leaves_as(b"w") == NOT_FOUND
    (job,) = [job for job in hall.scheduler.jobs.values() if job.key == b"a"]
    assert job.losses == 0


def test_a_location_that_was_marked_down_is_welcome_again() -> None:
    guest = DworkHall().guest()
    guest.creates(b"a", b"b")
    guest.steals(b"w")
    guest.leaves_as(b"w")
    assert guest.completes(b"w", b"a") == Said(wire.NOT_FOUND, (SaidTask(b"a", b""),))
    assert guest.steals(b"w") == [b"a"]
    assert guest.completes(b"w", b"a") == OK


def test_idle_locations_are_forgotten_when_there_are_too_many_and_holders_never() -> None:
    hall = DworkHall(limits=Limits(residents_max=3))
    guest = hall.guest()
    guest.creates(b"a", b"b", b"c", b"d")
    assert guest.steals(b"holder") == [b"a"]
    assert guest.completes(b"holder", b"a") == OK
    assert guest.steals(b"holder") == [b"b"]
    for number in range(10):
        hall.wait(2 * SECOND_US)
        name = guest.steals(b"passer-by-%d" % number)
        assert guest.completes(b"passer-by-%d" % number, *name) == OK
        assert guest.creates(*name) == OK
    assert len(hall.scheduler.table.residents) <= 3
    assert guest.looks_up(b"b").location == b"holder"
    assert guest.steals(b"x") + guest.steals(b"y") != []
    hall.wait(2 * SECOND_US)
    guest.creates(b"e", b"f", b"g")
    guest.steals(b"y")
    assert "residents_max" in guest.is_refused(Said(wire.STEAL, location=b"z"))
    assert guest.completes(b"holder", b"b") == OK


# --- closing


CLOSING = {
    wire.CREATE: create(b"new"),
    wire.STEAL: Said(wire.STEAL, location=b"bench-1"),
    wire.COMPLETE: Said(wire.COMPLETE, (SaidTask(b"held", b""),), location=b"bench-1"),
    wire.TRANSFER: Said(wire.TRANSFER, (SaidTask(b"held", b""),), location=b"bench-1"),
    wire.LOOKUP: Said(wire.LOOKUP, name=b"held"),
    wire.OK: Said(wire.OK),
    wire.EXIT: Said(wire.EXIT, location=b"bench-1"),
}


@pytest.mark.parametrize("kind", CLOSING)
def test_everybody_hears_exit_while_the_hall_closes(kind: int) -> None:
    hall = hall_with_a_held_task()
    hall.scheduler.close()
    guest = hall.guest()
    assert guest.asks(CLOSING[kind]) == EXIT
    assert hall.done() == ([b"held"] if kind == wire.COMPLETE else [])
    assert hall.scheduler.find_key(b"dwork", b"new") is None


def test_what_is_ill_formed_is_an_error_while_the_hall_closes() -> None:
    hall = hall_with_a_held_task()
    hall.scheduler.close()
    assert hall.guest().is_refused(Said(wire.NOT_FOUND))


# --- jobs of other doors


class Onlooker(Peer):
    """Somebody at another door who waits for a job."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[bytes] = []

    def ended(self, job: object) -> None:
        self.results.append(job.result)  # type: ignore[attr-defined]


def test_a_job_without_a_key_is_called_by_its_number() -> None:
    hall = DworkHall()
    onlooker = Onlooker()
    job = hall.submit_elsewhere(b"payload", terms=Terms(), watcher=onlooker)
    guest = hall.guest()
    answer = guest.asks(Said(wire.STEAL, location=b"w"))
    name = b"#%d" % job.id
    assert [(task.name, task.origin) for task in answer.tasks] == [(name, b"payload")]
    assert guest.looks_up(name).location == b"w"
    assert guest.transfers(b"w", task(name)) == OK
    assert guest.steals(b"w") == [name]
    assert guest.asks(Said(wire.COMPLETE, (SaidTask(name, b"result"),), location=b"w")) == OK
    assert onlooker.results == [b"result"]


@pytest.mark.parametrize("name", [b"#", b"#x", b"#-1", b"#1", b"#" + b"9" * 30, b"#\xb2"])
def test_a_number_of_no_job_is_a_name_like_any_other(name: bytes) -> None:
    hall = DworkHall()
    guest = hall.guest()
    assert guest.looks_up(name) == NOT_FOUND
    assert guest.creates(name) == OK
    assert guest.steals(b"w") == [name]
    assert guest.completes(b"w", name) == OK


def test_a_job_of_another_queue_is_out_of_reach() -> None:
    hall = DworkHall()
    other = hall.guest(DworkOptions(queue=b"other"))
    assert other.creates(b"t") == OK
    guest = hall.guest()
    (job,) = hall.scheduler.jobs.values()
    assert guest.asks(Said(wire.STEAL, location=b"w")) == EXIT
    for name in (b"t", b"#%d" % job.id):
        assert guest.completes(b"w", name).type == wire.NOT_FOUND
    assert other.steals(b"w") == [b"t"]
    assert guest.completes(b"w", b"t").type == wire.NOT_FOUND
    assert other.completes(b"w", b"t") == OK


def test_a_foreground_job_whose_client_has_left_is_dropped_when_it_is_given_back() -> None:
    hall = DworkHall()
    onlooker = Onlooker()
    hall.submit_elsewhere(b"payload", b"k", Terms(), onlooker)
    guest = hall.guest()
    assert guest.steals(b"w") == [b"k"]
    hall.scheduler.leave(onlooker)
    assert guest.leaves_as(b"w") == OK
    assert guest.asks(Said(wire.STEAL, location=b"w")) == EXIT


# --- status and lookup


def test_the_status_counts_ready_waiting_and_assigned() -> None:
    guest = DworkHall().guest()
    assert guest.asks(Said(wire.OK)) == Said(wire.OK, name=b"0 ready, 0 waiting, 0 assigned, 0 failed", n=0)
    guest.creates(b"a", b"b", b"c", task(b"d", b"a"), task(b"e", b"never"))
    guest.steals(b"w")
    assert guest.asks(Said(wire.OK)) == Said(wire.OK, name=b"2 ready, 2 waiting, 1 assigned, 0 failed", n=2)


def test_lookup_tells_who_holds_a_task_and_who_ran_it() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"t")
    assert guest.looks_up(b"t") == NOT_FOUND
    guest.steals(b"w")
    assert guest.looks_up(b"t").location == b"w"
    guest.transfers(b"w", task(b"t"))
    assert guest.looks_up(b"t") == NOT_FOUND, "nobody holds it now, and nobody ran it"
    guest.steals(b"v")
    assert guest.looks_up(b"t").location == b"v"
    guest.completes(b"v", b"t")
    assert guest.looks_up(b"t").location == b"v"
    guest = hall.restart()
    assert guest.looks_up(b"t").location == b"v"
    assert guest.looks_up(b"nobody") == NOT_FOUND
