"""Where peers of the hire protocol are put on stage: a street whose every line a test decides, and a bus on
which everybody hears everybody.

The law: each step waits, with a deadline, for what should come; a line that was not expected fails the test.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final
from uuid import UUID

import zmq
import zmq.asyncio

from hiringhall.dialects.hire.wire import read_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

STEP_S: Final = 30.0
MILL: Final = UUID("aaaaaaaa-0000-4000-8000-000000000001")
INN: Final = UUID("aaaaaaaa-0000-4000-8000-000000000002")
ANN: Final = UUID("bbbbbbbb-0000-4000-8000-000000000001")
BEN: Final = UUID("bbbbbbbb-0000-4000-8000-000000000002")


def act(story: Coroutine[object, object, None]) -> None:
    async def stage() -> None:
        async with asyncio.timeout(30):
            await story

    asyncio.run(stage())


class Street:
    """What one peer of ours hears and says over TCP."""

    def __init__(self) -> None:
        self.address = ""
        self.server: asyncio.Server | None = None
        self._comers: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    def came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._comers.put_nowait((reader, writer))

    async def meet(self) -> None:
        """The peer has connected, for the first time or again."""
        async with asyncio.timeout(STEP_S):
            self._reader, self._writer = await self._comers.get()

    def say(self, *lines: str) -> None:
        self.say_bytes("".join(f"{line}\n" for line in lines).encode())

    def say_bytes(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)

    async def hear(self) -> str:
        return (await self.hear_bytes()).decode().removesuffix("\n")

    async def hear_bytes(self) -> bytes:
        assert self._reader is not None
        async with asyncio.timeout(STEP_S):
            return await self._reader.readline()

    async def expect(self, *lines: str) -> None:
        for line in lines:
            heard = await self.hear()
            assert heard == line, f"expected {line!r}, heard {heard!r}"

    async def expect_word(self, who: UUID, verb: str) -> list[str]:
        """The fields of the next line, which must be of this verb."""
        speaker, heard, fields = (await self.hear()).split(" ")
        assert (speaker, heard) == (str(who), verb)
        return fields.split(":")

    def close(self) -> None:
        """Nobody comes any more."""
        assert self.server is not None
        self.server.close()

    def hang_up(self) -> None:
        assert self._writer is not None
        self._writer.close()


@asynccontextmanager
async def street() -> AsyncIterator[Street]:
    place = Street()
    place.server = server = await asyncio.start_server(place.came, "127.0.0.1", 0)
    try:
        place.address = "tcp://{}:{}".format(*server.sockets[0].getsockname())
        yield place
    finally:
        server.close()
        if place._writer is not None:
            place._writer.close()


class Bus:
    """Brings every line to everybody, and can lose some of them."""

    def __init__(self) -> None:
        self._context = zmq.asyncio.Context()
        self._in = self._context.socket(zmq.SUB)
        self._out = self._context.socket(zmq.PUB)
        for socket in (self._in, self._out):
            socket.set(zmq.LINGER, 0)
        publish = self._in.bind_to_random_port("tcp://127.0.0.1")
        subscribe = self._out.bind_to_random_port("tcp://127.0.0.1")
        self._in.subscribe(b"")
        self.address = f"bus://127.0.0.1:{publish},127.0.0.1:{subscribe}"
        self.heard: list[tuple[UUID, str]] = []
        """Speaker and verb of every line that came in."""
        self._news = asyncio.Event()
        self.losing: list[str] = []
        """The next line of each of these verbs is lost."""

    async def relay(self) -> None:
        while True:
            text = await self._in.recv()
            line = read_line(text)
            verb = line.verb.decode()
            self.heard.append((UUID(bytes=line.speaker), verb))
            self._news.set()
            if verb in self.losing:
                self.losing.remove(verb)
            else:
                await self._out.send(text)

    async def until(self, who: UUID, verb: str) -> None:
        """The latest line but those of others is this one."""
        async with asyncio.timeout(STEP_S):
            while [word for speaker, word in self.heard if speaker == who][-1:] != [verb]:
                self._news.clear()
                await self._news.wait()

    def close(self) -> None:
        self._in.close()
        self._out.close()
        self._context.term()


@asynccontextmanager
async def bus() -> AsyncIterator[Bus]:
    place = Bus()
    relaying = asyncio.create_task(place.relay())
    try:
        yield place
    finally:
        relaying.cancel()
        with suppress(asyncio.CancelledError):
            await relaying
        place.close()
