"""Who comes in to work: abilities, grabbing, sleeping, reporting, running out of time."""

from __future__ import annotations

import pytest

from hiringhall.core.limits import Limits
from hiringhall.core.states import FAILED, TIMED_OUT
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.session import OVERRUNS_MAX, GearmanOptions
from stage.gearman import GearmanHall
from stage.hall import SECOND_US


def test_nobody_has_work(hall: GearmanHall) -> None:
    worker = hall.worker(b"f")
    for grab in (wire.GRAB_JOB, wire.GRAB_JOB_UNIQ, wire.GRAB_JOB_ALL):
        assert worker.say(grab).hears() == [(wire.NO_JOB, b"")]


@pytest.mark.parametrize(
    ("grab", "reducer", "answer", "before_data"),
    [
        (wire.GRAB_JOB, b"", wire.JOB_ASSIGN, b"\0f\0"),
        (wire.GRAB_JOB_UNIQ, b"", wire.JOB_ASSIGN_UNIQ, b"\0f\0u\0"),
        (wire.GRAB_JOB_ALL, b"", wire.JOB_ASSIGN_UNIQ, b"\0f\0u\0"),
        (wire.GRAB_JOB, b"sum", wire.JOB_ASSIGN, b"\0f\0"),
        (wire.GRAB_JOB_UNIQ, b"sum", wire.JOB_ASSIGN_UNIQ, b"\0f\0u\0"),
        (wire.GRAB_JOB_ALL, b"sum", wire.JOB_ASSIGN_ALL, b"\0f\0u\0sum\0"),
    ],
)
def test_each_way_to_grab(
    hall: GearmanHall, grab: int, reducer: bytes, answer: int, before_data: bytes
) -> None:
    handle = hall.guest().submits(wire.SUBMIT_REDUCE_JOB_BACKGROUND, b"f", b"u", reducer, b"da\0ta")
    assert hall.worker(b"f").say(grab).hears() == [(answer, handle + before_data + b"da\0ta")]


