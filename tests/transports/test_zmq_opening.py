"""A ZeroMQ door opens where it is told, lets in whom it knows, and leaves nothing behind when it closes."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import time
import warnings
from pathlib import Path

import pytest
import zmq
from zmq_house import House, Toy, run, story, until

from hiringhall.transports.zmtp.options import Curve, ZmqOptions
from stage.stopwatch import Stopwatch

HALL_PUBLIC, HALL_SECRET = zmq.curve_keypair()
ANN_PUBLIC, ANN_SECRET = zmq.curve_keypair()
EVE_PUBLIC, EVE_SECRET = zmq.curve_keypair()

QUICK = ZmqOptions(close_wait_s=0.0)


# --- where


@pytest.mark.parametrize(
    ("host", "bound"),
    [("127.0.0.1", ("127.0.0.1",)), ("::1", ("::1",)), ("localhost", ("127.0.0.1", "::1"))],
)
def test_it_listens_on_an_address_or_under_a_name(host: str, bound: tuple[str, ...]) -> None:
    async def tell() -> None:
        house = House(QUICK)
        address, port = await house.open(host)
        assert address in bound
        assert port > 0
        ann = house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        assert house.sessions[0].caller.address == address
        await house.close()

    run(tell)


def test_a_port_that_was_asked_for_is_the_one() -> None:
    async def tell() -> None:
        with socket.create_server(("127.0.0.1", 0)) as chosen:
            port = chosen.getsockname()[1]
        house = House(QUICK)
        assert await house.open("127.0.0.1", port) == ("127.0.0.1", port)
        await house.close()

    run(tell)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", errno.EADDRINUSE),
        ("::1", errno.EADDRINUSE),
        ("192.0.2.1", errno.EADDRNOTAVAIL),
    ],
)
def test_where_it_cannot_listen_it_says_why_and_leaves_nothing_open(host: str, code: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    local = "::1" if ":" in host else "127.0.0.1"

    async def tell() -> None:
        with socket.create_server((local, 0), family=family) as taken:
            house = House(QUICK)
            before = descriptors()
            house.driver.start(asyncio.get_running_loop())
            with pytest.raises(OSError, match=r"\w") as refused:
                await house.door.open(host, taken.getsockname()[1])
            assert refused.value.errno == code
            assert refused.value.strerror
            assert descriptors() == before
            await house.close()

    run(tell)


def test_a_name_of_nobody_cannot_be_listened_on() -> None:
    async def tell() -> None:
        house = House(QUICK)
        house.driver.start(asyncio.get_running_loop())
        with pytest.raises(OSError, match=r"\w") as refused:
            await house.door.open("nobody.invalid", 0)
        assert refused.value.errno is not None
        await house.close()

    run(tell)


# --- who


def curve_door() -> ZmqOptions:
    return ZmqOptions(curve=Curve(HALL_SECRET, frozenset([ANN_PUBLIC])), close_wait_s=0.0)


def test_with_curve_those_on_the_list_are_let_in() -> None:
    async def tell(house: House) -> None:
        keys = {"curve_serverkey": HALL_PUBLIC, "curve_publickey": ANN_PUBLIC, "curve_secretkey": ANN_SECRET}
        guests = [house.visit(**keys) for _ in range(5)]
        for guest in guests:
            guest.says(b"hello")
        for guest in guests:
            await guest.hears(b"hello")

    story(tell, curve_door())


@pytest.mark.parametrize(
    ("keys", "event"),
    [
        pytest.param(
            {"curve_serverkey": HALL_PUBLIC, "curve_publickey": EVE_PUBLIC, "curve_secretkey": EVE_SECRET},
            zmq.EVENT_HANDSHAKE_FAILED_AUTH,
            id="a key that is not on the list",
        ),
        pytest.param(
            {"curve_serverkey": EVE_PUBLIC, "curve_publickey": ANN_PUBLIC, "curve_secretkey": ANN_SECRET},
            zmq.EVENT_DISCONNECTED,
            id="another hall's key",
        ),
        pytest.param(
            {"curve_serverkey": HALL_PUBLIC, "curve_publickey": ANN_PUBLIC, "curve_secretkey": EVE_SECRET},
            zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_DISCONNECTED,
            id="a public key without its secret",
        ),
        pytest.param({}, zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, id="no key"),
    ],
)
def test_with_curve_nobody_else_gets_a_word_in(keys: dict[str, bytes], event: int) -> None:
    async def tell(house: House) -> None:
        eve = house.visit()
        eve.leaves()
        outsider = house._outside.socket(zmq.DEALER)
        outsider.setsockopt(zmq.LINGER, 0)
        for name, key in keys.items():
            outsider.setsockopt(getattr(zmq, name.upper()), key)
        with outsider.get_monitor_socket(event) as monitor:
            outsider.connect(f"tcp://{house.address}")
            outsider.send(b"let me in")
            await until(lambda: bool(monitor.poll(0)))
            outsider.disable_monitor()
        outsider.close()
        ann = house.visit(curve_serverkey=HALL_PUBLIC, curve_publickey=ANN_PUBLIC, curve_secretkey=ANN_SECRET)
        ann.says(b"hello")
        await ann.hears(b"hello")
        assert [session.heard for session in house.sessions] == [[b"hello"]]

    story(tell, curve_door())


# --- the end


def test_when_the_listener_is_closed_those_inside_are_still_served() -> None:
    """While the hall drains, a worker reports what it has done."""

    async def tell(house: House) -> None:
        ann = house.visit(b"ann")
        ann.says(b"work 1")
        await until(lambda: len(house.scheduler.workers) == 1)
        house.submit(b"cut")
        await ann.hears(b"job cut")
        house.door.close_listener()
        house.door.close_listener()
        # Sent into a connection that is cut off it would never be heard of.
        ann.says(b"planks")
        await ann.hears(b"planks")

    story(tell)


def test_what_was_said_last_is_sent_before_the_door_is_gone() -> None:
    async def tell() -> None:
        house = House(ZmqOptions(close_wait_s=10.0))
        await house.open()
        guests = [house.visit() for _ in range(20)]
        for guest in guests:
            guest.says(b"hello")
        for guest in guests:
            await guest.hears(b"hello")
        last = [b"%d" % number + bytes(10_000) for number in range(100)]
        for session in house.sessions:
            house.link(session).write(last)
        await house.door.close()
        for guest in guests:
            await guest.hears(*last)
        await house.close()

    run(tell)


def test_a_peer_that_takes_nothing_does_not_keep_the_door_open() -> None:
    async def tell() -> None:
        house = House(ZmqOptions(close_wait_s=0.3))
        await house.open()
        lazy = house.visit(rcvhwm=1, rcvbuf=4096)
        lazy.says(b"hello")
        await until(lambda: bool(house.sessions))
        house.link(house.sessions[0]).write([bytes(1 << 20)] * 50)
        started_s = time.monotonic()
        with Stopwatch() as watch:
            await house.door.close()
        assert time.monotonic() - started_s > 0.25
        assert watch.elapsed_s < 5.0
        await house.close()

    run(tell)


def test_a_door_that_was_never_opened_closes_too() -> None:
    async def tell() -> None:
        house = House(QUICK)
        house.driver.start(asyncio.get_running_loop())
        house.door.close_listener()
        await house.close()

    run(tell)


@pytest.mark.parametrize("options", [QUICK, curve_door()], ids=["open", "curve"])
def test_nothing_is_left_behind(options: ZmqOptions) -> None:
    keys = {"curve_serverkey": HALL_PUBLIC, "curve_publickey": ANN_PUBLIC, "curve_secretkey": ANN_SECRET}

    async def visit_once(house: House) -> None:
        ann = house.visit(**keys) if options.curve is not None else house.visit()
        ann.says(b"hello", b"work 1")
        await ann.hears(b"hello")

    # The first house makes what stays for good: the loop's own things, modules.
    story(visit_once, options)
    gc.collect()  # what other tests have left behind is not of this one
    before = threads(), descriptors()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(3):
            story(visit_once, options)
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
    assert (threads(), descriptors()) == before


def test_a_door_that_closes_while_it_does_not_read_leaves_nothing_open() -> None:
    async def tell() -> None:
        house = House(QUICK)
        before = descriptors()
        await house.open()
        ann = house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        house.link(house.sessions[0]).pause()
        await house.door.close()
        ann.leaves()
        await until(lambda: house.door.listener.connections == {})
        await house.close()
        assert descriptors() <= before

    run(tell)


def test_closing_twice_is_closing_once() -> None:
    async def tell() -> None:
        house = House(QUICK)
        await house.open()
        ann = house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        await house.door.close()
        await house.door.close()
        # What comes too late is for nobody, and harms nobody.
        toy: Toy = house.sessions[0]
        assert toy.is_parted
        assert toy.link is None
        await house.close()

    run(tell)


def threads() -> list[str]:
    """ZeroMQ's own threads in this process; Python's are looked after elsewhere."""
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if name.startswith("ZMQ")]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
