"""Nonsense and malice at the PING/PONG and the WMP door: it is answered where the dialect has an answer,
dropped where it has none, and nobody else notices.

Neighbours have jobs done through all of it, the hall's memory stays flat, and its audit is clean after each
test.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

import pytest
import zmq
from dwork_zmtp import GREETING, MORE, RawDealer, frame, frame_header, ready
from hall_process import wait_until
from many_doors import ManyDoors
from zmq_neighbours import ROLE, Neighbours

from hiringhall.dialects.wmp import wire as wmp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB: Final = 1 << 20
ANSWER_MS: Final = 20_000
DOORS: Final = ("backend", "frontend", "wmp")
HASTY: Final = {"worker_expire_s": 1.0, "job_timeout_s": 1.0, "losses_max": 0}
"""Whatever is said at the backend makes a worker, who may be given neighbours' jobs: it is soon found out."""
BOUNDS: Final = {"message_bytes_max": 8 * MIB, "handshake_s": 1.0}


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ManyDoors, Neighbours]]:
    folder = tmp_path_factory.mktemp("besieged")
    doors = {"pingpong": {**HASTY, **BOUNDS}, "wmp": {"lease_s": 5.0, "expire_s": 2.0, **BOUNDS}}
    with ManyDoors(folder, **doors) as hall, Neighbours(hall) as neighbours:
        yield hall, neighbours


@pytest.fixture
def hall(besieged: tuple[ManyDoors, Neighbours], request: pytest.FixtureRequest) -> Iterator[ManyDoors]:
    """The hall, checked after each test: the neighbours are served, every cross-reference holds."""
    hall, neighbours = besieged
    neighbours.expect_service()
    misled = neighbours.misled
    yield hall
    assert hall.running, f"the hall is gone:\n{hall.errors()}"
    neighbours.expect_service()
    hall.check()
    if "[backend" not in request.node.name:
        assert neighbours.misled == misled, "nobody else came to the backend"


def port(hall: ManyDoors, door: str) -> int:
    address: str = getattr(hall, door)
    return int(address.rpartition(":")[2])


@contextmanager
def dealer(hall: ManyDoors, door: str, identity: bytes = b"") -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.SNDHWM, 0)
        if identity:
            peer.setsockopt(zmq.ROUTING_ID, identity)
        peer.connect(f"tcp://127.0.0.1:{port(hall, door)}")
        yield peer


QUESTIONS: Final = {
    "backend": ([b"", b"PING"], [b"", b"PONG"]),
    "frontend": ([b"", b"PONG"], [b"", b"ERROR "]),
    "wmp": (
        [b"", b"", wmp.encode_body(wmp.GIVE, [(b"role", b"nothing")])],
        [b"", b"", wmp.encode_body(wmp.NO, [(b"manager", b"hall"), (b"role", b"nothing")])],
    ),
}
"""What can be asked at each door without having a job done, and how the answer begins."""


def is_answered(peer: zmq.Socket[bytes], door: str) -> None:
    """The hall still talks to this peer; answers to what it said before may come first."""
    question, expected = QUESTIONS[door]
    peer.send_multipart(question)
    while True:
        assert peer.poll(ANSWER_MS), "no answer"
        answer = peer.recv_multipart()
        if answer[:-1] == expected[:-1] and answer[-1].startswith(expected[-1]):
            return


# --- frames that are none of the dialect's

READY: Final = wmp.encode_body(wmp.READY, [(b"role", b"ghost"), (b"worker", b"w"), (b"slots", b"4")])
VALID: Final = {
    "backend": [b"READY", b"PING", b"a result", b"ERROR 7 it broke", b"PONG"],
    "frontend": [b"a job", b"", b"READY", b"ERROR 7 x", b"PONG"],
    "wmp": [
        READY,
        wmp.encode_body(wmp.GIVE, [(b"role", b"ghost")]),
        wmp.encode_body(
            wmp.DONE, [(b"manager", b"hall"), (b"job", b"68719476737-1-1"), (b"status", b"ok")], b"x"
        ),
        wmp.encode_body(
            wmp.DONE, [(b"manager", b"hall"), (b"job", b"1-1-1"), (b"status", b"failed"), (b"code", b"3")]
        ),
        wmp.encode_body(
            wmp.STATUS, [(b"manager", b"hall"), (b"job", b"68719476737-1-1"), (b"progress", b"3/8")]
        ),
        wmp.encode_body(wmp.TAKE, [(b"manager", b"hall"), (b"job", b"1")]),
        wmp.encode_body(wmp.WAKE, [(b"manager", b"hall")]),
        wmp.encode_body(wmp.CANCEL, [(b"manager", b"hall"), (b"job", b"1")]),
    ],
}


