"""The objects of auctions: markets, announced jobs, bids, and the rules by which one bid is chosen.

Invariant: a worker is hired for one next job at a time, and each hiring voids its other bids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.terms import Requirement
from hiringhall.core.timers import NEVER, Timed
from hiringhall.core.workers import Worker  # noqa: TC001 (compiled, a NamedTuple looks its types up)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.jobs import Job
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler

Group = tuple[int, Requirement]
"""Auctions of a queue whose jobs are interchangeable: one priority and one requirement."""
AHEAD: Final = -1
"""Stands for the priority of jobs that are announced before they are due."""
BIDS_MAX: Final = 1000
"""Bids for one job."""


class Offer:
    """One bid, as a policy sees it."""

    __slots__ = ("arrives_us", "hirings", "skill", "worker")

    def __init__(self, worker: Worker, skill: int, arrives_us: int, hirings: int = 0) -> None:
        self.worker = worker
        self.skill = skill
        self.arrives_us = arrives_us
        """When it can begin: the time it named plus its travel time."""
        self.hirings = hirings
        """The worker's count of hirings when it bid; if it was hired since, the bid is void."""


class HiringRecord(NamedTuple):
    """A worker was hired, for people to see."""

    at_us: int
    job: int
    queue: bytes
    worker: bytes
    skill: int
    arrives_us: int
    bids: int
    """How many bids there were; 0: a provider chose the worker."""
    policy: str
    """The name of the policy that chose."""


class Ask(NamedTuple):
    """The job, as a policy sees it."""

    skill: int
    """The skill that it needs; all offers have at least this."""
    due_us: int
    """When it should begin."""
    now_us: int


@dataclass(frozen=True)
class Rules:
    """How a market announces jobs and hires workers."""

    policy: Callable[[list[Offer], Ask], Offer | None]
    name: str = ""
    """The name of the policy, for people."""
    window_us: int = 100_000
    """How long bids are taken after an announcement."""
    travel_us: int = 0
    """Travel time of every worker, added to the time that it names."""
    buffer_us: int = 5_000_000
    """How much later than promised a worker may start."""
    answer_us: int = 5_000_000
    """How long a worker that was told to perform may take to confirm it."""
    ahead_us: int = 0
    """How long before its due time a delayed job is announced."""
    perform_us: int = 10_000_000
    """How long a job takes, if neither the job nor its queue's average tells."""
    pause_us: int = 250_000
    """The pause before a job without bids is announced again; it doubles each time."""
    pause_max_us: int = 5_000_000
    promise_max_us: int = 3_600_000_000
    """A worker that can begin only later than this is not hired."""
    auctions_max: int = 200
    """Auctions of one group at a time."""
    coalesce_us: int = 0
    """How long a job waits if others were announced within this time before it, so that the audience is told of
    several jobs at once; 0: no job waits."""


class Market(Timed):
    """A door whose peers bid. Its timer is set while newcomers wait for jobs to be announced again."""

    __slots__ = (
        "announced_us",
        "audience",
        "called_us",
        "coalescing",
        "newcomers",
        "peer",
        "queues",
        "rules",
        "untold",
        "waiting",
    )

    def __init__(self, peer: Peer, rules: Rules, queues: frozenset[bytes] | None) -> None:
        super().__init__()
        self.peer = peer
        """Receives `announced`, and passes it on."""
        self.rules = rules
        self.queues = queues
        """The queues whose jobs are announced here; None: all."""
        self.audience = 0
        """How many peers would hear an announcement; with 0 nothing is announced."""
        self.newcomers = 0
        """How many peers have come since `called_us`."""
        self.called_us = 0
        """When jobs without bids were last announced again for newcomers."""
        self.announced_us = 0
        """When jobs were last announced here."""
        self.coalescing = Coalescing(self)
        self.waiting: dict[Queue, None] = {}
        """Queues with ready jobs that are announced when `coalescing` is due."""
        self.untold: dict[Job, None] = {}
        """Jobs that were announced in this turn; the peer is told of them at its end."""

    def postpones(self, scheduler: Scheduler) -> bool:
        """Whether a job must not be announced now, but when `coalescing` is due, which is set then. Others were
        announced a moment ago, so there will probably be more.
        """
        coalesce_us = self.rules.coalesce_us
        now_us = scheduler.now_us
        if not coalesce_us or now_us == self.announced_us:
            return False
        if self.coalescing.due_us == NEVER:
            if now_us - self.announced_us >= coalesce_us:
                return False
            scheduler.timers.arm(self.coalescing, now_us + coalesce_us)
        return True

    def coalescing_due(self, scheduler: Scheduler) -> None:
        """Announce the jobs that have waited, at the end of this turn."""
        self.announced_us = scheduler.now_us
        for queue in self.waiting:
            if queue.ready:
                scheduler.table.unsettle(queue)
        self.waiting.clear()

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.auctions.market_due(self)

    @property
    def counts_down(self) -> bool:
        return False

    def covers(self, name: bytes) -> bool:
        """Whether jobs of this queue are announced here."""
        return self.queues is None or name in self.queues


