"""We and protobuf agree: on what a message says, and on what is no message."""

from __future__ import annotations

from typing import Any

from dwork_proto import GOLDEN_BYTES, query_class
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hiringhall.dialects.dwork.wire import BadMessage, parse
from stage.dwork_said import Said, SaidTask, fill, said, said_by_protobuf

texts = st.binary(max_size=6) | st.binary(min_size=120, max_size=140) | st.just(b"x" * 20_000)
times = st.integers(-(2**63), 2**63 - 1) | st.integers(2**49 - 2, 2**56 + 2) | st.integers(0, 300)
some_texts = st.lists(texts, max_size=3).map(tuple)
tasks = st.builds(
    SaidTask,
    texts,
    texts,
    some_texts,
    some_texts,
    st.lists(st.tuples(st.integers(0, 7), times), max_size=4).map(tuple),
)
messages = st.builds(
    Said,
    st.integers(0, 8),
    st.lists(tasks, max_size=3).map(tuple),
    st.none() | texts,
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | texts,
)


@given(messages)
def test_both_write_the_same_and_read_what_the_other_wrote(words: Said) -> None:
    theirs = query_class()()
    fill(theirs, words)
    written: bytes = theirs.SerializeToString()
    assert words.encode() == written
    assert said(parse(written)) == words
    assert said_by_protobuf(query_class().FromString(words.encode())) == words


# --- what nobody would write

KNOWN = {
    "QueryMsg": {1, 2, 3, 4, 6},
    "TaskMsg": {1, 2, 4, 5, 6},
    "Dep": {1, 2},
    "LogMsg": {1, 2},
}


def passed_over(message: Any) -> bool:
    """Whether protobuf made nothing of a field that we refuse. There are two kinds: a known field with another
    wire type and a value that is none of its enum's, which a dwork hub could only misunderstand.
    """
    from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

    known = KNOWN[message.DESCRIPTOR.name]
    if any(field.field_number in known for field in UnknownFieldSet(message)):
        return True
    inner = [part for field, parts in message.ListFields() if field.message_type for part in parts]
    return any(passed_over(part) for part in inner)


def agree(body: bytes) -> None:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        ours = said(parse(body))
    except BadMessage:
        ours = None
    try:
        message = query_class().FromString(body)
    except DecodeError:
        assert ours is None
        return
    if not message.IsInitialized() or passed_over(message):
        assert ours is None
    else:
        assert ours == said_by_protobuf(message)


@given(st.binary(max_size=40))
@example(b"\x08\x01\x3b\x3c")
@example(b"\x08\x01\x3b\x43\x28\x05\x44\x12\x00\x3c")
@example(b"\x08\x01\x3b\x44")
def test_random_bytes(body: bytes) -> None:
    agree(body)


@st.composite
def numbers(draw: st.DrawFn, highest: int = 2**64 - 1, padding_max: int = 2) -> bytes:
    """A number as protobuf writes it, or with more bytes than need be."""
    value = draw(st.integers(0, 10) | st.integers(0, highest))
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    for _ in range(draw(st.integers(0, padding_max))):
        packed[-1] |= 0x80
        packed.append(0)
    return bytes(packed)


def with_length(text: bytes) -> bytes:
    return bytes((len(text) & 0x7F | 0x80, len(text) >> 7)) + text


def fields(within: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """A few fields with numbers that mean something or nothing, and with all wire types."""
    values = {
        0: numbers(),
        1: st.binary(min_size=8, max_size=8),
        2: within.map(with_length),
        3: within,
        4: st.just(b""),
        5: st.binary(min_size=4, max_size=4),
    }
    field_numbers = st.sampled_from((1, 2, 4, 6, 1, 2, 3, 5, 7, 0))
    wire_types = st.sampled_from((0, 2, 2, 2, 0, 2, 1, 5, 3, 4))

    def one(number: int, wire_type: int, padded: bool) -> st.SearchStrategy[bytes]:
        tag = number << 3 | wire_type
        head = bytes((tag | 0x80, 0)) if padded else bytes((tag,))
        return values[wire_type].map(head.__add__)

    some = st.tuples(field_numbers, wire_types, st.booleans()).flatmap(lambda drawn: one(*drawn))
    return st.lists(some, max_size=4).map(b"".join)


nearly = fields(fields(fields(st.binary(max_size=3)) | st.binary(max_size=3)))
nearly_tasks = fields(fields(st.binary(max_size=2))).map(lambda rest: b"\x0a\x01a\x12\x01h" + rest)
nearly_queries = st.builds(
    lambda task, rest: b"\x08\x01\x12" + with_length(task) + rest, nearly_tasks, st.just(b"") | nearly
)


@settings(max_examples=3 * settings().max_examples)
@given(nearly_queries | nearly)
def test_messages_made_of_strange_fields(body: bytes) -> None:
    agree(body)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A golden message in which some bytes are changed, lost, doubled or put in."""
    body = bytearray(draw(st.sampled_from(sorted(GOLDEN_BYTES.values()))))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, min(len(body), 120)))
        end = at + draw(st.integers(0, 4))
        body[at:end] = draw(st.binary(max_size=4) | st.just(bytes(body[at : at + 6])))
    return bytes(body)


@settings(max_examples=3 * settings().max_examples)
@given(mutated())
def test_golden_messages_gone_wrong(body: bytes) -> None:
    agree(body)


def test_golden_messages_with_each_bit_turned() -> None:
    for name, body in GOLDEN_BYTES.items():
        if name != "long_fields":
            for bit in range(len(body) * 8):
                turned = bytearray(body)
                turned[bit >> 3] ^= 1 << (bit & 7)
                agree(bytes(turned))


def test_golden_messages_cut_short() -> None:
    for body in GOLDEN_BYTES.values():
        for size in range(len(body)):
            agree(body[:size])