def mutated(dice: random.Random, door: str) -> bytes:
    """Almost what somebody could say."""
    body = dice.choice(VALID[door])
    at = dice.randrange(len(body) + 1)
    way = dice.randrange(8)
    if way < 3:
        return body[:at] + dice.randbytes(1) + body[at + 1 :]
    if way == 3:
        return body[:at]
    if way == 4:
        return body[:at] + dice.randbytes(dice.randrange(1, 12)) + body[at:]
    if way == 5:
        return body + dice.choice(VALID[door])
    if way == 6:
        return dice.randbytes(dice.randrange(64))
    return body


def envelope(dice: random.Random, door: str) -> list[bytes]:
    """Mostly as it should be."""
    right = [b"", b""] if door == "wmp" else [b""]
    way = dice.randrange(10)
    if way < 6:
        return right
    if way == 6:
        return [b"", *(dice.randbytes(dice.randrange(1, 300)) for _ in range(dice.randrange(18))), b""]
    return [dice.choice((b"", b"x", dice.randbytes(dice.randrange(9)))) for _ in range(dice.randrange(6))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("door", DOORS)
def test_fuzzed_frames_are_answered_or_dropped(hall: ManyDoors, door: str, seed: int) -> None:
    dice = random.Random(f"{door} {seed}")
    before_bytes = hall.rss_bytes()
    with dealer(hall, door) as peer:
        for _ in range(20):
            for _ in range(100):
                peer.send_multipart([*envelope(dice, door), mutated(dice, door)])
            is_answered(peer, door)
    assert hall.rss_bytes() - before_bytes < 64 * MIB


UNSEEN: Final = wmp.encode_body(wmp.READY, [(b"role", b"unseen")])
MISSHAPEN: Final = {
    "backend": [[b""], [b"READY"], [b"x", b"READY"], [b"", b"", b"READY"], [b"", b"x", b"READY"]],
    "frontend": [[b"a job"], [b"x", b"a job"], [b"x"] * 9 + [b"", b"a job"], [b""]],
    "wmp": [
        [UNSEEN],
        [b"", UNSEEN],
        [b"x", b"", UNSEEN],
        [b"x", b"", b"", UNSEEN],
        [b"", b"x", UNSEEN],
        [b"", b"", b"", UNSEEN],
        [b"", b"x", b"", b"y", b"", UNSEEN],
        [b"", b"h" * 256, b"", UNSEEN],
        [b"", *[b"h"] * 17, b"", UNSEEN],
        [b"", b""],
        [b""],
    ],
}


@pytest.mark.parametrize("door", DOORS)
def test_messages_of_a_wrong_shape_are_dropped_without_an_answer(hall: ManyDoors, door: str) -> None:
    with dealer(hall, door) as peer:
        for frames in MISSHAPEN[door]:
            peer.send_multipart(frames)
        question, expected = QUESTIONS[door]
        peer.send_multipart(question)
        assert peer.poll(ANSWER_MS)
        answer = peer.recv_multipart()
        # Nothing came before it.
        assert answer[:-1] == expected[:-1]
        assert answer[-1].startswith(expected[-1])
    assert hall.counts("unseen")[2] == 0


@pytest.mark.parametrize("count", [64, 1000, 50_000])
@pytest.mark.parametrize("door", DOORS)
def test_too_many_frames_are_dropped(hall: ManyDoors, door: str, count: int) -> None:
    before_bytes = hall.rss_bytes()
    with dealer(hall, door) as peer:
        for _ in range(5):
            peer.send_multipart([b"x"] * count + [b"", b"READY"])
            peer.send_multipart([b""] * count)
        is_answered(peer, door)
    assert hall.rss_bytes() - before_bytes < 64 * MIB


# --- messages of any size


@pytest.mark.parametrize("size", [1 << 30, 8 * MIB + 1, (1 << 63) - 1, (1 << 64) - 1])
@pytest.mark.parametrize("door", DOORS)
def test_a_frame_of_a_gigabyte_costs_its_sender_the_connection_and_the_hall_nothing(
    hall: ManyDoors, door: str, size: int
) -> None:
    before_bytes = hall.rss_bytes()
    with RawDealer(port(hall, door)) as peer:
        peer.send(frame(b"", MORE) + frame_header(size) + b"only the beginning of it")
        assert peer.is_closed()
    assert hall.rss_bytes() - before_bytes < 16 * MIB


@pytest.mark.parametrize("door", DOORS)
def test_an_introduction_of_a_gigabyte_is_not_listened_to(hall: ManyDoors, door: str) -> None:
    before_bytes = hall.rss_bytes()
    with socket.create_connection(("127.0.0.1", port(hall, door)), 20) as stranger:
        stranger.sendall(GREETING + b"\x06" + (1 << 30).to_bytes(8, "big") + b"\x05READY")
        assert is_hung_up(stranger)
    assert hall.rss_bytes() - before_bytes < 16 * MIB


@pytest.mark.parametrize("door", DOORS)
def test_announced_bytes_cost_nothing_until_they_come(hall: ManyDoors, door: str) -> None:
    before_bytes = hall.rss_bytes()
    with ExitStack() as stack:
        for _ in range(100):
            peer = stack.enter_context(RawDealer(port(hall, door)))
            peer.send(frame(b"", MORE) + frame_header(8 * MIB) + b"x")
        with dealer(hall, door) as witness:
            is_answered(witness, door)
        assert hall.rss_bytes() - before_bytes < 64 * MIB


def test_a_gigabyte_of_large_messages_passes_through(hall: ManyDoors) -> None:
    """What no worker is there for is answered and gone: as much as one likes, one after the other."""
    body = wmp.encode_body(wmp.STATUS, [(b"manager", b"hall"), (b"job", b"1-1-1")], bytes(7 * MIB))
    before_bytes = hall.rss_bytes()
    with dealer(hall, "wmp") as peer:
        for _ in range(150):
            peer.send_multipart([b"", b"", body])
            assert peer.poll(ANSWER_MS)
            assert b"CANCEL" in peer.recv_multipart()[-1]
    assert hall.rss_bytes() - before_bytes < 96 * MIB


# --- who one is


@pytest.mark.parametrize(("door", "name"), [("backend", b"neighbour"), ("wmp", b"plain worker")])
def test_an_identity_that_is_in_use_stays_with_its_owner(hall: ManyDoors, door: str, name: bytes) -> None:
    question, _ = QUESTIONS[door]
    with dealer(hall, door, name) as thief, dealer(hall, door) as other:
        thief.send_multipart(question)
        thief.send_multipart([b"", b"READY"] if door == "backend" else [b"", b"", READY])
        is_answered(other, door)
        assert not thief.poll(200), "nobody is answered under another's name"


def test_the_end_of_a_job_that_was_given_to_another_is_not_believed(hall: ManyDoors) -> None:
    with dealer(hall, "wmp") as liar, hall.client() as client:
        job = client.submit("precious", b"x")
        number = int(job.handle.rpartition(b":")[2])
        for attempt in range(50):
            name = b"%d-%d-%d" % (number, attempt, attempt)
            headers = [(b"manager", b"hall"), (b"job", name)]
            liar.send_multipart([b"", b"", wmp.encode_body(wmp.DONE, headers, b"forged")])
        is_answered(liar, "wmp")
        assert not job.ended
        assert hall.counts("precious")[:2] == (1, 0)


# --- crowds


def test_ten_thousand_unknown_readys_over_one_connection(hall: ManyDoors) -> None:
    before_bytes = hall.rss_bytes()
    with dealer(hall, "wmp") as peer:
        for number in range(10_000):
            peer.send_multipart([b"", b"path %d" % number, b"", READY])
        is_answered(peer, "wmp")
        assert hall.counts("ghost")[2] <= 10_000
    # Silent for too long, they are no workers any more.
    wait_until(lambda: hall.counts("ghost")[2] == 0, "they are forgotten", 20)
    assert hall.rss_bytes() - before_bytes < 96 * MIB


@pytest.mark.parametrize("door", ["backend", "wmp"])
def test_ten_thousand_unknown_readys_each_from_its_own_identity(hall: ManyDoors, door: str) -> None:
    said = frame(b"", MORE) + (frame(b"READY") if door == "backend" else frame(b"", MORE) + frame(READY))
    address = ("127.0.0.1", port(hall, door))
    before_bytes = hall.rss_bytes()
    for batch in range(50):
        with ExitStack() as stack:
            for number in range(200):
                stranger = stack.enter_context(socket.create_connection(address, 20))
                stranger.sendall(GREETING + ready(b"stranger %d-%d" % (batch, number)) + said)
            with dealer(hall, door) as witness:
                is_answered(witness, door)
    assert hall.rss_bytes() - before_bytes < 128 * MIB


def test_the_table_of_peers_is_bounded_and_those_in_it_are_served(tmp_path: Path) -> None:
    doors = {"pingpong": HASTY, "wmp": {"peers_max": 500, "expire_s": 2.0}}
    with ManyDoors(tmp_path, **doors) as hall, Neighbours(hall) as neighbours:
        neighbours.expect_service()
        with dealer(hall, "wmp") as peer:
            for number in range(10_000):
                peer.send_multipart([b"", b"path %d" % number, b"", READY])
            neighbours.expect_service()
            assert hall.counts("ghost")[2] < 500
        hall.check()


# --- those who do not take part


@pytest.mark.parametrize("door", DOORS)
def test_a_peer_that_never_reads_costs_the_hall_little(tmp_path: Path, door: str) -> None:
    # The longest answer that each door has to a question of its own.
    saying = {
        "backend": frame(b"", MORE) + frame(b"PING"),
        "frontend": frame(b"r" * 255, MORE) + frame(b"", MORE) + frame(b"PONG"),
        "wmp": b"".join(frame(part, MORE) for part in (b"", b"h" * 255, b"k" * 255, b""))
        + frame(wmp.encode_body(wmp.GIVE, [(b"role", b"r" * 500)])),
    }[door]
    bounds = {"receive_messages_max": 50, "unsent_bytes_max": 4 * MIB, "stall_s": 2.0}
    with ManyDoors(tmp_path, pingpong={**HASTY, **bounds}, wmp=bounds) as hall, Neighbours(hall) as neighbours:
        neighbours.expect_service()
        before_bytes = hall.rss_bytes()
        with RawDealer(port(hall, door), b"deaf") as deaf:
            # It may be disconnected before it has said all.
            with suppress(ConnectionError):
                for _ in range(200):
                    deaf.send(saying * 1000)
            neighbours.expect_service()
            assert hall.rss_bytes() - before_bytes < 96 * MIB
        hall.check()


@pytest.mark.parametrize("door", DOORS)
def test_connections_that_never_finish_the_handshake_are_closed(hall: ManyDoors, door: str) -> None:
    before_bytes = hall.rss_bytes()
    address = ("127.0.0.1", port(hall, door))
    with ExitStack() as stack:
        strangers = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(200)]
        for number, stranger in enumerate(strangers):
            stranger.sendall((GREETING + ready(b"half"))[: number % 80])
        with dealer(hall, door) as witness:
            is_answered(witness, door)
        assert all(is_hung_up(stranger) for stranger in strangers)
    assert hall.rss_bytes() - before_bytes < 32 * MIB


