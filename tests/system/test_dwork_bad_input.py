"""Nonsense at the dwork door: it is answered where there is a way back, dropped where there is none, and nobody
else notices.

A neighbour creates, steals and completes through all of it, the hall's memory stays flat, and its audit is
clean after each test.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import pytest
import zmq
from dwork_neighbour import Neighbour
from dwork_peer import Asker
from dwork_zmtp import GREETING, MORE, RawDealer, frame, frame_header, ready
from hall_process import HallProcess
from testimony import audit

from hiringhall.dialects.dwork import wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB: Final = 1 << 20
ANSWER_MS: Final = 20_000
STATUS: Final = wire.encode(wire.OK)

Messages = list[list[bytes]]


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HallProcess, Neighbour]]:
    folder = tmp_path_factory.mktemp("besieged")
    # The neighbour works on what mutated messages create: none of them shall complete it first.
    door = {"dialect": "dwork", "message_bytes_max": 8 * MIB, "complete_by": "holder"}
    with HallProcess(folder, door=door) as hall, Neighbour(hall) as neighbour:
        yield hall, neighbour


@pytest.fixture
def hall(besieged: tuple[HallProcess, Neighbour]) -> Iterator[HallProcess]:
    """The hall, checked after each test: the neighbour is served, every cross-reference holds."""
    hall, neighbour = besieged
    neighbour.expect_service()
    yield hall
    assert hall.running, f"the hall is gone:\n{hall.errors()}"
    neighbour.expect_service()
    assert audit(hall) == "clean"
    assert "Traceback" not in hall.errors()


@contextmanager
def dealer(hall: HallProcess, identity: bytes = b"") -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.LINGER, 0)
        if identity:
            peer.setsockopt(zmq.ROUTING_ID, identity)
        peer.connect(f"tcp://{hall.address}")
        yield peer


def hear(peer: zmq.Socket[bytes], count: int) -> Messages:
    """So many answers, and no more."""
    heard: Messages = []
    for _ in range(count):
        assert peer.poll(ANSWER_MS), f"{len(heard)} answers of {count}"
        heard.append(peer.recv_multipart())
    return heard


def kind(message: list[bytes]) -> int:
    return wire.parse(message[-1]).type


VALID: Final = [
    wire.encode(wire.CREATE, [wire.encode_task(b"cut", b"mill")]),
    wire.encode(
        wire.CREATE,
        [
            wire.encode_task(b"plane", b"mill", [b"cut"], None),
            wire.encode_task(b"saw", b"mill", None, [b"plane"]),
        ],
    ),
    wire.encode(wire.STEAL, location=b"bench-1"),
    wire.encode(wire.STEAL, n=16, location=b"bench-2"),
    wire.encode(
        wire.COMPLETE,
        [wire.encode_task(b"cut", b"mill", None, None, wire.encode_log(wire.DONE, 1_790_000_000_000_000))],
        location=b"bench-1",
    ),
    wire.encode(wire.TRANSFER, [wire.encode_task(b"plane", b"mill", [b"saw"])], location=b"bench-2"),
    wire.encode(wire.LOOKUP, name=b"cut"),
    wire.encode(wire.EXIT, location=b"bench-1"),
    STATUS,
]


def mutated(dice: random.Random, body: bytes) -> bytes:
    """Almost what it was."""
    at = dice.randrange(len(body) + 1)
    way = dice.randrange(8)
    if way < 3:
        return body[:at] + dice.randbytes(1) + body[at + 1 :]
    if way == 3:
        return body[:at]
    if way == 4:
        return body[:at] + dice.randbytes(dice.randrange(1, 12)) + body[at:]
    if way == 5:
        return body + dice.choice(VALID)
    if way == 6:
        return dice.randbytes(dice.randrange(64))
    return body


@pytest.mark.parametrize("seed", range(4))
def test_every_mutated_message_has_one_answer(hall: HallProcess, seed: int) -> None:
    dice = random.Random(seed)
    before_bytes = hall.rss_bytes()
    kinds: set[int] = set()
    with dealer(hall) as peer:
        for _ in range(30):
            bodies = [mutated(dice, dice.choice(VALID)) for _ in range(200)]
            for body in bodies:
                # With the empty frame of a REQ, or without: both are understood, and so answered.
                envelope = [b""] if dice.randrange(2) else []
                peer.send_multipart([*envelope, body])
            kinds.update(map(kind, hear(peer, len(bodies))))
        peer.send(STATUS)
        (answer,) = hear(peer, 1)
        assert kind(answer) == wire.OK
    assert kinds >= {wire.OK, wire.NOT_FOUND, wire.ERROR, wire.TRANSFER}
    assert hall.rss_bytes() - before_bytes < 64 * MIB


def test_the_answer_goes_back_as_the_request_came(hall: HallProcess) -> None:
    with dealer(hall) as peer:
        peer.send_multipart([STATUS])
        assert len(hear(peer, 1)[0]) == 1
        peer.send_multipart([b"", STATUS])
        answer = hear(peer, 1)[0]
        assert (len(answer), answer[0]) == (2, b"")
        peer.send_multipart([b""])
        assert kind(hear(peer, 1)[0]) == wire.ERROR
        peer.send_multipart([b"", b""])
        assert kind(hear(peer, 1)[0]) == wire.ERROR


@pytest.mark.parametrize("frames", [2, 3, 10, 63, 64, 65, 1000])
def test_too_many_frames_are_dropped(hall: HallProcess, frames: int) -> None:
    with dealer(hall) as peer:
        peer.send_multipart([b"x"] * (frames - 1) + [STATUS])
        peer.send_multipart([b""] * frames + [STATUS])
        peer.send(STATUS)
        assert [kind(answer) for answer in hear(peer, 1)] == [wire.OK]
        peer.send(wire.encode(wire.LOOKUP, name=b"unheard of"))
        assert [kind(answer) for answer in hear(peer, 1)] == [wire.NOT_FOUND]


@pytest.mark.parametrize("size", [1 << 30, 8 * MIB + 1, (1 << 63) - 1, (1 << 64) - 1])
def test_a_message_that_is_too_long_costs_its_sender_the_connection(hall: HallProcess, size: int) -> None:
    before_bytes = hall.rss_bytes()
    with RawDealer(hall.port) as peer:
        peer.send(frame(STATUS))
        assert kind(peer.receive()) == wire.OK
        peer.send(frame_header(size) + b"only the beginning of it")
        assert peer.is_closed()
    assert hall.rss_bytes() - before_bytes < 16 * MIB


def test_announced_bytes_cost_nothing_until_they_come(hall: HallProcess) -> None:
    before_bytes = hall.rss_bytes()
    with ExitStack() as stack:
        for _ in range(50):
            peer = stack.enter_context(RawDealer(hall.port))
            peer.send(frame_header(8 * MIB) + b"x")
        with Asker(hall.address) as witness:
            witness.status()
        assert hall.rss_bytes() - before_bytes < 32 * MIB


@pytest.mark.parametrize("seed", range(3))
def test_who_cannot_introduce_himself_is_nobody(hall: HallProcess, seed: int) -> None:
    dice = random.Random(seed)
    before_bytes = hall.rss_bytes()
    with ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", hall.port)))
            cut = dice.randrange(len(GREETING))
            introduction = dice.choice(
                (
                    b"GET / HTTP/1.1\r\n\r\n",
                    GREETING[:cut],
                    GREETING[:cut] + dice.randbytes(100),
                    GREETING + dice.randbytes(100),
                    GREETING + ready(b"x")[:cut],
                    GREETING + ready(b"x" * 300),
                    GREETING + ready(b"\0made up"),
                    dice.randbytes(200),
                )
            )
            connection.sendall(introduction)
        with Asker(hall.address) as witness:
            witness.status()
    assert hall.rss_bytes() - before_bytes < 32 * MIB


def test_an_identity_that_is_in_use_stays_with_its_owner(hall: HallProcess) -> None:
    with dealer(hall, b"somebody") as owner:
        owner.send(STATUS)
        hear(owner, 1)
        with dealer(hall, b"somebody") as thief:
            thief.send(wire.encode(wire.CREATE, [wire.encode_task(b"stolen name", b"")]))
            assert not thief.poll(500), "nobody is answered under another's name"
            owner.send(wire.encode(wire.LOOKUP, name=b"x"))
            assert [kind(answer) for answer in hear(owner, 1)] == [wire.NOT_FOUND]
    # The owner has left: the name is free again, for a connection that is made from now on.
    with Asker(hall.address) as witness:
        witness.status()
    with dealer(hall, b"somebody") as heir:
        heir.send(STATUS)
        hear(heir, 1)


@pytest.mark.parametrize("count", [100, 3000])
def test_who_asks_much_before_he_listens_hears_it_all(hall: HallProcess, count: int) -> None:
    with dealer(hall) as peer:
        peer.setsockopt(zmq.RCVHWM, 0)
        for number in range(count):
            task = wire.encode_task(b"much-%d" % number, b"")
            peer.send(wire.encode(wire.CREATE, [task]))
        assert {kind(answer) for answer in hear(peer, count)} == {wire.OK}


def flood(peer: RawDealer, said: bytes, count: int) -> None:
    for _ in range(count):
        peer.send(said)


def test_who_never_reads_is_dropped(tmp_path: Path) -> None:
    """Each request is answered with as many bytes as it has; what is not read piles up to a bound."""
    echo = wire.encode(wire.COMPLETE, [wire.encode_task(b"nobody", bytes(100_000))], location=b"w")
    door = {
        "dialect": "dwork",
        "receive_messages_max": 50,
        "unsent_bytes_max": 8 * MIB,
    }
    with HallProcess(tmp_path, door=door) as hall, Neighbour(hall) as neighbour:
        neighbour.expect_service()
        before_bytes = hall.rss_bytes()
        with RawDealer(hall.port, b"deaf") as deaf:
            with pytest.raises(ConnectionError):
                flood(deaf, frame(echo) * 10, 800)
            neighbour.expect_service()
            assert hall.rss_bytes() - before_bytes < 64 * MIB, "800 MB of answers were not taken"
        with RawDealer(hall.port, b"not deaf") as peer:
            peer.send(frame(b"", MORE) + frame(STATUS))
            assert kind(peer.receive()) == wire.OK
        neighbour.expect_service()
        assert audit(hall) == "clean"


def test_ten_thousand_strangers_come_and_go(tmp_path: Path) -> None:
    door = {"dialect": "dwork", "peers_max": 2000}
    with HallProcess(tmp_path, door=door) as hall, Asker(hall.address, 1.0) as good:
        good.create([(b"t", ())])
        strangers(hall, 2000)
        before_bytes = hall.rss_bytes()
        for _ in range(4):
            strangers(hall, 2000)
            assert good.status() == (1, 0, 0)
        assert hall.rss_bytes() - before_bytes < 16 * MIB
        assert good.steal(b"w") == (wire.TRANSFER, [b"t"])
        assert good.complete(b"w", [b"t"]) == []
        assert audit(hall) == "clean"


def strangers(hall: HallProcess, count: int) -> None:
    """So many peers that say one thing and go, each with an identity of its own."""
    for _ in range(count // 100):
        with zmq.Context() as context, ExitStack() as stack:
            for _ in range(100):
                peer = stack.enter_context(context.socket(zmq.DEALER))
                peer.setsockopt(zmq.LINGER, ANSWER_MS)
                peer.connect(f"tcp://{hall.address}")
                peer.send(STATUS)
