"""A worker: what it can do, what it has, and how it wants to hear of more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from hiringhall.core.jobs import Lease
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue


class Worker(Timed):
    """A peer that works. Its timer guards a wake-up it has not answered and its silence, whichever is first."""

    __slots__ = (
        "abilities",
        "asleep",
        "credit",
        "heard_us",
        "leases",
        "name",
        "number",
        "peer",
        "quiet_at_work",
        "resident",
        "rotate",
        "silence_us",
        "wake_until_us",
        "waking",
    )

    def __init__(self, number: int, peer: Peer, now_us: int) -> None:
        super().__init__()
        self.number = number
        self.peer = peer
        self.name = b""
        """What it calls itself; shown to people and kept in the history."""
        self.abilities: dict[Queue, int] = {}
        """The queues it can do, in the order in which it said so, with its run limit in us (0: none)."""
        self.leases: dict[int, Lease] = {}
        """What it works on, by job id."""
        self.asleep = False
        """Waits for `woken`; it is in `sleepers` of each of its queues exactly while this is set."""
        self.waking: Queue | None = None
        """The queue it was woken for, until it asks for work, sleeps again, or lets `wake_until_us` pass."""
        self.wake_until_us = 0
        self.credit = 0
        """Slots offered and not yet filled; it is in `takers` of each of its queues while this is above 0."""
        self.rotate = False
        """Take from its queues in turn, and not the oldest job first."""
        self.heard_us = now_us
        """When it last showed life."""
        self.silence_us = 0
        """Silence after which it counts as lost; 0: only leaving does."""
        self.quiet_at_work = False
        """Its silence does not count while it has a job, and is counted from the end of the last one."""
        self.resident: Queue | None = None
        """The one queue of a worker that is known by its name and not by a connection: what it holds is kept
        when the hall closes."""
