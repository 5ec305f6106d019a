"""Peers of all kinds at a real door: libzmq's sockets, and connections whose bytes are chosen by the test."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, suppress

import pytest
import zmq
from zmq_house import House, run, story, until
from zmtp_wire import COMMAND, OLD_GREETING, RawPeer, command, frame, greeting, message, ready

from hiringhall.dialects.session import BAD_INPUT, OVER_BUDGET, UNAUTHORIZED, Caller, Reporter
from hiringhall.transports.zmtp.handshake import OPENING
from hiringhall.transports.zmtp.options import Curve, ZmqOptions

MIB = 1 << 20


class Listed(Reporter):
    """Keeps what is reported."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def report(self, kind: str, text: str, caller: Caller, queue: bytes = b"", key: bytes = b"") -> None:
        self.lines.append((kind, text))


def reports(house: House) -> list[tuple[str, str]]:
    house.driver.reporter = listed = Listed()
    return listed.lines


async def away(call: object, *arguments: object) -> object:
    """Run something that waits for the hall in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)  # type: ignore[arg-type]


def open_raw(house: House, said: bytes) -> RawPeer:
    return RawPeer(house.address, said)


# --- libzmq


@pytest.mark.parametrize("kind", [zmq.REQ, zmq.DEALER, zmq.ROUTER])
def test_libzmqs_sockets_are_answered_in_their_own_form(kind: int) -> None:
    async def tell(house: House) -> None:
        socket = house._outside.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        try:
            if kind == zmq.ROUTER:
                socket.setsockopt(zmq.CONNECT_ROUTING_ID, b"hall")
            socket.connect(f"tcp://{house.address}")
            for size in (0, 1, 255, 256, 70_000):
                body = b"b" * size
                socket.send_multipart([b"hall", body] if kind == zmq.ROUTER else [body])
                await until(lambda: bool(socket.poll(0)))
                assert socket.recv_multipart()[-1] == body
            assert len(house.sessions) == 1
        finally:
            socket.close()

    story(tell)


def test_a_message_of_64_mib_comes_and_goes_whole() -> None:
    async def tell(house: House) -> None:
        ann = house.visit()
        body = bytes(range(256)) * (64 * MIB // 256)
        ann.says_frames(b"", body)
        assert await ann.next() == [b"", body]

    story(tell)


def test_a_thousand_peers_are_served_and_their_end_is_known() -> None:
    count = 1000

    async def tell(house: House) -> None:
        peers = [house.visit() for _ in range(count)]
        for number, peer in enumerate(peers):
            peer.says(b"%d" % number)
        for number, peer in enumerate(peers):
            await peer.hears(b"%d" % number)
        assert len(house.door.links) == len(house.door.listener.connections) == count
        for peer in peers:
            peer.leaves()
        await until(lambda: not house.door.listener.connections)
        assert house.door.links == {}
        assert house.door.sides == {}

    story(tell)


def test_a_storm_of_reconnects_leaves_nothing_behind() -> None:
    async def tell(house: House) -> None:
        for round_number in range(10):
            peers = [house.visit(b"ann %d" % number) for number in range(30)]
            for peer in peers:
                peer.says(b"work 1", b"hello")
            if round_number % 2:
                for peer in peers:
                    await peer.hears(b"hello")
            for peer in peers:
                peer.leaves()
        await until(lambda: not house.door.listener.connections)
        assert (house.door.links, house.door.sides, house.scheduler.workers) == ({}, {}, {})
        last = house.visit(b"ann 1")
        last.says(b"hello")
        await last.hears(b"hello")

    story(tell)


def test_an_identity_that_is_in_use_is_had_as_soon_as_it_is_free_and_no_message_is_lost() -> None:
    async def tell(house: House) -> None:
        reported = reports(house)
        first = house.visit(b"ann")
        first.says(b"hello")
        await first.hears(b"hello")
        second = house.visit(b"ann", reconnect_ivl=10)
        second.says(b"me too")
        await until(lambda: (BAD_INPUT, "another connection uses its identity (takeover is off)") in reported)
        first.leaves()
        await second.hears(b"me too")

    story(tell)


# --- by hand: versions, pieces


@pytest.mark.parametrize(
    ("opening", "answer"),
    [
        (greeting(1) + ready(b"raw"), 64),
        (greeting(0) + ready(b"raw"), 64),
        (OLD_GREETING + frame(b"raw"), 12),
    ],
    ids=["3.1", "3.0", "2.0"],
)
@pytest.mark.parametrize("step", [1, 1000])
def test_every_version_is_spoken_byte_by_byte_and_at_once(opening: bytes, answer: int, step: int) -> None:
    said = opening + message(b"", b"hello") + message(b"", b"") + message(b"", b"b" * 300)

    def talk(house: House) -> list[tuple[int, bytes]]:
        with open_raw(house, b"") as peer:
            for at in range(0, len(said), step):
                peer.say(said[at : at + step])
            assert peer.read(answer).startswith(OPENING)
            return [peer.read_frame() for _ in range(7)]

    async def tell(house: House) -> None:
        frames = await away(talk, house)
        assert isinstance(frames, list)
        introduction = frames.pop(0)
        assert introduction == (0, b"") if answer == 12 else introduction[1].startswith(b"\x05READY")
        assert frames[0::2] == [(1, b"")] * 3
        assert frames[1::2] == [(0, b"hello"), (0, b""), (0, b"b" * 300)]
        assert {session.caller.route[0] for session in house.sessions} == {b"raw"}

    story(tell)


def test_a_peer_of_version_2_gets_no_pings_and_one_of_version_3_does() -> None:
    def talk(house: House) -> tuple[object, bytes]:
        with open_raw(house, greeting() + ready()) as peer, open_raw(house, OLD_GREETING + frame(b"")) as old:
            peer.read(64)
            peer.read_frame()
            old.read(14)
            ping = peer.read_frame()
            assert peer.is_closed()
            old.say(frame(b"still here"))
            return ping, old.read_frame()[1]

    async def tell(house: House) -> None:
        started_s = time.monotonic()
        assert await away(talk, house) == ((COMMAND, b"\x04PING\0\0"), b"still here")
        assert time.monotonic() - started_s > 0.3

    story(tell, ZmqOptions(heartbeat_s=0.1, close_wait_s=0.0))


def test_a_ping_is_answered_with_its_context_and_its_time_to_live_counts() -> None:
    def talk(house: House) -> tuple[int, bytes]:
        with open_raw(house, greeting() + ready() + command(b"PING", b"\0\2" + b"c" * 20)) as peer:
            peer.read(64)
            peer.read_frame()
            pong = peer.read_frame()
            assert peer.is_closed()
            return pong

    async def tell(house: House) -> None:
        assert await away(talk, house) == (COMMAND, b"\x04PONG" + b"c" * 16)
        lively = house.visit(heartbeat_ivl=50, heartbeat_ttl=2000)
        lively.says(b"hello")
        await lively.hears(b"hello")
        await asyncio.sleep(3.0)
        assert not house.sessions[0].is_parted

    story(tell)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it does not speak ZeroMQ's protocol in version 2.0 or later"),
        (greeting() + ready(kind=b"PULL"), "its socket is a PULL; this address is for DEALER or REQ or ROUTER"),
        (greeting() + ready() + b"\x40\x00", "a frame with the flags 0x40"),
        (greeting()[:20], "it has not introduced itself within 0.2 s (handshake_s)"),
    ],
)
def test_who_breaks_the_protocol_is_cut_off_and_the_log_says_why(said: bytes, text: str) -> None:
    def talk(house: House) -> bool:
        with open_raw(house, said) as peer:
            return peer.is_closed()

    async def tell(house: House) -> None:
        reported = reports(house)
        assert await away(talk, house)
        assert reported == [(BAD_INPUT, text)]
        assert not house.door.listener.connections

    handshake_s = 0.2 if "handshake_s" in text else 30.0
    story(tell, ZmqOptions(handshake_s=handshake_s, close_wait_s=0.0))


def test_who_only_knocks_is_not_worth_a_line() -> None:
    async def tell(house: House) -> None:
        reported = reports(house)
        with open_raw(house, greeting()[:5]):
            await until(lambda: len(house.door.listener.connections) == 1)
        await until(lambda: not house.door.listener.connections)
        assert reported == []

    story(tell)


# --- CURVE


def test_curve_keeps_out_who_is_not_listed_and_says_so_in_the_log() -> None:
    hall_public, hall_secret = zmq.curve_keypair()
    friend, stranger = zmq.curve_keypair(), zmq.curve_keypair()

    async def tell(house: House) -> None:
        reported = reports(house)
        keys = {"curve_serverkey": hall_public, "curve_publickey": friend[0], "curve_secretkey": friend[1]}
        inside = house.visit(b"friend", **keys)
        for frames in ([b"", b"x" * 300], [b"plain"], [b"", b""]):
            inside.says_frames(*frames)
            assert await inside.next() == frames
        outside = house.visit(
            curve_serverkey=hall_public, curve_publickey=stranger[0], curve_secretkey=stranger[1]
        )
        outside.says(b"let me in")
        await until(lambda: len(reported) == 1)
        assert reported == [(UNAUTHORIZED, "its key is not among the clients of this door")]
        house.visit().says(b"and me")
        await until(lambda: len(reported) >= 2)
        assert reported[1] == (UNAUTHORIZED, "its security is NULL, that of this door is CURVE")
        inside.says(b"still here")
        await inside.hears(b"still here")
        assert {session.caller.route[0] for session in house.sessions} == {b"friend"}

    story(tell, ZmqOptions(curve=Curve(hall_secret, frozenset([friend[0]])), close_wait_s=0.0))


# --- memory


def test_what_is_unfinished_counts_in_the_budget_and_the_largest_goes_first() -> None:
    async def tell() -> None:
        house = House(ZmqOptions(close_wait_s=0.0))
        house.door.budget.bytes_max = 10 * MIB
        await house.open()
        reported = reports(house)
        with ExitStack() as stack:
            peers = [stack.enter_context(open_raw(house, greeting() + ready())) for _ in range(4)]
            for peer in peers:
                peer.connection.setblocking(False)
                peer.say(b"\x02" + (8 * MIB).to_bytes(8, "big"))
            honest = house.visit()
            for size in (1, 2, 2, 4):
                peer = peers.pop(0)
                left = size * MIB
                while left > 0:
                    with suppress(BlockingIOError):
                        left -= peer.connection.send(bytes(min(left, 65_536)))
                    await asyncio.sleep(0)
                honest.says(b"hello")
                await honest.hears(b"hello")
            assert (house.door.budget.noted_bytes, reported) == (9 * MIB, [])
            last = stack.enter_context(open_raw(house, greeting() + ready()))
            last.say(b"\x02" + (8 * MIB).to_bytes(8, "big") + bytes(2 * MIB))
            await until(lambda: bool(reported))
            ((kind, text),) = reported
            assert kind == OVER_BUDGET
            assert text.startswith(f"{4 * MIB} bytes were buffered for it")
            honest.says(b"hello")
            await honest.hears(b"hello")
        await house.close()

    run(tell)
