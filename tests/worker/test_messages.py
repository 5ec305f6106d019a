"""Messages between the supervisor and a child, cut out of a stream."""

from __future__ import annotations

import pytest

from hiringhall.dialects.native import wire
from hiringhall.worker import messages

FRAME = wire.encode(wire.ASSIGN, 0, (7, 70, b"app.f", b"[1]", b"key", 1, 0))[4:]


def said(tag: int, lease: int, body: bytes) -> bytes:
    return messages.HEADER.pack(len(body), tag, lease) + body


STREAM = [(messages.DONE, 1, b"one"), (messages.DROPPED, 2, b""), (messages.FAILED, 3, b"x" * 1000)]


@pytest.mark.parametrize("step", [1, 2, 12, 13, 14, 17, 100, 10_000])
def test_messages_are_found_however_the_stream_is_cut(step: int) -> None:
    reader = messages.Reader(10_000)
    data = b"".join(said(*each) for each in STREAM)
    found = [each for at in range(0, len(data), step) for each in reader.feed(data[at : at + step])]
    assert found == STREAM


def test_what_no_child_sends_is_a_fault() -> None:
    with pytest.raises(messages.ChildFault, match="a message of 1751477356 bytes"):
        messages.Reader(10_000).feed(b"hello, i am a print")


def test_the_frame_of_a_job_begins_as_the_link_expects() -> None:
    assert FRAME.startswith(messages.ASSIGN_PREFIX)


def test_a_job_is_opened_with_and_without_results_of_parents() -> None:
    assign = (7, 70, b"app.f", b"[1]", b"key", 1, 0)
    assert messages.open_job(FRAME) == (assign, {})
    assert messages.open_job(messages.filled(FRAME, {5: b"five"})) == (assign, {5: b"five"})


def test_every_message_of_a_job_tells_its_lease() -> None:
    long = bytes((messages.LONG,)) + messages.LEASE.pack(7)
    assert [messages.lease_of(each) for each in (FRAME, messages.filled(FRAME, {}), long)] == [7, 7, 7]
