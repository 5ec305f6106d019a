"""HTTP connections that end if their client does not do its part.

Invariant: a connection whose client neither finishes the head of a request within `HEAD_S` nor reads an answer
for `SLOW_S` is closed, so that silent clients cannot use up the connections of the process. Bodies are bounded
in time by the guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

HEAD_S: Final = 20.0
"""From the first moment of a connection, or the first byte of a later request, to the end of its head."""
SLOW_S: Final = 30.0
"""How long a client may read nothing of an answer that waits for it."""


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with limits to its patience."""

    head_s = HEAD_S
    slow_s = SLOW_S
    _head: asyncio.TimerHandle | None = None
    """Runs while the head of a request is expected."""
    _unread: asyncio.TimerHandle | None = None
    """Runs while the client does not read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = self.loop.call_later(self.head_s, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._end_head()
        elif self._head is None:
            self._head = self.loop.call_later(self.head_s, self._give_up)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.slow_s, self._give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_unread()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        # Not close, which waits until the client has read what was sent.
        self.transport.abort()

    def _end_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _end_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
