"""What a Gearman worker is good at and how long it stays, said for it at the text protocol."""

from __future__ import annotations

import pytest

from hiringhall.core.limits import Limits
from hiringhall.core.ratings import Rating, Ratings
from hiringhall.dialects.gearman import wire
from stage.gearman import GearmanHall
from stage.hall import SECOND_US

INCOMPLETE = b"ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+%s\r\n"
WRONG_SKILL = b"ERR INVALID_ARGUMENTS skill+takes+a+skill+from+0+to+1000000\r\n"
SECONDS = b"seconds+from+0+to+3153600000,+such+as+90+or+0.5"
WRONG_TIME = b"ERR INVALID_ARGUMENTS time-left+takes+%s,+or+none\r\n" % SECONDS
WRONG_NEEDS = b"ERR INVALID_ARGUMENTS needs+takes+a+skill+from+0+to+1000000,+and+%s\r\n" % SECONDS
OK = b"OK\r\n"
UNKNOWN_WORKER = b"ERR UNKNOWN_WORKER\r\n"
BAD_SKILL = b"ERR BAD_REQUEST a+skill+must+be+a+whole+number+from+0+to+1000000\r\n"
BAD_NEEDS = b"ERR BAD_REQUEST a+skill+must+be+from+0+to+1000000,+a+time+from+0+to+3153600000+seconds\r\n"

ANSWERS = [
    (b"skill", INCOMPLETE % b"skill"),
    (b"skill bob f", INCOMPLETE % b"skill"),
    (b"skill bob f nine", WRONG_SKILL),
    (b"skill bob f -1", WRONG_SKILL),
    (b"skill bob f 12345678901", WRONG_SKILL),
    (b"skill bob f 9 9", INCOMPLETE % b"skill"),
    (b"skill bob f 1000001", BAD_SKILL),
    (b"skill nobody f 9", UNKNOWN_WORKER),
    (b"skill bob f 9", OK),
    (b"SKILL bob f 0", OK),
    (b"time-left", INCOMPLETE % b"time-left"),
    (b"time-left bob", INCOMPLETE % b"time-left"),
    (b"time-left bob soon", WRONG_TIME),
    (b"time-left bob -1", WRONG_TIME),
    (b"time-left bob 1.", WRONG_TIME),
    (b"time-left bob .5", WRONG_TIME),
    (b"time-left bob 1.0000001", WRONG_TIME),
    (b"time-left bob 3153600001", WRONG_TIME),
    (b"time-left bob 30 s", INCOMPLETE % b"time-left"),
    (b"time-left nobody 30", UNKNOWN_WORKER),
    (b"time-left bob 30", OK),
    (b"time-left bob 0.5", OK),
    (b"time-left bob NONE", OK),
    (b"needs", INCOMPLETE % b"needs"),
    (b"needs f 5", INCOMPLETE % b"needs"),
    (b"needs f high 60", WRONG_NEEDS),
    (b"needs f 5 long", WRONG_NEEDS),
    (b"needs f 5 60 7", INCOMPLETE % b"needs"),
    (b"needs f 1000001 60", BAD_NEEDS),
    (b"needs f 5 60", OK),
    (b"needs f 0 0.5", OK),
    (b"needs f", OK),
    (
        b"needs " + b"f" * 600 + b" 1 1",
        b"ERR TOO_LARGE a+queue+name+must+have+1+to+512+bytes+(queue_name_bytes_max)\r\n",
    ),
    (b"why", INCOMPLETE % b"why"),
    (b"why H:hall:1 H:hall:2", INCOMPLETE % b"why"),
    (b"why H:hall:1", b"ERR UNKNOWN_JOB\r\n"),
    (b"why nonsense", b"ERR UNKNOWN_JOB\r\n"),
]


@pytest.mark.parametrize(("line", "answer"), ANSWERS)
def test_every_way_to_ask_has_its_answer(hall: GearmanHall, line: bytes, answer: bytes) -> None:
    hall.worker(b"f").say(wire.SET_CLIENT_ID, b"bob")
    assert hall.ask(line) == answer


