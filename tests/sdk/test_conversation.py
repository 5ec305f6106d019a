"""The client's side of the native protocol without I/O: bytes in, events out, and what is sent again."""

from __future__ import annotations

import msgspec
import pytest

from hiringhall.dialects.native import wire
from hiringhall.sdk.conversation import (
    Answered,
    Assigned,
    Broken,
    Chunked,
    Conversation,
    Ended,
    Event,
    Logged,
    Lost,
    Progressed,
    QueueCounts,
    Refused,
    Request,
    Revoked,
    Summary,
    Welcome,
    Welcomed,
)

WELCOME = {
    "version": 1,
    "hall": "main",
    "features": ["submit"],
    "frame_bytes_max": 100,
    "payload_bytes_max": 50,
}
HELLO_ANSWER = wire.encode("ok", 1, WELCOME)

NOTICES: list[tuple[str, object, Event]] = [
    ("ended", (7, "done", 0, b"3"), Ended(7, "done", 0, b"3")),
    ("ended", (7, "done", 0, b"3", True), Ended(7, "done", 0, b"3", truncated=True)),
    ("ended", (7, "failed", 1, b"", False, "more"), Ended(7, "failed", 1, b"")),
    ("progress", (7, 1, 3), Progressed(7, 1, 3)),
    ("chunk", (7, b"data", True), Chunked(7, b"data", True)),
    ("log", (7, b"line"), Logged(7, b"line")),
    ("assign", (2, 7, b"q", b"[]", b"k", 1, 0), Assigned(2, 7, b"q", b"[]", b"k", 1, 0)),
    ("revoke", (2,), Revoked(2)),
    ("lost", None, Lost()),
    (
        "summary",
        {"queues": {b"q": [1, 2, 3, 4, False, 5, 6]}, "workers": 3, "busy": 1},
        Summary({b"q": QueueCounts(1, 2, 3, 4, False, 5, 6)}, 3, 1),
    ),
]

