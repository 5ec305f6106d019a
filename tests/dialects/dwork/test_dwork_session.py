"""The dwork door, request by request: who asks what, and what the hall answers; then creating and stealing.

Each answer is compared whole, so a field that must be absent is.
"""

from __future__ import annotations

import pytest

from hiringhall.core.limits import Limits
from hiringhall.core.states import HELD, LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions
from hiringhall.dialects.dwork.session import STEAL_MAX
from stage.dwork import EXIT, NOT_FOUND, OK, DworkHall, create, hall_with_a_held_task, task
from stage.dwork_said import Said, SaidTask

TASKS = (SaidTask(b"cut", b"mill"),)

PAIRS: dict[str, tuple[Said, Said]] = {
    # Asked in a hall where bench-1 holds "held" and where "idle" is ready.
    "create": (create(b"new"), OK),
    "create several": (create(b"new", b"newer", task(b"newest", b"new")), OK),
    "create an existing one": (create(b"idle"), OK),
    "re-create": (Said(wire.TRANSFER, (SaidTask(b"held", b""),), location=b"bench-1"), OK),
    "re-create an unknown one": (Said(wire.TRANSFER, TASKS, location=b"bench-1"), NOT_FOUND),
    "re-create for another": (Said(wire.TRANSFER, (SaidTask(b"held", b""),), location=b"bench-2"), NOT_FOUND),
    "complete": (Said(wire.COMPLETE, (SaidTask(b"held", b""),), location=b"bench-1"), OK),
    "complete an unknown one": (
        Said(wire.COMPLETE, TASKS, location=b"bench-1"),
        Said(wire.NOT_FOUND, TASKS),
    ),
    "exit": (Said(wire.EXIT, location=b"bench-1"), OK),
    "exit of nobody": (Said(wire.EXIT, location=b"bench-2"), NOT_FOUND),
    "status": (Said(wire.OK), Said(wire.OK, name=b"1 ready, 0 waiting, 1 assigned, 0 failed", n=1)),
    "lookup of nothing": (Said(wire.LOOKUP, name=b"cut"), NOT_FOUND),
    "lookup of what nobody has": (Said(wire.LOOKUP, name=b"idle"), NOT_FOUND),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_each_request_has_its_answer_and_the_answer_has_no_more_than_its_fields(pair: str) -> None:
    request, answer = PAIRS[pair]
    assert hall_with_a_held_task().guest().asks(request) == answer


def test_a_steal_is_answered_with_tasks_and_nothing_else() -> None:
    guest = hall_with_a_held_task().guest()
    answer = guest.asks(Said(wire.STEAL, location=b"bench-1"))
    assert answer == Said(wire.TRANSFER, answer.tasks)
    ((name, origin, preds, succs, log),) = answer.tasks
    assert (name, origin, preds, succs) == (b"idle", b"o", (), ())
    assert [state for state, _ in log] == [wire.PENDING, wire.READY, wire.STOLEN]


def test_a_lookup_is_answered_with_name_location_and_the_task() -> None:
    answer = hall_with_a_held_task().guest().looks_up(b"held")
    assert answer == Said(wire.OK, answer.tasks, b"held", None, b"bench-1")
    assert [(task.name, task.origin) for task in answer.tasks] == [(b"held", b"o")]


FIELDS: dict[str, dict[str, object]] = {
    "task": {"tasks": TASKS},
    "name": {"name": b"cut"},
    "n": {"n": 1},
    "location": {"location": b"bench-1"},
}
REQUESTS: dict[int, tuple[set[str], set[str]]] = {
    # What each must have, and what else it may have.
    wire.CREATE: ({"task"}, set()),
    wire.STEAL: ({"location"}, {"n"}),
    wire.COMPLETE: ({"task", "location"}, set()),
    wire.TRANSFER: ({"task", "location"}, set()),
    wire.LOOKUP: ({"name"}, set()),
    wire.OK: (set(), set()),
    wire.EXIT: ({"location"}, set()),
}
COMBINATIONS = [
    (kind, {field for bit, field in enumerate(FIELDS) if bits >> bit & 1})
    for kind in range(wire.ERROR + 1)
    for bits in range(1 << len(FIELDS))
]


@pytest.mark.parametrize(("kind", "fields"), COMBINATIONS)
def test_every_combination_of_fields_is_a_request_or_an_error(kind: int, fields: set[str]) -> None:
    values: dict[str, object] = {}
    for field in sorted(fields):
        values |= FIELDS[field]
    request = Said(kind, **values)  # type: ignore[arg-type]
    needed, allowed = REQUESTS.get(kind, ({"none of them will do"}, set()))
    hall = hall_with_a_held_task()
    guest = hall.guest()
    if needed <= fields <= needed | allowed:
        assert guest.asks(request).type != wire.ERROR
    else:
        before = hall.snapshot()
        assert guest.is_refused(request)
        assert hall.snapshot() == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x08",
        b"\x08\x09",
        b"\xff" * 40,
        b"\x12\x00",
        b"\x08\x00\x12\x7f",
        wire.encode(wire.CREATE) + b"\x0a",
    ],
)
def test_what_cannot_be_read_is_an_error_and_the_next_request_is_answered(body: bytes) -> None:
    guest = DworkHall().guest()
    answer = guest.ask_bytes(body)
    assert answer == Said(wire.ERROR, name=answer.name)
    assert answer.name
    assert guest.asks(Said(wire.OK)).n == 0


