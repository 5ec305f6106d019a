"""The worker's connection beside servers that are not the hall one hoped for."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.dialects.native import wire
from hiringhall.sdk.addresses import read_addresses
from hiringhall.worker.link import Link

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REFUSAL = wire.encode("error", 1, ("bad_request", "this hall speaks version 9"))
WELCOME = {"version": 1, "hall": "good", "features": []}


class Owner:
    """Notes what a pool would be told."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[str] = asyncio.Queue()

    def connected(self, welcome: dict[str, Any]) -> None:
        self.told.put_nowait(f"connected to {welcome['hall']}")

    def disconnected(self, reason: str) -> None:
        self.told.put_nowait(f"disconnected: {reason}")

    def assigned(self, frame: bytes) -> None:
        raise AssertionError(frame)

    def revoked(self, lease: int) -> None:
        raise AssertionError(lease)

    def lost(self) -> None:
        raise AssertionError

    def drained(self, draining: bool) -> None:
        self.told.put_nowait("drained" if draining else "undrained")

    def refused(self, code: str, text: str) -> None:
        raise AssertionError(code, text)

    def flow(self, flowing: bool) -> None:
        """Nothing is sent."""

    def busy(self) -> bool:
        return False


@contextlib.asynccontextmanager
async def serving(hello: bytes | None = None, rest: bytes = b"") -> AsyncIterator[tuple[str, list[int]]]:
    """A server that answers hello with these bytes, or with a welcome and the rest; and then every request.
    Its URL, and a list of one number for each connection.
    """
    met: list[int] = []
    handlers: list[asyncio.Task[None]] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(len(met))
        handler: asyncio.Task[None] | None = asyncio.current_task()
        assert handler is not None
        handlers.append(handler)
        answer: object = WELCOME
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                _, number, _ = wire.decode_frame(await reader.readexactly(size))
                writer.write(hello or wire.encode("ok", number, answer) + rest)
                answer = None
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"hall://127.0.0.1:{server.sockets[0].getsockname()[1]}", met
    finally:
        server.close()
        # They end with their connections.
        await asyncio.gather(*handlers)


async def told_by(*urls: str, count: int) -> list[str]:
    """What the owner of a link to these addresses is told first."""
    owner = Owner()
    link = Link(read_addresses(",".join(urls)), owner, "test")
    running = asyncio.create_task(link.run())
    async with asyncio.timeout(5):
        told = [await owner.told.get() for _ in range(count)]
        # What was scheduled before has happened when another request was answered.
        if told[-1].startswith("connected"):
            await link.ask("beat", None)
        link.close()
        await running
    return told + [owner.told.get_nowait() for _ in range(owner.told.qsize())]


def test_after_a_hall_that_refuses_the_next_one_is_used_over_one_connection() -> None:
    async def run() -> None:
        async with serving(REFUSAL) as (refusing, _), serving() as (good, met):
            assert await told_by(refusing, good, count=1) == ["connected to good"]
            assert len(met) == 1

    asyncio.run(asyncio.wait_for(run(), 10))


@pytest.mark.parametrize("babble", [b"\0\0\0\1\xc1", wire.encode("revoke", 0, "x")])
def test_a_hall_that_babbles_is_left(babble: bytes) -> None:
    async def run() -> None:
        async with serving(rest=babble) as (url, _):
            connected, disconnected = await told_by(url, count=2)
            assert connected == "connected to good"
            assert "it does not speak the native protocol" in disconnected

    asyncio.run(asyncio.wait_for(run(), 10))
