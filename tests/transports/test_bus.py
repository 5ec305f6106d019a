"""A bus over real loopback sockets: who publishes is heard, and the session knows whether anybody listens."""

from __future__ import annotations

import asyncio
import errno
import time
from typing import TYPE_CHECKING, cast

import pytest
import zmq
from zmq_house import PATIENCE_S, run, until

from hiringhall.core.limits import Limits
from hiringhall.dialects.session import Caller, Session
from hiringhall.engine.driver import Driver
from hiringhall.engine.recovery import open_scheduler
from hiringhall.storage.memory import MemoryStore
from hiringhall.transports.zmtp.bus import BusDoor
from hiringhall.transports.zmtp.options import Curve, ZmqOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MOMENT_S = 0.05
SERVER_PUBLIC, SERVER_SECRET = zmq.curve_keypair()
FRIEND_PUBLIC, FRIEND_SECRET = zmq.curve_keypair()
STRANGER_PUBLIC, STRANGER_SECRET = zmq.curve_keypair()


class Parrot(Session):
    """Says everything again, `flood N` N times."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller)
        self.heard: list[bytes] = []
        self.listeners: list[int] = []
        self.is_parted = False

    def receive(self, data: bytes) -> None:
        self.heard.append(data)
        word, _, count = data.partition(b" ")
        for number in range(int(count) if word == b"flood" else 1):
            self.send(b"%d" % number if word == b"flood" else data)

    def listeners_changed(self, listeners: int) -> None:
        self.listeners.append(listeners)

    def disconnected(self) -> None:
        self.is_parted = True


class Aviary:
    """The bus, and who comes to it."""

    def __init__(self, options: ZmqOptions) -> None:
        store = MemoryStore()
        self.scheduler = open_scheduler(store, Limits(), 1)
        self.driver = Driver(self.scheduler, store, pytest.fail)
        self.parrots: list[Parrot] = []
        self.door = BusDoor(self.driver, self._make, options)
        self.inward = self.outward = ""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []

    def _make(self, caller: Caller) -> Parrot:
        self.parrots.append(Parrot(caller))
        return self.parrots[-1]

    @property
    def parrot(self) -> Parrot:
        (parrot,) = self.parrots
        return parrot

    async def open(self) -> None:
        self.driver.start(asyncio.get_running_loop())
        host, port = await self.door.open_inward("127.0.0.1", 0)
        self.inward = f"tcp://{host}:{port}"
        host, port = await self.door.open_outward("127.0.0.1", 0)
        self.outward = f"tcp://{host}:{port}"

    async def close(self) -> None:
        await asyncio.wait_for(self.driver.stop(), PATIENCE_S)
        await asyncio.wait_for(self.door.close(), PATIENCE_S)
        await asyncio.sleep(0)
        for socket in self._sockets:
            socket.close(0)
        self._context.term()

    def _socket(self, kind: int, curve: tuple[bytes, bytes] | None) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.SNDHWM, 0)
        if curve is not None:
            socket.setsockopt(zmq.CURVE_SERVERKEY, SERVER_PUBLIC)
            socket.setsockopt(zmq.CURVE_PUBLICKEY, curve[0])
            socket.setsockopt(zmq.CURVE_SECRETKEY, curve[1])
        return socket

    def speaker(self, curve: tuple[bytes, bytes] | None = None) -> zmq.Socket[bytes]:
        socket = self._socket(zmq.PUB, curve)
        socket.connect(self.inward)
        return socket

    def listener(self, topic: bytes = b"", curve: tuple[bytes, bytes] | None = None) -> zmq.Socket[bytes]:
        socket = self._socket(zmq.SUB, curve)
        socket.setsockopt(zmq.SUBSCRIBE, topic)
        socket.connect(self.outward)
        return socket

    async def settle(self, speaker: zmq.Socket[bytes], *listeners: zmq.Socket[bytes]) -> None:
        """Say one word after the other, each after a while, until all hear the latest."""
        latest = dict.fromkeys(listeners, b"")
        word = 0
        async with asyncio.timeout(PATIENCE_S):
            while not word or set(latest.values()) != {b"hello %d" % word}:
                word += 1
                speaker.send(b"hello %d" % word)
                await self._listen(latest, b"hello %d" % word)
        self.parrot.heard.clear()

    async def _listen(self, latest: dict[zmq.Socket[bytes], bytes], wanted: bytes) -> None:
        """Until all have heard what is wanted, or for a moment."""
        until_s = time.monotonic() + MOMENT_S
        while set(latest.values()) != {wanted} and time.monotonic() < until_s:
            await asyncio.sleep(0)
            for socket in latest:
                if has_mail(socket):
                    latest[socket] = socket.recv(zmq.NOBLOCK)


def has_mail(socket: zmq.Socket[bytes]) -> bool:
    return bool(cast("int", socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)


async def hear(socket: zmq.Socket[bytes]) -> bytes:
    await until(lambda: has_mail(socket))
    return socket.recv(zmq.NOBLOCK)


def story(tell: Callable[[Aviary], Awaitable[None]], options: ZmqOptions | None = None) -> None:
    async def tell_all() -> None:
        aviary = Aviary(options or ZmqOptions(close_wait_s=0.0, send_messages_max=10_000))
        await aviary.open()
        try:
            await tell(aviary)
        finally:
            await aviary.close()
        assert aviary.parrot.is_parted

    run(tell_all)


def test_what_one_publishes_all_who_subscribe_hear() -> None:
    async def tell(aviary: Aviary) -> None:
        speaker, other = aviary.speaker(), aviary.speaker()
        one, two = aviary.listener(), aviary.listener()
        await aviary.settle(speaker, one, two)
        await aviary.settle(other, one, two)
        speaker.send(b"pretty")
        assert [await hear(one), await hear(two)] == [b"pretty"] * 2
        other.send(b"bird")
        assert [await hear(one), await hear(two)] == [b"bird"] * 2
        assert aviary.parrot.heard == [b"pretty", b"bird"]

    story(tell)


def test_a_message_of_several_frames_is_dropped_and_counted() -> None:
    async def tell(aviary: Aviary) -> None:
        speaker, listener = aviary.speaker(), aviary.listener()
        await aviary.settle(speaker, listener)
        speaker.send_multipart([b"a topic", b"a word", b"another"])
        speaker.send(b"pretty")
        assert await hear(listener) == b"pretty"
        assert aviary.parrot.heard == [b"pretty"]
        assert aviary.door.dropped == 1

    story(tell)


def test_the_session_is_told_of_all_who_come_to_listen_and_of_all_who_go() -> None:
    async def tell(aviary: Aviary) -> None:
        heard = aviary.parrot.listeners
        assert heard == []
        one = aviary.listener()
        await until(lambda: heard == [1])
        two, chosen = aviary.listener(), aviary.listener(b"a topic")
        await until(lambda: heard == [1, 2, 3])
        two.setsockopt(zmq.UNSUBSCRIBE, b"")
        await until(lambda: heard == [1, 2, 3, 2])
        one.close(0)
        chosen.close(0)
        await until(lambda: heard == [1, 2, 3, 2, 1, 0])

    story(tell)


def test_one_who_comes_while_another_goes_is_somebody_who_comes() -> None:
    async def tell(aviary: Aviary) -> None:
        heard = aviary.parrot.listeners
        one = aviary.listener()
        await until(lambda: heard == [1])
        # Nothing is awaited here, so that both stand at the door when it looks.
        one.close(0)
        aviary.listener()
        await until(lambda: len(heard) == 3)
        assert heard in ([1, 0, 1], [1, 2, 1])

    story(tell)


def test_who_comes_again_after_its_connection_was_cut_is_counted_once() -> None:
    async def tell(aviary: Aviary) -> None:
        heard = aviary.parrot.listeners
        stays, strays = aviary.listener(), aviary.listener()
        await until(lambda: heard == [1, 2])
        for _ in range(3):
            strays.disconnect(aviary.outward)
            # It goes when it looks at its own socket.
            await until(lambda: not has_mail(strays) and heard[-1] == 1)
            strays.connect(aviary.outward)
            await until(lambda: heard[-1] == 2)
        strays.close(0)
        stays.close(0)
        await until(lambda: heard[-1] == 0)

    story(tell)


def test_many_messages_in_and_out_keep_their_order() -> None:
    async def tell(aviary: Aviary) -> None:
        speaker, listener = aviary.speaker(), aviary.listener()
        await aviary.settle(speaker, listener)
        for number in range(2500):
            speaker.send(b"word %d" % number)
        for number in range(2500):
            assert await hear(listener) == b"word %d" % number
        speaker.send(b"flood 5000")
        for number in range(5000):
            assert await hear(listener) == b"%d" % number

    story(tell)


def test_who_does_not_listen_misses_messages_and_nobody_waits_for_it() -> None:
    async def tell(aviary: Aviary) -> None:
        speaker, deaf = aviary.speaker(), aviary.listener()
        await aviary.settle(speaker, deaf)
        deaf.setsockopt(zmq.RCVHWM, 10)
        for _ in range(20):
            speaker.send(b"flood 10000")
        await until(lambda: len(aviary.parrot.heard) == 20)
        speaker.send(b"pretty")
        await until(lambda: aviary.parrot.heard[-1] == b"pretty")
        assert not aviary.parrot.closing

    story(tell, ZmqOptions(close_wait_s=0.0, send_messages_max=10))


def test_who_sends_a_message_too_long_is_disconnected_and_others_are_not() -> None:
    async def tell(aviary: Aviary) -> None:
        vandal, speaker, listener = aviary.speaker(), aviary.speaker(), aviary.listener()
        await aviary.settle(vandal, listener)
        await aviary.settle(speaker, listener)
        vandal.send(b"x" * 101)
        speaker.send(b"y" * 100)
        assert await hear(listener) == b"y" * 100
        await aviary.settle(vandal, listener)
        assert not [word for word in aviary.parrot.heard if word[:1] == b"x"]

    story(tell, ZmqOptions(close_wait_s=0.0, message_bytes_max=100))


def test_with_curve_only_friends_speak_and_hear() -> None:
    async def tell(aviary: Aviary) -> None:
        friend = (FRIEND_PUBLIC, FRIEND_SECRET)
        stranger = (STRANGER_PUBLIC, STRANGER_SECRET)
        speaker, listener = aviary.speaker(friend), aviary.listener(curve=friend)
        shut_out = [aviary.listener(curve=stranger), aviary.listener()]
        shouting = [aviary.speaker(stranger), aviary.speaker()]
        await aviary.settle(speaker, listener)
        for socket in shouting:
            socket.send(b"let me in")
        speaker.send(b"pretty")
        assert await hear(listener) == b"pretty"
        assert aviary.parrot.heard == [b"pretty"]
        assert not any(has_mail(socket) for socket in shut_out)
        assert aviary.parrot.listeners == [1]

    story(tell, ZmqOptions(close_wait_s=0.0, curve=Curve(SERVER_SECRET, frozenset([FRIEND_PUBLIC]))))


def test_an_address_in_use_is_said_and_nothing_is_left_open() -> None:
    async def tell() -> None:
        aviary, late = Aviary(ZmqOptions(close_wait_s=0.0)), Aviary(ZmqOptions(close_wait_s=0.0))
        await aviary.open()
        host, _, port = aviary.outward.removeprefix("tcp://").rpartition(":")
        late.driver.start(asyncio.get_running_loop())
        await late.door.open_inward("127.0.0.1", 0)
        with pytest.raises(OSError) as caught:  # noqa: PT011 (its number is looked at)
            await late.door.open_outward(host, int(port))
        assert caught.value.errno == errno.EADDRINUSE
        await late.close()
        assert late.parrots == []
        await aviary.close()

    run(tell)