@pytest.mark.parametrize("n", [0, -1, -(1 << 31)])
def test_nobody_steals_less_than_one(n: int) -> None:
    hall = hall_with_a_held_task()
    assert "at least 1" in hall.guest().is_refused(Said(wire.STEAL, n=n, location=b"bench-1"))
    assert hall.state(b"idle") == QUEUED


@pytest.mark.parametrize("kind", [wire.STEAL, wire.EXIT])
def test_a_location_without_a_name_is_none(kind: int) -> None:
    hall = hall_with_a_held_task()
    answer = hall.guest().asks(Said(kind, location=b""))
    assert answer.type == (wire.ERROR if kind == wire.STEAL else wire.NOT_FOUND)
    assert hall.state(b"idle") == QUEUED


def test_requests_of_one_turn_are_answered_in_order() -> None:
    guest = DworkHall().guest()
    guest.says(
        create(b"a"),
        Said(wire.OK),
        Said(wire.STEAL, location=b"w"),
        Said(wire.NOT_FOUND),
        Said(wire.COMPLETE, (SaidTask(b"a", b""),), location=b"w"),
        Said(wire.STEAL, location=b"w"),
    )
    kinds = [answer.type for answer in guest.hears()]
    assert kinds == [wire.OK, wire.OK, wire.TRANSFER, wire.ERROR, wire.OK, wire.EXIT]


# --- create


def test_tasks_are_stolen_in_the_order_in_which_they_were_created() -> None:
    guest = DworkHall().guest()
    guest.creates(b"a", b"b")
    guest.creates(b"c")
    assert [guest.steals(b"w") for _ in range(3)] == [[b"a"], [b"b"], [b"c"]]


def test_a_task_has_a_name() -> None:
    hall = DworkHall()
    assert "name" in hall.guest().is_refused(create(b""))
    assert not hall.scheduler.jobs


def test_create_on_a_living_task_adds_what_it_waits_for() -> None:
    hall = DworkHall()
    guest = hall.guest()
    assert guest.creates(b"late", b"later", b"t") == OK
    assert hall.state(b"t") == QUEUED
    assert guest.creates(task(b"t", b"late")) == OK
    assert (hall.state(b"t"), hall.waits_for(b"t")) == (HELD, [b"late"])
    assert guest.creates(task(b"t", b"later", b"late")) == OK
    assert (hall.state(b"t"), hall.waits_for(b"t")) == (HELD, [b"late", b"later"])
    assert guest.steals(b"w", 9) == [b"late", b"later"]
    assert guest.completes(b"w", b"late", b"later") == OK
    assert guest.steals(b"w", 9) == [b"t"]


def test_create_on_a_living_task_without_dependencies_changes_nothing() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"a", b"t")
    assert guest.asks(Said(wire.CREATE, (SaidTask(b"t", b"another origin"),))) == OK
    (first, second) = guest.asks(Said(wire.STEAL, n=2, location=b"w")).tasks
    assert (first.name, second.name, second.origin) == (b"a", b"t", b"o")
    assert hall.scheduler.counters.submitted == 2


def test_a_task_that_is_being_worked_on_can_wait_for_nothing_more() -> None:
    hall = hall_with_a_held_task()
    before = hall.snapshot()
    assert "leased" in hall.guest().is_refused(create(task(b"held", b"idle")))
    assert hall.snapshot() == before
    assert hall.guest().creates(b"held") == OK