def test_a_job_of_60_s_is_not_for_a_worker_with_30_s_left(hall: GearmanHall) -> None:
    bob = hall.worker(b"render").say(wire.SET_CLIENT_ID, b"bob")
    assert hall.ask(b"needs render 0 60") == OK
    assert hall.ask(b"time-left bob 30") == OK
    handle = hall.guest().submits(wire.SUBMIT_JOB_BG, b"render", b"", b"film")
    assert bob.say(wire.GRAB_JOB).hears_one() == (wire.NO_JOB, b"")
    bob.say(wire.PRE_SLEEP)
    assert bob.hears() == []
    assert hall.ask(b"why " + handle) == b"OK it takes 60 s, and none of 1 workers has that much time left\n"
    assert hall.ask(b"prioritystatus") == b"render\t0\t1\t0\t1\n.\n"
    # What needs nothing passes it by.
    hall.scheduler.needs.need(b"render", 0, 0)
    other = hall.guest().submits(wire.SUBMIT_JOB_BG, b"render", b"", b"still")
    assert bob.hears_one() == (wire.NOOP, b"")
    assert bob.grabs() == other
    carl = hall.worker(b"render").say(wire.SET_CLIENT_ID, b"carl")
    assert carl.grabs() == handle
    assert hall.ask(b"why " + handle) == b"OK it is leased\n"


def test_a_worker_that_stays_after_all_is_woken(hall: GearmanHall) -> None:
    bob = hall.worker(b"render").say(wire.SET_CLIENT_ID, b"bob").say(wire.PRE_SLEEP)
    hall.ask(b"needs render 0 60")
    hall.ask(b"time-left bob 59.999999")
    handle = hall.guest().submits(wire.SUBMIT_JOB_BG, b"render", b"", b"film")
    assert bob.hears() == []
    assert hall.ask(b"time-left bob none") == OK
    assert bob.hears_one() == (wire.NOOP, b"")
    assert bob.grabs() == handle


def test_a_skill_is_for_all_who_have_that_name(hall: GearmanHall) -> None:
    first, second, other = (
        hall.worker(b"render").say(wire.SET_CLIENT_ID, name) for name in (b"gpu", b"gpu", b"x")
    )
    hall.ask(b"needs render 5 0")
    handles = [hall.guest().submits(wire.SUBMIT_JOB_BG, b"render", b"", b"film") for _ in range(2)]
    assert hall.ask(b"why " + handles[0]) == b"OK it needs skill 5, which none of 3 workers has\n"
    assert hall.ask(b"skill gpu render 5") == OK
    assert other.say(wire.GRAB_JOB).hears_one() == (wire.NO_JOB, b"")
    assert [first.grabs(), second.grabs()] == handles


def test_more_skills_than_the_hall_keeps_of_a_worker_are_refused() -> None:
    hall = GearmanHall(limits=Limits(abilities_max=1))
    hall.worker(b"f").say(wire.SET_CLIENT_ID, b"bob")
    assert hall.ask(b"skill bob f 1") == OK
    assert hall.ask(b"skill bob g 1") == b"ERR HALL_FULL a+worker+may+have+1+queues+(abilities_max)\r\n"


@pytest.mark.parametrize("named_first", [True, False])
def test_who_is_known_by_name_need_not_be_rated(hall: GearmanHall, named_first: bool) -> None:
    hall.scheduler.needs.set_ratings(Ratings([(b"gpu-*", Rating({b"render": 5}, 30 * SECOND_US))]))
    hall.scheduler.needs.need(b"render", 5, 20 * SECOND_US)
    handle = hall.guest().submits(wire.SUBMIT_JOB_BG, b"render", b"", b"film")
    if named_first:
        worker = hall.guest().say(wire.SET_CLIENT_ID, b"gpu-7").say(wire.CAN_DO, b"render")
    else:
        worker = hall.worker(b"render").say(wire.SET_CLIENT_ID, b"gpu-7")
    hall.wait(11 * SECOND_US)
    assert worker.say(wire.GRAB_JOB).hears_one() == (wire.NO_JOB, b"")
    # It says its name again, which makes it no younger; another one does.
    worker.say(wire.SET_CLIENT_ID, b"gpu-7")
    assert worker.say(wire.GRAB_JOB).hears_one() == (wire.NO_JOB, b"")
    worker.say(wire.SET_CLIENT_ID, b"gpu-8")
    assert worker.grabs() == handle
