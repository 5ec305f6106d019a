"""What each command does to a job, and what it answers: conversations as tables."""

from __future__ import annotations

import re

import pytest

from hiringhall.dialects.beanstalkd.context import BeanstalkdOptions
from stage.beanstalkd import BeanstalkdHall
from stage.hall import SECOND_US

FIRST_ID = 1 << 36
"""The number before that of the first job."""

CONVERSATIONS = {
    # "a>" and "b>" say lines, "a<" and "b<" hear exactly these lines, "wait" is seconds; #1 is the first job.
    "a job is put, reserved and deleted": """
        a> put 0 0 60 5
        a> hello
        a< INSERTED #1
        b> reserve
        b< RESERVED #1 5
        b< hello
        b> delete #1
        b< DELETED
        a> peek #1
        a< NOT_FOUND
        b> delete #1
        b< NOT_FOUND""",
    "a reserve waits for a job": """
        b> reserve
        a> put 0 0 60 1
        a> x
        a< INSERTED #1
        b< RESERVED #1 1
        b< x""",
    "requests behind a reserve that waits are answered after it": """
        b> reserve
        b> list-tube-used
        b> use mail
        a> put 0 0 60 1
        a> x
        a< INSERTED #1
        wait 0
        b< RESERVED #1 1
        b< x
        b< USING default
        b< USING mail""",
    "a reserve times out": """
        b> reserve-with-timeout 0
        b< TIMED_OUT
        b> reserve-with-timeout 2
        b> list-tube-used
        wait 1
        wait 1
        b< TIMED_OUT
        b< USING default
        a> put 0 0 60 1
        a> x
        a< INSERTED #1
        b> reserve-with-timeout 2
        b< RESERVED #1 1
        b< x
        wait 5""",
    "a delayed job is ready when its time comes": """
        a> put 0 3 60 1
        a> x
        a< INSERTED #1
        b> reserve-with-timeout 2
        wait 2
        b< TIMED_OUT
        b> reserve
        wait 1
        b< RESERVED #1 1
        b< x""",
    "the last second of a time to run is a warning": """
        a> put 0 0 3 1
        a> x
        a< INSERTED #1
        b> reserve
        b< RESERVED #1 1
        b< x
        b> reserve
        wait 2
        b< DEADLINE_SOON
        b> reserve-with-timeout 60
        b< DEADLINE_SOON
        a> put 0 0 60 1
        a> y
        a< INSERTED #2
        b> reserve
        b< RESERVED #2 1
        b< y""",
    "a job whose time to run is over is ready again": """
        a> put 0 0 2 1
        a> x
        a< INSERTED #1
        b> reserve
        b< RESERVED #1 1
        b< x
        wait 2
        a> reserve
        a< RESERVED #1 1
        a< x
        b> touch #1
        b> delete #1
        b< NOT_FOUND
        b< NOT_FOUND""",
    "touch gives the whole time to run again": """
        a> put 0 0 3 1
        a> x
        a< INSERTED #1
        b> reserve
        b< RESERVED #1 1
        b< x
        wait 2
        b> touch #1
        b< TOUCHED
        wait 2
        b> touch #1
        b< TOUCHED
        wait 2
        b> delete #1
        b< DELETED
        b> touch #1
        b< NOT_FOUND""",
    "only who has reserved a job can change it": """
        a> put 0 0 60 1
        a> x
        a< INSERTED #1
        b> reserve
        b< RESERVED #1 1
        b< x
        a> touch #1
        a> release #1 0 0
        a> bury #1 0
        a> delete #1
        a> reserve-job #1
        a> kick-job #1
        a< NOT_FOUND
        a< NOT_FOUND
        a< NOT_FOUND
        a< NOT_FOUND
        a< NOT_FOUND
        a< NOT_FOUND""",
    "a released job is next, or ready after its delay": """
        a> put 1024 0 60 1
        a> x
        a> put 1024 0 60 1
        a> y
        a< INSERTED #1
        a< INSERTED #2
        b> reserve
        b> release #1 1024 0
        b> reserve
        b> release #1 1024 5
        b> peek-delayed
        b< RESERVED #1 1
        b< x
        b< RELEASED
        b< RESERVED #1 1
        b< x
        b< RELEASED
        b< FOUND #1 1
        b< x
        b> reserve
        b< RESERVED #2 1
        b< y
        b> reserve
        wait 5
        b< RESERVED #1 1
        b< x""",
    "a release can change the priority": """
        a> put 1024 0 60 1
        a> x
        a> put 1024 0 60 1
        a> y
        a< INSERTED #1
        a< INSERTED #2
        b> reserve
        b> release #1 4294967295 0
        b> reserve
        b< RESERVED #1 1
        b< x
        b< RELEASED
        b< RESERVED #2 1
        b< y
        b> release #2 0 0
        b> reserve
        b> reserve
        b< RELEASED
        b< RESERVED #2 1
        b< y
        b< RESERVED #1 1
        b< x""",
    "small numbers go first, and inside a range the oldest": """
        a> put 4294967295 0 60 1
        a> l
        a> put 2147483648 0 60 1
        a> n
        a> put 1024 0 60 1
        a> m
        a> put 1023 0 60 1
        a> h
        a< INSERTED #1
        a< INSERTED #2
        a< INSERTED #3
        a< INSERTED #4
        b> peek-ready
        b> reserve
        b> reserve
        b> reserve
        b> reserve
        b< FOUND #4 1
        b< h
        b< RESERVED #4 1
        b< h
        b< RESERVED #2 1
        b< n
        b< RESERVED #3 1
        b< m
        b< RESERVED #1 1
        b< l""",
    "buried jobs are kicked, the oldest first, and delayed ones when none is buried": """
        a> put 0 0 60 1
        a> x
        a> put 0 0 60 1
        a> y
        a> put 0 90 60 1
        a> z
        a> put 0 80 60 1
        a> w
        a< INSERTED #1
        a< INSERTED #2
        a< INSERTED #3
        a< INSERTED #4
        b> reserve
        b> reserve
        b> bury #2 0
        b> bury #1 0
        b< RESERVED #1 1
        b< x
        b< RESERVED #2 1
        b< y
        b< BURIED
        b< BURIED
        b> reserve-with-timeout 0
        b> peek-buried
        b> kick 1
        b> kick 100
        b> peek-buried
        b> peek-delayed
        b> kick 1
        b> kick 1
        b> kick 1
        b< TIMED_OUT
        b< FOUND #2 1
        b< y
        b< KICKED 1
        b< KICKED 1
        b< NOT_FOUND
        b< FOUND #4 1
        b< w
        b< KICKED 1
        b< KICKED 1
        b< KICKED 0
        b> reserve
        b> reserve
        b> reserve
        b> reserve
        b< RESERVED #2 1
        b< y
        b< RESERVED #1 1
        b< x
        b< RESERVED #4 1
        b< w
        b< RESERVED #3 1
        b< z""",
    "one job is kicked": """
        a> put 0 90 60 1
        a> x
        a> put 0 0 60 1
        a> y
        a< INSERTED #1
        a< INSERTED #2
        b> kick-job #1
        b> kick-job #1
        b> reserve-job #2
        b> bury #2 0
        b> kick-job #2
        b> kick-job #9
        b< KICKED
        b< NOT_FOUND
        b< RESERVED #2 1
        b< y
        b< BURIED
        b< KICKED
        b< NOT_FOUND""",
    "a job is reserved by its id, ready, delayed or buried, in any tube": """
        a> use mail
        a> put 0 0 60 1
        a> x
        a> put 0 90 60 1
        a> y
        a> put 0 0 60 1
        a> z
        a< USING mail
        a< INSERTED #1
        a< INSERTED #2
        a< INSERTED #3
        b> reserve-job #3
        b> bury #3 0
        b> reserve-job #2
        b> reserve-job #3
        b> reserve-job #1
        b> reserve-job #1
        b< RESERVED #3 1
        b< z
        b< BURIED
        b< RESERVED #2 1
        b< y
        b< RESERVED #3 1
        b< z
        b< RESERVED #1 1
        b< x
        b< NOT_FOUND""",
    "ready, delayed and buried jobs are deleted": """
        a> put 0 0 60 1
        a> x
        a> put 0 90 60 1
        a> y
        a> put 0 0 60 1
        a> z
        a> reserve-job #3
        a> bury #3 0
        a> delete #1
        a> delete #2
        a> delete #3
        a> delete #3
        a> kick 10
        a> reserve-with-timeout 0
        a< INSERTED #1
        a< INSERTED #2
        a< INSERTED #3
        a< RESERVED #3 1
        a< z
        a< BURIED
        a< DELETED
        a< DELETED
        a< DELETED
        a< NOT_FOUND
        a< KICKED 0
        a< TIMED_OUT""",
    "jobs come from the tubes that are watched": """
        a> use mail
        a> put 0 0 60 1
        a> x
        a< USING mail
        a< INSERTED #1
        b> reserve-with-timeout 0
        b> watch mail
        b> watch mail
        b> reserve
        b> list-tubes-watched
        b> ignore default
        b> ignore default
        b> ignore mail
        b> list-tubes-watched
        b> list-tubes
        b< TIMED_OUT
        b< WATCHING 2
        b< WATCHING 2
        b< RESERVED #1 1
        b< x
        b< OK 21
        b< ---
        b< - default
        b< - mail
        b<
        b< WATCHING 1
        b< WATCHING 1
        b< NOT_IGNORED
        b< OK 11
        b< ---
        b< - mail
        b<
        b< OK 21
        b< ---
        b< - default
        b< - mail
        b<""",
    "peeking shows the tube in use": """
        a> put 0 0 60 1
        a> x
        a> put 0 90 60 1
        a> y
        a> peek #2
        a> peek-ready
        a> peek-delayed
        a> peek-buried
        a> peek 7
        a> use mail
        a> peek-ready
        a> peek-delayed
        a> peek-buried
        a> kick 10
        a< INSERTED #1
        a< INSERTED #2
        a< FOUND #2 1
        a< y
        a< FOUND #1 1
        a< x
        a< FOUND #2 1
        a< y
        a< NOT_FOUND
        a< NOT_FOUND
        a< USING mail
        a< NOT_FOUND
        a< NOT_FOUND
        a< NOT_FOUND
        a< KICKED 0""",
    "mistakes are answered, and the connection goes on": """
        a> put 0 0 60 2
        a> x
        a> hm
        a> pause-tube default 5
        a> delete x
        a> stats-tube nowhere
        a> stats-job 7
        a> put 0 0 60 1
        a> x
        a< EXPECTED_CRLF
        a< UNKNOWN_COMMAND
        a< UNKNOWN_COMMAND
        a< BAD_FORMAT
        a< NOT_FOUND
        a< NOT_FOUND
        a< INSERTED #1""",
}


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "memory"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation(name: str, durable: bool) -> None:
    hall = BeanstalkdHall(BeanstalkdOptions(durable=durable))
    guests = {"a": hall.guest(), "b": hall.guest()}
    said: dict[str, list[str]] = {"a": [], "b": []}
    heard: dict[str, str] = {"a": "", "b": ""}
    expected: dict[str, str] = {"a": "", "b": ""}

    def catch_up() -> None:
        for who, guest in guests.items():
            if said[who]:
                guest.say_bytes("".join(said[who]).encode())
                said[who] = []
                hall.end()
        for who, guest in guests.items():
            heard[who] += guest.reads().decode()

    for line in re.sub(r"#(\d+)", lambda match: str(FIRST_ID + int(match[1])), CONVERSATIONS[name]).split("\n"):
        who, sign, text = line.strip()[:1], line.strip()[1:2], line.strip()[3:]
        if line.strip().startswith("wait"):
            catch_up()
            hall.wait(int(line.split()[1]) * SECOND_US)
        elif sign == ">":
            if expected[who]:
                catch_up()
                assert heard[who] == expected[who]
                heard[who] = expected[who] = ""
            said[who].append(f"{text}\r\n")
        elif sign == "<":
            # Mappings and lists end their lines as YAML does.
            inside = text == "---" or text.startswith("- ")
            expected[who] += f"{text}\n" if inside else f"{text}\r\n"
    catch_up()
    assert heard == expected