def test_predecessors_may_be_named_before_they_exist() -> None:
    hall = DworkHall()
    guest = hall.guest()
    assert guest.creates(task(b"roof", b"walls"), task(b"walls", b"ground")) == OK
    assert guest.asks(Said(wire.OK)) == Said(wire.OK, name=b"0 ready, 2 waiting, 0 assigned, 0 failed", n=0)
    assert guest.asks(Said(wire.STEAL, location=b"w")) == NOT_FOUND
    assert guest.creates(b"ground") == OK
    for name in (b"ground", b"walls", b"roof"):
        assert guest.steals(b"w", 9) == [name]
        assert guest.completes(b"w", name) == OK
    assert guest.asks(Said(wire.STEAL, location=b"w")) == EXIT


@pytest.mark.parametrize("durable", [True, False])
def test_a_finished_predecessor_is_met_and_a_living_one_of_the_same_name_is_not(durable: bool) -> None:
    hall = DworkHall(DworkOptions(durable=durable))
    guest = hall.guest()
    guest.creates(b"p")
    guest.steals(b"w")
    guest.completes(b"w", b"p")
    assert guest.creates(task(b"after", b"p")) == OK
    assert hall.state(b"after") == QUEUED
    assert guest.creates(b"p") == OK
    assert guest.creates(task(b"again", b"p")) == OK
    assert hall.state(b"again") == HELD


@pytest.mark.parametrize("turned", [False, True])
def test_successors_of_one_message_may_stand_in_any_order(turned: bool) -> None:
    hall = DworkHall()
    guest = hall.guest()
    tasks = [task(b"first", succs=(b"second", b"third")), task(b"second", succs=(b"third",)), task(b"third")]
    assert guest.creates(*(reversed(tasks) if turned else tasks)) == OK
    for name in (b"first", b"second", b"third"):
        assert guest.steals(b"w", 9) == [name]
        guest.completes(b"w", name)


def test_a_living_task_can_be_given_a_predecessor_by_naming_it_as_successor() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"t")
    assert guest.creates(task(b"before", succs=(b"t",))) == OK
    assert (hall.state(b"t"), hall.waits_for(b"t")) == (HELD, [b"before"])


def test_a_successor_that_is_not_known_is_an_error() -> None:
    hall = DworkHall()
    text = hall.guest().is_refused(create(task(b"t", succs=(b"nobody",))))
    assert text.startswith("'t': successor 'nobody' is not known")
    assert not hall.scheduler.jobs
    assert hall.guest().creates(b"nobody", task(b"t", succs=(b"nobody",))) == OK
    assert hall.waits_for(b"nobody") == [b"t"]


def test_a_successor_that_is_being_worked_on_is_an_error() -> None:
    hall = hall_with_a_held_task()
    assert "leased" in hall.guest().is_refused(create(task(b"t", succs=(b"held",))))
    assert hall.state(b"held") == LEASED


@pytest.mark.parametrize(
    "tasks",
    [
        (task(b"a", b"a"),),
        (task(b"a", succs=(b"a",)),),
        (task(b"a", b"b"), task(b"b", b"a")),
        (task(b"a", b"b"), task(b"b", b"c"), task(b"c", b"a")),
        (task(b"a", succs=(b"b",)), task(b"b", succs=(b"a",))),
        (task(b"a", b"b"), task(b"b"), task(b"c", b"a"), task(b"b", b"c")),
    ],
)
def test_a_cycle_is_refused_and_the_same_names_can_be_used(tasks: tuple[SaidTask, ...]) -> None:
    hall = DworkHall()
    guest = hall.guest()
    assert guest.is_refused(create(*tasks))
    assert not hall.scheduler.jobs
    names = {wanted.name for wanted in tasks}
    for name in names:
        guest.creates(name)
    done = 0
    while stolen := guest.steals(b"w", 9):
        assert guest.completes(b"w", *stolen) == OK
        done += len(stolen)
    assert done == len(names)
    assert not hall.scheduler.jobs


def test_a_task_twice_in_one_message_is_one_task_with_all_dependencies() -> None:
    hall = DworkHall()
    assert hall.guest().creates(task(b"t", b"a"), b"t", task(b"t", b"b", b"b"), b"a", b"b", b"a") == OK
    assert hall.waits_for(b"t") == [b"a", b"b"]
    assert len(hall.scheduler.jobs) == 3


