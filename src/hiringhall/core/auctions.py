"""An auction: a job is announced, workers bid, and a policy chooses one of them.

The law: a bid is a promise about the worker's next place, and a worker has one such place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.jobs import Job, Lease, Shape
from hiringhall.core.timers import Timed
from hiringhall.core.workers import Worker  # noqa: TC001 (compiled, a NamedTuple looks its types up)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.peer import Peer

HIRED: Final = 0
"""The worker is to come: its next place is taken."""
ARRIVED: Final = 1
"""It said START, and waits to be told to perform."""
CALLED: Final = 2
"""It was told to perform, and has not yet said that it does."""
PERFORMING: Final = 3


Group = tuple[int, Shape]
"""The auctions of a queue that stand for each other: their jobs have one priority and one shape."""
AHEAD: Final = -1
"""Takes the place of the priority for jobs that are announced before they are due."""
BIDS_MAX: Final = 1000
"""Bids for one job."""


class Offer(NamedTuple):
    """What a policy sees of one bid."""

    worker: Worker
    skill: int
    arrives_us: int
    """When it can begin: the time it named, and its way."""
    hirings: int = 0
    """The worker's count of hirings when it bid: hired since then, its bid is void."""


class Ask(NamedTuple):
    """What a policy sees of the job."""

    skill: int
    """The skill that it needs; nobody with less is among the offers."""
    due_us: int
    """When it is to be begun."""
    now_us: int


class Rules:
    """How the jobs of a market are given away."""

    __slots__ = (
        "ahead_us",
        "answer_us",
        "auctions_max",
        "buffer_us",
        "pause_max_us",
        "pause_us",
        "perform_us",
        "policy",
        "promise_max_us",
        "travel_us",
        "window_us",
    )

    def __init__(
        self,
        policy: Callable[[list[Offer], Ask], Offer | None],
        *,
        window_us: int = 100_000,
        travel_us: int = 0,
        buffer_us: int = 5_000_000,
        answer_us: int = 5_000_000,
        ahead_us: int = 0,
        perform_us: int = 10_000_000,
        pause_us: int = 250_000,
        pause_max_us: int = 5_000_000,
        promise_max_us: int = 3_600_000_000,
        auctions_max: int = 200,
    ) -> None:
        self.policy = policy
        self.window_us = window_us
        """How long bids are taken after an announcement."""
        self.travel_us = travel_us
        """The way of every worker, on top of the time that it names."""
        self.buffer_us = buffer_us
        """How much later than promised a worker may start."""
        self.answer_us = answer_us
        """How long a worker that was told to perform may take to say that it does."""
        self.ahead_us = ahead_us
        """How long before it is due a job is announced."""
        self.perform_us = perform_us
        """How long a job takes of which nothing is known."""
        self.pause_us = pause_us
        """The pause before a job that nobody wanted is announced again; it doubles each time."""
        self.pause_max_us = pause_max_us
        self.promise_max_us = promise_max_us
        """A worker that comes later than this is not waited for."""
        self.auctions_max = auctions_max
        """Jobs of one group that are announced, or rest, at once."""


class Market(Timed):
    """A place where jobs are announced: a door whose peers bid. Its timer is set while newcomers have to wait
    until they are called out to.
    """

    __slots__ = ("audience", "called_us", "newcomers", "peer", "queues", "rules")

    def __init__(self, peer: Peer, rules: Rules, queues: frozenset[bytes] | None) -> None:
        super().__init__()
        self.peer = peer
        """Hears `announced`, and tells it on."""
        self.rules = rules
        self.queues = queues
        """Whose jobs are announced here; None: all."""
        self.audience = 0
        """Who would hear an announcement; with nobody there is none."""
        self.newcomers = 0
        """Who has come since `called_us`."""
        self.called_us = 0
        """When those who had come last had jobs announced to them that nobody had wanted."""

    def covers(self, name: bytes) -> bool:
        return self.queues is None or name in self.queues


class Auction(Timed):
    """One job in a market. Its timer is the end of the window, or of the pause before it is announced again, or
    for the first time.
    """

    __slots__ = ("bids", "group", "heard", "job", "lacked_time", "open", "pause_us", "rules", "skill_bid")

    def __init__(self, job: Job, rules: Rules) -> None:
        super().__init__()
        self.job = job
        self.rules = rules
        self.bids: dict[Worker, Offer] = {}
        """In the order in which they came; a worker's later bid takes the place of its earlier one."""
        self.open = True
        """Announced, and its window is not over; otherwise it waits to be announced."""
        self.heard = False
        """It was announced at least once."""
        self.group: Group | None = None
        """With which of its queue it is counted, from its announcement on."""
        self.pause_us = rules.pause_us
        self.skill_bid = -1
        """The best skill of the bids that were refused because it is too little; -1: there were none."""
        self.lacked_time = False
        """A bid was refused because its worker comes too late, or has not the time."""


class Engagement(Lease):
    """A lease on a worker's next place: promised, then begun, then performed. Its timer is the deadline of the
    stage it is in.
    """

    __slots__ = (
        "begin_us",
        "master",
        "patience_us",
        "perform_us",
        "promised_us",
        "rules",
        "stage",
    )

    def __init__(self, number: int, job: Job, worker: Worker, now_us: int, offer_us: int, rules: Rules) -> None:
        super().__init__(number, job, worker, now_us, 0)
        self.stage = HIRED
        self.rules = rules
        self.promised_us = offer_us
        """When the worker said that it can begin."""
        self.begin_us = now_us
        """When the job is due: it is not begun earlier."""
        self.perform_us = 0
        """How long it takes, as the worker was told."""
        self.master: Peer | None = None
        """The provider whose job it is, and who says when; None: the hall."""
        self.patience_us = 0
        """How long a provider whose going cannot be seen may be silent; 0: it can be seen."""

    @property
    def booked(self) -> bool:
        """Its worker does not bid, and has not heard of it: it is given it when it asks for work."""
        return self.stage == HIRED and not self.worker.bids

    @property
    def promised(self) -> bool:
        """The worker has not begun: it can still be given back as if nothing had been."""
        return self.stage != PERFORMING
