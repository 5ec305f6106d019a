"""Golden bytes: each message of the protocol as protoc writes it from golden/*.textproto.

golden/messages.hex holds the same bytes, so that they are compared where there is no protoc, too.
"""

from __future__ import annotations

import pytest
from dwork_proto import GOLDEN, GOLDEN_BYTES, protoc

from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.wire import BadMessage, parse
from stage.dwork_said import Said, SaidTask, said

AT = 1_790_000_000_000_000
CUT = SaidTask(b"cut", b"mill")

SAID = {
    # What clients ask.
    "create": Said(wire.CREATE, (CUT,)),
    "create_graph": Said(
        wire.CREATE,
        (
            SaidTask(b"cut", b"mill", (), (b"plane", b"sweep")),
            SaidTask(b"plane", b"mill", (b"cut",)),
            SaidTask(b"join", b"mill", (b"plane", b"glue"), (b"paint",)),
        ),
    ),
    "create_located": Said(wire.CREATE, (SaidTask(b"join", b"mill", (b"plane",), (b"paint",)),)),
    "transfer": Said(wire.TRANSFER, (SaidTask(b"plane", b"mill", (b"sharpen",)),), location=b"bench-1"),
    "steal": Said(wire.STEAL, location=b"bench-1"),
    "steal_several": Said(wire.STEAL, n=16, location=b"bench-1"),
    "complete": Said(wire.COMPLETE, (CUT,), location=b"bench-1"),
    "complete_logged": Said(
        wire.COMPLETE,
        (
            SaidTask(
                b"cut",
                b"mill",
                log=(
                    (wire.STOLEN, AT + 1),
                    (wire.COPYING, AT + 500),
                    (wire.STARTED, AT + 1_000),
                    (wire.DONE, AT + 2_000_000),
                ),
            ),
            SaidTask(b"plane", b"mill", log=((wire.DONE, AT + 2_000_007),)),
        ),
        location=b"bench-1",
    ),
    "exit": Said(wire.EXIT, location=b"bench-1"),
    "status": Said(wire.OK),
    "lookup": Said(wire.LOOKUP, name=b"cut"),
    # What the hall answers.
    "answer_ok": Said(wire.OK),
    "answer_transfer": Said(
        wire.TRANSFER,
        (
            SaidTask(
                b"plane",
                b"mill",
                (b"cut",),
                (b"join",),
                (
                    (wire.PENDING, AT),
                    (wire.WAITING, AT),
                    (wire.READY, AT + 3_000_000),
                    (wire.STOLEN, AT + 3_000_040),
                ),
            ),
            SaidTask(b"sweep", b"mill", log=((wire.PENDING, AT), (wire.RECORDED, AT + 4_000_000))),
        ),
    ),
    "answer_not_found": Said(wire.NOT_FOUND),
    "answer_not_found_tasks": Said(wire.NOT_FOUND, (CUT, SaidTask(b"glue", b""))),
    "answer_exit": Said(wire.EXIT),
    "answer_error": Said(wire.ERROR),
    "answer_error_reason": Said(wire.ERROR, name=b"a QueryMsg without type"),
    "answer_status": Said(wire.OK, name=b"2 ready, 1 waiting, 1 assigned", n=2),
    "answer_lookup": Said(
        wire.OK,
        (SaidTask(b"cut", b"mill", log=((wire.RECORDED, AT + 4_000_000),)),),
        name=b"cut",
        location=b"bench-1",
    ),
    # What the encoding can hold.
    "every_field": Said(
        wire.ERROR,
        (
            SaidTask(
                b"f\xc3\xbcgen",
                b"\xe4\xb8\xad",
                (b"", b"a\0b"),
                (b"cut",),
                (
                    (wire.PENDING, 0),
                    (wire.STOLEN, 127),
                    (wire.WAITING, 128),
                    (wire.COPYING, 2**49 - 1),
                    (wire.READY, 2**49),
                    (wire.STARTED, 2**56 - 1),
                    (wire.DONE, 2**56),
                    (wire.RECORDED, 2**63 - 1),
                    (wire.PENDING, -1),
                    (wire.PENDING, -(2**63)),
                ),
            ),
        ),
        b"name",
        -1,
        b"location",
    ),
    "long_fields": Said(
        wire.LOOKUP,
        (SaidTask(b"x" * 127, b"y" * 128, (b"p" * 125,), (b"s" * 126,)),),
        b"n" * 1030,
        -(2**31),
        b"l" * 129,
    ),
    "numbers": Said(wire.OK, name=b"", n=2**31 - 1, location=b""),
}

READ_ONLY = {"create_located": "we read where a Dep is, and write no such thing"}


def test_every_message_has_its_text_its_bytes_and_its_meaning() -> None:
    texts = {path.stem for path in GOLDEN.glob("*.textproto")}
    assert texts == set(GOLDEN_BYTES) == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_the_bytes_are_those_of_protoc(name: str) -> None:
    text = (GOLDEN / f"{name}.textproto").read_bytes()
    assert protoc("--encode=dwork.QueryMsg", stdin=text) == GOLDEN_BYTES[name]


@pytest.mark.parametrize("name", SAID)
def test_we_read_them(name: str) -> None:
    assert said(parse(GOLDEN_BYTES[name])) == SAID[name]


@pytest.mark.parametrize("name", sorted(set(SAID) - set(READ_ONLY)))
def test_we_write_them(name: str) -> None:
    assert SAID[name].encode() == GOLDEN_BYTES[name]


@pytest.mark.parametrize("name", SAID)
def test_protoc_reads_what_we_write(name: str) -> None:
    """Its text for our bytes gives our bytes again."""
    ours = SAID[name].encode()
    text = protoc("--decode=dwork.QueryMsg", stdin=ours)
    assert protoc("--encode=dwork.QueryMsg", stdin=text) == ours


@pytest.mark.parametrize("name", SAID)
def test_a_message_cut_short_is_bad_or_ends_between_two_fields(name: str) -> None:
    """Protobuf has no end mark: a cut between two fields of the QueryMsg leaves a whole message."""
    body = GOLDEN_BYTES[name]
    whole = SAID[name]
    read = 0
    for size in range(len(body)):
        try:
            found = said(parse(body[:size]))
        except BadMessage:
            continue
        read += 1
        assert found.type == whole.type
        assert found.tasks == whole.tasks[: len(found.tasks)]
        assert found.name in {None, whole.name}
        assert found.n in {None, whole.n}
        assert found.location in {None, whole.location}
    fields = [field for field in whole[2:] if field is not None]
    assert read == len(whole.tasks) + len(fields)
