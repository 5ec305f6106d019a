"""An auction: a job is announced, workers bid, and a policy chooses one of them.

The law: a bid is a promise about the worker's next place, and a worker has one such place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.terms import Shape
from hiringhall.core.timers import Timed
from hiringhall.core.workers import Worker  # noqa: TC001 (compiled, a NamedTuple looks its types up)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.jobs import Job
    from hiringhall.core.peer import Peer
    from hiringhall.core.scheduler import Scheduler

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

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.auctions.market_due(self)

    @property
    def counts_down(self) -> bool:
        return False

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

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.auctions.auction_due(self)

    @property
    def counts_down(self) -> bool:
        return self.open


class Listing:
    """What is announced of one queue, and where."""

    __slots__ = ("counts", "invited", "markets", "resting")

    def __init__(self, markets: list[Market]) -> None:
        self.markets = markets
        self.counts: dict[Group, int] = {}
        """How many jobs were announced, and can still be bid for, by group."""
        self.resting: dict[Group, dict[int, Auction]] = {}
        """The ready ones of them that nobody wanted, by group and job: the next to be announced first."""
        self.invited: dict[Group, None] = {}
        """Groups that somebody who has become free may want, while all of them are announced already: the first
        that nobody wants is announced once more, at once."""

    def count(self, auction: Auction, group: Group) -> None:
        """An auction belongs to this group from now on."""
        auction.group = group
        self.counts[group] = self.counts.get(group, 0) + 1

    def uncount(self, auction: Auction) -> None:
        """It belongs to its group no more."""
        group = auction.group
        assert group is not None
        self.unrest(auction)
        auction.group = None
        self.counts[group] -= 1
        if not self.counts[group]:
            del self.counts[group]

    def rest(self, auction: Auction) -> None:
        """Nobody wanted it."""
        assert auction.group is not None
        self.resting.setdefault(auction.group, {})[auction.job.id] = auction

    def unrest(self, auction: Auction) -> None:
        """It rests no more, if it did."""
        assert auction.group is not None
        resting = self.resting.get(auction.group)
        if resting is not None and resting.pop(auction.job.id, None) is not None and not resting:
            del self.resting[auction.group]