def test_a_worker_who_sleeps_is_woken_for_work(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    assert worker.say(wire.PRE_SLEEP).hears() == []
    client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    assert worker.hears() == [(wire.NOOP, b"")]
    worker.grabs()


def test_a_worker_who_goes_to_sleep_beside_work_is_woken_at_once(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    assert worker.say(wire.PRE_SLEEP).hears() == [(wire.NOOP, b"")]
    assert worker.say(wire.PRE_SLEEP).hears() == [(wire.NOOP, b"")]


def test_one_job_wakes_one_worker(hall: GearmanHall) -> None:
    workers = [hall.worker(b"f").say(wire.PRE_SLEEP) for _ in range(20)]
    hall.guest().submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    assert sum(len(worker.hears()) for worker in workers) == 1


def test_a_worker_takes_back_what_it_can_do(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"a", b"b")
    client.submits(wire.SUBMIT_JOB, b"a", b"", b"")
    handle = client.submits(wire.SUBMIT_JOB, b"b", b"", b"")
    worker.say(wire.CANT_DO, b"a").say(wire.CANT_DO, b"never said")
    assert worker.grabs() == handle
    client.submits(wire.SUBMIT_JOB, b"b", b"", b"")
    assert worker.say(wire.RESET_ABILITIES).say(wire.GRAB_JOB).hears() == [(wire.NO_JOB, b"")]


def test_both_roles_on_one_connection(hall: GearmanHall) -> None:
    both = hall.worker(b"f")
    handle = both.submits(wire.SUBMIT_JOB, b"f", b"", b"x")
    assert both.grabs() == handle
    assert both.say(wire.WORK_COMPLETE, handle, b"y").hears() == [(wire.WORK_COMPLETE, handle + b"\0y")]


def test_chunks_warnings_and_progress_reach_the_client_in_order(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    worker.say(wire.WORK_DATA, handle, b"1\0").say(wire.WORK_WARNING, handle, b"hm")
    worker.say(wire.WORK_STATUS, handle, b"1", b"2").say(wire.WORK_COMPLETE, handle, b"")
    assert client.hears() == [
        (wire.WORK_DATA, handle + b"\x001\0"),
        (wire.WORK_WARNING, handle + b"\0hm"),
        (wire.WORK_STATUS, handle + b"\x001\x002"),
        (wire.WORK_COMPLETE, handle + b"\0"),
    ]


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (b"7", b"7"),
        (b"007", b"7"),
        (b"0.5", b"0"),
        (b"x", b"0"),
        (b"-1", b"0"),
        (b"", b"0"),
        (b"9" * 99, b"4294967295"),
    ],
)
def test_progress_is_read_as_the_c_library_does(hall: GearmanHall, said: bytes, heard: bytes) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    worker.say(wire.WORK_STATUS, handle, said, b"100")
    assert client.hears() == [(wire.WORK_STATUS, handle + b"\0" + heard + b"\x00100")]


def test_a_failure_is_the_end_unless_the_door_retries(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.say(wire.WORK_FAIL, worker.grabs() + b"\0")
    assert client.hears() == [(wire.WORK_FAIL, handle)]


def test_a_door_that_retries() -> None:
    hall = GearmanHall(GearmanOptions(failures_max=1, backoff_us=SECOND_US))
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.say(wire.WORK_FAIL, worker.grabs())
    assert client.hears() == []
    hall.wait(SECOND_US)
    worker.say(wire.WORK_FAIL, worker.grabs())
    assert client.hears() == [(wire.WORK_FAIL, handle)]


def test_the_failure_that_follows_an_exception_is_part_of_it(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    assert worker.say(wire.WORK_EXCEPTION, handle, b"!").say(wire.WORK_FAIL, handle).hears() == []
    assert client.hears() == [(wire.WORK_FAIL, handle)]
    assert hall.scheduler.counters.stale == 0
    worker.say(wire.WORK_FAIL, handle).is_refused(b"JOB_NOT_FOUND")


def test_a_failure_in_a_second_attempt_is_not_swallowed() -> None:
    hall = GearmanHall(GearmanOptions(failures_max=1, backoff_us=1))
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.say(wire.WORK_EXCEPTION, worker.grabs(), b"!")
    hall.wait(1)
    worker.say(wire.WORK_FAIL, worker.grabs())
    assert client.hears() == [(wire.WORK_FAIL, handle)]


@pytest.mark.parametrize(
    ("packet_type", "args"),
    [
        (wire.WORK_COMPLETE, (b"r",)),
        (wire.WORK_FAIL, ()),
        (wire.WORK_EXCEPTION, (b"e",)),
        (wire.WORK_DATA, (b"d",)),
        (wire.WORK_WARNING, (b"w",)),
        (wire.WORK_STATUS, (b"1", b"2")),
    ],
)
def test_a_report_on_somebody_elses_job_is_refused_and_counted(
    hall: GearmanHall, packet_type: int, args: tuple[bytes, ...]
) -> None:
    client, worker, liar = hall.guest(), hall.worker(b"f"), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    for named in (handle, b"H:hall:1", b"nonsense"):
        assert "does not hold" in liar.say(packet_type, named, *args).is_refused(b"JOB_NOT_FOUND")
    assert hall.scheduler.counters.stale == 3
    assert not liar.session.closing
    assert client.hears() == []
    worker.say(wire.WORK_COMPLETE, handle, b"mine")
    assert client.hears() == [(wire.WORK_COMPLETE, handle + b"\0mine")]


def test_a_second_result_is_refused(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    worker.say(wire.WORK_COMPLETE, handle, b"1").say(wire.WORK_COMPLETE, handle, b"2")
    worker.is_refused(b"JOB_NOT_FOUND")
    assert client.hears() == [(wire.WORK_COMPLETE, handle + b"\x001")]


def test_a_worker_who_leaves_gives_its_job_back(hall: GearmanHall) -> None:
    client, first, second = hall.guest(), hall.worker(b"f"), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    first.grabs()
    first.leaves()
    assert second.grabs() == handle
    assert client.hears() == []


def test_a_job_that_loses_three_workers_has_failed(hall: GearmanHall) -> None:
    client = hall.guest()
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    for _ in range(3):
        assert client.hears() == []
        worker = hall.worker(b"f")
        worker.grabs()
        worker.leaves()
    assert client.hears() == [(wire.WORK_FAIL, handle)]


def test_a_timeout_fails_exactly_the_job_that_overran(hall: GearmanHall) -> None:
    client = hall.guest()
    worker = hall.worker(b"slow").say(wire.CAN_DO_TIMEOUT, b"quick", b"2")
    slow = client.submits(wire.SUBMIT_JOB, b"slow", b"", b"")
    quick = client.submits(wire.SUBMIT_JOB, b"quick", b"", b"")
    assert [worker.grabs(), worker.grabs()] == [slow, quick]
    job = hall.scheduler.jobs[hall.context.job_id(quick)]
    hall.wait(2 * SECOND_US - 1)
    assert client.hears() == []
    hall.wait(1)
    assert client.hears() == [(wire.WORK_FAIL, quick)]
    assert (job.state, job.code) == (FAILED, TIMED_OUT)
    hall.wait(3600 * SECOND_US)
    worker.say(wire.WORK_COMPLETE, slow, b"in time")
    assert client.hears() == [(wire.WORK_COMPLETE, slow + b"\0in time")]


def test_a_timeout_of_nought_is_none(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.guest().say(wire.CAN_DO_TIMEOUT, b"f", b"0")
    client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    hall.wait(10**6 * SECOND_US)
    assert client.hears() == []


def test_the_door_says_what_a_timeout_counts() -> None:
    hall = GearmanHall(GearmanOptions(timeout_unit_us=1000))
    client, worker = hall.guest(), hall.guest().say(wire.CAN_DO_TIMEOUT, b"f", b"2")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    hall.wait(2000)
    assert client.hears() == [(wire.WORK_FAIL, handle)]


LATE_REPORTS = {
    "a result": [(wire.WORK_COMPLETE, b"late")],
    "a failure": [(wire.WORK_FAIL,)],
    "an exception and a failure": [(wire.WORK_EXCEPTION, b"late"), (wire.WORK_FAIL,)],
    "progress, data and a result": [
        (wire.WORK_STATUS, b"1", b"2"),
        (wire.WORK_DATA, b"late"),
        (wire.WORK_WARNING, b"late"),
        (wire.WORK_COMPLETE, b""),
    ],
}


@pytest.mark.parametrize("requeued", [False, True])
@pytest.mark.parametrize("reports", LATE_REPORTS)
def test_a_report_after_the_timeout_is_taken_in_silence(reports: str, requeued: bool) -> None:
    hall = GearmanHall(GearmanOptions(overruns_requeued=requeued))
    client, worker = hall.guest(), hall.guest().say(wire.CAN_DO_TIMEOUT, b"f", b"2")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    hall.wait(2 * SECOND_US)
    heard = client.hears()
    for packet_type, *args in LATE_REPORTS[reports]:
        worker.say(packet_type, handle, *args)
    assert worker.hears() == client.hears() == []
    assert heard == ([] if requeued else [(wire.WORK_FAIL, handle)])
    # Reports on jobs that it never had are refused as before.
    worker.say(wire.WORK_FAIL, handle + b"0").is_refused(b"JOB_NOT_FOUND")


def test_only_the_latest_late_reports_are_taken_in_silence(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.guest().say(wire.CAN_DO_TIMEOUT, b"f", b"1")
    handles = []
    for _ in range(OVERRUNS_MAX + 1):
        client.say(wire.SUBMIT_JOB_BG, b"f", b"", b"")
        handles.append(worker.grabs())
    hall.wait(SECOND_US)
    for handle in handles:
        worker.say(wire.WORK_COMPLETE, handle, b"")
    worker.is_refused(b"JOB_NOT_FOUND")


def test_a_job_that_overran_goes_to_another_worker_where_the_door_says_so() -> None:
    hall = GearmanHall(GearmanOptions(overruns_requeued=True, losses_max=2))
    client, other = hall.guest(), hall.worker(b"f")
    slow = client.submits(wire.SUBMIT_JOB, b"f", b"", b"slow")
    for number in range(2):
        worker = hall.guest().say(wire.CAN_DO_TIMEOUT, b"f", b"2")
        assert worker.grabs() == slow
        if not number:
            waiting = client.submits(wire.SUBMIT_JOB, b"f", b"", b"waiting")
        hall.wait(2 * SECOND_US - 1)
        assert client.hears() == []
        hall.wait(1)
        if not number:
            # It stands behind those that wait: it must not keep all workers busy.
            assert other.grabs() == waiting
    assert client.hears() == [(wire.WORK_FAIL, slow)], "it counts as a lost worker each time"


def test_a_timeout_below_the_doors_least_counts_as_that() -> None:
    hall = GearmanHall(GearmanOptions(timeout_unit_us=1000, timeout_min_us=SECOND_US))
    client = hall.guest()
    handles = []
    for timeout in (b"1", b"1500", b"0"):
        worker = hall.guest().say(wire.CAN_DO_TIMEOUT, b"f", timeout)
        client.say(wire.SUBMIT_JOB, b"f", b"", b"").hears()
        handles.append(worker.grabs())
    hall.wait(SECOND_US - 1)
    assert client.hears() == []
    hall.wait(1)
    assert client.hears() == [(wire.WORK_FAIL, handles[0])]
    hall.wait(SECOND_US // 2)
    assert client.hears() == [(wire.WORK_FAIL, handles[1])]
    hall.wait(3600 * SECOND_US)
    assert client.hears() == []


@pytest.mark.parametrize("timeout", [b"", b"soon", b"-5", b"1e3", b"9" * 30])
def test_a_timeout_that_is_no_number_is_an_error(hall: GearmanHall, timeout: bytes) -> None:
    worker = hall.guest().say(wire.CAN_DO_TIMEOUT, b"f", timeout)
    worker.is_refused(b"INVALID_ARGUMENT")
    assert not hall.scheduler.queues


def test_silence_loses_the_job_and_any_word_keeps_it() -> None:
    hall = GearmanHall(GearmanOptions(lease_us=10 * SECOND_US))
    client, worker, other = hall.guest(), hall.worker(b"f"), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    for _ in range(5):
        hall.wait(9 * SECOND_US)
        worker.say(wire.ECHO_REQ, b"still here").hears()
    assert other.say(wire.GRAB_JOB).hears() == [(wire.NO_JOB, b"")]
    hall.wait(11 * SECOND_US)
    assert other.grabs() == handle
    worker.say(wire.WORK_COMPLETE, handle, b"late").is_refused(b"JOB_NOT_FOUND")


def test_round_robin_takes_from_functions_in_turn() -> None:
    hall = GearmanHall(GearmanOptions(round_robin=True))
    client, worker = hall.guest(), hall.worker(b"a", b"b")
    for function in (b"a", b"a", b"b", b"b"):
        client.submits(wire.SUBMIT_JOB_BG, function, b"", function)
    taken = [worker.say(wire.GRAB_JOB).hears_one()[1][-1:] for _ in range(4)]
    assert taken == [b"b", b"a", b"b", b"a"]


def test_a_workers_name_is_known_whenever_it_says_it(hall: GearmanHall) -> None:
    early = hall.guest().say(wire.SET_CLIENT_ID, b"early").say(wire.CAN_DO, b"f")
    late = hall.guest().say(wire.CAN_DO, b"f").say(wire.SET_CLIENT_ID, b"late\0")
    assert [worker.name for worker in hall.scheduler.workers] == [b"early", b"late"]
    assert early.hears() == late.hears() == []
    late.say(wire.SET_CLIENT_ID, b"x" * 129).is_refused(b"ARGUMENT_TOO_LARGE")


def test_a_client_that_names_itself_is_no_worker(hall: GearmanHall) -> None:
    hall.guest().say(wire.SET_CLIENT_ID, b"client")
    assert not hall.scheduler.workers


def test_too_many_abilities_are_refused() -> None:
    hall = GearmanHall(limits=Limits(abilities_max=1))
    hall.worker(b"a", b"b").is_refused(b"QUEUE_ERROR")
    assert b"b" not in hall.scheduler.queues or not hall.scheduler.queues[b"b"].workers


def test_all_yours_is_taken_without_a_word(hall: GearmanHall) -> None:
    assert hall.guest().say(wire.ALL_YOURS).hears() == []


def test_while_the_hall_closes_nothing_is_handed_out(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    client.submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    hall.scheduler.close()
    assert worker.say(wire.GRAB_JOB).say(wire.PRE_SLEEP).hears() == [(wire.NO_JOB, b"")]


def test_a_result_without_data_may_leave_out_the_nul(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    assert worker.say(wire.WORK_DATA, handle).say(wire.WORK_COMPLETE, handle).hears() == []
    assert client.hears() == [(wire.WORK_DATA, handle + b"\0"), (wire.WORK_COMPLETE, handle + b"\0")]


def test_a_reduce_job_of_five_arguments_is_one_of_four(hall: GearmanHall) -> None:
    handle = hall.guest().submits(wire.SUBMIT_REDUCE_JOB_BACKGROUND, b"f", b"u", b"sum", b"", b"data")
    assert hall.worker(b"f").say(wire.GRAB_JOB_ALL).hears() == [
        (wire.JOB_ASSIGN_ALL, handle + b"\0f\0u\0sum\0data")
    ]
