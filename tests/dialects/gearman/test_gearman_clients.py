"""Who comes in with work: submits, keys, status, options, and what they hear of the end."""

from __future__ import annotations

import pytest

from hiringhall.core.limits import Limits
from hiringhall.core.states import DELAYED
from hiringhall.core.terms import HIGH, LOW, NORMAL
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.session import GearmanOptions
from stage.gearman import GearmanHall
from stage.hall import SECOND_US, START_US


def test_a_foreground_job_comes_back_done(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"reverse")
    handle = client.submits(wire.SUBMIT_JOB, b"reverse", b"", b"te\0st")
    assert handle == b"H:hall:68719476737"
    assert worker.say(wire.GRAB_JOB).hears() == [(wire.JOB_ASSIGN, handle + b"\0reverse\0te\0st")]
    assert worker.say(wire.WORK_COMPLETE, handle, b"ts\0et").hears() == []
    assert client.hears() == [(wire.WORK_COMPLETE, handle + b"\0ts\0et")]
    assert not hall.scheduler.jobs


def test_a_background_job_tells_its_client_nothing_more(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB_BG, b"f", b"", b"x")
    client.leaves()
    assert worker.grabs() == handle
    worker.say(wire.WORK_COMPLETE, handle, b"done")
    assert client.hears() == []
    assert hall.scheduler.counters.done == 1


@pytest.mark.parametrize(
    ("packet_type", "args", "priority", "background"),
    [
        (wire.SUBMIT_JOB, (), NORMAL, False),
        (wire.SUBMIT_JOB_HIGH, (), HIGH, False),
        (wire.SUBMIT_JOB_LOW, (), LOW, False),
        (wire.SUBMIT_JOB_BG, (), NORMAL, True),
        (wire.SUBMIT_JOB_HIGH_BG, (), HIGH, True),
        (wire.SUBMIT_JOB_LOW_BG, (), LOW, True),
        (wire.SUBMIT_REDUCE_JOB, (b"sum",), NORMAL, False),
        (wire.SUBMIT_REDUCE_JOB_BACKGROUND, (b"sum",), NORMAL, True),
        (wire.SUBMIT_JOB_EPOCH, (b"0",), NORMAL, True),
        (wire.SUBMIT_JOB_SCHED, (b"*", b"*", b"*", b"*", b"*"), NORMAL, True),
    ],
)
def test_each_kind_of_submit_has_its_terms(
    hall: GearmanHall, packet_type: int, args: tuple[bytes, ...], priority: int, background: bool
) -> None:
    client = hall.guest().say(packet_type, b"f", b"u", *args, b"data")
    (job,) = hall.scheduler.jobs.values()
    assert (job.terms.priority, job.terms.durable, job.terms.detached) == (priority, background, background)
    assert (job.queue.name, job.key, job.payload) == (b"f", b"u", b"data")
    assert (client.session.pledges is not None) == background
    assert client.hears() == [(wire.JOB_CREATED, hall.context.handle(job.id))]


def test_the_door_decides_on_durability_and_retries() -> None:
    options = GearmanOptions(
        background_durable=False, failures_max=2, losses_max=5, lease_us=9, backoff_us=7, backoff_max_us=8
    )
    hall = GearmanHall(options)
    client = hall.guest()
    client.submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    (job,) = hall.scheduler.jobs.values()
    terms = job.terms
    assert (terms.durable, terms.detached) == (False, True)
    assert (terms.failures_max, terms.losses_max, terms.lease_us) == (2, 5, 9)
    assert (terms.backoff_us, terms.backoff_max_us) == (7, 8)


def test_priority_holds_across_a_workers_functions(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"a", b"b")
    low = client.submits(wire.SUBMIT_JOB_LOW, b"a", b"", b"")
    normal = client.submits(wire.SUBMIT_JOB, b"a", b"", b"")
    high = client.submits(wire.SUBMIT_JOB_HIGH, b"b", b"", b"")
    assert [worker.grabs() for _ in range(3)] == [high, normal, low]


def test_a_submit_with_the_same_unique_joins(hall: GearmanHall) -> None:
    first, second, worker = hall.guest(), hall.guest(), hall.worker(b"f")
    handle = first.submits(wire.SUBMIT_JOB, b"f", b"same", b"1")
    assert second.submits(wire.SUBMIT_JOB, b"f", b"same", b"2") == handle
    assert hall.guest().submits(wire.SUBMIT_JOB_BG, b"g", b"same", b"") != handle
    worker.say(wire.WORK_COMPLETE, worker.grabs(), b"r")
    assert first.hears() == second.hears() == [(wire.WORK_COMPLETE, handle + b"\0r")]