def test_limits_are_told_in_words() -> None:
    hall = DworkHall(limits=Limits(jobs_max=2, key_bytes_max=8, parents_max=2, payload_bytes_max=10))
    guest = hall.guest()
    assert "key_bytes_max" in guest.is_refused(create(b"n" * 9))
    assert "payload_bytes_max" in guest.is_refused(Said(wire.CREATE, (SaidTask(b"t", b"o" * 11),)))
    assert "parents_max" in guest.is_refused(create(task(b"t", b"1", b"2", b"3")))
    assert "key_bytes_max" in guest.is_refused(Said(wire.STEAL, location=b"l" * 9))
    assert "jobs_max" in guest.is_refused(create(b"a", b"b", b"c"))
    assert not hall.scheduler.jobs


# --- steal


def test_a_steal_gives_as_many_as_are_asked_for_and_ready() -> None:
    guest = DworkHall().guest()
    guest.creates(*(b"%d" % number for number in range(5)))
    assert guest.steals(b"w", 3) == [b"0", b"1", b"2"]
    assert guest.steals(b"w", 3) == [b"3", b"4"]
    assert guest.asks(Said(wire.STEAL, n=3, location=b"w")) == NOT_FOUND


def test_a_steal_without_n_gives_one() -> None:
    guest = DworkHall().guest()
    guest.creates(b"a", b"b")
    assert guest.steals(b"w") == [b"a"]


def test_a_steal_is_bounded_in_tasks_and_in_bytes() -> None:
    guest = DworkHall().guest()
    guest.creates(*(b"%d" % number for number in range(STEAL_MAX + 1)))
    assert len(guest.asks(Said(wire.STEAL, n=1 << 30, location=b"w")).tasks) == STEAL_MAX
    guest.leaves_as(b"w")
    guest = DworkHall().guest()
    for number in range(3):
        guest.asks(Said(wire.CREATE, (SaidTask(b"%d" % number, bytes(3 << 20)),)))
    assert guest.steals(b"w", 3) == [b"0", b"1"]
    assert guest.steals(b"w", 3) == [b"2"]


def test_not_found_while_tasks_remain_and_exit_when_all_is_done() -> None:
    guest = DworkHall().guest()
    assert guest.asks(Said(wire.STEAL, location=b"w")) == EXIT
    guest.creates(b"t")
    guest.steals(b"w")
    assert guest.asks(Said(wire.STEAL, location=b"v")) == NOT_FOUND
    assert guest.asks(Said(wire.STEAL, location=b"w")) == NOT_FOUND
    guest.completes(b"w", b"t")
    assert guest.asks(Said(wire.STEAL, location=b"v")) == EXIT


def test_a_door_that_is_kept_open_never_sends_stealers_home() -> None:
    guest = DworkHall(DworkOptions(keep_open=True)).guest()
    assert guest.asks(Said(wire.STEAL, location=b"w")) == NOT_FOUND
    guest.creates(b"t")
    guest.steals(b"w")
    guest.completes(b"w", b"t")
    assert guest.asks(Said(wire.STEAL, location=b"w")) == NOT_FOUND


def test_tasks_belong_to_the_flow_of_their_door() -> None:
    hall = DworkHall(DworkOptions(flow=b"graph"))
    guest = hall.guest()
    guest.creates(b"a", task(b"b", b"a"), task(b"c", b"b", succs=(b"d",)), b"d")
    flow = hall.scheduler.flows.by_name[b"graph"]
    parents = {job.key: job.all_parents for job in flow.jobs.values()}
    first, second, third = (b"dwork", b"a"), (b"dwork", b"b"), (b"dwork", b"c")
    assert {key: len(refs) for key, refs in parents.items()} == {b"a": 0, b"b": 1, b"c": 1, b"d": 1}
    assert (parents[b"b"], parents[b"c"]) == ((first,), (second,))
    ids = {job.key: job.id for job in flow.jobs.values()}
    assert parents[b"d"][0] in (third, ids[b"c"])
    for name in (b"a", b"b", b"c", b"d"):
        guest.steals(b"w")
        guest.completes(b"w", name)
    assert (flow.live, flow.total) == (0, 4)


def test_priority_goes_first() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"normal")
    hall.submit_elsewhere(b"", b"low", Terms(priority=2, durable=True, detached=True))
    hall.submit_elsewhere(b"", b"high", Terms(priority=0, durable=True, detached=True))
    assert guest.steals(b"w", 9) == [b"high", b"normal", b"low"]
