"""How a stream ends, over a transport that empties as the story needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from hiringhall.peers.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        if not size:
            asyncio.get_running_loop().call_soon(self.stream.connection_lost, None)
        return size

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
        ([9, 8, 8, 8], True, "s: it did not take the last words"),
        ([9, 9], True, "s: it did not take the last words"),
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
