"""The frontend: who hands in jobs, and what they hear."""

from __future__ import annotations

import pytest

from hiringhall.core.errors import STORE_DOWN, Refusal
from hiringhall.core.limits import Limits
from hiringhall.dialects.pingpong.context import PingPongOptions
from hiringhall.dialects.pingpong.session import ClientSession
from stage.pingpong import JOB_TIMEOUT_US, PingPongHall


def test_a_request_id_makes_a_session_of_its_own(hall: PingPongHall) -> None:
    one, two = hall.client(b"1"), hall.client(b"2")
    one.say(b"a")
    two.say(b"b")
    first, second = hall.ready_worker(), hall.ready_worker()
    second.say(b"B")
    assert (one.hears(), two.hears()) == ([], [b"B"])
    first.say(b"A")
    assert (one.hears(), two.hears()) == ([b"A"], [])


def test_answers_of_one_envelope_come_as_the_jobs_end(hall: PingPongHall) -> None:
    client = hall.client().say(b"slow", b"quick")
    slow, quick = hall.ready_worker(), hall.ready_worker()
    quick.say(b"QUICK")
    slow.say(b"SLOW")
    assert client.hears() == [b"QUICK", b"SLOW"]


@pytest.mark.parametrize("payload", [b"", b"READY", b"PING", b"ERROR 1 x", b"\xff\0"])
def test_a_clients_payload_is_never_a_word(hall: PingPongHall, payload: bytes) -> None:
    client = hall.client().say(payload)
    assert client.hears() == []
    worker = hall.ready_worker()
    assert worker.hears() == [payload]
    worker.say(payload[::-1])
    assert client.hears() == [payload[::-1]]


def test_the_payload_pong_is_refused(hall: PingPongHall) -> None:
    client = hall.client().say(b"PONG")
    (answer,) = client.hears()
    assert answer.startswith(b"ERROR bad_request the payload PONG cannot be sent")
    assert not hall.scheduler.jobs


def test_a_payload_that_is_too_long_is_refused() -> None:
    hall = PingPongHall(limits=Limits(payload_bytes_max=3))
    client = hall.client().say(b"1234", b"123")
    assert client.hears() == [b"ERROR too_large a payload may have 3 bytes (payload_bytes_max)"]
    assert len(hall.scheduler.jobs) == 1


def test_a_full_hall_refuses() -> None:
    hall = PingPongHall(limits=Limits(jobs_max=1))
    client = hall.client().say(b"1", b"2")
    assert client.hears() == [b"ERROR hall_full the hall holds 1 jobs (jobs_max)"]


def test_a_closing_hall_refuses(hall: PingPongHall) -> None:
    hall.scheduler.close()
    (answer,) = hall.client().say(b"job").hears()
    assert answer.startswith(b"ERROR closing the hall is closing")


def test_a_durable_job_is_refused_while_the_store_is_down() -> None:
    hall = PingPongHall(PingPongOptions(durable=True))
    hall.break_store("disk full")
    assert hall.client().say(b"job").hears() == [b"ERROR store_down disk full"]


def test_a_job_whose_client_vanished_is_dropped_or_done_in_vain(hall: PingPongHall) -> None:
    worker = hall.ready_worker()
    client = hall.client().say(b"running", b"waiting")
    assert worker.hears() == [b"running"]
    client.leaves()
    worker.say(b"done")
    assert worker.hears() == []
    assert client.hears() == []
    assert not hall.scheduler.jobs


def test_a_durable_job_whose_client_vanished_simply_ends() -> None:
    hall = PingPongHall(PingPongOptions(durable=True))
    client = hall.client().say(b"running", b"waiting")
    client.leaves()
    worker = hall.ready_worker()
    worker.say(b"one").say(b"two")
    assert worker.hears() == [b"running", b"waiting"]
    assert client.hears() == []
    assert hall.scheduler.counters.done == 2


def test_the_answer_of_a_durable_job_waits_for_the_commit_of_its_end() -> None:
    hall = PingPongHall(PingPongOptions(durable=True))
    client = hall.client().say(b"job")
    hall.ready_worker().say_bytes(b"done")
    (pledge,) = client.session.pledges or []
    assert pledge.ending
    assert client.hears() == [b"done"]


def test_the_answer_of_a_job_in_memory_waits_for_nothing(hall: PingPongHall) -> None:
    client = hall.client().say(b"job")
    hall.ready_worker().say(b"done")
    assert client.session.pledges is None
    assert client.hears() == [b"done"]


def test_a_recalled_acknowledgement_is_an_error(hall: PingPongHall) -> None:
    client = hall.client().say(b"job")
    (job,) = hall.scheduler.jobs.values()
    assert isinstance(client.session, ClientSession)
    assert client.session.withdrawn(job, b"", Refusal(STORE_DOWN, "disk full")) == b"ERROR store_down disk full"


def test_silence_of_whoever_does_the_job_counts(hall: PingPongHall) -> None:
    """The door's job timeout goes with its jobs, also to workers of other doors."""
    hall.client().say(b"job")
    (job,) = hall.scheduler.jobs.values()
    assert job.terms.lease_us == JOB_TIMEOUT_US
