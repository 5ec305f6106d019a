"""Bytes of any kind: nothing is raised, and every mistake has its answer and its line in the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.core.limits import Limits
from hiringhall.dialects.beanstalkd import wire
from hiringhall.dialects.beanstalkd.context import BeanstalkdOptions
from hiringhall.dialects.session import BAD_INPUT, REFUSED_SUBMIT, Caller, Reporter
from stage.beanstalkd import BeanstalkdGuest, BeanstalkdHall

SMALL = BeanstalkdOptions(job_bytes_max=100)
COMMANDS = sorted(wire.ARGUMENTS)
NUMBERS = (b"0", b"1", b"68719476737", b"68719476738", b"4294967295", b"-1", b"x", b"")
TUBES = (b"default", b"mail", b"-", b"")
LINES = st.builds(
    lambda words, end: b" ".join(words) + end,
    st.lists(st.sampled_from([*COMMANDS, *NUMBERS, *TUBES]), min_size=1, max_size=5),
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b""]),
)
MEANT = st.sampled_from(
    [
        b"put 0 0 1 3\r\nabc\r\n",
        b"put 2000 1 1 3\r\nabc\r\n",
        b"reserve\r\n",
        b"reserve-with-timeout 1\r\n",
        *[b"%b 68719476737\r\n" % word for word in (wire.DELETE, wire.TOUCH, wire.RESERVE_JOB, wire.KICK_JOB)],
        b"release 68719476737 5000 1\r\n",
        b"release 68719476737 0 0\r\n",
        b"bury 68719476737 1024\r\n",
        b"kick 5\r\n",
        b"watch mail\r\n",
        b"ignore default\r\n",
    ]
)


class Log(Reporter):
    """Keeps what is reported."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def report(self, kind: str, text: str, caller: Caller, queue: bytes = b"", key: bytes = b"") -> None:
        self.lines.append((kind, text))


SCRIPTS = st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=60) | LINES | MEANT, st.booleans()))


@given(SCRIPTS)
def test_whatever_arrives_is_answered_or_waited_for(script: list[tuple[int, bytes, bool]]) -> None:
    hall = BeanstalkdHall(SMALL)
    guests = [hall.guest() for _ in range(3)]
    for index, data, time_passes in script:
        guest = guests[index]
        if not guest.session.closing:
            guest.say_bytes(data)
        hall.end()
        if time_passes:
            hall.wait(600_000)
    newcomer = hall.guest()
    newcomer.says("use elsewhere")
    job_id = newcomer.puts()
    assert newcomer.says(f"reserve-job {job_id}", f"delete {job_id}").endswith("DELETED")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"dance\r\n", "request b'dance': the command is unknown"),
        (b"delete all\r\n", "request b'delete': its arguments are wrong, or its line is too long"),
        (b"x" * 999 + b"\r\n", "request b'': its arguments are wrong, or its line is too long"),
        (b"put 0 0 1 1\r\nxxx", "request b'put': its body does not end where it should"),
        (
            b"put 0 0 1 101\r\n" + b"x" * 101 + b"\r\n",
            "request b'put': its body is too long (job_bytes_max)",
        ),
    ],
)
def test_a_mistake_is_in_the_log(data: bytes, text: str) -> None:
    log = Log()
    hall = BeanstalkdHall(SMALL, reporter=log)
    guest = hall.guest()
    guest.say_bytes(data)
    assert guest.hears()
    assert log.lines == [(BAD_INPUT, text)]
    assert guest.says("use mail") == "USING mail"


def test_a_body_that_is_too_long_is_skipped_and_not_kept(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    guest.say_bytes(b"put 0 0 60 1000000\r\n")
    for _ in range(100):
        guest.say_bytes(b"\r\n" * 5000)
        assert guest.session.input_bytes == 0
    assert guest.hears() == ""
    assert guest.says("", "use mail") == "JOB_TOO_BIG\nUSING mail"
    assert not hall.scheduler.jobs


def test_what_the_hall_refuses_is_told_and_logged() -> None:
    log = Log()
    hall = BeanstalkdHall(limits=Limits(jobs_max=1, payload_bytes_max=10, abilities_max=2), reporter=log)
    guest = hall.guest()
    assert guest.says("put 0 0 60 11", "x" * 11) == "JOB_TOO_BIG"
    guest.puts()
    assert guest.says("put 0 0 60 1", "x") == "OUT_OF_MEMORY"
    assert [kind for kind, _ in log.lines] == [REFUSED_SUBMIT, REFUSED_SUBMIT]
    assert guest.says("watch a", "watch b", "watch a") == "WATCHING 2\nOUT_OF_MEMORY\nWATCHING 2"
