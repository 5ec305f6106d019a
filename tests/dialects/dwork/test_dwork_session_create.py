"""A Create of many tasks at the dwork door: all of them are taken in, or nothing has happened. And what its
answer and the status tell of tasks that failed, and what workers of other dialects are given.
"""

from __future__ import annotations

import pytest

from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.peer import Peer
from hiringhall.core.states import HELD, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions
from hiringhall.dialects.session import REFUSED_SUBMIT
from stage.dwork import OK, DworkHall, create, task
from stage.dwork_said import Said, SaidTask


def fail_one(hall: DworkHall) -> None:
    """A worker of another dialect takes a task, and fails."""
    hall.begin()
    worker = hall.scheduler.worker(Peer())
    hall.scheduler.can_do(worker, b"dwork")
    lease = hall.scheduler.take(worker)
    assert lease is not None
    hall.scheduler.fail(lease)
    hall.scheduler.leave(worker.peer)
    hall.end()


def hall_with_tasks() -> DworkHall:
    """Location w holds "held"; "idle" and "later" are ready; "child" waits for "nobody", "twin" for "idle";
    "broken" has failed.
    """
    hall = DworkHall(limits=Limits(parents_max=3, payload_bytes_max=5000, jobs_max=9))
    guest = hall.guest()
    assert guest.creates(b"broken") == OK
    fail_one(hall)
    assert guest.creates(b"held", b"idle", b"later", task(b"child", b"nobody"), task(b"twin", b"idle")) == OK
    assert guest.steals(b"w") == [b"held"]
    hall.wait(SECOND_US)
    return hall


