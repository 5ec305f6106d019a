"""The link of one session at a ROUTER: how its messages are sent by the connection of its peer.

Invariant: a message is counted as delivered when the transport has it. While the peer does not read, messages
wait here, and what waits is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.dialects.session import OVER_BUDGET
from hiringhall.transports.budget import BufferedLink, output_bytes
from hiringhall.transports.zmtp.frames import EMPTY_FRAME, LAST_HEADS, MORE, REQ_HEADS, SHORT_MAX, frame, head

if TYPE_CHECKING:
    from hiringhall.dialects.session import Session
    from hiringhall.transports.zmtp.connection import Connection
    from hiringhall.transports.zmtp.router import RouterDoor, RouterSide

APART_BYTES_MIN: Final = 16_384
"""Messages of at least this length are not copied into one buffer: many peers may get the same one."""
BATCH_BYTES: Final = 262_144
"""What is given to the transport at once. If the peer does not read, the rest is not counted as delivered."""


class RouterLink(BufferedLink):
    """The link of one session: a route."""

    __slots__ = (
        "_door",
        "_heads",
        "_prefix",
        "_route",
        "failed_us",
        "held",
        "key",
        "received_us",
        "session",
        "side",
        "unsent",
        "unsent_bytes",
    )

    def __init__(
        self, door: RouterDoor, side: RouterSide, key: tuple[bytes, ...], route: list[bytes], session: Session
    ) -> None:
        super().__init__()
        self._door = door
        self.side = side
        self.key = key
        """The identity and the envelope of its messages."""
        self._route = route
        """The frames before each answer."""
        self._prefix = b"".join([frame(each, MORE) for each in route])
        """The same as it is on the wire."""
        self._heads: list[bytes] | None = {b"": LAST_HEADS, EMPTY_FRAME: REQ_HEADS}.get(self._prefix)
        """The prefix with the head of a body of up to 255 bytes."""
        self.session = session
        self.received_us = 0
        self.failed_us = 0
        """The time of the turn in which something could not be sent; 0: all could."""
        self.held = False
        """The engine has paused reading."""
        self.unsent: list[bytes] = []
        """Messages that wait because the peer does not read."""
        self.unsent_bytes = 0

    def write(self, messages: list[bytes]) -> None:
        connection = self.side.connection
        if connection.is_closing:
            if not self.failed_us:
                self.failed_us = self._door.driver.scheduler.now_us
        elif self.unsent or not connection.writable:
            self._queue(messages)
        elif len(messages) == 1 and self._heads is not None and len(messages[0]) <= SHORT_MAX:
            if connection.sealer is not None:
                connection.send(self._encode(messages[0]))
            else:
                connection.send(self._heads[len(messages[0])] + messages[0])
            self.session.delivered += 1
        else:
            sent = self._send(connection, messages)
            if sent < len(messages):
                self._queue(messages[sent:])

    def _send(self, connection: Connection, messages: list[bytes]) -> int:
        """Send messages while the peer reads them; how many were sent."""
        sent = 0
        while sent < len(messages) and connection.writable:
            batch: list[bytes] = []
            size = 0
            longest = 0
            while sent < len(messages) and size < BATCH_BYTES:
                message = messages[sent]
                if connection.sealer is not None:
                    batch.append(self._encode(message))
                else:
                    batch.append(self._prefix)
                    batch.append(head(len(message)))
                    batch.append(message)
                size += len(message)
                longest = max(longest, len(message))
                sent += 1
            if longest >= APART_BYTES_MIN:
                connection.write(batch)
            else:
                connection.send(b"".join(batch))
        self.session.delivered += sent
        return sent

    def _encode(self, message: bytes) -> bytes:
        """A message with encryption: each frame is encrypted by itself."""
        connection = self.side.connection
        frames = [connection.encode(each, MORE) for each in self._route]
        frames.append(connection.encode(message))
        return b"".join(frames)

    def _queue(self, messages: list[bytes]) -> None:
        """The peer does not read: keep these until it does."""
        size = sum([len(message) for message in messages])
        self.unsent += messages
        self.unsent_bytes += size
        side = self.side
        side.unsent_bytes += size
        self._door.block(self)
        unsent_bytes = side.unsent_bytes + side.connection.unsent_bytes
        if unsent_bytes > self._door.options.unsent_bytes_max:
            text = f"it has {unsent_bytes} bytes of unsent output (unsent_bytes_max)"
            side.connection.drop_slow(text)
        else:
            self._door.budget.note(self)

    def send_unsent(self) -> None:
        """The peer reads again."""
        messages = self.unsent
        sent = self._send(self.side.connection, messages)
        size = sum([len(message) for message in messages[:sent]])
        self.unsent = messages[sent:]
        self.unsent_bytes -= size
        self.side.unsent_bytes -= size
        if not self.unsent:
            self._door.unblock(self)
        self._door.budget.note(self)

    def close(self) -> None:
        """End the session; other ones may use its connection."""
        self._door.end_later(self)

    @property
    def has_unsent(self) -> bool:
        return len(self.unsent) > 0 or self.side.connection.unsent_bytes > 0

    def pause(self) -> None:
        if not self.held:
            self.held = True
            self.side.connection.hold()
        self._door.budget.note(self)

    def resume(self) -> None:
        if self.held:
            self.held = False
            self.side.connection.unhold()
            self._door.budget.note(self)

    def kept_bytes(self) -> int:
        return self.unsent_bytes + output_bytes(self.session)

    def drop(self, text: str) -> None:
        self.session.report(OVER_BUDGET, text)
        self.side.connection.abort()