class Coalescing(Timed):
    """The end of the time for which jobs wait to be announced together. Its timer is set while some wait."""

    __slots__ = ("market",)

    def __init__(self, market: Market) -> None:
        super().__init__()
        self.market = market

    def ring(self, scheduler: Scheduler) -> None:
        self.market.coalescing_due(scheduler)

    @property
    def counts_down(self) -> bool:
        return False


class Auction(Timed):
    """One job in a market. Its timer is the end of the window for bids, or of the pause before the next
    announcement.
    """

    __slots__ = ("bids", "group", "heard", "job", "lacked_time", "open", "pause_us", "rules", "skill_bid")

    def __init__(self, job: Job, rules: Rules) -> None:
        super().__init__()
        self.job = job
        self.rules = rules
        self.bids: dict[Worker, Offer] = {}
        """In the order in which they came; a worker's later bid replaces its earlier one."""
        self.open = True
        """Announced, and the window for bids is not over; otherwise it waits for the next announcement."""
        self.heard = False
        """It was announced at least once."""
        self.group: Group | None = None
        """The group it is counted with, from its announcement on."""
        self.pause_us = rules.pause_us
        self.skill_bid = -1
        """The best skill among bids that were refused for too little skill; -1: there were none."""
        self.lacked_time = False
        """A bid was refused because its worker comes too late or has too little time left."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.auctions.auction_due(self)

    @property
    def counts_down(self) -> bool:
        return self.open


class Listing:
    """The announcements of one queue."""

    __slots__ = ("counts", "invited", "markets", "resting")

    def __init__(self, markets: list[Market]) -> None:
        self.markets = markets
        self.counts: dict[Group, int] = {}
        """Jobs that were announced and can be bid for, by group."""
        self.resting: dict[Group, dict[int, Auction]] = {}
        """The ready ones of them that had no bids, by group and job id; the next to be announced comes
        first."""
        self.invited: dict[Group, None] = {}
        """Groups of which a worker has become free while all their jobs were being announced: the first of them
        that ends without a bid is announced again at once."""

    def asking(self) -> int:
        """Ready jobs that are announced, and have not ended without a bid."""
        asking = 0
        for group, count in self.counts.items():
            if group[0] != AHEAD:
                asking += count - len(self.resting.get(group, ()))
        return asking

    def count(self, auction: Auction, group: Group) -> None:
        """Add an auction to a group."""
        auction.group = group
        self.counts[group] = self.counts.get(group, 0) + 1

    def uncount(self, auction: Auction) -> None:
        """Remove an auction from its group."""
        group = auction.group
        assert group is not None
        self.unrest(auction)
        auction.group = None
        self.counts[group] -= 1
        if not self.counts[group]:
            del self.counts[group]

    def rest(self, auction: Auction) -> None:
        """The auction ended without a bid."""
        assert auction.group is not None
        self.resting.setdefault(auction.group, {})[auction.job.id] = auction

    def unrest(self, auction: Auction) -> None:
        """End the rest of an auction, if it rests."""
        assert auction.group is not None
        resting = self.resting.get(auction.group)
        if resting is not None and resting.pop(auction.job.id, None) is not None and not resting:
            del self.resting[auction.group]
