"""Flows at the native door: submitted, listed, waited for, cancelled and retried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.core.flows.flow_verbs import STEP_JOBS, STEP_US
from hiringhall.core.limits import Limits
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.bounds import Bounds
from hiringhall.dialects.native.flow_requests import WAITS_MAX
from hiringhall.dialects.native.graph_walks import STEP_EDGES, WALKS_MAX
from stage.hall import SECOND_US
from stage.native import NativeHall

if TYPE_CHECKING:
    from stage.native import Frame, NativeGuest

NAME = b"nightly"


def submit(guest: NativeGuest, *parents: object, key: bytes = b"", flow: Any = NAME, **terms: Any) -> int:
    job = (b"q", key, {**terms, "flow": flow}, key, 0, list(parents))
    ids = guest.asks(wire.SUBMIT, (0, [job]))
    assert isinstance(ids, list), ids
    return int(ids[0])


def described(guest: NativeGuest, name: bytes = NAME) -> dict[str, Any]:
    answer = guest.asks(wire.FLOW, (name,))
    assert isinstance(answer, dict), answer
    return answer


def work_off(worker: NativeGuest, frames: list[Frame], *failing: bytes) -> None:
    """Do every job that comes; those with these keys fail."""
    while True:
        assigned = [body for kind, _, body in frames if kind == wire.ASSIGN]
        if not assigned:
            return
        ((lease, _, _, _, key, _, _),) = assigned
        if key in failing:
            frames = worker.says_numbered(wire.FAIL, (lease, 3, b"", False))
        else:
            frames = worker.says_numbered(wire.FINISH, (lease, b""))


def later(guest: NativeGuest, frames: list[Frame]) -> list[Frame]:
    """What is answered in later turns."""
    for _ in range(1000):
        if frames:
            return frames
        guest.hall.wait(STEP_US)
        frames = guest.hears()
    raise AssertionError("no answer has come")


def nodes(guest: NativeGuest, name: bytes = NAME) -> list[list[Any]]:
    found: list[list[Any]] = []
    position: int | None = 0
    while position is not None:
        page, position = guest.asks(wire.FLOW_NODES, (name, position))
        assert len(page) <= wire.LIST_MAX
        found += page
    return found


def retry(guest: NativeGuest, name: bytes = NAME) -> Any:
    ((kind, _, body),) = later(guest, guest.says_numbered(wire.RETRY_FLOW, (name,)))
    return body if kind == wire.OK else body[0]


def test_a_flow_is_described_with_its_counts_and_what_blocks_the_rest(
    hall: NativeHall, guest: NativeGuest
) -> None:
    first = submit(guest, key=b"a")
    submit(guest, first, key=b"b")
    submit(guest, first, key=b"c")
    assert described(guest) == {
        "name": NAME,
        "created_us": hall.scheduler.jobs[first].created_us,
        "ended_us": 0,
        "state": "running",
        "jobs": 3,
        "held": 2,
        "delayed": 0,
        "ready": 1,
        "running": 0,
        "done": 0,
        "failed": 0,
        "cancelled": 0,
        "blocking": [[first, b"q", b"a", "queued", 2]],
    }
    worker = hall.guest()
    work_off(worker, worker.works())
    after = described(guest)
    assert (after["state"], after["done"], after["ended_us"] > 0, after["blocking"]) == ("done", 3, True, [])
    assert guest.asks(wire.FLOW, (b"other",)) == wire.UNKNOWN_FLOW


def test_a_job_tells_its_flow_while_it_lives_and_after(hall: NativeHall, guest: NativeGuest) -> None:
    job = submit(guest, flow="täglich")
    assert guest.asks(wire.JOB, (job,))["flow"] == "täglich".encode()
    worker = hall.guest()
    work_off(worker, worker.works())
    assert guest.asks(wire.JOB, (job,))["flow"] == "täglich".encode()
    ((listed,), _) = guest.asks(wire.HISTORY, None)
    assert listed["flow"] == "täglich".encode()


@pytest.mark.parametrize(
    ("terms", "code"),
    [
        ({"flow": b"f" * 201}, "too_large"),
        ({"flow": 7}, "bad_request"),
        ({"flow": True}, "bad_request"),
        ({"flow": b"f", "durable": False}, "bad_request"),
    ],
)
def test_a_flow_that_is_not_as_it_must_be_is_refused(
    guest: NativeGuest, terms: dict[str, Any], code: str
) -> None:
    assert guest.asks(wire.SUBMIT, (0, [(b"q", b"", terms, b"", 0, [])])) == code
    assert guest.asks(wire.FLOWS, None) == [[], None]


def test_an_empty_name_is_no_flow(hall: NativeHall, guest: NativeGuest) -> None:
    submit(guest, flow=b"")
    assert hall.scheduler.flows.by_name == {}


def test_a_submit_that_is_refused_leaves_no_flow(hall: NativeHall, guest: NativeGuest) -> None:
    good = (b"q", b"", {"flow": NAME}, b"", 0, [])
    assert guest.asks(wire.SUBMIT, (0, [good, good, (b"", b"", {"flow": NAME}, b"", 0, [])])) == "bad_request"
    assert (hall.scheduler.flows.by_name, hall.scheduler.jobs) == ({}, {})


def test_flows_are_listed_newest_first_by_text_and_state(guest: NativeGuest) -> None:
    for number in range(5):
        submit(guest, flow=b"Flow %d" % number)
    submit(guest, (b"q", b"never"), flow=b"waits")
    found, position = guest.asks(wire.FLOWS, {"text": b"flow", "count": 3})
    assert [flow["name"] for flow in found] == [b"Flow 4", b"Flow 3", b"Flow 2"]
    found, position = guest.asks(wire.FLOWS, {"text": b"flow", "count": 3, "before": position})
    assert ([flow["name"] for flow in found], position) == ([b"Flow 1", b"Flow 0"], None)
    ((stuck,), _) = guest.asks(wire.FLOWS, {"state": "stuck"})
    assert stuck["name"] == b"waits"
    assert guest.asks(wire.FLOWS, {"state": "odd"}) == "bad_request"
    assert guest.asks(wire.FLOWS, {"other": 1}) == "bad_request"


def test_a_list_of_flows_looks_at_a_bounded_number_of_them() -> None:
    hall = NativeHall(bounds=Bounds(ids_max=3))
    guest = hall.guest()
    for number in range(7):
        submit(guest, flow=b"%d" % number)
    seen: list[bytes] = []
    position: int | None = 0
    pages = 0
    while position is not None:
        found, position = guest.asks(wire.FLOWS, {"before": position})
        seen += [flow["name"] for flow in found]
        pages += 1
    assert (seen, pages) == ([b"%d" % number for number in reversed(range(7))], 3)


def test_nodes_are_the_whole_graph_live_and_ended(hall: NativeHall, guest: NativeGuest) -> None:
    worker = hall.guest()
    first = submit(guest, key=b"a")
    second = submit(guest, first, (b"q", b"a"), key=b"b")
    work_off(worker, worker.works())
    worker.says(wire.SLOTS, (0,))
    third = submit(guest, second, (b"q", b"later"), key=b"c")
    assert nodes(guest) == [
        [third, b"q", b"c", "held", [second, [b"q", b"later"]]],
        [second, b"q", b"b", "done", [first, [b"q", b"a"]]],
        [first, b"q", b"a", "done", []],
    ]
    assert guest.asks(wire.FLOW_NODES, (b"other", 0)) == wire.UNKNOWN_FLOW


def test_pages_of_nodes_add_up_while_jobs_end(hall: NativeHall, guest: NativeGuest) -> None:
    count = 2 * wire.LIST_MAX + 500
    jobs = [(b"q", b"", {"flow": NAME}, b"", 0, []) for _ in range(count)]
    ids = guest.asks(wire.SUBMIT, (0, jobs))
    worker = hall.guest()
    frames = worker.works(slots=700)
    leases = [body[0] for kind, _, body in frames if kind == wire.ASSIGN]
    worker.says(wire.SLOTS, (0,))
    seen: list[int] = []
    position: int | None = 0
    while position is not None:
        page, position = guest.asks(wire.FLOW_NODES, (NAME, position))
        seen += [node[0] for node in page]
        for lease in leases[:300]:
            worker.says(wire.FINISH, (lease, b""))
        del leases[:300]
    assert seen == sorted(ids, reverse=True)
    hall.end()
    states = [node[3] for node in nodes(guest)]
    assert (states.count("done"), len(states)) == (700, count)


def test_a_node_whose_end_is_not_in_the_history_yet_is_listed(hall: NativeHall, guest: NativeGuest) -> None:
    worker = hall.guest()
    job = submit(guest)
    ((_, _, (lease, *_)),) = worker.works()
    hall.held = True
    worker.says(wire.FINISH, (lease, b""))
    guest.says(wire.FLOW_NODES, (NAME, 0), 7)
    hall.held = False
    hall.end()
    ((_, _, (found, _)),) = guest.hears()
    assert [(node[0], node[3]) for node in found] == [(job, "done")]


def test_who_waits_for_a_flow_is_answered_at_its_end_or_when_the_time_is_over(
    hall: NativeHall, guest: NativeGuest
) -> None:
    submit(guest)
    assert guest.says(wire.WAIT_FLOW, (NAME, None), 7) == []
    assert guest.says(wire.WAIT_FLOW, (NAME, SECOND_US), 8) == []
    assert guest.asks(wire.WAIT_FLOW, (NAME, 0))["state"] == "running"
    hall.wait(SECOND_US)
    ((_, number, body),) = guest.hears()
    assert (number, body["state"]) == (8, "running")
    worker = hall.guest()
    work_off(worker, worker.works())
    ((_, number, body),) = guest.hears()
    assert (number, body["state"], body["done"]) == (7, "done", 1)
    assert guest.asks(wire.WAIT_FLOW, (NAME, SECOND_US))["state"] == "done"
    assert guest.asks(wire.WAIT_FLOW, (b"other", SECOND_US)) == wire.UNKNOWN_FLOW
    assert hall.scheduler.timers.armed() == []


def test_the_end_of_a_flow_is_told_when_it_is_on_disk(hall: NativeHall, guest: NativeGuest) -> None:
    submit(guest)
    guest.says(wire.WAIT_FLOW, (NAME, 10 * SECOND_US), 7)
    worker = hall.guest()
    ((_, _, (lease, *_)),) = worker.works()
    hall.held = True
    worker.says(wire.FINISH, (lease, b""))
    assert guest.hears() == []
    hall.held = False
    hall.end()
    assert [number for _, number, _ in guest.hears()] == [7]


def test_a_connection_that_closes_waits_for_nothing(hall: NativeHall, guest: NativeGuest) -> None:
    submit(guest)
    other = hall.guest()
    for number in range(WAITS_MAX):
        other.says(wire.WAIT_FLOW, (NAME, SECOND_US), number + 1)
    assert other.says(wire.WAIT_FLOW, (NAME, SECOND_US), 5)[0][2][0] == "hall_full"
    other.leaves()
    assert hall.scheduler.timers.armed() == []
    assert not hall.scheduler.flows.by_name[NAME].watchers


def test_cancelling_a_flow_ends_all_of_it_in_steps(hall: NativeHall, guest: NativeGuest) -> None:
    count = 2 * STEP_JOBS
    jobs = [(b"q", b"", {"flow": NAME}, b"", 0, []) for _ in range(count)]
    first, *_ = guest.asks(wire.SUBMIT, (0, jobs))
    submit(guest, first)
    frames = guest.says_numbered(wire.CANCEL_FLOW, (NAME, b"enough"))
    assert frames == []
    ((_, _, cancelled),) = later(guest, frames)
    assert cancelled == count + 1
    assert (described(guest)["state"], described(guest)["cancelled"]) == ("cancelled", count + 1)
    assert guest.asks(wire.JOB, (first,))["result"] == b"enough"
    assert guest.asks(wire.CANCEL_FLOW, (NAME, b"")) == 0
    assert guest.asks(wire.CANCEL_FLOW, (b"other", b"")) == wire.UNKNOWN_FLOW


def test_a_cancel_goes_on_when_its_peer_is_gone(hall: NativeHall, guest: NativeGuest) -> None:
    jobs = [(b"q", b"", {"flow": NAME}, b"", 0, []) for _ in range(2 * STEP_JOBS)]
    other = hall.guest()
    other.asks(wire.SUBMIT, (0, jobs))
    other.says_numbered(wire.CANCEL_FLOW, (NAME, b""))
    other.leaves()
    hall.wait(10 * STEP_US)
    assert described(guest)["state"] == "cancelled"


@pytest.mark.parametrize("ended_max", [2, 1000])
def test_a_flow_is_retried_after_a_restart(ended_max: int) -> None:
    """With 2, most of it is only in the history."""
    hall = NativeHall(limits=Limits(ended_max=ended_max))
    guest, worker = hall.guest(), hall.guest()
    setup = submit(guest, key=b"setup")
    first = submit(guest, setup, key=b"a")
    second = submit(guest, first, setup, key=b"b")
    third = submit(guest, (b"q", b"b"), (b"q", b"setup"), key=b"c")
    fine = submit(guest, setup, key=b"fine")
    work_off(worker, worker.works(), b"a")
    assert (described(guest)["state"], described(guest)["failed"]) == ("failed", 3)
    hall.open()
    guest, worker = hall.guest(), hall.guest()
    assert (described(guest)["state"], described(guest)["failed"], described(guest)["done"]) == ("failed", 3, 2)
    assert retry(guest) == [3, 0]
    assert {node[0]: node[3] for node in nodes(guest)} == {
        setup: "done",
        first: "queued",
        second: "held",
        third: "held",
        fine: "done",
    }
    hall.open()
    guest, worker = hall.guest(), hall.guest()
    work_off(worker, worker.works())
    assert (described(guest)["state"], described(guest)["done"], described(guest)["failed"]) == ("done", 5, 0)
    assert retry(guest) == [0, 0]


def test_many_failed_jobs_are_retried_batch_by_batch() -> None:
    hall = NativeHall(limits=Limits(ended_max=10))
    guest, worker = hall.guest(), hall.guest()
    parent = submit(guest, key=b"parent")
    jobs = [(b"q", b"", {"flow": NAME}, b"", 0, [parent]) for _ in range(300)]
    guest.asks(wire.SUBMIT, (0, jobs))
    work_off(worker, worker.works(), b"parent")
    assert described(guest)["failed"] == 301
    worker.says(wire.SLOTS, (0,))
    assert retry(guest) == [301, 0]
    found = described(guest)
    assert (found["held"], found["ready"], found["failed"]) == (300, 1, 0)


def test_a_retry_stops_with_its_connection_and_a_second_one_does_the_rest() -> None:
    hall = NativeHall(limits=Limits(ended_max=10))
    guest, worker = hall.guest(), hall.guest()
    jobs = [(b"q", b"", {"flow": NAME}, b"k%d" % number, 0, []) for number in range(300)]
    guest.asks(wire.SUBMIT, (0, jobs))
    work_off(worker, worker.works(), *[b"k%d" % number for number in range(300)])
    worker.says(wire.SLOTS, (0,))
    other = hall.guest()
    other.says_numbered(wire.RETRY_FLOW, (NAME,))
    other.leaves()
    hall.wait(100 * STEP_US)
    begun = described(guest)["ready"]
    assert 0 < begun < 300
    assert retry(guest) == [300 - begun, 0]
    assert described(guest)["ready"] == 300


def test_a_store_in_trouble_refuses_verbs_and_lists(hall: NativeHall, guest: NativeGuest) -> None:
    submit(guest)
    hall.trouble = "disk full"
    assert guest.says(wire.FLOW_NODES, (NAME, 0), 1)[0][2][0] == "store_down"
    assert guest.says(wire.RETRY_FLOW, (NAME,), 2)[0][2][0] == "store_down"


def test_a_graph_has_the_live_jobs_that_are_connected_with_one(hall: NativeHall, guest: NativeGuest) -> None:
    first = submit(guest, key=b"a", flow=b"")
    second = submit(guest, first, (b"q", b"never"), key=b"b", flow=b"")
    third = submit(guest, first, key=b"c", flow=b"")
    submit(guest, flow=b"")
    found, complete = guest.asks(wire.GRAPH, (second,))
    assert complete is True
    assert sorted(found) == [
        [first, b"q", b"a", "queued", []],
        [second, b"q", b"b", "held", [first, [b"q", b"never"]]],
        [third, b"q", b"c", "held", [first]],
    ]
    assert guest.asks(wire.GRAPH, (first + 1000,)) == "unknown_job"


def test_a_large_graph_is_walked_in_steps_and_cut(hall: NativeHall, guest: NativeGuest) -> None:
    root = submit(guest, flow=b"")
    for _ in range(3):
        jobs = [(b"q", b"", {}, b"", 0, [root]) for _ in range(7000)]
        guest.asks(wire.SUBMIT, (0, jobs))
    last = submit(guest, root, flow=b"")
    for _ in range(WALKS_MAX):
        assert guest.says(wire.GRAPH, (last,), 7) == []
    assert guest.says(wire.GRAPH, (last,), 8)[0][2][0] == "hall_full"
    hall.wait(100 * STEP_US)
    answers = guest.hears()
    assert len(answers) == WALKS_MAX
    for _, _, (found, complete) in answers:
        assert (len(found), complete) == (20_000, False)
    assert STEP_EDGES < 20_000
    assert hall.scheduler.timers.armed() == []


@pytest.mark.parametrize(
    "kind",
    [wire.FLOW, wire.FLOW_NODES, wire.WAIT_FLOW, wire.CANCEL_FLOW, wire.RETRY_FLOW, wire.GRAPH, wire.FLOWS],
)
def test_a_body_that_is_not_as_it_must_be_is_refused(guest: NativeGuest, kind: str) -> None:
    for body in ([], [1, 2, 3], ["text"], [b"f", -1], [b"f", b"", b""], {"a": {}}, [[b"f"]], 7):
        assert guest.asks(kind, body) == "bad_request"
