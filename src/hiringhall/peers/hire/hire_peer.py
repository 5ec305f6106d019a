"""What providers and workers have in common: a UUID, and a connection that is opened again after a loss.

Invariant: lines are handled in the order in which they come. A line that cannot be parsed is skipped and
counted; one on which the caller's own function fails is skipped and logged. Neither ends the connection.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self
from uuid import UUID, uuid4

from hiringhall.dialects.hire.wire import COMMENT, BadLine, Line, read_line, write_line
from hiringhall.peers.hire.errors import ConnectionLost
from hiringhall.peers.hire.links import check_address, open_link

if TYPE_CHECKING:
    from types import TracebackType

    from hiringhall.peers.hire.links import Link, Security

log: Final = logging.getLogger("hiringhall.peers.hire")

_RECONNECT_FIRST_S: Final = 0.05
_RECONNECT_MAX_S: Final = 2.0


class HirePeer(ABC):
    """One participant. `run` connects and listens until cancelled; `async with` does it in the background."""

    def __init__(self, address: str, uuid: UUID | None, *, compact: bool, security: Security | None) -> None:
        check_address(address, security)
        self.address = address
        self.uuid = uuid or uuid4()
        self.bad_lines = 0
        """Number of lines that could not be parsed."""
        self.remarks = 0
        """Number of comments that the hall sent about our lines; they are logged."""
        self._speaker = self.uuid.bytes
        self._compact = compact
        self._security = security
        self._link: Link | None = None
        self._connected = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Listen until cancelled. A lost connection is opened again."""
        pause_s = _RECONNECT_FIRST_S
        while True:
            try:
                self._link = await open_link(self.address, self._security)
                pause_s = _RECONNECT_FIRST_S
                self._connected.set()
                self.found()
                await self._listen(self._link)
            except ConnectionLost as loss:
                log.info("%s: %s", self.address, loss)
            finally:
                link, self._link = self._link, None
                self._connected.clear()
                if link is not None:
                    self.lost()
                    await link.close()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RECONNECT_MAX_S)

    async def __aenter__(self) -> Self:
        """Start, and wait until there is a connection."""
        self._running = asyncio.create_task(self.run())
        connected = asyncio.create_task(self._connected.wait())
        try:
            await asyncio.wait((self._running, connected), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._end_run()
            raise
        finally:
            connected.cancel()
        if self._running.done():
            self._running.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        await self._end_run()

    async def _end_run(self) -> None:
        assert self._running is not None
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    async def _listen(self, link: Link) -> None:
        while True:
            text = await link.receive()
            if text[:1] == COMMENT:
                self.remarks += 1
                log.info("%s: %s", self.address, text.decode(errors="replace"))
                continue
            try:
                line = read_line(text)
            except BadLine as reason:
                self.bad_lines += 1
                log.info("%s: skipped %r: %s", self.address, text[:100], reason)
                continue
            if line.speaker == self._speaker:
                continue  # a bus also returns our own lines
            try:
                self.received(line)
            except Exception:
                log.warning("%s: skipped %r", self.address, text[:100], exc_info=True)

    def say(
        self,
        verb: bytes,
        job: str,
        *,
        worker: UUID | None = None,
        type: str = "",  # noqa: A002 (the protocol's word)
        time_s: float = 0.0,
        skill: int = 0,
    ) -> None:
        """Send one line. It is lost if there is no connection."""
        if self._link is not None:
            line = Line(
                self._speaker,
                verb,
                encoded(job),
                worker.bytes if worker is not None else b"",
                encoded(type),
                round(time_s * 1_000_000),
                skill,
            )
            self._link.send(write_line(line, compact=self._compact))

    @abstractmethod
    def received(self, line: Line) -> None:
        """A line of another participant was received."""

    def found(self) -> None:  # noqa: B027 (not every peer needs it)
        """There is a connection: the first one, or a new one."""

    @abstractmethod
    def lost(self) -> None:
        """The connection has ended, and with it all that was agreed on it."""

    @abstractmethod
    def leave(self) -> None:
        """Send the last lines before the connection is closed."""


def encoded(name: str) -> bytes:
    """A type or an id as bytes; it may not be UTF-8."""
    return name.encode(errors="surrogateescape")


def decoded(name: bytes) -> str:
    return name.decode(errors="surrogateescape")