NOT_OF_THE_PROTOCOL: list[tuple[str, bytes]] = [
    ("an HTTP server", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ("not MessagePack", b"\0\0\0\1\xc1"),
    ("not an array of three", b"\0\0\0\1\x90"),
    ("an end without a job", wire.encode("ended", 0, ["x"])),
    ("an end that is no array", wire.encode("ended", 0, 5)),
    ("a welcome that is no map", wire.encode("ok", 1, 5)),
    ("an error without a code", wire.encode("error", 1, [])),
    ("a number below 0", b"\0\0\0\5" + msgspec.msgpack.encode(("ok", -1, 5))),
]


def greeted() -> Conversation:
    conversation = Conversation("test")
    conversation.hello()
    conversation.receive(HELLO_ANSWER)
    assert conversation.greeted
    return conversation


def asked(conversation: Conversation, kind: str = "job", body: object = (7,)) -> Request:
    request = Request(kind, body)
    conversation.add(request)
    conversation.frame(request)
    return request


def test_hello_names_the_version_and_the_program() -> None:
    frame = Conversation("test").hello()
    assert wire.decode_frame(frame[4:])[:2] == ("hello", 1)
    assert msgspec.msgpack.decode(frame[4:])[2] == {"version": 1, "name": "test"}


def test_the_answer_to_hello_is_a_welcome() -> None:
    conversation = Conversation()
    conversation.hello()
    assert conversation.receive(HELLO_ANSWER) == [Welcomed(Welcome(1, "main", ["submit"], 100, 50))]


@pytest.mark.parametrize("cut", ["whole", "byte by byte", "with more behind it"])
@pytest.mark.parametrize(("kind", "body", "event"), NOTICES)
def test_a_notice_becomes_an_event(kind: str, body: object, event: Event, cut: str) -> None:
    conversation = greeted()
    frame = wire.encode(kind, 0, body)
    if cut == "whole":
        events = conversation.receive(frame)
    elif cut == "byte by byte":
        events = [event for byte in frame for event in conversation.receive(bytes([byte]))]
    else:
        events = conversation.receive(frame + wire.encode("lost", 0, None)[:3])
    assert events == [event]


@pytest.mark.parametrize(
    "data", [data for _, data in NOT_OF_THE_PROTOCOL], ids=[n for n, _ in NOT_OF_THE_PROTOCOL]
)
def test_what_is_not_the_protocol_breaks_the_connection(data: bytes) -> None:
    conversation = Conversation()
    conversation.hello()
    events = conversation.receive(data)
    assert [type(event) for event in events] == [Broken]
    assert isinstance(events[0], Broken)
    assert events[0].fatal
    assert "native protocol" in events[0].reason


def test_a_kind_of_a_later_version_is_ignored() -> None:
    assert greeted().receive(wire.encode("weather", 0, {"rain": True})) == []


def test_answers_come_in_any_order_and_once() -> None:
    conversation = greeted()
    first, second = asked(conversation), asked(conversation)
    assert conversation.receive(wire.encode("ok", second.number, "b")) == [Answered(second, "b")]
    assert conversation.receive(wire.encode("ok", first.number, "a")) == [Answered(first, "a")]
    assert conversation.receive(wire.encode("ok", first.number, "a")) == []
    assert not conversation.pending


def test_an_error_refuses_its_request() -> None:
    conversation = greeted()
    request = asked(conversation)
    frame = wire.encode("error", request.number, ("unknown_job", "no job has the id 7"))
    assert conversation.receive(frame) == [Refused(request, "unknown_job", "no job has the id 7")]
    assert not conversation.pending


def test_an_error_of_a_frame_without_a_number_belongs_to_no_request() -> None:
    conversation = greeted()
    frame = wire.encode("error", 0, ("stale_lease", "gone"))
    assert conversation.receive(frame) == [Refused(None, "stale_lease", "gone")]


@pytest.mark.parametrize("code", ["bad_frame", "no_hello"])
def test_an_error_that_closes_the_connection_is_fatal(code: str) -> None:
    conversation = greeted()
    assert conversation.receive(wire.encode("error", 0, (code, "why"))) == [
        Broken("why", fatal=True, code=code)
    ]


def test_a_refused_hello_is_fatal() -> None:
    conversation = Conversation()
    conversation.hello()
    frame = wire.encode("error", 1, ("bad_request", "this hall speaks version 9"))
    assert conversation.receive(frame) == [Broken("this hall speaks version 9", fatal=True, code="bad_request")]


def test_a_request_that_meets_a_closing_hall_waits_for_the_next() -> None:
    conversation = greeted()
    request = asked(conversation, "submit")
    events = conversation.receive(wire.encode("error", request.number, ("closing", "the hall is closing")))
    assert events == [Broken("the hall is closing", fatal=False)]
    assert conversation.lose() == []
    assert conversation.unsent() == [request]


RESENT = ["submit", "watch", "unwatch", "job", "cancel", "retry", "queues", "output", "schedule"]
FAILING = ["work", "slots", "beat", "progress", "chunk", "finish", "fail", "release", "renew", "lose", "log"]


@pytest.mark.parametrize("kind", RESENT)
def test_a_request_that_was_lost_is_sent_again(kind: str) -> None:
    conversation = greeted()
    request = asked(conversation, kind)
    assert conversation.lose() == []
    assert request.again
    assert conversation.unsent() == [request]


@pytest.mark.parametrize("kind", FAILING)
def test_a_report_of_a_worker_fails_with_its_connection(kind: str) -> None:
    conversation = greeted()
    request = asked(conversation, kind)
    assert conversation.lose() == [request]
    assert not conversation.pending


def test_what_was_never_sent_is_not_sent_as_a_repetition() -> None:
    conversation = Conversation()
    request = Request("submit", ())
    conversation.add(request)
    conversation.lose()
    assert conversation.unsent() == [request]
    assert not request.again


def test_a_part_of_a_frame_does_not_reach_the_next_connection() -> None:
    conversation = greeted()
    conversation.receive(b"\0\0\0\x09\x93")
    conversation.lose()
    conversation.hello()
    assert [type(event) for event in conversation.receive(HELLO_ANSWER)] == [Welcomed]
