"""What a worker says while its job runs: told to watchers, kept with the job, and read by anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.core.changes import DATA, LOG, WARNING
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.context import NativeOptions
from hiringhall.dialects.native.describing import PAYLOAD_SHOWN_MAX
from hiringhall.storage.contract import Retention
from stage.native import NativeHall

if TYPE_CHECKING:
    from stage.native import NativeGuest


def taken(hall: NativeHall, guest: NativeGuest, watch: int = 0) -> tuple[int, int, NativeGuest]:
    """A durable job that a worker has: its id, the lease, and the worker."""
    job = next(body[0] for kind, _, body in guest.submits(b"a", watch=watch) if kind == "ok")
    bob = hall.guest()
    (lease,) = [body[0] for kind, _, body in bob.works() if kind == "assign"]
    return job, lease, bob


def said(guest: NativeGuest, job: int, position: int = 0) -> list[tuple[int, bytes]]:
    """Kind and data of each line of output."""
    lines, _ = guest.asks("output", (job, position))
    return [(kind, data) for _, kind, data in lines]


def test_a_watcher_of_level_2_hears_the_log(hall: NativeHall) -> None:
    ann, eve = hall.guest(), hall.guest()
    job, lease, bob = taken(hall, ann, watch=2)
    eve.asks("watch", (job, 1))
    assert bob.asks("log", (lease, b"line")) is None
    assert ann.hears() == [("log", 0, [job, b"line"])]
    assert eve.hears() == []


def test_output_is_there_while_the_job_runs_and_after_its_end(hall: NativeHall, guest: NativeGuest) -> None:
    job, lease, bob = taken(hall, guest)
    bob.says("chunk", (lease, b"one", False))
    bob.says("chunk", (lease, b"two", True))
    bob.says("log", (lease, b"three"))
    wanted = [(DATA, b"one"), (WARNING, b"two"), (LOG, b"three")]
    assert said(guest, job) == wanted
    hall.settle()
    assert said(guest, job) == wanted
    bob.asks("finish", (lease, b"result"))
    assert said(guest, job) == wanted
    hall.open()
    assert said(hall.guest(), job) == wanted


def test_it_is_told_before_it_is_on_disk(hall: NativeHall, guest: NativeGuest) -> None:
    job, lease, bob = taken(hall, guest)
    hall.settle()
    bob.says("log", (lease, b"on disk"))
    hall.settle()
    bob.says("log", (lease, b"not yet"))
    assert [line.data for line in hall.store.output(job, 0).lines] == [b"on disk"]
    assert said(guest, job) == [(LOG, b"on disk"), (LOG, b"not yet")]


def test_reading_goes_on_at_the_position_of_the_answer(hall: NativeHall, guest: NativeGuest) -> None:
    job, lease, bob = taken(hall, guest)
    assert guest.asks("output", (job, 0)) == [[], 0]
    bob.says("log", (lease, b"one"))
    lines, position = guest.asks("output", (job, 0))
    assert lines == [[hall.now_us, LOG, b"one"]]
    assert guest.asks("output", (job, position)) == [[], position]
    hall.settle()
    assert guest.asks("output", (job, position)) == [[], position]
    bob.says("log", (lease, b"two"))
    assert said(guest, job, position) == [(LOG, b"two")]


def test_nobody_waits_for_it_but_it_is_on_disk_before_the_end_is_told(hall: NativeHall) -> None:
    ann = hall.guest()
    job, lease, bob = taken(hall, ann, watch=1)
    hall.settle()
    hall.held = True
    assert bob.asks("log", (lease, b"line")) is None
    bob.says("finish", (lease, b""))
    hall.wait(1_000_000)
    assert ann.hears() == []
    hall.held = False
    assert [kind for kind, _, _ in ann.hears()] == ["ended"]
    assert [line.data for line in hall.store.output(job, 0).lines] == [b"line"]


def test_a_retry_keeps_what_was_said_before(hall: NativeHall, guest: NativeGuest) -> None:
    job, lease, bob = taken(hall, guest)
    bob.says("log", (lease, b"first"))
    bob.asks("fail", (lease, 1, b"", False))
    assert [kind for kind, _, _ in guest.says_numbered("retry", (job,))] == ["ok"]
    (lease,) = [body[0] for kind, _, body in bob.hears() if kind == "assign"]
    bob.says("log", (lease, b"second"))
    bob.asks("finish", (lease, b""))
    assert said(guest, job) == [(LOG, b"first"), (LOG, b"second")]


def test_a_job_in_memory_has_none(hall: NativeHall) -> None:
    ann, bob = hall.guest(), hall.guest()
    terms = {"durable": False}
    (job,) = ann.asks("submit", (2, [(b"q", b"", terms, b"", 0, [])]))
    (lease,) = [body[0] for kind, _, body in bob.works() if kind == "assign"]
    bob.says("log", (lease, b"line"))
    assert ann.hears() == [("log", 0, [job, b"line"])]
    assert ann.asks("output", (job, 0)) == [[], 0]


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("output", (1 << 62, 0), "unknown_job"),
        ("output", (5,), "bad_request"),
        ("output", (5, -1), "bad_request"),
        ("log", (77, b"x"), "stale_lease"),
        ("log", (77, "text"), "bad_request"),
    ],
)
def test_mistakes(guest: NativeGuest, kind: str, body: object, code: str) -> None:
    assert guest.asks(kind, body) == code


def test_an_id_that_nobody_knows_has_none(guest: NativeGuest) -> None:
    assert guest.asks("output", (5, 7)) == [[], 0]


def test_a_store_that_cannot_be_read_is_an_error(hall: NativeHall, guest: NativeGuest) -> None:
    job, _, _ = taken(hall, guest)
    hall.settle()
    hall.break_store("disk gone")
    assert guest.asks("output", (job, 0)) == "store_down"


def test_answers_go_to_the_requests_in_order() -> None:
    hall = NativeHall(NativeOptions(lookups_max=2))
    guest = hall.guest()
    job, lease, bob = taken(hall, guest)
    bob.says("log", (lease, b"line"))
    hall.settle()
    hall.held = True
    for number, position in ((41, 0), (42, 1 << 40), (43, 0)):
        guest.say_bytes(wire.encode("output", number, (job, position)))
    ((_, number, (code, _)),) = guest.hears()
    assert (number, code) == (43, "hall_full")
    hall.held = False
    answers = {number: body for _, number, body in guest.hears()}
    assert ([line[2] for line in answers[41][0]], answers[42][0]) == ([b"line"], [])


def test_one_page_is_read_at_a_time_and_none_for_a_closed_connection(hall: NativeHall) -> None:
    ann, eve = hall.guest(), hall.guest()
    job, lease, bob = taken(hall, ann)
    bob.says("log", (lease, b"line"))
    hall.settle()
    hall.held = True
    for number in range(7, 10):
        eve.says("output", (job, 0), number)
    for number in range(10, 12):
        ann.says("output", (job, 0), number)
    assert len(hall.requests.output) == 1
    eve.leaves()
    hall.held = False
    hall.end()
    assert [(number, body[0][0][2]) for _, number, body in ann.hears()] == [(10, b"line"), (11, b"line")]
    assert said(hall.guest(), job) == [(LOG, b"line")]


def test_a_job_is_described_with_its_payload(hall: NativeHall, guest: NativeGuest) -> None:
    job, lease, bob = taken(hall, guest)
    shown = ("payload", "payload_bytes")
    for _ in range(2):
        described = guest.asks("job", (job,))
        assert tuple(described[name] for name in shown) == (b"work of a", 9)
        bob.asks("finish", (lease, b""))
    long = b"x" * (PAYLOAD_SHOWN_MAX + 1)
    (other,) = guest.asks("submit", (0, [(b"other", long, {}, b"", 0, [])]))
    described = guest.asks("job", (other,))
    assert (described["payload"], described["payload_bytes"]) == (long[:-1], PAYLOAD_SHOWN_MAX + 1)
    guest.asks("cancel", (other, b""))
    hall.settle()
    described = guest.asks("job", (other,))
    kept = Retention().payload_bytes_max
    assert (described["payload"], described["payload_bytes"]) == (long[:kept], PAYLOAD_SHOWN_MAX + 1)
