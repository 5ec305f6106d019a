"""Submits with `unless_done`: what is done stays done, and what failed or was cancelled runs again, changed."""

from __future__ import annotations

from typing import Any

import pytest

from hiringhall.core.limits import Limits
from hiringhall.core.states import HELD, QUEUED
from hiringhall.dialects.native import wire
from hiringhall.storage.contract import HistoryQuery
from stage.native import Frame, NativeGuest, NativeHall

FLOW = b"nightly"
MEMORIES = pytest.mark.parametrize("ended_max", [1000, 0], ids=["in memory", "in the history"])


def job(key: bytes, *needs: bytes, payload: bytes = b"", delay_us: int = 0, **terms: Any) -> tuple[Any, ...]:
    return (b"q", payload, {"flow": FLOW, **terms}, key, delay_us, [(b"q", need) for need in needs])


def submit(guest: NativeGuest, *jobs: tuple[Any, ...], watch: int = 0) -> list[Frame]:
    frames = guest.says_numbered(wire.SUBMIT, (watch, list(jobs), wire.UNLESS_DONE))
    guest.hall.settle()
    return frames + guest.hears()


def ids_of(frames: list[Frame]) -> list[int]:
    (kind, _, body), *_ = frames
    assert kind == wire.OK, body
    return list(body)


def work_off(hall: NativeHall, *failing: bytes) -> list[tuple[bytes, bytes]]:
    """A worker does every job that is ready; those with these keys fail. The keys and payloads, in order."""
    worker = hall.guest()
    frames = worker.works()
    seen: list[tuple[bytes, bytes]] = []
    while assigned := [body for kind, _, body in frames if kind == wire.ASSIGN]:
        ((lease, _, _, payload, key, _, _),) = assigned
        seen.append((key, payload))
        if key in failing:
            frames = worker.says_numbered(wire.FAIL, (lease, 3, b"why", False))
        else:
            frames = worker.says_numbered(wire.FINISH, (lease, b""))
    worker.leaves()
    hall.settle()
    return seen


def counts(guest: NativeGuest) -> tuple[str, int, int, int, int]:
    flow = guest.asks(wire.FLOW, (FLOW,))
    assert isinstance(flow, dict)
    return flow["state"], flow["jobs"], flow["done"], flow["failed"], flow["cancelled"]


def hall_with(ended_max: int) -> tuple[NativeHall, NativeGuest]:
    hall = NativeHall(limits=Limits(ended_max=ended_max))
    return hall, hall.guest()


@MEMORIES
def test_what_failed_runs_again_as_it_is_submitted_now(ended_max: int) -> None:
    hall, ann = hall_with(ended_max)
    first = ids_of(submit(ann, job(b"a"), job(b"b", b"a", payload=b"wrong"), job(b"c", b"b"), job(b"d")))
    assert work_off(hall, b"b") == [(b"a", b""), (b"d", b""), (b"b", b"wrong")]
    assert counts(ann) == ("failed", 4, 2, 2, 0)
    again = ids_of(submit(ann, job(b"a"), job(b"b", b"a", payload=b"right"), job(b"c", b"b"), job(b"d")))
    assert again == first
    assert counts(ann)[0] == "running"
    assert work_off(hall) == [(b"b", b"right"), (b"c", b"")]
    assert counts(ann) == ("done", 4, 4, 0, 0)
    assert len(hall.store.history(HistoryQuery())) == 4


@MEMORIES
def test_what_was_cancelled_runs_again(ended_max: int) -> None:
    hall, ann = hall_with(ended_max)
    first = ids_of(submit(ann, job(b"a"), job(b"b", b"a")))
    assert ann.asks(wire.CANCEL_FLOW, (FLOW, b"no")) == 2
    hall.settle()
    assert counts(ann) == ("cancelled", 2, 0, 0, 2)
    assert ids_of(submit(ann, job(b"a", payload=b"new"), job(b"b", b"a"))) == first
    assert work_off(hall) == [(b"a", b"new"), (b"b", b"")]
    assert counts(ann) == ("done", 2, 2, 0, 0)


@MEMORIES
def test_a_job_that_runs_again_has_its_new_terms_and_parents(ended_max: int) -> None:
    hall, ann = hall_with(ended_max)
    (number,) = ids_of(submit(ann, job(b"a")))
    ann.asks(wire.CANCEL, (number, b""))
    hall.settle()
    submit(ann, job(b"b"), job(b"a", b"b", priority="high", retries=2))
    live = hall.scheduler.jobs[number]
    assert (live.state, live.terms.failures_max, live.all_parents) == (HELD, 2, ((b"q", b"b"),))
    assert [key for key, _ in work_off(hall)] == [b"b", b"a"]


