"""What crosses a link at the hall's edge, decoded into events for the laws.

The law: a tap sees bytes and nothing else, and keeps its own account of the conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.gearman import wire

from .world import Violation

if TYPE_CHECKING:
    from hiringhall.dialects.session import Session

    from .laws import Laws


class Tap:
    """One connection as seen from outside."""

    def __init__(self, number: int, session: Session, laws: Laws) -> None:
        self.number = number
        self.session = session
        self.laws = laws
        self.open = True
        self.parted_us = 0
        self.heard_us = laws.now_us
        self.silence_us = 0
        self.abilities: dict[bytes, int] = {}
        """The queues it says that it can do, with the run time that it gave."""
        self.able: dict[bytes, int] = {}
        """The same, with those that it took back."""
        self.watches: dict[int, int] = {}
        """How many ends it is still to hear, by job."""
        self.unwatched: dict[int, None] = {}
        self.asleep = False
        self.woken_us = 0
        laws.taps[number] = self

    def heard(self, data: bytes) -> None:
        self.heard_us = self.laws.now_us

    def can_do(self, queue: bytes, run_us: int) -> None:
        self.abilities[queue] = self.able[queue] = run_us

    def awake(self, woken_us: int = 0) -> None:
        self.asleep = False
        self.woken_us = woken_us

    def sleeps(self) -> None:
        self.asleep = True
        self.woken_us = 0

    def said(self, data: bytes) -> None:
        raise NotImplementedError

    def note(self, text: str) -> None:
        self.laws.world.note(f"c{self.number} {text}")


class DeafTap(Tap):
    """For those who talk nonsense: they may hear anything but an assignment."""

    def said(self, data: bytes) -> None:
        self.note(f"<- {data[:60]!r}")
        if data.startswith(wire.response_head(wire.JOB_ASSIGN)):
            raise Violation("garbage", f"c{self.number} got a job for nonsense")