def test_who_joins_twice_hears_everything_twice(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"same", b"")
    assert client.submits(wire.SUBMIT_JOB, b"f", b"same", b"") == handle
    worker.grabs()
    worker.say(wire.WORK_DATA, handle, b"d").say(wire.WORK_STATUS, handle, b"1", b"2")
    worker.say(wire.WORK_COMPLETE, handle, b"r")
    data, status, end = (
        (wire.WORK_DATA, handle + b"\0d"),
        (wire.WORK_STATUS, handle + b"\x001\x002"),
        (wire.WORK_COMPLETE, handle + b"\0r"),
    )
    assert client.hears() == [data, data, status, status, end, end]


def test_an_empty_unique_never_joins(hall: GearmanHall) -> None:
    client = hall.guest()
    assert client.submits(wire.SUBMIT_JOB, b"f", b"", b"x") != client.submits(wire.SUBMIT_JOB, b"f", b"", b"x")


def test_the_unique_dash_makes_the_data_the_key(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB_BG, b"f", b"-", b"x" * 10_000)
    assert client.submits(wire.SUBMIT_JOB_BG, b"f", b"-", b"x" * 10_000) == handle
    assert client.submits(wire.SUBMIT_JOB_BG, b"f", b"-", b"y") != handle
    assert client.submits(wire.SUBMIT_JOB_BG, b"f", b"-", b"") != client.submits(
        wire.SUBMIT_JOB_BG, b"f", b"-", b""
    )
    assert all(len(job.key) < 64 for job in hall.scheduler.jobs.values())
    assert worker.say(wire.GRAB_JOB_UNIQ).hears() == [
        (wire.JOB_ASSIGN_UNIQ, handle + b"\0f\0-\0" + b"x" * 10_000)
    ]
    assert client.say(wire.GET_STATUS_UNIQUE, b"-").hears() == [
        (wire.STATUS_RES_UNIQUE, b"-\x000\x000\x000\x000\x000")
    ]


def test_a_foreground_job_whose_clients_have_gone_is_dropped(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    client.leaves()
    assert worker.say(wire.GRAB_JOB).hears() == [(wire.NO_JOB, b"")]


def test_it_stays_when_it_was_submitted_in_the_background_too(hall: GearmanHall) -> None:
    client, other, worker = hall.guest(), hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"same", b"")
    assert other.submits(wire.SUBMIT_JOB_BG, b"f", b"same", b"") == handle
    client.leaves()
    assert worker.grabs() == handle


