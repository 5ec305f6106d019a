"""The text protocol, in gearmand's bytes."""

from __future__ import annotations

import pytest

from hiringhall.core.limits import Limits
from hiringhall.core.queues import NO_BOUND
from hiringhall.core.states import CANCELLED
from hiringhall.dialects.gearman import admin, wire
from hiringhall.dialects.gearman.session import GearmanOptions
from hiringhall.dialects.session import Caller, Session
from stage.gearman import GearmanHall
from stage.hall import SECOND_US, START_US

INCOMPLETE = b"ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+%s\r\n"
WRONG = b"ERR INVALID_ARGUMENTS %s\r\n"
UNKNOWN = b"ERR UNKNOWN_COMMAND Unknown+server+command%s\r\n"

ANSWERS = [
    (b"status", b".\n"),
    (b"STATUS", b".\n"),
    (b"prioritystatus", b".\n"),
    (b"jobs", b".\n"),
    (b"show jobs", b".\n"),
    (b"show  jobs ", b".\n"),
    (b"show unique jobs", b".\n"),
    (b"show", UNKNOWN % b"show"),
    (b"show x", b"ERR UNKNOWN_SHOW_ARGUMENTS\r\n"),
    (b"cancel job H:x:1", b"ERR UNKNOWN_JOB\r\n"),
    (b"cancel", UNKNOWN % b"cancel"),
    (b"cancel x y", b"ERR UNKNOWN_ERROR\r\n"),
    (b"cancel job a b", b"ERR UNKNOWN_ERROR\r\n"),
    (b"maxqueue", INCOMPLETE % b"maxqueue"),
    (b"maxqueue f", b"OK\r\n"),
    (b"maxqueue f 5", b"OK\r\n"),
    (b"maxqueue f 5 6 7", b"OK\r\n"),
    (b"maxqueue f 5 6 7 8", INCOMPLETE % b"maxqueue"),
    (b"maxqueue f many", WRONG % b"maxqueue+takes+whole+numbers+of+at+most+10+digits"),
    (b"maxqueue f 5 6 12345678901", WRONG % b"maxqueue+takes+whole+numbers+of+at+most+10+digits"),
    (b"create function f", b"OK\r\n"),
    (b"create", INCOMPLETE % b"create"),
    (b"create function", INCOMPLETE % b"create"),
    (b"create x y", INCOMPLETE % b"create"),
    (b"create function " + b"f" * 600, b"ERR CREATE_FUNCTION " + b"f" * 64 + b"\r\n"),
    (b"drop function nope", b"ERR function not found\r\n"),
    (b"drop", INCOMPLETE % b"drop"),
    (b"getpid", b"OK 4711\n"),
    (b"getpid x", b"OK 4711\n"),
    (b"verbose", b"OK INFO\n"),
    (b"version", b"OK 1.2.3\n"),
    (b"version  ", b"OK 1.2.3\n"),
    (b"shutdown now", INCOMPLETE % b"shutdown"),
    (b"blah foo bar", UNKNOWN % b"blah"),
    (b"", UNKNOWN % b""),
    (b" ", UNKNOWN % b""),
    (b"  version", UNKNOWN % b""),
    (b"sta\0tus", UNKNOWN % b"sta?tus"),
    (b"x" * 5000, UNKNOWN % (b"x" * 64)),
]


@pytest.mark.parametrize(("line", "answer"), ANSWERS)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_every_answer_fed_three_ways(line: bytes, answer: bytes, ending: bytes) -> None:
    whole = line + ending
    assert GearmanHall().guest().say_bytes(whole).reads() == answer
    drip = GearmanHall().guest()
    for byte in whole:
        assert drip.reads() == b""
        drip.say_bytes(bytes([byte]))
    assert drip.reads() == answer
    assert (
        GearmanHall().guest().say_bytes(whole + b"ver").say_bytes(b"sion\n").reads() == answer + b"OK 1.2.3\n"
    )


def test_text_and_packets_take_turns_on_one_connection(hall: GearmanHall) -> None:
    guest = hall.guest()
    guest.say_bytes(
        wire.pack_request(wire.ECHO_REQ, b"1")
        + b"version\ngetpid\n"
        + wire.pack_request(wire.ECHO_REQ, b"2")
        + b"ver"
    )
    echo_1 = wire.pack_response(wire.ECHO_RES, b"1")
    echo_2 = wire.pack_response(wire.ECHO_RES, b"2")
    assert guest.reads() == echo_1 + b"OK 1.2.3\nOK 4711\n" + echo_2
    guest.say_bytes(b"sion\n" + wire.pack_request(wire.ECHO_REQ, b"1"))
    assert guest.reads() == b"OK 1.2.3\n" + echo_1


