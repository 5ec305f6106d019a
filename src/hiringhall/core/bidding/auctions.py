"""Auctions: unmatched jobs are announced, workers bid, and one of them is hired.

Invariants: an announced job stays ready, so that a worker that pulls first gets it; the most urgent job that a
worker qualifies for is announced first; nothing is announced without an audience. The scheduler tells when a
job moved, a queue has more jobs than workers, or a worker is free; auctions answer by hiring a worker.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from hiringhall.core.bidding.markets import AHEAD, BIDS_MAX, Ask, Auction, Listing, Market, Offer
from hiringhall.core.errors import HALL_FULL, WRONG_STATE, Refusal
from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import DELAYED, LEASED, QUEUED
from hiringhall.core.terms import NO_REQUIREMENT
from hiringhall.core.timers import NEVER

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Rules
    from hiringhall.core.jobs import Job
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker

CALLS_MAX: Final = 100
"""Jobs without bids that are announced again at once for newcomers."""
LOOKS_MAX: Final = 2000
"""Auctions that are examined for one newcomer."""
CALL_QUEUE_US: Final = 50
"""Pause per queue between two searches for newcomers. A search takes a tenth of it, so that peers that come and
go cannot keep the hall busy."""


class Auctions:
    """All markets, and the jobs that are announced there."""

    __slots__ = ("_scheduler", "by_job", "markets")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.markets: list[Market] = []
        """Where jobs are announced."""
        self.by_job: dict[int, Auction] = {}
        """Auctions of jobs that are announced, or will be, by job id."""

    # --- verbs of markets and of bidders

    def open_market(self, peer: Peer, rules: Rules, queues: frozenset[bytes] | None) -> Market:
        """Announce the jobs of these queues (None: of all) to the peers of a door, from now on."""
        market = Market(peer, rules, queues)
        self.markets.append(market)
        scheduler = self._scheduler
        scheduler.table.announcer = self
        for queue in scheduler.queues.values():
            self.queue_added(queue)
            if queue.ready:
                scheduler.table.unsettle(queue)
        for job in scheduler.jobs.values():
            if job.state == DELAYED:
                self._plan(job)
        return market

    def set_audience(self, market: Market, audience: int) -> None:
        """Set how many peers would hear an announcement."""
        market.newcomers += max(audience - market.audience, 0)
        market.audience = audience
        if market.newcomers and market.due_us == NEVER:
            again_us = market.called_us + len(self._scheduler.queues) * CALL_QUEUE_US
            if again_us < self._scheduler.now_us:
                self.market_due(market)
            else:
                self._scheduler.timers.arm(market, again_us + 1)

    def market_due(self, market: Market) -> None:
        """Peers have come: announce again, for each of them, one job of each queue that had no bids."""
        newcomers = min(market.newcomers, market.audience)
        market.newcomers = 0
        market.called_us = self._scheduler.now_us
        calls_left = CALLS_MAX
        for queue in self._scheduler.queues.values():
            listing = queue.listing
            if queue.ready and listing is not None and market in listing.markets:
                self._scheduler.table.unsettle(queue)
                resting = sum([len(auctions) for auctions in listing.resting.values()])
                calls = min(newcomers, resting, calls_left)
                calls_left -= calls
                for _ in range(calls if resting else 1):
                    self._announce_rested(queue, listing, None)

    def tell_announced(self) -> None:
        """Tell each market of the jobs that were announced since it was last told."""
        for market in self.markets:
            if market.untold:
                jobs = [job for job in market.untold if job.id in self.by_job]
                market.untold.clear()
                market.peer.announced(jobs)

    def standing(self, market: Market, count_max: int) -> list[Job]:
        """The announced jobs that can be bid for, at most `count_max`, in the order of their announcement.
        Those that are about to be announced again are left out.
        """
        jobs: list[Job] = []
        for auction in islice(self.by_job.values(), LOOKS_MAX):
            if len(jobs) >= count_max:
                break
            stands = auction.heard and (auction.open or auction.due_us > self._scheduler.now_us + 1)
            if stands and market in _listing(auction).markets:
                jobs.append(auction.job)
        return jobs

    def bid(self, worker: Worker, job_id: int, available_us: int, skill: int) -> None:
        """The worker bids: it could begin in `available_us`, and has this skill."""
        scheduler = self._scheduler
        auction = self.by_job.get(job_id)
        if auction is None or not auction.heard:
            raise Refusal(WRONG_STATE, "the job is not announced")
        if worker.promise is not None:
            raise Refusal(WRONG_STATE, "the worker was hired for another job")
        if worker.draining:
            raise Refusal(WRONG_STATE, "the worker drains: it gets no more jobs")
        rules = auction.rules
        if skill < auction.job.terms.skill:
            auction.skill_bid = max(skill, auction.skill_bid)
            raise Refusal(WRONG_STATE, f"the job needs skill {auction.job.terms.skill}")
        if available_us > rules.promise_max_us:
            auction.lacked_time = True
            raise Refusal(
                WRONG_STATE, f"a worker must be able to begin within {rules.promise_max_us // SECOND_US} s"
            )
        offer = Offer(worker, skill, scheduler.now_us + available_us + rules.travel_us, worker.hirings)
        if not self._is_valid(offer, auction.job, rules):
            auction.lacked_time = True
            raise Refusal(WRONG_STATE, "the job takes longer than the worker has left")
        if len(auction.bids) >= BIDS_MAX and worker not in auction.bids:
            auction.bids = {who: bid for who, bid in auction.bids.items() if who in scheduler.workers}
            if len(auction.bids) >= BIDS_MAX:
                raise Refusal(HALL_FULL, f"the job has {BIDS_MAX} bids already")
        queue = auction.job.queue
        name = queue.name
        if worker.abilities.get(queue) != 0:
            scheduler.can_do(worker, name)
        if worker.skill(name) != skill:
            scheduler.needs.rate(worker, name, skill)
        worker.bids = True
        auction.bids[worker] = offer
        if not auction.open:
            # A late bid, and the only one: do not wait for the next announcement.
            scheduler.timers.arm(auction, scheduler.now_us + 1)

    def unbid(self, worker: Worker, job_id: int) -> bool:
        """The worker withdraws its bid; False: it has none."""
        auction = self.by_job.get(job_id)
        return auction is not None and auction.bids.pop(worker, None) is not None

    # --- what the scheduler tells

    def queue_added(self, queue: Queue) -> None:
        """Find the markets where a queue's jobs are announced."""
        markets = [market for market in self.markets if market.covers(queue.name)]
        if queue.listing is not None:
            queue.listing.markets = markets
        elif markets:
            queue.listing = Listing(markets)

    def queue_paused(self, queue: Queue) -> None:
        """Announce none of its jobs any more."""
        for auction in [auction for auction in self.by_job.values() if auction.job.queue is queue]:
            self._close(auction)
        if queue.listing is not None:
            queue.listing.invited.clear()

    def queue_resumed(self, queue: Queue) -> None:
        """Announce its delayed jobs ahead again; the ready ones are announced when the queue is matched."""
        if queue.listing is not None:
            for job in self._scheduler.jobs.values():
                if job.state == DELAYED and job.queue is queue:
                    self._plan(job)

    def moved(self, job: Job) -> None:
        """A job has changed its state."""
        auction = self.by_job.get(job.id)
        if job.state == DELAYED:
            if auction is not None:
                self._close(auction)
            self._plan(job)
            return
        if auction is None:
            return
        ready = job.state == QUEUED and job.in_lane
        if ready and auction.group is not None and (auction.open or auction.bids):
            # It was announced ahead and is due now: count it with the ready jobs.
            listing = _listing(auction)
            listing.uncount(auction)
            listing.count(auction, (job.terms.priority, job.terms.requirement or NO_REQUIREMENT))
        else:
            self._close(auction)

    def job_parked(self, job: Job) -> None:
        """A ready job may not start now: it is announced again when it may."""
        auction = self.by_job.get(job.id)
        if auction is not None:
            self._close(auction)

    def worker_free(self, worker: Worker) -> None:
        """A worker can be hired again: of each of its queues, announce one job that had no bids again at
        once.
        """
        for queue in worker.abilities:
            if queue.listing is not None:
                self._announce_rested(queue, queue.listing, worker)

    def match(self, queue: Queue, listing: Listing) -> None:
        """The queue was matched: announce the jobs that are left."""
        if queue.ready > queue.waking:
            self._announce_ready(queue, listing)
        for group in [group for group in listing.invited if group not in listing.counts]:
            # No job of this group is left: the invitation goes to another group.
            del listing.invited[group]
            self._announce_rested(queue, listing, None)

    def auction_due(self, auction: Auction) -> None:
        """The window for bids, or the pause after it, is over."""
        scheduler = self._scheduler
        job = auction.job
        now_us = scheduler.now_us
        if scheduler.withholding:
            scheduler.timers.arm(auction, now_us + auction.rules.pause_us)
            return
        if not auction.open and not auction.bids:
            self._announce_again(auction)
            return
        limiter = job.queue.limiter
        if limiter is not None and not limiter.may_start(job):
            self._close(auction)  # it is announced when it may start, or is due
            return
        due_us = job.due_us if job.state == DELAYED else now_us
        offers = [offer for offer in auction.bids.values() if self._is_valid(offer, job, auction.rules)]
        chosen = auction.rules.policy(offers, Ask(job.terms.skill, due_us, now_us)) if offers else None
        if chosen is not None:
            self._hire(auction, chosen, len(offers))
            return
        auction.open = False
        auction.bids.clear()
        assert auction.group is not None
        listing = _listing(auction)
        if auction.group in listing.invited:
            del listing.invited[auction.group]
            self._announce_again(auction)
            return
        if job.state == QUEUED:
            listing.rest(auction)
            if job.queue.limiter is not None:
                scheduler.table.unsettle(job.queue)  # another job may be announced in its stead
        self._pause(auction)

    # --- inside

    def _announce_rested(self, queue: Queue, listing: Listing, worker: Worker | None) -> None:
        """Announce again the job that has rested longest, of the most urgent group that this worker qualifies
        for. If all of that group are being announced, the first of them without a bid will be announced again.
        """
        now_us = self._scheduler.now_us
        for group in sorted(listing.counts):
            if group[0] == AHEAD or (worker is not None and not worker.fits(queue.name, group[1], now_us)):
                continue
            resting = listing.resting.get(group)
            if resting is None:
                listing.invited[group] = None
            else:
                auction = next(iter(resting.values()))
                listing.unrest(auction)
                self._scheduler.timers.arm(auction, now_us + 1)
            return

    def _announce_ready(self, queue: Queue, listing: Listing) -> None:
        """Open auctions for the first ready jobs that have none, in the order of their lanes."""
        heard = [market for market in listing.markets if market.audience]
        if not heard:
            return
        rules = heard[0].rules
        left = queue.ready
        if queue.limiter is not None:
            left = queue.limiter.room() - listing.asking()  # no more than may start
        for requirement, lanes in queue.all_lanes().items():
            if requirement[2]:
                continue  # workers that bid state no resources
            for priority, lane in enumerate(lanes):
                room = min(rules.auctions_max - listing.counts.get((priority, requirement), 0), left)
                if lane.ready and room > 0:
                    jobs = lane.first(room, self.by_job)
                    if jobs and heard[0].postpones(self._scheduler):
                        heard[0].waiting[queue] = None
                        return
                    for job in jobs:
                        auction = self.by_job[job.id] = Auction(job, rules)
                        listing.count(auction, (priority, requirement))
                        self._announce(auction)
                        left -= 1

    def _plan(self, job: Job) -> None:
        """Announce a delayed job before it is due, if the market does so."""
        listing = job.queue.listing
        if listing is None or job.queue.paused_us or job.terms.resources or job.id in self.by_job:
            return
        rules = listing.markets[0].rules
        if rules.ahead_us:
            auction = self.by_job[job.id] = Auction(job, rules)
            auction.open = False
            scheduler = self._scheduler
            scheduler.timers.arm(auction, max(job.due_us - rules.ahead_us, scheduler.now_us + 1))

    def _announce(self, auction: Auction) -> None:
        listing = _listing(auction)
        auction.open = auction.heard = True
        listing.unrest(auction)
        auction.bids.clear()
        scheduler = self._scheduler
        scheduler.counters.announced += 1
        scheduler.timers.arm(auction, scheduler.now_us + auction.rules.window_us)
        for market in listing.markets:
            if market.audience:
                market.announced_us = scheduler.now_us
                market.untold[auction.job] = None

    def _announce_again(self, auction: Auction) -> None:
        """Announce a job again, or ahead of its due time for the first time, if there is room and an
        audience.
        """
        job = auction.job
        listing = _listing(auction)
        scheduler = self._scheduler
        heard = [market for market in listing.markets if market.audience]
        if not heard:
            if job.state == QUEUED:
                self._close(auction)  # it is announced when an audience comes
            else:
                wait_us = max(auction.pause_us, (job.due_us - scheduler.now_us) // 2)
                scheduler.timers.arm(auction, scheduler.now_us + wait_us)
            return
        if heard[0].postpones(scheduler):
            scheduler.timers.arm(auction, heard[0].coalescing.due_us)
            return
        if auction.group is None:
            group = (AHEAD, job.terms.requirement or NO_REQUIREMENT)
            if listing.counts.get(group, 0) >= auction.rules.auctions_max:
                self._pause(auction)
                return
            listing.count(auction, group)
        self._announce(auction)

    def _pause(self, auction: Auction) -> None:
        """Announce it again after a pause, which doubles each time."""
        self._scheduler.timers.arm(auction, self._scheduler.now_us + auction.pause_us)
        auction.pause_us = min(auction.pause_us * 2, auction.rules.pause_max_us)

    def _is_valid(self, offer: Offer, job: Job, rules: Rules) -> bool:
        """The worker is still there, was not hired since it bid, and qualifies for the job."""
        worker = offer.worker
        if (
            worker not in self._scheduler.workers
            or worker.hirings != offer.hirings
            or offer.skill < job.terms.skill
        ):
            return False
        if not worker.until_us:
            return True
        begin_us = max(offer.arrives_us, job.due_us if job.state == DELAYED else 0)
        return begin_us + self._scheduler.hiring.time_of(job, rules) <= worker.until_us

    def _hire(self, auction: Auction, offer: Offer, bids: int) -> None:
        scheduler = self._scheduler
        job = auction.job
        begin_us = job.due_us if job.state == DELAYED else scheduler.now_us
        scheduler.table.move(job, LEASED)
        engagement = scheduler.hiring.promise(job, offer.worker, offer.arrives_us, begin_us, auction.rules)
        scheduler.hiring.record(engagement, offer.skill, bids, auction.rules.name)
        offer.worker.peer.hired(engagement)

    def _close(self, auction: Auction) -> None:
        """End the auction of a job that moved or has no audience."""
        del self.by_job[auction.job.id]
        self._scheduler.timers.disarm(auction)
        if auction.group is not None:
            queue = auction.job.queue
            _listing(auction).uncount(auction)
            if queue.ready:
                self._scheduler.table.unsettle(queue)


def _listing(auction: Auction) -> Listing:
    """A job that is announced belongs to a queue that is listed."""
    listing = auction.job.queue.listing
    assert listing is not None
    return listing
