"""The stream between a connection of the SDK and the hall of a test: no socket, and nothing is ever under way.

Invariant: what the hall says is given to the SDK on the SDK's own event loop, in order.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from hiringhall.dialects.session import Link as HallLink

if TYPE_CHECKING:
    from hiringhall.dialects.session import Session
    from hiringhall.sdk.link import Link
    from hiringhall.testing.memory_hall import MemoryHall


class MemoryLink(HallLink):
    """The hall's end."""

    def __init__(self, hall: MemoryHall, link: Link) -> None:
        super().__init__()
        self._hall = hall
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._ended = False
        self.thread = threading.get_ident()
        """Where the SDK's event loop runs."""
        self._under_way = 0

    @property
    def under_way(self) -> bool:
        """The hall has said something that the event loop has not read, but will."""
        return self._under_way > 0 and self._loop.is_running()

    def write(self, messages: list[bytes]) -> None:
        self._give(self._link.data_received, b"".join(messages))

    def close(self) -> None:
        if not self._ended:
            self._give(self._link.connection_lost, None)
        self._ended = True

    def _give(self, hear: Any, said: Any) -> None:
        if not self._ended and not self._loop.is_closed():
            self._under_way += 1
            self._loop.call_soon_threadsafe(self._heard, hear, said)

    def _heard(self, hear: Any, said: Any) -> None:
        hear(said)
        with self._hall.changed:
            self._under_way -= 1
            self._hall.wake()


class MemoryTransport(asyncio.Transport):
    """The SDK's end."""

    def __init__(self, hall: MemoryHall, link: MemoryLink) -> None:
        super().__init__()
        self._hall = hall
        self._link = link
        self._session: Session = hall.join(link)
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._closing:
            self._hall.happened += 1
            self._hall.receive(self._session, bytes(data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._hall.leave(self._session)
            self._link.close()

    def abort(self) -> None:
        self.close()


def connect(hall: MemoryHall, link: Link) -> MemoryTransport:
    """Connect a link of the SDK, on its event loop."""
    end = MemoryLink(hall, link)
    transport = MemoryTransport(hall, end)
    hall.links.add(end)
    link.connection_made(transport)
    return transport
