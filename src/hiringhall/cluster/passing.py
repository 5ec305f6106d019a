"""The doors of a standby: they pass every connection on, byte for byte, to the active hall.

Invariant: nothing is read of what passes, so encryption and identity stay between the client and the active
hall. When the doors close, every connection that they pass on is closed, and its client comes again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK_BYTES: Final = 65_536
CONNECT_S: Final = 2.0
"""A client is turned away if the active hall does not accept its connection in this time."""
LINGER_S: Final = 30.0
"""A client whose connection has ended must have read the rest of it in this time."""
CONNECTIONS_MAX: Final = 10_000
"""Connections that one door passes on at the same time."""

_log = logging.getLogger("hiringhall")


class PassDoor:
    """One address. `find_target` says where the active hall has the same door; None: nobody is active."""

    def __init__(self, find_target: Callable[[], tuple[str, int] | None]) -> None:
        self._find_target = find_target
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._closed = False
        self._silent: tuple[str, int] | None = None
        """The target that did not answer last, which is logged once."""

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that was bound."""
        self._server = await asyncio.start_server(self._accepted, host, port)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    def drop(self) -> None:
        """Close every connection."""
        for task in self._passing:
            task.cancel()

    async def close(self) -> None:
        """Stop listening, and close every connection."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        self.drop()
        await asyncio.gather(*self._passing, return_exceptions=True)

    @property
    def connections(self) -> int:
        return len(self._passing)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:  # it had been accepted before
            writer.transport.abort()
            return
        if len(self._passing) >= CONNECTIONS_MAX:
            _log.warning("a connection is refused: this standby passes on %d already", CONNECTIONS_MAX)
            writer.close()
            return
        task = asyncio.ensure_future(self._pass(reader, writer))
        self._passing.add(task)
        # Also if it is cancelled before it has begun: then nothing in it is executed.
        task.add_done_callback(partial(self._ended, writer))

    def _ended(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._passing.discard(task)
        writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self._find_target()
        if target is None:
            return
        try:
            async with asyncio.timeout(CONNECT_S):
                onward_reader, onward_writer = await asyncio.open_connection(*target)
        except (OSError, TimeoutError) as error:
            if self._silent != target:
                _log.info("the active hall at %s:%d does not answer: %s", *target, error)
            self._silent = target
            return
        self._silent = None
        try:
            await asyncio.gather(_pump(reader, onward_writer), _pump(onward_reader, writer))
            await _close(writer)
        finally:
            onward_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on in one direction until it ends, and then its end."""
    try:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (OSError, RuntimeError):  # One of the two is gone; uvloop says so with the second.
        writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection. Its client has some time to read the rest."""
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(LINGER_S):
            await writer.wait_closed()
