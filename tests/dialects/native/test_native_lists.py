"""Lists at the native door: live jobs, ended jobs and doors, page by page, with bounded work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.core.id_blocks import BLOCK_BITS
from hiringhall.dialects.hall import DoorState
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.bounds import DEFAULT_BOUNDS, Bounds
from hiringhall.dialects.native.searching import STEP_US
from stage.native import NativeHall

if TYPE_CHECKING:
    from stage.native import NativeGuest

SEARCHES_MAX = DEFAULT_BOUNDS.searches_max
BLOCK = 1 << BLOCK_BITS


def submit(guest: NativeGuest, count: int, queue: bytes = b"q", delay_us: int = 0) -> list[int]:
    jobs = [(queue, b"", {}, b"", delay_us, []) for _ in range(count)]
    ((_, _, ids),) = guest.says_numbered(wire.SUBMIT, (0, jobs))
    assert isinstance(ids, list)
    return ids


def listed(guest: NativeGuest, body: dict[str, Any] | None) -> tuple[list[int], int | None]:
    frames = guest.says(wire.JOBS, body, 77)
    guest.hall.wait(100 * STEP_US)
    ((kind, _, (found, position)),) = frames + guest.hears()
    assert kind == wire.OK
    return [job["id"] for job in found], position


def finish_all(guest: NativeGuest, count: int) -> None:
    frames = guest.works(slots=1)
    for _ in range(count):
        (lease,) = [body[0] for kind, _, body in frames if kind == wire.ASSIGN]
        frames = guest.says_numbered(wire.FINISH, (lease, b"r" * 5000))


def test_live_jobs_come_by_id_in_short_form(guest: NativeGuest) -> None:
    first, second = submit(guest, 2)
    (one, other), position = guest.asks(wire.JOBS, None)
    assert (one["id"], other["id"], position) == (first, second, None)
    assert list(one) == [
        "id",
        "queue",
        "key",
        "state",
        "situation",
        "created_us",
        "started_us",
        "due_us",
        "attempts",
        "attempts_max",
        "losses",
        "worker",
        "dialect",
        "priority",
        "durable",
        "flow",
        "payload",
    ]
    assert (one["queue"], one["state"], one["situation"]) == (b"q", "queued", "no_workers")


def test_a_list_has_the_beginning_of_a_payload(guest: NativeGuest) -> None:
    guest.says_numbered(wire.SUBMIT, (0, [(b"q", b"p" * 1000, {}, b"", 0, [])]))
    (job,), _ = guest.asks(wire.JOBS, None)
    assert job["payload"] == b"p" * 400


def test_pages_of_live_jobs_add_up(hall: NativeHall, guest: NativeGuest) -> None:
    jobs = submit(guest, 3 * BLOCK)
    seen: list[int] = []
    after = 0
    while True:
        page, position = listed(guest, {"after": after, "count": 100})
        assert len(page) <= 100
        seen += page
        if position is None:
            break
        after = position
    assert seen == jobs
    assert hall.scheduler.timers.armed() == []


@pytest.mark.parametrize("ids_max", [10_000, 1])
def test_filters_by_queue_and_state(ids_max: int) -> None:
    """With 1 the lanes and workers have too many, and all jobs are looked at."""
    guest = NativeHall(bounds=Bounds(ids_max=ids_max)).guest()
    submit(guest, 2, b"other")
    jobs = submit(guest, 5)
    guest.works(slots=2)
    assert listed(guest, {"queue": b"q"}) == (jobs, None)
    assert listed(guest, {"queue": b"q", "state": "leased"}) == (jobs[:2], None)
    assert listed(guest, {"queue": b"q", "state": "queued"}) == (jobs[2:], None)
    assert listed(guest, {"queue": b"q", "after": jobs[1], "count": 2}) == (jobs[2:4], jobs[3])
    assert listed(guest, {"state": "leased"}) == (jobs[:2], None)
    (late,) = submit(guest, 1, delay_us=10_000_000)
    assert listed(guest, {"queue": b"q"}) == ([*jobs, late], None)
    assert listed(guest, {"queue": b"q", "state": "delayed"}) == ([late], None)
    assert listed(guest, {"queue": b"nobody"}) == ([], None)


def test_a_search_goes_on_in_later_turns_and_ends_with_a_position() -> None:
    hall = NativeHall(bounds=Bounds(ids_max=1, steps_max=3))
    guest = hall.guest()
    submit(guest, 5 * BLOCK)
    (rare,) = submit(guest, 1, b"rare", delay_us=60_000_000)
    assert guest.says(wire.JOBS, {"queue": b"rare"}, 99) == [], "one turn looks at one block only"
    hall.wait(STEP_US)
    assert guest.hears() == [], "and the next one at one more"
    hall.wait(STEP_US)
    ((kind, number, (found, position)),) = guest.hears()
    assert (kind, number, found) == (wire.OK, 99, [])
    guest.says(wire.JOBS, {"queue": b"rare", "after": position}, 100)
    hall.wait(3 * STEP_US)
    ((_, _, (found, position)),) = guest.hears()
    assert ([job["id"] for job in found], position) == ([rare], None)


def test_a_search_answers_what_it_has_when_its_time_is_over() -> None:
    hall = NativeHall(bounds=Bounds(ids_max=1, search_us_max=2 * STEP_US))
    guest = hall.guest()
    submit(guest, 9 * BLOCK)
    assert guest.says(wire.JOBS, {"key": b"nobody"}, 99) == []
    assert guest.says(wire.COUNT, {"key": b"nobody"}, 100) == []
    hall.wait(3 * STEP_US)
    (_, number, (found, position)), (_, _, counted) = guest.hears()
    assert (number, found, counted) == (99, [], [0, False])
    assert position is not None


def test_a_situation_in_which_no_queue_has_jobs_is_answered_at_once() -> None:
    """The queues know it, so a hundred thousand jobs are not looked at one by one."""
    guest = NativeHall(bounds=Bounds(ids_max=1)).guest()
    submit(guest, 5 * BLOCK)
    (rare,) = submit(guest, 1, b"rare")
    guest.asks(wire.PAUSE, (b"rare",))
    for situation in ("ready", "running", "promised", "held", "delayed", "backoff"):
        assert guest.asks(wire.JOBS, {"situation": situation}) == [[], None]
        assert guest.asks(wire.COUNT, {"situation": situation}) == [0, True]
    (found,), position = guest.asks(wire.JOBS, {"situation": "paused"})
    assert (found["id"], position) == (rare, None)


def test_a_text_is_sought_in_more_jobs_at_once_where_payloads_are_short() -> None:
    hall = NativeHall(bounds=Bounds(ids_max=16 * BLOCK))
    guest = hall.guest()
    jobs = submit(guest, 7 * BLOCK)
    (last,) = guest.asks(wire.SUBMIT, (0, [(b"q", b"needle", {}, b"", 0, [])]))
    assert guest.says(wire.JOBS, {"text": b"NEEDLE"}, 99) == []
    hall.wait(3 * STEP_US)  # blocks 1, then 2, then 4, then the rest
    ((_, _, (found, position)),) = guest.hears()
    assert ([job["id"] for job in found], position, len(jobs)) == ([last], None, 7 * BLOCK)


def test_too_many_lists_at_once_are_refused_and_a_closed_connection_ends_them() -> None:
    hall = NativeHall(bounds=Bounds(ids_max=1))
    guest = hall.guest()
    submit(guest, 5 * BLOCK)
    for number in range(1, SEARCHES_MAX + 1):
        guest.say_bytes(wire.encode(wire.JOBS, number, {"key": b"nobody"}))
    guest.say_bytes(wire.encode(wire.JOBS, 99, None))
    ((kind, number, (code, _)),) = guest.hears()
    assert (kind, number, code) == (wire.ERROR, 99, "hall_full")
    assert len(hall.scheduler.timers.armed()) == SEARCHES_MAX
    guest.leaves()
    assert hall.scheduler.timers.armed() == []


def test_ended_jobs_come_newest_first_with_short_results(guest: NativeGuest) -> None:
    jobs = submit(guest, 3)
    finish_all(guest, 3)
    found, position = guest.asks(wire.HISTORY, {"queue": b"q", "count": 2})
    assert ([job["id"] for job in found], position) == ([jobs[2], jobs[1]], jobs[1])
    assert (found[0]["state"], found[0]["result"], found[0]["worker"]) == ("done", b"r" * 4096, b"bob")
    found, position = guest.asks(wire.HISTORY, {"before": jobs[1]})
    assert ([job["id"] for job in found], position) == ([jobs[0]], None)
    assert guest.asks(wire.HISTORY, {"state": "failed"}) == [[], None]


def test_several_searches_of_the_history_are_answered_in_order(hall: NativeHall, guest: NativeGuest) -> None:
    jobs = submit(guest, 2)
    finish_all(guest, 2)
    hall.held = True
    for number in range(1, SEARCHES_MAX + 1):
        guest.say_bytes(wire.encode(wire.HISTORY, number, {"count": 1}))
    guest.say_bytes(wire.encode(wire.HISTORY, 99, None))
    assert [(kind, number) for kind, number, _ in guest.hears()] == [(wire.ERROR, 99)]
    hall.held = False
    hall.end()
    frames = guest.hears()
    assert [number for _, number, _ in frames] == list(range(1, SEARCHES_MAX + 1))
    assert {body[0][0]["id"] for _, _, body in frames} == {jobs[1]}


def test_a_history_that_cannot_be_read_is_told(hall: NativeHall, guest: NativeGuest) -> None:
    hall.break_store("the disk is gone")
    ((kind, _, body),) = guest.says_numbered(wire.HISTORY, None)
    assert (kind, body) == (wire.ERROR, ["store_down", "the disk is gone"])


def test_a_connection_that_closes_during_a_search_leaves_the_others_theirs(hall: NativeHall) -> None:
    ann, eve = hall.guest(), hall.guest()
    submit(ann, 1)
    finish_all(ann, 1)
    hall.held = True
    eve.says(wire.HISTORY, None, 7)
    eve.says(wire.HISTORY, None, 8)
    ann.says(wire.HISTORY, None, 9)
    eve.leaves()
    hall.held = False
    hall.end()
    ((kind, number, (found, _)),) = ann.hears()
    assert (kind, number, len(found)) == (wire.OK, 9, 1)


def test_a_hall_without_schedules_says_so(guest: NativeGuest) -> None:
    plan = {"name": b"n", "queue": b"q", "every_us": 1_000_000}
    for kind, body in [(wire.SCHEDULES, None), (wire.SCHEDULE, plan), (wire.UNSCHEDULE, (b"n",))]:
        assert guest.asks(kind, body) == "wrong_state"


def test_doors_are_listed(hall: NativeHall, guest: NativeGuest) -> None:
    hall.doors.append(DoorState("hire", "publish", "127.0.0.1:1", 3))
    assert guest.asks(wire.DOORS, None) == [
        {"dialect": "hire", "role": "publish", "address": "127.0.0.1:1", "connections": 3}
    ]


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (wire.JOBS, {"queue": "q"}, "queue: must be bytes (bin)"),
        (wire.JOBS, {"state": "done"}, "state: must be one of held, delayed, queued, leased"),
        (wire.JOBS, {"state": b"\xff"}, "state: is not UTF-8 text"),
        (wire.JOBS, {"state": 1}, "state: must be bytes (bin) or a text (str)"),
        (wire.JOBS, {"count": 0}, "count: must be a whole number from 1 to 1000"),
        (wire.JOBS, {"count": 1001}, "count: must be a whole number from 1 to 1000"),
        (wire.JOBS, {"after": -1}, f"after: must be a whole number from 0 to {(1 << 63) - 1}"),
        (wire.JOBS, {"order": 1}, "'order' is not a field of this request"),
        (wire.HISTORY, {"state": "held"}, "state: must be one of done, failed, cancelled"),
        (wire.HISTORY, {"from_us": 1.5}, f"from_us: must be a whole number from 0 to {(1 << 63) - 1}"),
        (wire.HISTORY, {"before": 1 << 63}, f"before: must be a whole number from 0 to {(1 << 63) - 1}"),
        (wire.JOBS, [1], "jobs: Expected `object | null`, got `array`"),
        (wire.DOORS, 5, "doors: Expected `null`, got `int`"),
        (wire.SUBSCRIBE, (1,), "interval_us: must be 250000 or more, or 0 to end it"),
        (wire.SUBSCRIBE, None, "subscribe: Expected `array`, got `None`"),
    ],
)
def test_bad_input_is_refused_by_the_name_of_the_field(
    guest: NativeGuest, kind: str, body: object, text: str
) -> None:
    ((said, _, answer),) = guest.says_numbered(kind, body)
    assert (said, answer) == (wire.ERROR, ["bad_request", text])
