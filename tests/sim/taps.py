"""What crosses a link at the hall's edge, decoded into events for the laws.

The law: a tap sees bytes and nothing else, and keeps its own account of the conversation. Where a dialect has
another name for a job than its id, or none, the hall is asked for the id, and for nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.gearman import wire

from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease
    from hiringhall.dialects.session import Session

    from .laws import Laws
    from .post import Line


class Holder:
    """Somebody who may have jobs."""

    def __init__(self, number: int, laws: Laws) -> None:
        self.number = number
        self.laws = laws
        self.heard_us = laws.now_us
        self.silence_us = 0
        """Silence after which it has lost what it had; 0: it never has."""
        self.able: dict[bytes, int] = {}
        """The queues it can do or could, with the run time that it gave."""

    @property
    def asks_for_a_job(self) -> bool:
        """It has asked for a job, and was not told yet whether it has one."""
        return False

    def has(self, lease: Lease) -> bool:
        """The lease is its own, by the hall's lights."""
        raise NotImplementedError


class Tap(Holder):
    """One connection as seen from outside."""

    pushed = False
    """It says how many jobs it waits for, and is given them without asking for each."""

    def __init__(self, number: int, session: Session, laws: Laws) -> None:
        super().__init__(number, laws)
        self.session = session
        self.open = True
        self.parted_us = 0
        self.abilities: dict[bytes, int] = {}
        """The queues it says that it can do, with the run time that it gave."""
        self.watches: dict[int, int] = {}
        """How many ends it is still to hear, by job."""
        self.unwatched: dict[int, None] = {}
        self.asleep = False
        self.woken_us = 0
        self.wake_step_us = 0
        """How long others sleep on when it was woken; 0: as long as the hall waits for its answer."""
        self.leases: dict[int, int] = {}
        """The jobs that it was told it has, by the number of the lease, where its dialect tells that."""
        laws.taps[number] = self

    @property
    def unanswered(self) -> int:
        """Requests whose answers are still to come."""
        return 0

    @property
    def waits_for_a_job(self) -> bool:
        """It was confirmed that it would be given a job."""
        return False

    def has(self, lease: Lease) -> bool:
        return lease.worker.peer is self.session

    def heard(self, data: bytes) -> None:
        self.heard_us = self.laws.now_us

    def took(self) -> None:
        """The session has dealt with what was heard."""

    def undelivered(self) -> None:
        """It is about to be disconnected: a message to it could not be delivered."""

    def parts(self) -> None:
        """It is about to be disconnected, and will not hear what its session has not sent."""

    def speaks_by(self, socket: Line) -> None:
        """From now on this socket speaks for the peer: its first, another, or one that it had before."""

    def can_do(self, queue: bytes, run_us: int) -> None:
        self.abilities[queue] = self.able[queue] = run_us

    def awake(self, woken_us: int = 0) -> None:
        self.asleep = False
        self.woken_us = woken_us

    def stands_for_a_job(self, wake_us: int) -> bool:
        """It was woken, and others need not be."""
        return self.woken_us > 0 and self.woken_us + (self.wake_step_us or wake_us) > self.laws.now_us

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
