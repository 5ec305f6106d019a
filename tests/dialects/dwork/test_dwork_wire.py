"""The wire: what is refused and why, what is passed over, and the way back."""

from __future__ import annotations

import pytest

from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.wire import BadMessage, answer_route, encode, encode_log, encode_task, parse
from stage.dwork_said import said

TYPES = {
    "CREATE": 0,
    "STEAL": 1,
    "COMPLETE": 2,
    "TRANSFER": 3,
    "LOOKUP": 4,
    "NOT_FOUND": 5,
    "OK": 6,
    "EXIT": 7,
    "ERROR": 8,
}
STATES = {
    "PENDING": 0,
    "STOLEN": 1,
    "WAITING": 2,
    "COPYING": 3,
    "READY": 4,
    "STARTED": 5,
    "DONE": 6,
    "RECORDED": 7,
}


def test_the_numbers_of_the_protocol() -> None:
    for name, number in {**TYPES, **STATES}.items():
        assert getattr(wire, name) == number


def field(number: int, text: bytes) -> bytes:
    """A text or message of fewer than 128 bytes."""
    assert number < 16
    assert len(text) < 128
    return bytes((number << 3 | 2, len(text))) + text


CREATE = b"\x08\x00"
NAME = b"\x0a\x01a"
ORIGIN = b"\x12\x01h"
TASK = NAME + ORIGIN
STATE = b"\x08\x06"
TIME = b"\x10\x01"

