"""How a stream ends, over a transport that empties as the story needs."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

import pytest

from hiringhall.peers.stream import UNSENT_BYTES_MAX, Stream

if TYPE_CHECKING:
    from collections.abc import Iterable


ROOM = 1
"""With so many bytes left a pipe has room for more."""


LARGE = bytes(32 << 20)


class Lost(Exception):
    """The end of a stream."""


class Ear:
    """A listener that remembers the end."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def received(self, packet_type: int, body: bytes) -> None:
        raise AssertionError((packet_type, body))

    def lost(self, reason: Lost) -> None:
        self.ends.append(str(reason))


class Mute:
    """A reader of nothing."""

    error = None

    def feed(self, data: bytes, /) -> Iterable[tuple[int, bytes]]:
        raise AssertionError(data)


class Pipe:
    """A transport with so many bytes left, at each look."""

    def __init__(self, left: list[int]) -> None:
        self.left = left
        self.aborted = False
        self.written = 0
        self.stream: Stream[Lost]

    def get_extra_info(self, name: str) -> Pipe:
        assert name == "socket"
        return self

    def setsockopt(self, *_: int) -> None:
        """It is no socket."""

    def get_write_buffer_size(self) -> int:
        if not self.left:
            return 0
        size = self.left.pop(0)
        if size == ROOM:
            self.stream.resume_writing()
        if not size:
            asyncio.get_running_loop().call_soon(self.stream.connection_lost, None)
        return size

    def write(self, data: bytes) -> None:
        self.written += len(data)
        if len(data) > UNSENT_BYTES_MAX:
            self.stream.pause_writing()

    def close(self) -> None:
        """It is closed once it is empty."""

    def abort(self) -> None:
        self.aborted = True
        asyncio.get_running_loop().call_soon(self.stream.connection_lost, None)


@pytest.mark.parametrize(
    ("left", "aborted", "told"),
    [
        ([0], False, "s: the connection was closed"),
        ([9, 8, 8, 7, 0], False, "s: the connection was closed"),
        ([9, 8, 8, 8], True, "s: it did not read the last packets"),
        ([9, 9], True, "s: it did not read the last packets"),
    ],
)
def test_who_takes_some_of_it_now_and_then_is_waited_for(
    left: list[int], aborted: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hiringhall.peers.stream.CLOSE_S", 0.001)
    ear, pipe = Ear(), Pipe(left)

    async def story() -> None:
        stream: Stream[Lost] = Stream("s", Mute(), ear, Lost)
        pipe.stream = stream
        stream.connection_made(cast("asyncio.BaseTransport", pipe))
        await asyncio.wait_for(stream.close(), 20)
        assert not stream.live

    asyncio.run(story())
    assert (pipe.aborted, ear.ends, pipe.left) == (aborted, [told], [])


@pytest.mark.parametrize(
    ("left", "aborted", "ends"),
    [
        ([90, 80, 80, 70, 70, 1], False, []),
        ([90, 80, 80, 80], True, ["s: it read nothing for 0.001 s"]),
        ([90, 90], True, ["s: it read nothing for 0.001 s"]),
    ],
)
def test_who_takes_some_of_a_large_packet_now_and_then_is_waited_for(
    left: list[int], aborted: bool, ends: list[str]
) -> None:
    ear, pipe = Ear(), Pipe(left)

    async def story() -> None:
        stream: Stream[Lost] = Stream("s", Mute(), ear, Lost)
        pipe.stream = stream
        stream.connection_made(cast("asyncio.BaseTransport", pipe))
        stream.send(b"a little")
        await stream.wait_sent(0.001)
        assert pipe.written == 0, "it leaves with what is said next"
        stream.send(bytes(UNSENT_BYTES_MAX))
        await asyncio.wait_for(stream.wait_sent(0.001), 20)
        assert pipe.written == UNSENT_BYTES_MAX + len(b"a little")

    asyncio.run(story())
    assert (pipe.aborted, ear.ends, pipe.left) == (aborted, ends, [])


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "\ud800", "a\0b"])
def test_a_host_that_is_no_name_is_a_loss_like_others(host: str) -> None:
    async def story() -> None:
        stream: Stream[Lost] = Stream("s", Mute(), Ear(), Lost)
        with pytest.raises(Lost, match="s: not a valid host name: "):
            await stream.connect(host, 1, 20)

    asyncio.run(story())


def test_a_server_that_takes_nothing_of_a_large_packet_is_left() -> None:
    """Little of it lies in the system, where nobody would see it being taken."""

    async def story(port: int) -> None:
        stream: Stream[Lost] = Stream("s", Mute(), ear, Lost)
        await stream.connect("127.0.0.1", port, 20)
        transport = stream._transport
        assert transport is not None
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES_MAX
        stream.send(LARGE)
        await asyncio.wait_for(stream.wait_sent(0.2), 20)

    ear = Ear()
    with socket.create_server(("127.0.0.1", 0)) as server:
        asyncio.run(story(server.getsockname()[1]))
    assert ear.ends == ["s: it read nothing for 0.2 s"]
