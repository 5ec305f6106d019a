"""A TCP door with a toy dialect behind it, over real loopback sockets.

Lines come in. `flood N` is answered with N bytes, `bye` with a last word and the end of the connection,
everything else with itself. What follows a `#` is padding.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

import uvloop

from hiringhall.core.limits import Limits
from hiringhall.dialects.session import Caller, Session
from hiringhall.engine.driver import Clock, Driver
from hiringhall.engine.recovery import open_scheduler
from hiringhall.storage.memory import MemoryStore
from hiringhall.transports.tcp import Connection, TcpDoor, TcpOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATIENCE_S = 30.0
"""A story that waits for longer has failed; none comes near it."""

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Echo(Session):
    """The toy dialect."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller)
        self.lines = 0
        self.is_parted = False
        self._partial = b""

    def receive(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self.lines += 1
            said = line.partition(b"#")[0]
            if said.startswith(b"flood "):
                self.send(b"x" * int(said[6:]))
            elif said == b"bye":
                self.send(b"goodbye\n")
                self.finish()
            else:
                self.send(said + b"\n")

    def disconnected(self) -> None:
        self.is_parted = True


class Shout(Echo):
    """Another dialect at the same door: it begins with its magic, and repeats everything louder."""

    def __init__(self, caller: Caller, magic: bytes) -> None:
        super().__init__(caller)
        self.magic = magic
        self._opening = b""

    def receive(self, data: bytes) -> None:
        if len(self._opening) < len(self.magic):
            missing = len(self.magic) - len(self._opening)
            self._opening += data[:missing]
            data = data[missing:]
            assert self.magic.startswith(self._opening), "what is not its own does not reach it"
        super().receive(data.upper())


class House:
    """The door, and the sessions behind it."""

    def __init__(self, options: TcpOptions, guests: tuple[bytes, ...] = ()) -> None:
        self.sessions: list[Echo] = []
        clock = Clock()
        store = MemoryStore()
        self.driver = Driver(open_scheduler(store, Limits(), clock.now_us()), store, self._trouble, clock)
        others = {magic: partial(self._make, magic=magic) for magic in guests}
        self.door = TcpDoor(self.driver, self._make, options, others)
        self.port = 0

    def _make(self, caller: Caller, magic: bytes = b"") -> Echo:
        session = Echo(caller) if not magic else Shout(caller, magic)
        self.sessions.append(session)
        return session

    def _trouble(self, trouble: str) -> None:
        raise AssertionError(trouble)

    async def open(self) -> None:
        self.driver.start(asyncio.get_running_loop())
        host, self.port = await self.door.open("127.0.0.1", 0)
        assert host == "127.0.0.1"

    async def close(self) -> None:
        await asyncio.wait_for(self.door.close(), PATIENCE_S)
        await asyncio.wait_for(self.driver.stop(), PATIENCE_S)

    async def visit(self) -> Guest:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 16)
        return Guest(reader, writer)

    def connection(self, session: Echo) -> Connection:
        for connection in self.door.connections:
            if connection is session.link:
                return connection
        raise AssertionError("that session has no connection")


class Guest:
    """Somebody on the other end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def says(self, *lines: bytes) -> None:
        self.writer.write(b"".join(line + b"\n" for line in lines))

    async def hears(self, *lines: bytes) -> None:
        expected = b"".join(line + b"\n" for line in lines)
        assert await asyncio.wait_for(self.reader.readexactly(len(expected)), PATIENCE_S) == expected

    async def hears_the_end(self) -> int:
        """Read until the connection is closed, in whichever way; the number of bytes that came before."""
        count = 0
        with contextlib.suppress(ConnectionError):
            while data := await asyncio.wait_for(self.reader.read(1 << 20), PATIENCE_S):
                count += len(data)
        return count

    async def leaves(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(self.writer.wait_closed(), PATIENCE_S)


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop go round until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 (the transport has no event for what goes on inside it)
            await asyncio.sleep(0)


def story(
    loop: str,
    tell: Callable[[House], Awaitable[None]],
    options: TcpOptions | None = None,
    guests: tuple[bytes, ...] = (),
) -> None:
    """Run one story on one kind of loop; errors that only reach the loop's handler count too."""

    async def run() -> None:
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        house = House(options if options is not None else TcpOptions(), guests)
        await house.open()
        try:
            await tell(house)
        finally:
            await house.close()
        assert house.door.connections == {}
        assert all(session.is_parted for session in house.sessions)
        assert faults == []

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())
