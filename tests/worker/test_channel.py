"""The sockets between the supervisor and a child: what is unread has not begun, and can be taken back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hiringhall.dialects.native import wire
from hiringhall.worker import messages
from hiringhall.worker.channel import Channel, ChildChannel

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pair() -> Iterator[tuple[Channel, ChildChannel]]:
    channel = Channel()
    jobs, stream = map(os.dup, channel.child_descriptors)
    channel.child_stream.close()
    with ChildChannel(jobs, stream) as child:
        yield channel, child
    channel.close()


def job(lease: int, payload: bytes = b"") -> bytes:
    return wire.encode(wire.ASSIGN, 0, (lease, lease * 10, b"app.f", payload, b"", 1, 0))[4:]


def test_jobs_arrive_in_order_and_one_at_a_time(pair: tuple[Channel, ChildChannel]) -> None:
    channel, child = pair
    for lease in (1, 2, 3):
        assert channel.give(job(lease), lease)
    assert child.next_job() == job(1)
    assert child.next_job() == job(2)
    assert channel.take_back() == [3]
    assert channel.take_back() == []


def test_a_long_job_comes_by_a_file(pair: tuple[Channel, ChildChannel]) -> None:
    channel, child = pair
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (a listing of descriptors)
    long = job(1, b"x" * 5_000_000)
    assert channel.give(long, 1)
    assert channel.give(long, 2)
    assert child.next_job() == long
    assert channel.take_back() == [2]
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_jobs_of_a_child_that_has_gone_are_taken_back(pair: tuple[Channel, ChildChannel]) -> None:
    channel, child = pair
    channel.give(job(1), 1)
    channel.give(job(2), 2)
    child.jobs.close()
    child.stream.close()
    assert channel.take_back() == [1, 2]
    assert channel.read() == b""


def test_a_full_socket_refuses_and_recovers(pair: tuple[Channel, ChildChannel]) -> None:
    channel, child = pair
    count = 0
    while channel.give(job(count + 1, b"x" * 50_000), count + 1):
        count += 1
    assert 1 <= count < 100
    child.next_job()
    child.next_job()
    assert channel.give(job(count + 1, b"x" * 50_000), count + 1)
    assert channel.take_back() == list(range(3, count + 2))


def test_no_more_jobs_is_heard_after_the_last_one(pair: tuple[Channel, ChildChannel]) -> None:
    channel, child = pair
    channel.give(job(1), 1)
    channel.finish()
    assert child.next_job() == job(1)
    assert child.next_job() is None


def test_controls_and_reports_go_both_ways(pair: tuple[Channel, ChildChannel]) -> None:
    channel, child = pair
    begin = messages.Begin(messages.PLAIN, 1, 1000)
    channel.control(messages.message(messages.BEGIN, begin))
    control = child.read_control()
    assert control is not None
    assert messages.BEGIN_BODY.decode(control[2]) == begin
    assert channel.read() is None
    child.send(messages.HEADER.pack(0, messages.DROPPED, 5))
    assert channel.read() == messages.HEADER.pack(0, messages.DROPPED, 5)


def test_the_child_learns_that_the_supervisor_has_gone(pair: tuple[Channel, ChildChannel]) -> None:
    channel, child = pair
    channel.close()
    assert child.next_job() is None
    assert child.read_control() is None