REFUSED: dict[str, tuple[str, str, tuple[SaidTask | bytes, ...]]] = {
    # The task that is named, a word of the reason, and the tasks.
    "no name": ("''", "name", (b"a", b"", b"c")),
    "long name": ("'nnn", "key_bytes_max", (b"a", b"n" * 4097)),
    "long name of a predecessor": ("'b'", "is not a valid name of a task", (b"a", task(b"b", b"n" * 4097))),
    "long origin": ("'b'", "payload_bytes_max", (b"a", SaidTask(b"b", bytes(5001)))),
    "many predecessors": ("'b'", "parents_max", (b"a", task(b"b", b"1", b"2", b"3", b"4"))),
    "more predecessors": ("'child'", "parents_max", (b"a", task(b"child", b"1", b"2", b"3"))),
    "more in two parts": ("'child'", "parents_max", (task(b"child", b"1", b"2"), b"a", task(b"child", b"3"))),
    "too many": ("'4'", "jobs_max", tuple(b"%d" % number for number in range(7))),
    "its own predecessor": ("'b'", "parent", (b"a", task(b"b", b"b"), b"c")),
    "a cycle of new ones": ("'c'", "parent", (task(b"a", b"b"), task(b"b", b"c"), task(b"c", b"a"))),
    "its own successor": ("'b'", "parent", (task(b"a", b"b"), task(b"b", b"d", succs=(b"b",)))),
    "a cycle with a waiting one": ("'nobody'", "parent", (b"a", task(b"nobody", b"child"))),
    "a cycle of living ones": ("'later'", "parent", (b"a", task(b"idle", b"later"), task(b"later", b"idle"))),
    "a cycle by a successor": ("'new'", "parent", (task(b"new", b"later", succs=(b"idle", b"later")), b"a")),
    "a long cycle": (
        "'later'",
        "parent",
        (task(b"new", b"twin"), task(b"idle", b"later"), task(b"later", b"newer"), task(b"newer", b"new")),
    ),
    "a held one": ("'held'", "leased", (b"a", task(b"idle", b"a"), task(b"held", b"a"))),
    "a held successor": ("'b'", "leased", (b"a", task(b"b", succs=(b"idle", b"held")))),
    "an unknown successor": ("'b'", "'who' is not known", (b"a", task(b"b", succs=(b"idle", b"who")), b"c")),
    "a failed predecessor": ("'b'", "'broken' has failed", (b"a", task(b"b", b"idle", b"broken"), b"c")),
    "a failed predecessor of a living one": ("'idle'", "'broken' has failed", (b"a", task(b"idle", b"broken"))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_create_of_which_one_task_is_refused_changes_nothing_and_names_the_task(case: str) -> None:
    named, reason, tasks = REFUSED[case]
    hall = hall_with_tasks()
    before = hall.snapshot()
    expected = {ref: set(children) for ref, children in hall.scheduler.graph.expected.items()}
    rows = len(hall.history())
    text = hall.guest().is_refused(create(*tasks))
    assert text.startswith(named)
    assert reason in text
    assert text.endswith(f"; none of these {len(tasks)} tasks was created")
    assert hall.snapshot() == before
    assert {ref: set(children) for ref, children in hall.scheduler.graph.expected.items()} == expected
    hall.wait(SECOND_US)
    assert len(hall.history()) == rows, "what was never there has no history"
    guest = hall.restart()
    assert hall.snapshot() == before
    assert guest.steals(b"v", 9) == [b"idle", b"later"]


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_create_is_reported(case: str) -> None:
    hall = hall_with_tasks()
    text = hall.guest().is_refused(create(*REFUSED[case][2]))
    assert hall.reporter.reports == [(REFUSED_SUBMIT, text, b"dwork")]


def test_a_create_that_is_taken_in_is_not_reported() -> None:
    hall = DworkHall()
    assert hall.guest().creates(b"a", task(b"b", b"a")) == OK
    assert hall.reporter.reports == []


def test_a_refused_create_leaves_a_memory_job_as_it_was() -> None:
    hall = DworkHall()
    onlooker = Peer()
    job = hall.submit_elsewhere(b"payload", b"k", Terms(), onlooker)
    hall.guest().is_refused(create(b"k", task(b"b", b"b")))
    assert not job.terms.durable
    hall.scheduler.leave(onlooker)
    assert not hall.scheduler.jobs


def test_the_tasks_of_a_refused_create_can_be_created_again() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(task(b"child", b"a"))
    assert guest.is_refused(create(b"a", task(b"b", b"b"), b"c"))
    assert hall.state(b"child") == HELD
    assert guest.creates(b"a", b"b", b"c") == OK
    assert guest.steals(b"w", 9) == [b"a", b"b", b"c"]
    assert guest.completes(b"w", b"a") == OK
    assert hall.state(b"child") == QUEUED


def test_one_refused_task_alone_is_named_without_the_others() -> None:
    assert DworkHall().guest().is_refused(create(task(b"b", b"b"))) == "'b': a job cannot be its own parent"


def test_edges_between_new_and_living_tasks_are_all_added() -> None:
    hall = hall_with_tasks()
    guest = hall.guest()
    tasks = (task(b"new", b"later", succs=(b"idle",)), task(b"idle", b"newer"), task(b"newer", b"new"))
    assert guest.creates(*tasks) == OK
    assert hall.waits_for(b"idle") == [b"new", b"newer"]
    assert hall.waits_for(b"newer") == [b"new"]
    assert hall.waits_for(b"new") == [b"later"]
    done: list[bytes] = []
    while stolen := guest.steals(b"w", 9):
        assert guest.completes(b"w", *stolen) == OK
        done += stolen
    assert done == [b"later", b"new", b"newer", b"idle", b"twin"]


def test_a_name_is_a_command_of_up_to_4096_bytes() -> None:
    hall = DworkHall()
    guest = hall.guest()
    command = b"srun ./simulate " + b"-x" * 2040
    assert len(command) == 4096
    assert guest.creates(command, task(b"next", command)) == OK
    guest = hall.restart()
    assert guest.steals(b"w", 9) == [command]
    assert guest.completes(b"w", command) == OK
    assert guest.steals(b"w", 9) == [b"next"]


# --- failures


def test_the_status_tells_how_many_tasks_failed() -> None:
    hall = DworkHall()
    guest = hall.guest()
    other = hall.guest(DworkOptions(queue=b"other"))
    guest.creates(b"p", task(b"t", b"p"), b"fine")
    fail_one(hall)
    assert guest.asks(Said(wire.OK)).name == b"1 ready, 0 waiting, 0 assigned, 2 failed"
    assert other.asks(Said(wire.OK)).name == b"0 ready, 0 waiting, 0 assigned, 0 failed"
    guest = hall.restart()
    assert guest.asks(Said(wire.OK)).name == b"1 ready, 0 waiting, 0 assigned, 2 failed"
    failed = hall.scheduler.archive.find_key(b"dwork", b"p")
    assert failed is not None
    hall.begin()
    hall.scheduler.retry(failed)
    hall.end()
    assert guest.asks(Said(wire.OK)).name == b"2 ready, 0 waiting, 0 assigned, 1 failed"


def test_failed_tasks_count_while_they_are_remembered() -> None:
    hall = DworkHall(limits=Limits(ended_max=3))
    guest = hall.guest()
    for number in range(5):
        guest.creates(b"%d" % number)
        fail_one(hall)
    assert guest.asks(Said(wire.OK)).name == b"0 ready, 0 waiting, 0 assigned, 3 failed"


def test_a_task_behind_a_failed_one_can_be_created_once_that_one_is_created_again() -> None:
    hall = hall_with_tasks()
    guest = hall.guest()
    assert guest.is_refused(create(task(b"t", b"broken"))) == (
        "'t': its predecessor 'broken' has failed: create that one again first"
    )
    assert guest.creates(b"broken", task(b"t", b"broken")) == OK
    assert hall.waits_for(b"t") == [b"broken"]


def test_a_task_cannot_be_given_back_to_wait_for_a_failed_one() -> None:
    hall = hall_with_tasks()
    guest = hall.guest()
    before = hall.snapshot()
    request = Said(wire.TRANSFER, (task(b"held", b"broken"),), location=b"w")
    assert "'broken' has failed" in guest.is_refused(request)
    assert hall.snapshot() == before


# --- what a worker of another dialect is given


def test_a_worker_of_another_dialect_is_given_the_name_and_a_location_the_origin_too() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.asks(Said(wire.CREATE, (SaidTask(b"cut", b"mill"), SaidTask(b"glue", b""))))
    guest = hall.restart()
    assert [job.work for job in hall.scheduler.jobs.values()] == [b"cut", b"glue"]
    answer = guest.asks(Said(wire.STEAL, n=2, location=b"w"))
    assert [(told.name, told.origin) for told in answer.tasks] == [(b"cut", b"mill"), (b"glue", b"")]


@pytest.mark.parametrize("durable", [True, False])
def test_only_the_history_has_the_origin_of_a_task_that_is_done(durable: bool) -> None:
    hall = DworkHall(DworkOptions(durable=durable))
    guest = hall.guest()
    guest.asks(Said(wire.CREATE, (SaidTask(b"bad", b"mill"), SaidTask(b"good", b"mill"))))
    fail_one(hall)
    guest.steals(b"w")
    guest.completes(b"w", b"good")
    hall.wait(SECOND_US)
    (found,) = guest.looks_up(b"good").tasks
    assert found.origin == b""
    kept = {row.key: row.payload for row in hall.history()}
    assert kept == ({b"bad": b"mill", b"good": b"mill"} if durable else {})
    if durable:
        guest = hall.restart()
        failed = hall.scheduler.archive.find_key(b"dwork", b"bad")
        assert failed is not None
        hall.begin()
        hall.scheduler.retry(failed)
        hall.end()
        (again,) = guest.asks(Said(wire.STEAL, location=b"w")).tasks
        assert (again.name, again.origin) == (b"bad", b"mill")
