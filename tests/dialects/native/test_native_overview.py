"""Queues, workers and single jobs at the native door: what a person who watches the hall is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.dialects.native import wire
from hiringhall.dialects.native.describing import EXPECTED
from stage.hall import START_US

if TYPE_CHECKING:
    from stage.native import NativeGuest, NativeHall

SECOND_US = 1_000_000


def submit(guest: NativeGuest, *jobs: tuple[object, ...]) -> list[int]:
    """Submit jobs of the queue q, each as payload, terms, key, delay and parents."""
    rows = [(b"q", *job, *(b"", {}, b"", 0, [])[len(job) :]) for job in jobs]
    ((kind, _, ids),) = guest.says_numbered(wire.SUBMIT, (0, rows))
    assert kind == wire.OK, ids
    return list(ids)


def queue(guest: NativeGuest, name: bytes = b"q") -> dict[str, Any]:
    found: dict[str, Any] = guest.asks(wire.QUEUE, (name,))
    return found


def first_worker(guest: NativeGuest) -> dict[str, Any]:
    (found,) = guest.asks(wire.WORKERS, (0, 10))
    assert guest.asks(wire.WORKER, (found["number"],)) == found
    return dict(found)


def test_a_queue_tells_what_its_jobs_wait_for(guest: NativeGuest, hall: NativeHall) -> None:
    (parent,) = submit(guest, (b"",))
    ready_us = hall.scheduler.queues[b"q"].oldest_us()
    submit(guest, (b"", {}, b"", 0, [parent]), (b"", {}, b"", SECOND_US), (b"",))
    hall.wait(1000)
    told = queue(guest)
    assert told == {
        "name": b"q",
        "ready": 2,
        "parked": 0,
        "rules": {},
        "rules_set": False,
        "running": 0,
        "waiting": 2,
        "held": 1,
        "delayed": 1,
        "failed": 0,
        "workers": 0,
        "paused": False,
        "paused_us": 0,
        "oldest_us": ready_us,
        "average_run_us": 0,
        "done_total": 0,
        "failed_total": 0,
        "cancelled_total": 0,
    }
    assert guest.asks(wire.QUEUES, (0, 10)) == [told]


def test_a_queue_tells_how_its_jobs_ended_and_how_long_they_take(guest: NativeGuest, hall: NativeHall) -> None:
    submit(guest, (b"",), (b"",), (b"",))
    jobs = list(hall.scheduler.jobs)
    guest.asks(wire.CANCEL, (jobs[2], b""))
    ((_, _, (lease, *_)),) = guest.works()
    hall.wait(SECOND_US)
    ((_, _, (other, *_)),) = guest.says(wire.FINISH, (lease, b""))
    guest.says(wire.FAIL, (other, 7, b"", False))
    guest.asks(wire.PAUSE, (b"q",))
    told = queue(guest)
    assert (told["done_total"], told["failed_total"], told["cancelled_total"]) == (1, 1, 1)
    assert (told["failed"], told["workers"], told["oldest_us"]) == (1, 1, 0)
    assert told["average_run_us"] >= SECOND_US
    assert (told["paused"], told["paused_us"] > START_US) == (True, True)


def test_queues_are_found_by_a_part_of_their_name(guest: NativeGuest) -> None:
    for name in (b"resize", b"mail", b"mail.late"):
        guest.submits(b"k", queue=name)
    assert [found["name"] for found in guest.asks(wire.QUEUES, (0, 10, b"mail"))] == [b"mail", b"mail.late"]
    assert [found["name"] for found in guest.asks(wire.QUEUES, (1, 10, b"mail"))] == [b"mail.late"]
    assert len(guest.asks(wire.QUEUES, (0, 10, b""))) == 3


def test_a_worker_tells_who_it_is_and_how_it_stands(guest: NativeGuest, hall: NativeHall) -> None:
    submit(guest, (b"",))
    other = hall.guest()
    other.says_numbered(wire.WORK, (b"bob", 3, [(b"q", 0, 7), (b"r", 0, 0)], SECOND_US, 0))
    told = first_worker(guest)
    assert {name: told[name] for name in ("name", "dialect", "door", "address", "queues", "slots")} == {
        "name": b"bob",
        "dialect": "native",
        "door": "",
        "address": "127.0.0.1:40002",
        "queues": [b"q", b"r"],
        "slots": 3,
    }
    assert (told["skills"], told["state"], told["jobs"]) == ({b"q": 7}, "working", list(hall.scheduler.jobs))
    assert (told["since_us"] >= START_US, told["until_us"] - SECOND_US >= START_US) == (True, True)
    assert told["resident"] is False


def test_a_worker_waits_while_it_has_free_slots_and_is_idle_without(guest: NativeGuest) -> None:
    guest.works(slots=2)
    assert (first_worker(guest)["state"], first_worker(guest)["slots"]) == ("waiting", 2)
    guest.asks(wire.SLOTS, (0,))
    assert (first_worker(guest)["state"], first_worker(guest)["slots"]) == ("idle", 1)


def test_workers_are_found_by_their_queue(guest: NativeGuest, hall: NativeHall) -> None:
    hall.guest().works(queue=b"q")
    hall.guest().works(queue=b"r")
    assert [found["queues"] for found in guest.asks(wire.WORKERS, (0, 10, b"r"))] == [[b"r"]]
    assert guest.asks(wire.WORKERS, (0, 10, b"nobody")) == []
    assert len(guest.asks(wire.WORKERS, (1, 10))) == 1


def test_a_queue_or_a_worker_that_is_not_there_is_unknown(guest: NativeGuest) -> None:
    assert guest.asks(wire.QUEUE, (b"q",)) == wire.UNKNOWN_QUEUE
    assert guest.asks(wire.WORKER, (1,)) == wire.UNKNOWN_WORKER


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (wire.QUEUE, None),
        (wire.QUEUE, ("text",)),
        (wire.QUEUE, (b"q", 1)),
        (wire.QUEUES, (0, 10, "text")),
        (wire.QUEUES, (0, 10, b"", 1)),
        (wire.QUEUES, (-1, 10)),
        (wire.WORKERS, (0, 10, 7)),
        (wire.WORKERS, None),
        (wire.WORKER, (b"bob",)),
        (wire.WORKER, (-1,)),
        (wire.WORKER, ()),
    ],
)
def test_bad_bodies_are_refused_and_harm_nobody(guest: NativeGuest, kind: str, body: object) -> None:
    assert guest.asks(kind, body) == "bad_request"
    assert guest.asks(wire.QUEUES, (0, 10)) == []


def test_a_job_tells_its_terms_and_its_relatives(guest: NativeGuest, hall: NativeHall) -> None:
    (parent,) = submit(guest, (b"", {}, b"p"))
    terms = {"retries": 3, "priority": "high", "timeout_us": 5, "on_parent_failure": "hold"}
    (child,) = submit(guest, (b"", terms, b"c", 0, [parent, (b"q", b"later")]))
    told = guest.asks(wire.JOB, (child,))
    assert told["terms"] == {"durable": True, **terms}
    assert (told["attempts_max"], told["failures"], told["priority"]) == (4, 0, "high")
    assert told["parents"] == [[parent, b"q", b"p", "queued"], [0, b"q", b"later", EXPECTED]]
    assert (told["parents_count"], told["situation"], told["due_us"]) == (2, "held", 0)
    above = guest.asks(wire.JOB, (parent,))
    assert (above["children"], above["children_count"], above["parents"]) == ([child], 1, [])
    assert hall.scheduler.jobs[child].terms.failures_max == 3


def test_a_job_that_backs_off_says_when_it_is_tried_again(guest: NativeGuest, hall: NativeHall) -> None:
    (job,) = submit(guest, (b"", {"retries": 3, "backoff_us": 12 * SECOND_US}))
    ((_, _, (lease, *_)),) = guest.works()
    running = guest.asks(wire.JOB, (job,))
    assert (running["situation"], running["dialect"], "why" in running) == ("running", "native", False)
    guest.says(wire.FAIL, (lease, 7, b"", True))
    told = guest.asks(wire.JOB, (job,))
    assert (told["situation"], told["attempts"], told["attempts_max"]) == ("backoff", 1, 4)
    assert told["why"] == "attempt 1 of 4 failed; it is tried again in 12 s"
    assert told["due_us"] == hall.scheduler.jobs[job].due_us > hall.now_us
    ((listed,), _) = guest.asks(wire.JOBS, {"situation": "backoff"})
    assert (listed["due_us"], listed["durable"]) == (told["due_us"], True)


def test_an_ended_job_tells_its_terms_too(guest: NativeGuest) -> None:
    (job,) = submit(guest, (b"", {"retries": 2}))
    guest.asks(wire.CANCEL, (job, b"enough"))
    told = guest.asks(wire.JOB, (job,))
    assert (told["situation"], told["terms"]) == ("cancelled", {"durable": True, "retries": 2})
    assert (told["attempts_max"], told["due_us"]) == (3, 0)
