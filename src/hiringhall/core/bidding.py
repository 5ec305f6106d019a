"""Auctions: jobs that nobody takes are announced, workers bid, and one of them is hired.

The laws: an announced job stays ready, so that whoever pulls first has it; of what somebody is good for, the
most urgent is announced first; what nobody hears is not announced.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from hiringhall.core.auctions import AHEAD, BIDS_MAX, Ask, Auction, Market, Offer
from hiringhall.core.errors import HALL_FULL, WRONG_STATE, Refusal
from hiringhall.core.hiring import Hiring
from hiringhall.core.jobs import DELAYED, LEASED, PLAIN, QUEUED
from hiringhall.core.limits import SECOND_US
from hiringhall.core.timers import NEVER

if TYPE_CHECKING:
    from hiringhall.core.auctions import Engagement, Rules
    from hiringhall.core.jobs import Job
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.workers import Worker

CALLS_MAX: Final = 100
"""Jobs that nobody had wanted and that are announced at once when somebody comes."""
LOOKS_MAX: Final = 2000
"""Auctions that are looked at for one who comes."""
CALL_QUEUE_US: Final = 50
"""A look at one queue for those who have come takes a tenth of this: however often peers come and go, the hall
spends no more of its time with that."""


class Bidding(Hiring):
    """The verbs of markets and of those who bid there, and the deadlines of auctions."""

    def open_market(self, peer: Peer, rules: Rules, queues: frozenset[bytes] | None) -> Market:
        """A door whose peers bid: from now on jobs of these queues (None: of all) are announced there."""
        market = Market(peer, rules, queues)
        self.markets.append(market)
        for queue in self.queues.values():
            self._place(queue)
            if queue.ready:
                self._unsettle(queue)
        for job in self.jobs.values():
            if job.state == DELAYED:
                self._plan(job)
        return market

    def attend(self, market: Market, audience: int) -> None:
        """So many would hear an announcement now."""
        market.newcomers += max(audience - market.audience, 0)
        market.audience = audience
        if market.newcomers and market.due_us == NEVER:
            again_us = market.called_us + len(self.queues) * CALL_QUEUE_US
            if again_us < self.now_us:
                self._call_out(market)
            else:
                self.timers.arm(market, again_us + 1)

    def _call_out(self, market: Market) -> None:
        """Some have come: for each of them a job of each queue is announced again that nobody wanted so far."""
        newcomers = min(market.newcomers, market.audience)
        market.newcomers = 0
        market.called_us = self.now_us
        calls_left = CALLS_MAX
        for queue in self.queues.values():
            if queue.ready and queue.markets is not None and market in queue.markets:
                self._unsettle(queue)
                resting = sum([len(auctions) for auctions in queue.resting.values()])
                calls = min(newcomers, resting, calls_left)
                calls_left -= calls
                for _ in range(calls if resting else 1):
                    self._announce_rested(queue, None)

    def standing(self, market: Market, count_max: int) -> list[Job]:
        """The jobs that were announced there and can be bid for, so many at most: first those announced first.
        What is announced again right after this is left out.
        """
        jobs: list[Job] = []
        for auction in islice(self.auctions.values(), LOOKS_MAX):
            if len(jobs) >= count_max:
                break
            stands = auction.heard and (auction.open or auction.due_us > self.now_us + 1)
            if stands and market in (auction.job.queue.markets or ()):
                jobs.append(auction.job)
        return jobs

    def bid(self, worker: Worker, job_id: int, available_us: int, skill: int) -> None:
        """The worker could begin in so long, and is so good at it."""
        auction = self.auctions.get(job_id)
        if auction is None or not auction.heard:
            raise Refusal(WRONG_STATE, "nobody bids for this job now")
        if worker.promise is not None:
            raise Refusal(WRONG_STATE, "the worker has a next job already")
        rules = auction.rules
        if skill < auction.job.terms.skill:
            auction.skill_bid = max(skill, auction.skill_bid)
            raise Refusal(WRONG_STATE, "the worker has not the skill that the job needs")
        if available_us > rules.promise_max_us:
            auction.lacked_time = True
            raise Refusal(WRONG_STATE, f"nobody waits for longer than {rules.promise_max_us // SECOND_US} s")
        offer = Offer(worker, skill, self.now_us + available_us + rules.travel_us, worker.hirings)
        if not self._stands(offer, auction.job, rules):
            auction.lacked_time = True
            raise Refusal(WRONG_STATE, "the worker has not the time that the job needs")
        if len(auction.bids) >= BIDS_MAX and worker not in auction.bids:
            auction.bids = {who: bid for who, bid in auction.bids.items() if who in self.workers}
            if len(auction.bids) >= BIDS_MAX:
                raise Refusal(HALL_FULL, f"{BIDS_MAX} others have bid for this job already")
        name = auction.job.queue.name
        self.can_do(worker, name)
        if worker.skill(name) != skill:
            self.rate(worker, name, skill)
        worker.bids = True
        auction.bids[worker] = offer
        if not auction.open:
            # It comes late, and nobody else was there: it need not wait for the next announcement.
            self.timers.arm(auction, self.now_us + 1)

    def unbid(self, worker: Worker, job_id: int) -> bool:
        """The worker takes its bid back; False: it has none."""
        auction = self.auctions.get(job_id)
        return auction is not None and auction.bids.pop(worker, None) is not None

    def _invite(self, worker: Worker) -> None:
        """A worker's next place is free again: of each of its queues one job that nobody wanted is announced
        again, at once.
        """
        for queue in worker.abilities:
            self._announce_rested(queue, worker)

    def _announce_rested(self, queue: Queue, worker: Worker | None) -> None:
        """Of the most urgent jobs that were announced, and that this worker is good for, the one that rests for
        longest is announced again. If they are all announced just now, so is the first that nobody wants.
        """
        for group in sorted(queue.auctions):
            if group[0] == AHEAD or (worker is not None and not worker.fits(queue.name, group[1], self.now_us)):
                continue
            resting = queue.resting.get(group)
            if resting is None:
                queue.invited[group] = None
            else:
                auction = next(iter(resting.values()))
                queue.unrest(auction)
                self.timers.arm(auction, self.now_us + 1)
            return

    def _match(self, queue: Queue) -> None:
        super()._match(queue)
        if queue.markets is None:
            return
        if queue.ready > queue.waking:
            self._announce_ready(queue, queue.markets)
        for group in [group for group in queue.invited if group not in queue.auctions]:
            # All of them are given away: the invitation is for others.
            del queue.invited[group]
            self._announce_rested(queue, None)

    def _announce_ready(self, queue: Queue, markets: list[Market]) -> None:
        """Open an auction for the first ready jobs that have none: first come, first announced."""
        heard = [market for market in markets if market.audience]
        if not heard:
            return
        rules = heard[0].rules
        for shape, lanes in queue.all_lanes().items():
            for priority, lane in enumerate(lanes):
                room = rules.auctions_max - queue.auctions.get((priority, shape), 0)
                if lane.ready and room > 0:
                    for job in lane.first(room, self.auctions):
                        auction = self.auctions[job.id] = Auction(job, rules)
                        queue.count(auction, (priority, shape))
                        self._announce(auction)

    def _enqueue(self, job: Job, *, front: bool) -> None:
        super()._enqueue(job, front=front)
        auction = self.auctions.get(job.id) if self.auctions else None
        if auction is None:
            return
        if auction.group is not None and (auction.open or auction.bids):
            # It was announced ahead, and is due: from now on it is one of the ready ones.
            job.queue.uncount(auction)
            job.queue.count(auction, (job.terms.priority, job.terms.shape or PLAIN))
        else:
            self._unlist(job)

    def _delay(self, job: Job, due_us: int) -> None:
        super()._delay(job, due_us)
        self._plan(job)

    def _plan(self, job: Job) -> None:
        """A job that is due later is announced ahead of that, where the market does so."""
        markets = job.queue.markets
        if markets is not None and markets[0].rules.ahead_us and job.id not in self.auctions:
            auction = Auction(job, markets[0].rules)
            auction.open = False
            self.auctions[job.id] = auction
            self.timers.arm(auction, max(job.due_us - auction.rules.ahead_us, self.now_us + 1))

    def _announce(self, auction: Auction) -> None:
        auction.open = auction.heard = True
        auction.job.queue.unrest(auction)
        auction.bids.clear()
        self.counters.announced += 1
        self.timers.arm(auction, self.now_us + auction.rules.window_us)
        for market in auction.job.queue.markets or ():
            if market.audience:
                market.peer.announced(auction.job)

    def _auction_due(self, auction: Auction) -> None:
        """The window, or the pause after one, is over."""
        job = auction.job
        now_us = self.now_us
        if self.closing:
            self.timers.arm(auction, now_us + auction.rules.pause_us)
            return
        if not auction.open and not auction.bids:
            self._announce_again(auction)
            return
        due_us = job.due_us if job.state == DELAYED else now_us
        offers = [offer for offer in auction.bids.values() if self._stands(offer, job, auction.rules)]
        chosen = auction.rules.policy(offers, Ask(job.terms.skill, due_us, now_us)) if offers else None
        if chosen is None:
            auction.open = False
            auction.bids.clear()
            assert auction.group is not None
            if auction.group in job.queue.invited:
                del job.queue.invited[auction.group]
                self._announce_again(auction)
                return
            if job.state == QUEUED:
                job.queue.rest(auction)
            self._pause(auction)
            return
        self._unlist(job)
        engagement = self._engage(job, chosen.worker, chosen.arrives_us, auction.rules)
        chosen.worker.peer.hired(engagement)

    def _announce_again(self, auction: Auction) -> None:
        """Or for the first time, if it is announced ahead: as far as there is room, and somebody hears it."""
        job = auction.job
        queue = job.queue
        if not any(market.audience for market in queue.markets or ()):
            if job.state == QUEUED:
                self._unlist(job)  # it is announced when somebody comes
            else:
                self.timers.arm(auction, self.now_us + max(auction.pause_us, (job.due_us - self.now_us) // 2))
            return
        if auction.group is None:
            group = (AHEAD, job.terms.shape or PLAIN)
            if queue.auctions.get(group, 0) >= auction.rules.auctions_max:
                self._pause(auction)
                return
            queue.count(auction, group)
        self._announce(auction)

    def _pause(self, auction: Auction) -> None:
        """Announce it again later, and later each time."""
        self.timers.arm(auction, self.now_us + auction.pause_us)
        auction.pause_us = min(auction.pause_us * 2, auction.rules.pause_max_us)

    def _stands(self, offer: Offer, job: Job, rules: Rules) -> bool:
        """The worker is still there, was not hired since it bid, and is good for the job."""
        worker = offer.worker
        if worker not in self.workers or worker.hirings != offer.hirings or offer.skill < job.terms.skill:
            return False
        if not worker.until_us:
            return True
        begin_us = max(offer.arrives_us, job.due_us if job.state == DELAYED else 0)
        return begin_us + self._time_of(job, rules) <= worker.until_us

    def _engage(self, job: Job, worker: Worker, promised_us: int, rules: Rules) -> Engagement:
        begin_us = self.now_us
        if job.state == DELAYED:
            begin_us = job.due_us
        else:
            job.queue.drop(job)
        self.timers.disarm(job)
        self._move(job, LEASED)
        return self._promise(job, worker, promised_us, begin_us, rules)
