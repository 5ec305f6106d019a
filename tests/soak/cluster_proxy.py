"""A proxy before PostgreSQL that cuts connections of a hall in the middle of a commit, in four ways."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Final

CHUNK_BYTES: Final = 1 << 20
BEATS: Final = b" beats\0"
"""A connection with this in its start-up message is that of a member for its beats."""
COMMIT_BYTES_MIN: Final = 300
"""A message of the store that is shorter is no commit of jobs."""
WAYS: Final = ("before", "torn", "after", "answered")
"""The commit never arrives; half of it does; all of it does, and the connection is cut at once; all of it does,
and its answer is dropped."""


class CuttingProxy:
    """Cuts every commit with the chance `chance`. The connections for beats are left alone."""

    def __init__(self, port: int, seed: int) -> None:
        self.chance = 0.0
        self.cuts: Counter[str] = Counter()
        self._target = port
        self._dice = random.Random(f"{seed} cuts")
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._pass(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward: asyncio.StreamWriter | None = None
        try:
            with suppress(OSError):
                first = await reader.read(CHUNK_BYTES)
                answers, onward = await asyncio.open_connection("127.0.0.1", self._target)
                onward.write(first)
                back = asyncio.ensure_future(self._back(answers, writer))
                try:
                    await self._forth(reader, onward, back, cuttable=BEATS not in first)
                finally:
                    back.cancel()
                    await asyncio.gather(back, return_exceptions=True)
        finally:
            for side in (writer, onward):
                if side is not None:
                    side.transport.abort()

    async def _back(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await answers.read(CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def _forth(
        self,
        reader: asyncio.StreamReader,
        onward: asyncio.StreamWriter,
        back: asyncio.Future[None],
        *,
        cuttable: bool,
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if (
                cuttable
                and len(data) > COMMIT_BYTES_MIN
                and b"B\0" in data
                and self._dice.random() < self.chance
            ):
                await self._cut(data, onward, back)
                return
            onward.write(data)
            await onward.drain()

    async def _cut(self, data: bytes, onward: asyncio.StreamWriter, back: asyncio.Future[None]) -> None:
        way = self._dice.choice(WAYS)
        self.cuts[way] += 1
        if way == "before":
            return
        if way == "answered":
            back.cancel()
        onward.write(data[: self._dice.randrange(1, len(data))] if way == "torn" else data)
        await onward.drain()
        if way == "after":
            await asyncio.sleep(self._dice.uniform(0, 0.003))  # at any moment of the commit
        elif way == "answered":
            await asyncio.sleep(0.05)  # so long that the commit has ended