def test_status_by_handle(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    asked = hall.guest()
    assert asked.say(wire.GET_STATUS, handle).hears_one()[1] == handle + b"\x001\x000\x000\x000"
    worker.grabs()
    worker.say(wire.WORK_STATUS, handle, b"3", b"10")
    assert asked.say(wire.GET_STATUS, handle).hears_one()[1] == handle + b"\x001\x001\x003\x0010"
    worker.say(wire.WORK_COMPLETE, handle, b"")
    assert asked.say(wire.GET_STATUS, handle).hears_one() == (wire.STATUS_RES, handle + b"\x000\x000\x000\x000")


@pytest.mark.parametrize(
    "handle",
    [
        b"",
        b"H:hall",
        b"H:hall:",
        b"H:other:68719476737",
        b"H:hall:068719476737",
        b"H:hall:+68719476737",
        b"H:hall: 68719476737",
        b"H:hall:68719476737 ",
        b"H:hall:68_719476737",
        b"H:hall:0",
        b"h:hall:68719476737",
        b"H:hall:" + b"9" * 5000,
    ],
)
def test_a_handle_is_read_to_the_letter(hall: GearmanHall, handle: bytes) -> None:
    client = hall.guest()
    assert client.submits(wire.SUBMIT_JOB_BG, b"f", b"", b"") == b"H:hall:68719476737"
    assert client.say(wire.GET_STATUS, handle).hears() == [(wire.STATUS_RES, handle + b"\x000\x000\x000\x000")]


def test_status_by_unique_counts_who_waits(hall: GearmanHall) -> None:
    first, second, worker = hall.guest(), hall.guest(), hall.worker(b"f")
    handle = first.submits(wire.SUBMIT_JOB, b"f", b"key", b"")
    second.submits(wire.SUBMIT_JOB, b"f", b"key", b"")
    asked = hall.guest()
    assert asked.say(wire.GET_STATUS_UNIQUE, b"key").hears_one()[1] == b"key\x001\x000\x000\x000\x002"
    worker.grabs()
    worker.say(wire.WORK_STATUS, handle, b"1", b"4")
    first.leaves()
    assert asked.say(wire.GET_STATUS_UNIQUE, b"key").hears_one()[1] == b"key\x001\x001\x001\x004\x001"
    assert asked.say(wire.GET_STATUS_UNIQUE, b"nobody").hears_one()[1] == b"nobody\x000\x000\x000\x000\x000"


def test_an_exception_goes_to_those_who_asked_for_exceptions(hall: GearmanHall) -> None:
    asks, plain, worker = hall.guest(), hall.guest(), hall.worker(b"f")
    assert asks.say(wire.OPTION_REQ, b"exceptions").hears() == [(wire.OPTION_RES, b"exceptions")]
    handle = asks.submits(wire.SUBMIT_JOB, b"f", b"key", b"")
    plain.submits(wire.SUBMIT_JOB, b"f", b"key", b"")
    worker.grabs()
    worker.say(wire.WORK_EXCEPTION, handle, b"oh\0no")
    assert asks.hears() == [(wire.WORK_EXCEPTION, handle + b"\0oh\0no")]
    assert plain.hears() == [(wire.WORK_FAIL, handle)]
    assert hall.scheduler.counters.failed == 1


def test_a_plain_failure_is_one_for_everybody(hall: GearmanHall) -> None:
    asks, worker = hall.guest(), hall.worker(b"f")
    asks.say(wire.OPTION_REQ, b"EXCEPTIONS\0").hears()
    handle = asks.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    worker.say(wire.WORK_FAIL, handle)
    assert asks.hears() == [(wire.WORK_FAIL, handle)]


def test_a_door_can_send_exceptions_to_everybody() -> None:
    hall = GearmanHall(GearmanOptions(exceptions_by_default=True))
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.say(wire.WORK_EXCEPTION, worker.grabs(), b"why")
    assert client.hears() == [(wire.WORK_EXCEPTION, handle + b"\0why")]


def test_an_unknown_option_is_an_error(hall: GearmanHall) -> None:
    assert "exceptions" in hall.guest().say(wire.OPTION_REQ, b"turbo").is_refused(b"UNKNOWN_OPTION")


def test_echo(hall: GearmanHall) -> None:
    assert hall.guest().say(wire.ECHO_REQ, b"a\0b").hears() == [(wire.ECHO_RES, b"a\0b")]


def test_a_job_of_the_future_wakes_a_sleeping_worker_when_it_is_due(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    worker.say(wire.PRE_SLEEP)
    client.submits(wire.SUBMIT_JOB_EPOCH, b"f", b"u", b"%d" % (START_US // SECOND_US + 60), b"later")
    assert worker.hears() == []
    hall.wait(59 * SECOND_US)
    assert worker.hears() == []
    hall.wait(SECOND_US)
    assert worker.hears() == [(wire.NOOP, b"")]
    assert worker.say(wire.GRAB_JOB_UNIQ).hears_one()[1].endswith(b"\0f\0u\0later")


@pytest.mark.parametrize("epoch", [b"", b"soon", b"-1", b"1.5", b"9" * 11])
def test_an_epoch_that_is_no_time_is_an_error(hall: GearmanHall, epoch: bytes) -> None:
    client = hall.guest().say(wire.SUBMIT_JOB_EPOCH, b"f", b"", epoch, b"")
    assert "seconds" in client.is_refused(b"INVALID_ARGUMENT")
    assert not hall.scheduler.jobs


def test_a_scheduled_job_runs_once_at_the_next_matching_minute(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    client.submits(wire.SUBMIT_JOB_SCHED, b"f", b"u", b"30", b"6", b"*", b"*", b"*", b"x")
    (job,) = hall.scheduler.jobs.values()
    assert (job.state, job.due_us) == (DELAYED, START_US + (6 * 60 + 30) * 60 * SECOND_US)
    hall.wait((6 * 60 + 30) * 60 * SECOND_US)
    worker.say(wire.WORK_COMPLETE, worker.grabs(), b"")
    hall.end()
    assert not hall.scheduler.jobs


def test_a_schedule_that_cannot_be_read_is_an_error(hall: GearmanHall) -> None:
    client = hall.guest()
    client.say(wire.SUBMIT_JOB_SCHED, b"f", b"", b"*/5", b"", b"", b"", b"", b"")
    assert "minute" in client.is_refused(b"INVALID_ARGUMENT")
    client.say(wire.SUBMIT_JOB_SCHED, b"f", b"", b"", b"", b"30", b"2", b"", b"")
    assert "no date" in client.is_refused(b"INVALID_ARGUMENT")


def test_large_results_are_sent_beside_their_header(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    large = bytes(range(256)) * 1000
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", large)
    assert worker.say(wire.GRAB_JOB).hears() == [(wire.JOB_ASSIGN, handle + b"\0f\0" + large)]
    worker.say(wire.WORK_DATA, handle, large).say(wire.WORK_COMPLETE, handle, large)
    hall.end()
    assert any(len(piece) == len(large) for write in client.writes for piece in write)
    assert client.hears() == [
        (wire.WORK_DATA, handle + b"\0" + large),
        (wire.WORK_COMPLETE, handle + b"\0" + large),
    ]


def test_the_halls_no_is_an_error_that_says_what_to_do() -> None:
    hall = GearmanHall(
        limits=Limits(jobs_max=1, key_bytes_max=8, payload_bytes_max=100, queue_name_bytes_max=8)
    )
    client = hall.guest()
    client.say(wire.SUBMIT_JOB, b"f", b"x" * 9, b"")
    assert "key_bytes_max" in client.is_refused(b"ARGUMENT_TOO_LARGE")
    client.say(wire.SUBMIT_JOB, b"f", b"", b"x" * 101)
    assert "payload_bytes_max" in client.is_refused(b"ARGUMENT_TOO_LARGE")
    client.say(wire.SUBMIT_JOB, b"f" * 9, b"", b"")
    assert "queue_name_bytes_max" in client.is_refused(b"ARGUMENT_TOO_LARGE")
    client.say(wire.SUBMIT_JOB, b"", b"", b"")
    assert client.is_refused(b"INVALID_ARGUMENT")
    client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    client.say(wire.SUBMIT_JOB, b"f", b"", b"")
    assert "jobs_max" in client.is_refused(b"QUEUE_ERROR")
    hall.scheduler.close()
    client.say(wire.SUBMIT_JOB, b"f", b"", b"")
    assert "closing" in client.is_refused(b"SHUTDOWN")


def test_a_unique_is_no_longer_than_gearman_has_it_however_long_keys_may_be(hall: GearmanHall) -> None:
    client = hall.guest()
    client.submits(wire.SUBMIT_JOB, b"f", b"x" * 512, b"")
    client.say(wire.SUBMIT_JOB, b"f", b"x" * 513, b"")
    assert "512 bytes" in client.is_refused(b"ARGUMENT_TOO_LARGE")
    assert hall.scheduler.limits.key_bytes_max == 4096


def test_while_the_store_fails_background_jobs_are_refused_and_foreground_ones_are_not(
    hall: GearmanHall,
) -> None:
    hall.trouble = "the disk is full; make room"
    client = hall.guest()
    for _ in ("found while it is written", "known before"):
        client.say(wire.SUBMIT_JOB_BG, b"f", b"", b"")
        assert client.is_refused(b"QUEUE_ERROR") == "the disk is full; make room"
        assert hall.scheduler.store_trouble == "the disk is full; make room"
    client.submits(wire.SUBMIT_JOB, b"f", b"", b"")


def test_an_acknowledgement_can_be_taken_back(hall: GearmanHall) -> None:
    hall.held = True
    client = hall.guest().say(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    assert client.hears() == []
    with hall.turn():
        hall.fail("no room on the disk")
    assert client.is_refused(b"QUEUE_ERROR") == "no room on the disk"


def test_background_jobs_expire_and_foreground_jobs_wait_as_long_as_their_clients() -> None:
    hall = GearmanHall(GearmanOptions(expire_us=10 * SECOND_US))
    client = hall.guest()
    awaited = client.submits(wire.SUBMIT_JOB, b"f", b"", b"awaited")
    for submit in (wire.SUBMIT_JOB_BG, wire.SUBMIT_JOB_HIGH_BG, wire.SUBMIT_JOB_LOW_BG):
        client.submits(submit, b"f", b"", b"")
    hall.wait(10 * SECOND_US - 1)
    assert len(hall.scheduler.jobs) == 4
    hall.wait(1)
    assert list(hall.scheduler.jobs) == [hall.context.job_id(awaited)]
    hall.wait(3600 * SECOND_US)
    assert hall.worker(b"f").grabs() == awaited
