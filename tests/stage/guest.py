"""A peer in memory. What it says goes to a real session; what it hears is what the engine wrote to its link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from hiringhall.dialects.session import Link

if TYPE_CHECKING:
    from hiringhall.dialects.session import Session
    from stage.hall import Hall


class RecordingLink(Link):
    """Keeps every write until the test asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[bytes]] = []
        """The messages of each write since the test last asked."""
        self.closed = False
        self.paused = False
        self.behind = False
        """The peer has not read all that was written."""

    # --- for the engine

    @property
    def has_unsent(self) -> bool:
        return self.behind

    def write(self, messages: list[bytes]) -> None:
        assert not self.closed, "nothing is written after the close"
        self.writes.append(list(messages))

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    # --- for the test

    def take_messages(self) -> list[bytes]:
        """Every message since the test last asked."""
        messages = [message for write in self.writes for message in write]
        self.writes = []
        return messages


class Guest(RecordingLink):
    """One peer. A dialect adds how it frames what it says, and how it reads what it hears."""

    def __init__(self, hall: Hall, session: Session) -> None:
        super().__init__()
        self.hall = hall
        self.session = session
        session.link = self
        hall.engine.join(session)

    def say_bytes(self, *pieces: bytes) -> Self:
        """These pieces of input arrive in the open turn, or in a new one. The turn stays open."""
        for piece in pieces:
            self.hall.begin()
            self.session.receive(piece)
        return self

    def messages(self) -> list[bytes]:
        """End the turn; every message since the last time."""
        self.hall.end()
        return self.take_messages()

    def reads(self) -> bytes:
        """End the turn; everything since the last time as one piece."""
        return b"".join(self.messages())

    def says_no_more(self) -> None:
        """Close the sending side, as `Driver.end_input` handles it."""
        self.hall.begin()
        self.hall.scheduler.leave(self.session)
        self.session.finish()
        self.hall.end()

    def leaves(self) -> None:
        """Disconnect."""
        self.hall.begin()
        self.hall.engine.leave(self.session)
        self.hall.end()