def test_a_line_has_a_limit(hall: GearmanHall) -> None:
    guest = hall.guest().say_bytes(b"x" * admin.LINE_BYTES_MAX)
    assert guest.reads() == b""
    guest.say_bytes(b"\n")
    assert guest.reads() == UNKNOWN % (b"x" * 64)
    guest.say_bytes(b"version\n" + b"x" * (admin.LINE_BYTES_MAX + 1) + b"\nversion\n")
    assert guest.reads() == b"OK 1.2.3\n" + admin.OVERLONG
    assert guest.session.closing
    assert guest.say_bytes(b"version\n").reads() == b""


def test_status_counts_jobs_running_jobs_and_workers(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"a")
    for packet_type in (wire.SUBMIT_JOB_HIGH, wire.SUBMIT_JOB, wire.SUBMIT_JOB, wire.SUBMIT_JOB_LOW_BG):
        client.submits(packet_type, b"a", b"", b"")
    client.submits(wire.SUBMIT_JOB_EPOCH, b"b", b"", b"%d" % (START_US // SECOND_US + 60), b"")
    worker.grabs()
    assert hall.ask(b"status") == b"a\t4\t1\t1\nb\t1\t0\t0\n.\n"
    assert hall.ask(b"prioritystatus") == b"a\t0\t2\t1\t1\nb\t0\t0\t0\t0\n.\n"


def test_workers_shows_everybody_who_is_here(hall: GearmanHall) -> None:
    hall.worker(b"a", b"b").say(wire.SET_CLIENT_ID, b"my worker")
    gone = hall.guest()
    hall.guest()
    gone.leaves()
    assert hall.guest().say_bytes(b"workers\n").reads() == (
        b"11 127.0.0.1 my worker : a b\n13 127.0.0.1 - :\n14 127.0.0.1 - :\n.\n"
    )


def test_workers_shows_those_of_other_doors(hall: GearmanHall) -> None:
    stranger = Session(Caller("", -1))
    worker = hall.scheduler.worker(stranger)
    worker.name = b"elsewhere"
    hall.scheduler.can_do(worker, b"a")
    assert hall.guest().say_bytes(b"workers\n").reads() == b"11 127.0.0.1 - :\n-1 - elsewhere : a\n.\n"


def test_a_name_cannot_break_a_line(hall: GearmanHall) -> None:
    hall.worker(b"a\nb\t1").say(wire.SET_CLIENT_ID, b"id\r\n.\n")
    hall.guest().submits(wire.SUBMIT_JOB_BG, b"c\n", b"u\n.", b"")
    assert hall.ask(b"workers").splitlines()[0] == b"11 127.0.0.1 id??.? : a?b?1"
    assert hall.ask(b"status") == b"a?b?1\t0\t0\t1\nc?\t1\t0\t0\n.\n"
    assert hall.ask(b"show unique jobs") == b"u?.\n.\n"


def test_jobs_and_their_uniques(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    lost = client.submits(wire.SUBMIT_JOB_BG, b"f", b"one", b"")
    abandoned = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    data = hall.guest().submits(wire.SUBMIT_JOB_BG, b"f", b"-", b"data")
    first = hall.worker(b"f")
    first.grabs()
    first.leaves()
    assert [worker.grabs(), worker.grabs()] == [lost, abandoned]
    client.leaves()
    table = b"".join([lost, b"\t1\t0\t1\n", abandoned, b"\t0\t1\t0\n", data, b"\t0\t0\t1\n.\n"])
    assert hall.ask(b"show jobs") == hall.ask(b"jobs") == table
    assert hall.ask(b"show unique jobs") == b"one\n-\n.\n"


def test_long_tables_end_early(hall: GearmanHall) -> None:
    client = hall.guest()
    for place in range(admin.ROWS_MAX + 1):
        client.say(wire.SUBMIT_JOB, b"f", b"%d" % place, b"")
    assert hall.ask(b"show jobs").count(b"\n") == admin.ROWS_MAX + 1
    assert hall.ask(b"show unique jobs").endswith(b"\n99999\n.\n")


def test_cancelling_a_job_that_waits(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    assert hall.ask(b"cancel job " + handle) == b"OK\r\n"
    assert client.hears() == [(wire.WORK_FAIL, handle)]
    assert worker.say(wire.GRAB_JOB).hears() == [(wire.NO_JOB, b"")]
    assert hall.ask(b"cancel job " + handle) == b"ERR UNKNOWN_JOB\r\n"


def test_cancelling_a_job_that_runs(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.grabs()
    assert hall.ask(b"CANCEL Job " + handle) == b"OK\r\n"
    assert client.hears() == [(wire.WORK_FAIL, handle)]
    worker.say(wire.WORK_COMPLETE, handle, b"").is_refused(b"JOB_NOT_FOUND")


def test_the_ok_to_cancelling_a_durable_job_waits_for_the_disk(hall: GearmanHall) -> None:
    handle = hall.guest().submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    guest = hall.guest().say_bytes(b"cancel job " + handle + b"\n")
    assert guest.session.pledges is not None
    found = hall.scheduler.find(hall.context.job_id(handle))
    assert found is not None
    assert found.state == CANCELLED


def test_maxqueue_bounds_a_function(hall: GearmanHall) -> None:
    assert hall.ask(b"maxqueue f 2") == b"OK\r\n"
    client = hall.guest()
    client.submits(wire.SUBMIT_JOB, b"f", b"a", b"")
    client.submits(wire.SUBMIT_JOB_BG, b"f", b"b", b"")
    assert "maxqueue" in client.say(wire.SUBMIT_JOB_HIGH, b"f", b"c", b"").is_refused(b"QUEUE_ERROR")
    client.submits(wire.SUBMIT_JOB, b"f", b"a", b"")
    hall.ask(b"maxqueue f")
    client.submits(wire.SUBMIT_JOB_HIGH, b"f", b"c", b"")


def test_limits_on_unused_names_leave_room_for_new_functions() -> None:
    hall = GearmanHall(limits=Limits(queues_max=100))
    for number in range(300):
        assert hall.ask(b"maxqueue name-%d 5" % number) == admin.OK
    client = hall.guest()
    for number in range(90):
        client.submits(wire.SUBMIT_JOB_BG, b"new-%d" % number, b"", b"")
        hall.wait(SECOND_US)
    # The latest limits stand.
    for _ in range(5):
        client.submits(wire.SUBMIT_JOB_BG, b"name-299", b"", b"")
    client.say(wire.SUBMIT_JOB_BG, b"name-299", b"", b"").is_refused(b"QUEUE_ERROR")


def test_a_limit_of_a_function_in_use_is_not_forgotten_for_others() -> None:
    hall = GearmanHall(limits=Limits(queues_max=100))
    worker = hall.worker(b"served")
    hall.ask(b"maxqueue served 1")
    for number in range(300):
        hall.ask(b"maxqueue name-%d 5" % number)
    client = hall.guest()
    client.submits(wire.SUBMIT_JOB_BG, b"served", b"", b"")
    client.say(wire.SUBMIT_JOB_BG, b"served", b"", b"").is_refused(b"QUEUE_ERROR")
    worker.leaves()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_who_is_on_loopback_may_stop_the_hall_and_cancel_jobs(hall: GearmanHall, address: str) -> None:
    handle = hall.guest("10.0.0.7").submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    guest = hall.guest(address)
    assert guest.say_bytes(b"cancel job " + handle + b"\n").reads() == admin.OK
    assert guest.say_bytes(b"shutdown\n").reads() == admin.OK
    assert hall.stops == [False]


@pytest.mark.parametrize("address", ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1", "::127.0.0.1", ""])
def test_others_may_not_stop_the_hall_nor_cancel_what_they_do_not_wait_for(
    hall: GearmanHall, address: str
) -> None:
    handle = hall.guest().submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    guest = hall.guest(address)
    own = guest.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    refused = b"ERR NOT_ALLOWED %s+is+allowed+only+from+loopback+at+this+door+(admin_from)\r\n"
    assert guest.say_bytes(b"cancel job " + handle + b"\n").reads() == refused % b"cancel+job"
    assert guest.say_bytes(b"shutdown graceful\n").reads() == refused % b"shutdown"
    assert (hall.stops, len(hall.scheduler.jobs)) == ([], 2)
    answer = guest.say_bytes(b"cancel job " + own + b"\n").reads()
    assert answer == wire.pack_response(wire.WORK_FAIL, own) + admin.OK
    assert len(hall.scheduler.jobs) == 1


def test_the_door_may_let_everybody_stop_the_hall_and_cancel_jobs() -> None:
    hall = GearmanHall(GearmanOptions(admin_anywhere=True))
    handle = hall.guest().submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    guest = hall.guest("10.0.0.7")
    assert guest.say_bytes(b"cancel job " + handle + b"\nshutdown\n").reads() == admin.OK * 2
    assert hall.stops == [False]


@pytest.mark.parametrize(
    ("words", "maxima"),
    [
        (b"", [NO_BOUND] * 3),
        (b"7", [7, 7, 7]),
        (b"0", [NO_BOUND] * 3),
        (b"-1", [NO_BOUND] * 3),
        (b"1 2 3", [1, 2, 3]),
        (b"1 0 3", [1, NO_BOUND, 3]),
        (b"1 2", [1, 2, NO_BOUND]),
    ],
)
def test_maxqueue_by_priority(hall: GearmanHall, words: bytes, maxima: list[int]) -> None:
    assert hall.ask(b"maxqueue f " + words) == b"OK\r\n"
    assert hall.scheduler.queues[b"f"].maxima == maxima


def test_functions_come_and_go(hall: GearmanHall) -> None:
    assert hall.ask(b"create function f") == b"OK\r\n"
    assert hall.ask(b"status") == b"f\t0\t0\t0\n.\n"
    assert hall.ask(b"drop function f") == b"OK\r\n"
    assert hall.ask(b"status") == b".\n"
    worker = hall.worker(b"f")
    in_use = b"ERR there are still connected workers or executing clients\r\n"
    assert hall.ask(b"drop function f") == in_use
    worker.leaves()
    assert hall.ask(b"drop function f") == b"OK\r\n"


def test_a_full_hall_says_so_to_maxqueue_and_create() -> None:
    hall = GearmanHall(limits=Limits(queues_max=1))
    hall.worker(b"f")
    assert hall.ask(b"maxqueue g 1").startswith(b"ERR HALL_FULL the+hall+has+1+queues")
    assert hall.ask(b"create function g") == b"ERR CREATE_FUNCTION g\r\n"


def test_shutdown_where_it_is_allowed() -> None:
    hall = GearmanHall()
    assert hall.ask(b"shutdown") == hall.ask(b"shutdown graceful") == b"OK\r\n"
    assert hall.stops == [False, True]
    hall = GearmanHall(GearmanOptions(shutdown_allowed=False))
    assert hall.ask(b"shutdown") == b"ERR NOT_ALLOWED shutdown+is+disabled+at+this+door\r\n"
    assert hall.stops == []


# --- how a job ended


def test_the_outcome_of_a_job_is_told(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handles = [client.submits(wire.SUBMIT_JOB_BG, b"f", b"", b"") for _ in range(4)]
    for packet_type, handle in ((wire.WORK_COMPLETE, handles[0]), (wire.WORK_FAIL, handles[1])):
        assert worker.grabs() == handle
        worker.say(packet_type, handle).hears()
    hall.ask(b"cancel job " + handles[2])
    ends = [hall.ask(b"outcome " + handle) for handle in handles]
    assert ends == [b"OK done 0\n", b"OK failed 1\n", b"OK cancelled 130\n", b"OK queued\n"]


def test_the_outcome_of_a_job_that_left_nothing_is_that_it_ended(hall: GearmanHall) -> None:
    client, worker = hall.guest(), hall.worker(b"f")
    handle = client.submits(wire.SUBMIT_JOB, b"f", b"", b"")
    worker.say(wire.WORK_COMPLETE, worker.grabs(), b"")
    assert hall.ask(b"outcome " + handle) == b"OK ended\n"
    assert hall.ask(b"outcome " + handle + b"0") == admin.UNKNOWN_JOB
    assert hall.ask(b"outcome nonsense") == admin.UNKNOWN_JOB
    assert hall.ask(b"outcome").startswith(b"ERR INVALID_ARGUMENTS")


def test_the_outcome_of_a_durable_job_is_told_when_it_is_on_disk(hall: GearmanHall) -> None:
    client, worker, curious = hall.guest(), hall.worker(b"f"), hall.guest()
    handle = client.submits(wire.SUBMIT_JOB_BG, b"f", b"", b"")
    worker.say(wire.WORK_COMPLETE, worker.grabs(), b"")
    curious.say_bytes(b"outcome " + handle + b"\n")
    pledges = curious.session.pledges
    assert pledges is not None
    assert [pledge.ending for pledge in pledges] == [True]
    assert curious.reads() == b"OK done 0\n"
    curious.say_bytes(b"outcome " + handle + b"\n")
    assert curious.session.pledges is None