@pytest.mark.parametrize("door", DOORS)
def test_who_cannot_introduce_himself_is_nobody(hall: ManyDoors, door: str) -> None:
    dice = random.Random(door)
    before_bytes = hall.rss_bytes()
    with ExitStack() as stack:
        for _ in range(100):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port(hall, door)), 20))
            cut = dice.randrange(len(GREETING))
            introduction = dice.choice(
                (
                    b"GET / HTTP/1.1\r\n\r\n",
                    GREETING[:cut] + dice.randbytes(100),
                    GREETING + dice.randbytes(100),
                    GREETING + ready(b"x")[:cut],
                    GREETING + ready(b"x" * 300),
                    GREETING + ready(b"\0made up"),
                    dice.randbytes(200),
                )
            )
            stranger.sendall(introduction)
        with dealer(hall, door) as witness:
            is_answered(witness, door)
    assert hall.rss_bytes() - before_bytes < 32 * MIB


def is_hung_up(stranger: socket.socket) -> bool:
    """Read to the end, whatever the hall says of itself before."""
    try:
        while stranger.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_the_neighbours_role_is_nobodys_joke(hall: ManyDoors) -> None:
    """A stranger who says that he does the neighbours' work and does not: they wait for as long as a wake-up
    may take, not longer.
    """
    with dealer(hall, "wmp") as idler:
        for number in range(20):
            body = wmp.encode_body(wmp.READY, [(b"role", ROLE.encode())])
            idler.send_multipart([b"", b"idler %d" % number, b"", body])
        is_answered(idler, "wmp")