BAD = [
    # What must be there.
    (b"", "a QueryMsg without type"),
    (field(2, TASK), "a QueryMsg without type"),
    (CREATE + field(2, b""), "a TaskMsg without name"),
    (CREATE + field(2, ORIGIN), "a TaskMsg without name"),
    (CREATE + field(2, NAME), "a TaskMsg without origin"),
    (CREATE + field(2, TASK + field(4, b"")), "a Dep without name"),
    (CREATE + field(2, TASK + field(5, b"\x12\x01w")), "a Dep without name"),
    (CREATE + field(2, TASK + field(6, b"")), "a LogMsg without state"),
    (CREATE + field(2, TASK + field(6, TIME)), "a LogMsg without state"),
    (CREATE + field(2, TASK + field(6, STATE)), "a LogMsg without time"),
    # Values that are none of the enum's, though a good one stands beside them.
    (b"\x08\x09", "QueryMsg.type is 9, not 0 to 8"),
    (b"\x08\x09\x08\x01", "QueryMsg.type is 9, not 0 to 8"),
    (b"\x08\x01\x08\x09", "QueryMsg.type is 9, not 0 to 8"),
    (b"\x08" + b"\xff" * 9 + b"\x01", "QueryMsg.type is -1, not 0 to 8"),
    (CREATE + field(2, TASK + field(6, b"\x08\x08" + TIME)), "LogMsg.state is 8, not 0 to 7"),
    (
        CREATE + field(2, TASK + field(6, b"\x08" + b"\xff" * 9 + b"\x01" + TIME)),
        "LogMsg.state is -1, not 0 to 7",
    ),
    # Known fields in another guise.
    (b"\x0a\x01\x00", "QueryMsg.type with wire type 2"),
    (b"\x0d\x00\x00\x00\x00", "QueryMsg.type with wire type 5"),
    (CREATE + b"\x10\x00", "QueryMsg.task with wire type 0"),
    (CREATE + b"\x18\x00", "QueryMsg.name with wire type 0"),
    (CREATE + b"\x22\x01\x00", "QueryMsg.n with wire type 2"),
    (CREATE + b"\x31" + bytes(8), "QueryMsg.location with wire type 1"),
    (CREATE + field(2, b"\x08\x00" + TASK), "TaskMsg.name with wire type 0"),
    (CREATE + field(2, TASK + b"\x11" + bytes(8)), "TaskMsg.origin with wire type 1"),
    (CREATE + field(2, TASK + b"\x20\x00"), "TaskMsg.pred with wire type 0"),
    (CREATE + field(2, TASK + b"\x2d" + bytes(4)), "TaskMsg.succ with wire type 5"),
    (CREATE + field(2, TASK + b"\x33\x34"), "TaskMsg.log with wire type 3"),
    (CREATE + field(2, TASK + field(4, NAME + b"\x08\x00")), "Dep.name with wire type 0"),
    (CREATE + field(2, TASK + field(5, NAME + b"\x10\x00")), "Dep.location with wire type 0"),
    (CREATE + field(2, TASK + field(6, b"\x0a\x00" + STATE + TIME)), "LogMsg.state with wire type 2"),
    (CREATE + field(2, TASK + field(6, STATE + TIME + b"\x12\x00")), "LogMsg.time with wire type 2"),
    # What nobody may send.
    (CREATE + b"\x02\x00", "a field with the number 0 in a QueryMsg"),
    (CREATE + field(2, TASK + b"\x02\x00"), "a field with the number 0 in a TaskMsg"),
    (CREATE + b"\x3b", "the message ends within group 7"),
    (CREATE + b"\x3b\x43\x44", "the message ends within group 7"),
    (CREATE + b"\x3b\x44", "group 7 ends as group 8"),
    (CREATE + b"\x3b\x43\x3c\x44", "group 8 ends as group 7"),
    (CREATE + b"\x3b\x02\x00\x3c", "a field with the number 0 in group 7"),
    (CREATE + b"\x3b\x04\x3c", "a field with the number 0 in group 7"),
    (CREATE + b"\x3b\x0e\x3c", "field 1 of a group with wire type 6"),
    (CREATE + b"\x3b\x0d\x00\x3c", "the message ends within field 1 of a group"),
    (CREATE + b"\x3b" * 101 + b"\x3c" * 101, "more than 100 nested groups"),
    (CREATE + b"\x3c", "field 7 of a QueryMsg with wire type 4"),
    (CREATE + b"\x3e\x00", "field 7 of a QueryMsg with wire type 6"),
    (CREATE + b"\x3f\x00", "field 7 of a QueryMsg with wire type 7"),
    (CREATE + field(2, TASK + field(4, NAME + b"\x1b")) + b"\x1c", "the message ends within group 3"),
    # Cut short, also where only the message within is.
    (b"\x08", "the message ends within a number"),
    (b"\x08\x80", "the message ends within a number"),
    (CREATE + b"\xb2", "the message ends within a number"),
    (CREATE + b"\x12", "the message ends before a length"),
    (CREATE + b"\x12\x80", "the message ends within a number"),
    (CREATE + b"\x12\x01", "a field has 1 bytes, but only 0 are left"),
    (CREATE + b"\x39" + bytes(7), "the message ends within field 7 of a QueryMsg"),
    (CREATE + b"\x3d" + bytes(3), "the message ends within field 7 of a QueryMsg"),
    (CREATE + b"\x38", "the message ends within a number"),
    (CREATE + b"\x3a\x02a", "a field has 2 bytes, but only 1 are left"),
    (CREATE + field(2, TASK + b"\x22") + b"\x02\x0a\x00", "the message ends before a length"),
    (CREATE + field(2, TASK + b"\x22\x02") + b"\x0a\x00", "a field has 2 bytes, but only 0 are left"),
    (CREATE + field(2, TASK + field(6, STATE + b"\x10")) + b"\x01", "the message ends within a number"),
    # Lengths and numbers that are too large.
    (CREATE + b"\x12\xff\xff\xff\xff\x0f", "a field has 4294967295 bytes, but only 0 are left"),
    (CREATE + b"\x12\xff\xff\xff\xff\x7f", "a field has 34359738367 bytes, but only 0 are left"),
    (CREATE + b"\x12" + b"\xff" * 6, "a number of more than 5 bytes"),
    (CREATE + b"\x12" + b"\x80" * 5 + b"\x00", "a number of more than 5 bytes"),
    (b"\x88\x80\x80\x80\x10\x01", "a tag of more than 32 bits"),
    (b"\x88\x80\x80\x80\x80\x00\x01", "a number of more than 5 bytes"),
    (b"\x08" + b"\x80" * 10 + b"\x00", "a number of more than 10 bytes"),
    (CREATE + b"\x20" + b"\xff" * 11, "a number of more than 10 bytes"),
    (CREATE + b"\x38" + b"\xff" * 11, "a number of more than 10 bytes"),
    # Rubbish behind a good message.
    (CREATE + b"\x00", "a field with the number 0 in a QueryMsg"),
    (CREATE + b"\xff" * 8, "a number of more than 5 bytes"),
]


@pytest.mark.parametrize(("body", "text"), BAD)
def test_bad_messages(body: bytes, text: str) -> None:
    with pytest.raises(BadMessage) as refused:
        parse(body)
    assert str(refused.value) == text


STRANGE = [
    ("a number", b"\x28\x05"),
    ("64 bits", b"\x39" + bytes(8)),
    ("a text", b"\x3a\x03new"),
    ("32 bits", b"\x3d" + bytes(4)),
    ("the highest number of a field", b"\xf8\xff\xff\xff\x0f\x01"),
    ("the longest number", b"\x28" + b"\xff" * 9 + b"\x7f"),
    ("an empty group", b"\x3b\x3c"),
    ("a group", b"\x3b\x08\x05\x12\x03new\x39" + bytes(8) + b"\x0d" + bytes(4) + b"\x3c"),
    ("groups within groups", b"\x3b" * 12 + b"\x3c" * 12),
]


