"""The filters of lists and counts of live jobs at the native door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.dialects.native import wire
from hiringhall.dialects.native.bounds import Bounds
from hiringhall.dialects.native.filtering import TEXT_BYTES_MAX, TEXT_LOOKED_BYTES
from hiringhall.dialects.native.searching import STEP_US
from stage.native import NativeHall

if TYPE_CHECKING:
    from stage.native import NativeGuest

SECOND_US = 1_000_000


def answer(guest: NativeGuest, kind: str, body: object) -> Any:
    frames = guest.says(kind, body, 77)
    guest.hall.wait(100 * STEP_US)
    ((said, _, found),) = frames + guest.hears()
    assert said == wire.OK, found
    return found


def submit(guest: NativeGuest, queue: bytes, payload: bytes, key: bytes = b"", delay_us: int = 0) -> int:
    ((_, _, (job,)),) = guest.says_numbered(wire.SUBMIT, (0, [(queue, payload, {}, key, delay_us, [])]))
    return int(job)


@pytest.fixture(params=[10_000, 1])
def many(request: pytest.FixtureRequest) -> NativeGuest:
    """A guest of a hall that looks at many jobs in one turn, or at one block of them."""
    return NativeHall(bounds=Bounds(ids_max=request.param)).guest()


def test_each_filter_finds_its_jobs_and_counts_them(many: NativeGuest) -> None:
    hall = many.hall
    first = submit(many, b"q", b"Cats and dogs", b"Alpha")
    created_us = hall.scheduler.jobs[first].created_us
    hall.wait(SECOND_US)
    second = submit(many, b"q", b"birds", b"beta")
    third = submit(many, b"r", b"x" * TEXT_LOOKED_BYTES + b"cats", b"beta")
    late = submit(many, b"r", b"", delay_us=3600 * SECOND_US)
    many.works(queue=b"q")
    (worker,) = many.asks(wire.WORKERS, (0, 1))
    for stated, wanted in (
        ({"key": b"beta"}, [second, third]),
        ({"key": b"beta", "queue": b"q"}, [second]),
        ({"key": b"nobody", "queue": b"q"}, []),
        ({"text": b"CATS"}, [first]),
        ({"text": b"alph"}, [first]),
        ({"text": b"beta", "queue": b"r"}, [third]),
        ({"text": b""}, [first, second, third, late]),
        ({"to_us": created_us}, [first]),
        ({"from_us": created_us + 1, "queue": b"q"}, [second]),
        ({"worker": worker["number"]}, [first]),
        ({"worker": worker["number"], "state": "queued"}, []),
        ({"worker": worker["number"] + 1}, []),
        ({"situation": "running"}, [first]),
        ({"situation": "no_workers"}, [third]),
        ({"situation": "ready", "queue": b"q"}, [second]),
        ({"situation": "delayed"}, [late]),
        ({"state": "delayed"}, [late]),
        ({"state": "queued"}, [second, third]),
        ({"queue": b"r"}, [third, late]),
        ({"queue": b"r", "state": "delayed"}, [late]),
        ({"queue": b"nobody"}, []),
        (None, [first, second, third, late]),
    ):
        found, position = answer(many, wire.JOBS, stated)
        assert ([job["id"] for job in found], position) == (wanted, None), stated
        assert answer(many, wire.COUNT, stated) == [len(wanted), True], stated


def test_what_is_counted_anyway_is_answered_at_once() -> None:
    guest = NativeHall(bounds=Bounds(ids_max=1, steps_max=1)).guest()
    guest.submits(*[b"%d" % key for key in range(1000)])
    for stated in (None, {"queue": b"q"}, {"state": "queued"}, {"queue": b"q", "state": "queued"}):
        assert guest.asks(wire.COUNT, stated) == [1000, True]


def test_a_count_that_looks_at_too_many_jobs_says_that_it_is_not_complete() -> None:
    guest = NativeHall(bounds=Bounds(ids_max=1, steps_max=2)).guest()
    guest.submits(*[b"%d" % key for key in range(1000)])
    count, complete = answer(guest, wire.COUNT, {"text": b"1"})
    assert (0 < count < 500, complete) == (True, False)


@pytest.mark.parametrize("kind", [wire.JOBS, wire.COUNT])
@pytest.mark.parametrize(
    "body",
    [
        {"key": "text"},
        {"text": 7},
        {"from_us": -1},
        {"from_us": 2, "to_us": 1},
        {"to_us": b"now"},
        {"worker": b"bob"},
        {"worker": 1 << 63},
        {"situation": "done"},
        {"situation": "asleep"},
        {"state": "done"},
        {"flavour": 1},
        [1, 2],
    ],
)
def test_bad_filters_are_refused_by_name(guest: NativeGuest, kind: str, body: object) -> None:
    assert guest.asks(kind, body) == "bad_request"


def test_a_count_has_no_pages_and_a_text_is_short(guest: NativeGuest) -> None:
    assert guest.asks(wire.COUNT, {"after": 1}) == "bad_request"
    assert guest.asks(wire.JOBS, {"text": b"x" * (TEXT_BYTES_MAX + 1)}) == "too_large"