@MEMORIES
def test_what_runs_again_survives_a_restart(ended_max: int) -> None:
    hall, ann = hall_with(ended_max)
    submit(ann, job(b"a", payload=b"wrong"), job(b"b", b"a"))
    work_off(hall, b"a")
    submit(ann, job(b"a", payload=b"right"), job(b"b", b"a"))
    hall.open()
    assert work_off(hall) == [(b"a", b"right"), (b"b", b"")]
    assert counts(hall.guest()) == ("done", 2, 2, 0, 0)


def test_a_cancelled_job_whose_place_in_the_lane_was_left_is_handed_out_once(hall: NativeHall) -> None:
    ann = hall.guest()
    (number, _) = ids_of(submit(ann, job(b"a"), job(b"b")))
    ann.asks(wire.CANCEL, (number, b""))
    submit(ann, job(b"a", priority="low"))
    assert [key for key, _ in work_off(hall)] == [b"b", b"a"]


def test_a_live_job_is_joined_and_a_done_one_is_told(hall: NativeHall) -> None:
    ann = hall.guest()
    (done,) = ids_of(submit(ann, job(b"a")))
    work_off(hall)
    (live,) = ids_of(submit(ann, job(b"b", payload=b"first")))
    frames = submit(ann, job(b"a"), job(b"b", payload=b"second"), watch=1)
    assert frames == [(wire.OK, ann.number, [done, live]), (wire.ENDED, 0, [done, "done", 0, b""])]
    assert hall.scheduler.jobs[live].payload == b"first"


def test_a_watcher_hears_of_the_new_end_only(hall: NativeHall) -> None:
    ann = hall.guest()
    (number,) = ids_of(submit(ann, job(b"a")))
    work_off(hall, b"a")
    assert submit(ann, job(b"a"), watch=1) == [(wire.OK, ann.number, [number])]
    work_off(hall)
    assert ann.hears() == [(wire.ENDED, 0, [number, "done", 0, b""])]


@pytest.mark.parametrize("flow", [b"another", b""])
def test_a_job_of_another_flow_is_not_taken_over(hall: NativeHall, flow: bytes) -> None:
    ann = hall.guest()
    (number,) = ids_of(submit(ann, job(b"a")))
    work_off(hall, b"a")
    (other,) = ids_of(submit(ann, job(b"a", flow=flow)))
    assert other > number
    assert counts(ann) == ("failed", 1, 0, 1, 0)


def test_a_refusal_leaves_what_runs_again_and_undoes_the_rest(hall: NativeHall) -> None:
    ann = hall.guest()
    (number,) = ids_of(submit(ann, job(b"a")))
    work_off(hall, b"a")
    ((kind, _, (code, text)),) = submit(ann, job(b"a"), job(b"new"), job(b"b", retries=-1))
    assert (kind, code) == (wire.ERROR, "bad_request")
    assert text.endswith("(job 3 of 3; apart from 1 that run again, none of them was submitted)")
    assert list(hall.scheduler.jobs) == [number]
    assert work_off(hall) == [(b"a", b"")]


def test_a_circle_and_a_delay_are_refused(hall: NativeHall) -> None:
    ann = hall.guest()
    submit(ann, job(b"a"))
    work_off(hall, b"a")
    submit(ann, job(b"b", b"c"), job(b"c", b"a", on_parent_failure="hold"))
    assert submit(ann, job(b"a", b"b"))[0][2][0] == "cycle"
    assert submit(ann, job(b"a", delay_us=5))[0][2][0] == "bad_request"
    assert submit(ann, job(b"a"))[0][0] == wire.OK
    assert [key for key, _ in work_off(hall)] == [b"a", b"c", b"b"]


def test_an_answer_waits_until_a_store_that_failed_is_back(hall: NativeHall) -> None:
    ann = hall.guest()
    (number,) = ids_of(submit(ann, job(b"a")))
    work_off(hall, b"a")
    hall.held = True
    ann.says_numbered(wire.SUBMIT, (0, [job(b"a")], wire.UNLESS_DONE))
    hall.turn_that_fails()
    assert ann.hears() == []
    assert hall.scheduler.jobs[number].state == QUEUED
    hall.recover()
    assert ann.hears() == [(wire.OK, ann.number, [number])]


@pytest.mark.parametrize("again", ["unless_failed", 2, None, b"unless_done"])
def test_another_word_is_refused(hall: NativeHall, again: object) -> None:
    assert hall.guest().asks(wire.SUBMIT, (0, [job(b"a")], again)) == "bad_request"