@pytest.mark.parametrize("strange", [bytes_ for _, bytes_ in STRANGE], ids=[what for what, _ in STRANGE])
def test_unknown_fields_are_passed_over(strange: bytes) -> None:
    # Field 5 is unknown in a QueryMsg only.
    inner = b"\x18" + strange[1:] if strange[0] == 0x28 else strange
    task = field(2, inner + TASK + field(4, NAME + inner) + field(6, inner + STATE + TIME) + inner)
    query = parse(strange + CREATE + task + strange)
    assert said(query) == said(parse(CREATE + field(2, TASK + field(4, NAME) + field(6, STATE + TIME))))


def test_groups_may_be_nested_a_hundred_deep() -> None:
    assert parse(CREATE + b"\x3b" * 100 + b"\x3c" * 100).type == wire.CREATE


def test_the_last_of_a_repeated_field_counts() -> None:
    twice = b"\x08\x01\x1a\x01a\x20\x01\x32\x01a" + b"\x08\x02\x1a\x01b\x20\x02\x32\x01b"
    query = parse(twice + field(2, TASK + b"\x0a\x01b\x12\x01i" + field(4, NAME + b"\x0a\x01b")))
    assert (query.type, query.name, query.n, query.location) == (2, b"b", 2, b"b")
    (task,) = query.tasks
    assert (task.name, task.origin, task.preds) == (b"b", b"i", [b"b"])


def test_fields_come_in_any_order() -> None:
    query = parse(b"\x32\x01w\x20\x03" + field(2, ORIGIN + NAME) + b"\x08\x02" + field(2, b"\x12\x00\x0a\x00"))
    assert (query.type, query.n, query.location) == (wire.COMPLETE, 3, b"w")
    assert [task.name for task in query.tasks] == [b"a", b""]
    (task,) = parse(CREATE + field(2, field(4, b"\x12\x01w" + NAME) + field(6, TIME + STATE) + TASK)).tasks
    assert (task.preds, task.log) == ([b"a"], [(wire.DONE, 1)])


def test_numbers_and_tags_may_be_longer_than_need_be() -> None:
    query = parse(b"\x88\x80\x00\x81\x80\x80\x00\xb2\x00\x82\x80\x80\x80\x00w1")
    assert (query.type, query.location) == (wire.STEAL, b"w1")


@pytest.mark.parametrize(
    ("digits", "n"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\xff\xff\xff\xff\x07", 2**31 - 1),
        (b"\xff" * 9 + b"\x01", -1),
        (b"\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01", -(2**31)),
        # As protobuf has it, an int32 is the lowest 32 bits of whatever comes.
        (b"\xff\xff\xff\xff\x0f", -1),
        (b"\x85\x80\x80\x80\x10", 5),
        (b"\x85" + b"\x80" * 8 + b"\x7f", 5),
    ],
)
def test_n_is_an_int32(digits: bytes, n: int) -> None:
    assert parse(b"\x08\x01\x20" + digits).n == n


def test_absent_and_empty_are_two_things() -> None:
    absent = parse(b"\x08\x06")
    assert (absent.tasks, absent.name, absent.n, absent.location) == ([], None, None, None)
    empty = parse(encode(wire.OK, [], b"", 0, b""))
    assert (empty.tasks, empty.name, empty.n, empty.location) == ([], b"", 0, b"")
    (task,) = parse(encode(wire.CREATE, [encode_task(b"", b"")])).tasks
    assert (task.name, task.origin, task.preds, task.succs, task.log) == (b"", b"", None, None, None)


def test_names_are_bytes() -> None:
    name = bytes(range(256))
    query = parse(encode(wire.TRANSFER, [encode_task(name, name, [name], [name])], name, 1, name))
    (task,) = query.tasks
    assert (task.name, task.origin, task.preds, task.succs) == (name, name, [name], [name])
    assert (query.name, query.location) == (name, name)


@pytest.mark.parametrize("size", [127, 128, 1023, 1024, 16383, 16384, 1 << 20])
def test_fields_of_any_size(size: int) -> None:
    payload = b"x" * size
    (task,) = parse(encode(wire.CREATE, [encode_task(payload, b"h", [payload])])).tasks
    assert (task.name, task.preds) == (payload, [payload])


def test_a_log_entry_is_a_field_of_a_task() -> None:
    assert encode_log(wire.STARTED, 300) == b"\x32\x05\x08\x05\x10\xac\x02"
    log = b"".join(encode_log(state, 10**15 + state) for state in range(8))
    (task,) = parse(encode(wire.COMPLETE, [encode_task(b"a", b"h", log=log)])).tasks
    assert task.log == [(state, 10**15 + state) for state in range(8)]


def test_an_answer_goes_back_the_way_its_question_came() -> None:
    assert answer_route([b"id", b""]) == [b"id", b""], "a REQ"
    assert answer_route([b"id"]) == [b"id"], "a DEALER that sends no empty frame"
    for envelope in ([], [b"id", b"x"], [b"id", b"", b""], [b"id", b"id", b""]):
        assert answer_route(envelope) is None
