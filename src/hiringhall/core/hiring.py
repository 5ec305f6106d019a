"""Auctions: jobs that nobody takes are announced, workers bid, one is hired, comes, and performs.

The laws: an announced job stays ready, so that whoever pulls first has it; a worker has one next place; a
hired worker that does not come in time, or quits before it performs, costs the job nothing; every stage of
an engagement has a deadline, so that nobody is reserved for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.auctions import (
    ARRIVED,
    CALLED,
    HIRED,
    PERFORMING,
    Ask,
    Auction,
    Engagement,
    Market,
    Offer,
    Rules,
)
from hiringhall.core.errors import (
    BAD_REQUEST,
    CLOSING,
    HALL_FULL,
    STALE_LEASE,
    TOO_LARGE,
    WRONG_STATE,
    Refusal,
)
from hiringhall.core.jobs import (
    CANCELLED,
    DELAYED,
    DONE,
    GIVEN_BACK,
    LEASED,
    QUEUED,
    SUCCESS,
    TIMED_OUT,
    Job,
    Lease,
)
from hiringhall.core.leasing import OVERRUN
from hiringhall.core.limits import SECOND_US
from hiringhall.core.residents import Residents

if TYPE_CHECKING:
    from hiringhall.core.jobs import JobSpec
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.workers import Worker


class Hiring(Residents):
    """The verbs of bidding workers, and the deadlines of auctions and engagements."""

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
        more = audience > market.audience
        market.audience = audience
        if more:
            for queue in self.queues.values():
                if queue.ready and queue.markets is not None and market in queue.markets:
                    self._unsettle(queue)
                    self._announce_rested(queue)

    def bid(self, worker: Worker, job_id: int, available_us: int, skill: int) -> None:
        """The worker could begin in so long, and is so good at it."""
        auction = self.auctions.get(job_id)
        if auction is None or not auction.heard:
            raise Refusal(WRONG_STATE, "nobody bids for this job now")
        if next_place(worker) is not None:
            raise Refusal(WRONG_STATE, "the worker has a next job already")
        rules = auction.rules
        if available_us > rules.promise_max_us:
            raise Refusal(WRONG_STATE, f"nobody waits for longer than {rules.promise_max_us // SECOND_US} s")
        queue = auction.job.queue
        self.can_do(worker, queue.name)
        worker.bids = True
        if worker.skills is None:
            worker.skills = {}
        worker.skills[queue.name] = skill
        offer = Offer(worker, skill, self.now_us + available_us + rules.travel_us)
        if not self._stands(offer, auction.job, rules):
            raise Refusal(WRONG_STATE, "the worker has not the skill, or not the time, that the job needs")
        auction.bids[worker] = offer
        if not auction.open:
            # It comes late, and nobody else was there: it need not wait for the next announcement.
            self.timers.arm(auction, self.now_us + 1)

    def arrive(self, engagement: Engagement) -> bool:
        """START: the worker is there. True: it can be told to perform now; else it hears `called` in time."""
        self._check_stage(engagement, HIRED)
        engagement.worker.heard_us = self.now_us
        engagement.stage = ARRIVED
        if engagement.master is not None:
            self.hear_master(engagement)
            return False
        if engagement.begin_us > self.now_us:
            self.timers.arm(engagement, engagement.begin_us)
            return False
        return self._call_now(engagement)

    def _call_now(self, engagement: Engagement) -> bool:
        """Tell the worker to perform, unless its time has become too short for it."""
        perform_us = self._time_of(engagement.job, engagement.rules)
        until_us = engagement.worker.until_us
        if until_us and self.now_us + perform_us > until_us:
            self._dismiss(engagement)
            return False
        self.call(engagement, perform_us)
        return True

    def _dismiss(self, engagement: Engagement) -> None:
        """The worker has not begun, and shall not: the job is announced again."""
        self.counters.dismissed += 1
        self._revoke(engagement)
        self._give_back(engagement, GIVEN_BACK)

    def dismiss_promised(self) -> None:
        """The hall closes: whoever was hired and has not begun need not come."""
        for worker in list(self.workers):
            engagement = next_place(worker)
            if engagement is not None:
                self._dismiss(engagement)

    def call(self, engagement: Engagement, perform_us: int) -> None:
        """PERFORM: the worker is told to begin, and for how long."""
        self._check_stage(engagement, ARRIVED)
        engagement.stage = CALLED
        engagement.perform_us = perform_us
        self.timers.arm(engagement, self.now_us + engagement.rules.answer_us)

    def perform(self, engagement: Engagement) -> None:
        """PERFORMING: the worker has begun. The hall is satisfied when the time is up; a provider says so."""
        self._check_stage(engagement, CALLED)
        engagement.worker.heard_us = self.now_us
        self._begin(engagement)
        engagement.expected_us = self.now_us + engagement.perform_us
        if engagement.master is None:
            self.timers.arm(engagement, engagement.expected_us)
        else:
            self.hear_master(engagement)
        self._invite(engagement.worker)

    def _begin(self, engagement: Engagement) -> None:
        job = engagement.job
        engagement.stage = PERFORMING
        engagement.started_us = job.started_us = self.now_us
        job.worker_name = engagement.worker.name
        job.numerator = job.denominator = 0
        job.attempts += 1
        if job.terms.durable:
            self.ledger.note_start(job)

    def quit(self, engagement: Engagement) -> None:
        """The worker will not do it, or does it no more: a loss only if it had begun."""
        self._check_live(engagement)
        engagement.worker.heard_us = self.now_us
        if engagement.stage == PERFORMING:
            self._lose(engagement)
        else:
            self.counters.released += 1
            self._give_back(engagement, GIVEN_BACK)

    def engage(
        self,
        spec: JobSpec,
        worker: Worker,
        promised_us: int,
        master: Peer,
        rules: Rules,
        patience_us: int = 0,
    ) -> Engagement:
        """A provider has chosen a worker itself: its job becomes one of the hall's, promised to that worker.

        A worker that bids is told by its session. Any other is given the job when it asks for one, or at once
        where it takes what is pushed. A provider whose going cannot be seen may be silent for `patience_us`
        longer than it said; see `hear_master`.
        """
        if self.closing:
            raise Refusal(CLOSING, "the hall is closing; nobody is hired any more")
        if worker not in self.workers or next_place(worker) is not None:
            raise Refusal(WRONG_STATE, "the worker is gone, or has a next job already")
        if spec.terms.durable:
            raise Refusal(
                BAD_REQUEST, "a provider's job lives as long as its provider wants it, and is not durable"
            )
        if len(spec.key) > self.limits.key_bytes_max:
            raise Refusal(TOO_LARGE, f"a key may have {self.limits.key_bytes_max} bytes (key_bytes_max)")
        queue = self.queue(spec.queue)
        if spec.key and self.keys.find(queue, spec.key) is not None:
            raise Refusal(WRONG_STATE, "a job with this id is under way already")
        if len(self.jobs) >= self.limits.jobs_max:
            raise Refusal(HALL_FULL, f"the hall holds {self.limits.jobs_max} jobs (jobs_max)")
        job = self._admit(spec, queue, self.now_us)
        self.watch(job, master)
        self.graph.adopt(job)
        job.state = LEASED
        engagement = self._attach_engagement(job, worker, max(promised_us, self.now_us), rules)
        engagement.master = master
        engagement.patience_us = patience_us
        if not worker.bids:
            worker.booked = engagement
            engagement.booked = True
            if worker.asleep and queue in worker.abilities:
                queue.sleepers.pop(worker, None)
                self._wake(worker, queue)
            elif worker.credit:
                self._spend(worker)
                self._begin_booked(engagement)
                worker.peer.assigned(engagement)
        return engagement

    def take(self, worker: Worker, name: bytes | None = None) -> Lease | None:
        booked = worker.booked
        if booked is None or name not in (None, booked.job.queue.name):
            return super().take(worker, name)
        if worker.waking is not None:
            self._answer_wake(worker)
        elif worker.asleep:
            self._rouse(worker)
        if self.closing:
            return None
        self._begin_booked(booked)
        return booked

    def _begin_booked(self, engagement: Engagement) -> None:
        """A worker of another dialect comes for what a provider has promised it."""
        engagement.worker.booked = None
        engagement.booked = False
        self._begin(engagement)
        run_us = engagement.worker.abilities.get(engagement.job.queue, 0)
        if run_us:
            engagement.run_until_us = self.now_us + run_us
        assert engagement.master is not None
        engagement.master.joined(engagement)
        self.hear_master(engagement)

    def hear_master(self, engagement: Engagement) -> None:
        """The provider of a job shows life: its silence counts from now, or from when it will speak."""
        if engagement.stage not in (ARRIVED, PERFORMING):
            return
        due_us = engagement.run_until_us
        if engagement.patience_us:
            silent_us = max(self.now_us, engagement.expected_us) + engagement.patience_us
            due_us = min(due_us, silent_us) if due_us else silent_us
        if due_us:
            self.timers.arm(engagement, due_us)
        else:
            self.timers.disarm(engagement)

    def _invite(self, worker: Worker) -> None:
        """A worker's next place is free again: of each of its queues one job that nobody wanted is announced
        again, at once.
        """
        for queue in worker.abilities:
            self._announce_rested(queue)

    def _announce_rested(self, queue: Queue) -> None:
        """The job that rests for longest is announced again, unless it only rests until it is nearly due."""
        for auction in queue.resting.values():
            if auction.job.state == QUEUED:
                del queue.resting[auction.job.id]
                self.timers.arm(auction, self.now_us + 1)
                return

    def _match(self, queue: Queue) -> None:
        super()._match(queue)
        if queue.markets is not None and queue.ready > queue.waking:
            self._announce_ready(queue, queue.markets)

    def _announce_ready(self, queue: Queue, markets: list[Market]) -> None:
        """Open an auction for the first ready jobs that have none: first come, first announced."""
        heard = [market for market in markets if market.audience]
        if not heard:
            return
        rules = heard[0].rules
        for shape, lanes in queue.all_lanes().items():
            room = rules.auctions_max - queue.auctions.get(shape, 0)
            for lane in lanes:
                if lane.ready and room > 0:
                    for job in lane.first(room, self.auctions):
                        auction = Auction(job, rules)
                        auction.counted = True
                        self.auctions[job.id] = auction
                        queue.auctions[shape] = queue.auctions.get(shape, 0) + 1
                        room -= 1
                        self._announce(auction)

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
        auction.job.queue.resting.pop(auction.job.id, None)
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
            self._announce(auction)
            return
        due_us = job.due_us if job.state == DELAYED else now_us
        offers = [offer for offer in auction.bids.values() if self._stands(offer, job, auction.rules)]
        chosen = auction.rules.policy(offers, Ask(job.terms.skill, due_us, now_us)) if offers else None
        if chosen is None:
            auction.open = False
            auction.bids.clear()
            job.queue.resting[job.id] = auction
            self.timers.arm(auction, now_us + auction.pause_us)
            auction.pause_us = min(auction.pause_us * 2, auction.rules.pause_max_us)
            return
        self._unlist(job)
        engagement = self._engage(job, chosen.worker, chosen.arrives_us, auction.rules)
        chosen.worker.peer.hired(engagement)

    def _stands(self, offer: Offer, job: Job, rules: Rules) -> bool:
        """The worker is still there, has its next place free, and is good for the job."""
        worker = offer.worker
        if worker not in self.workers or next_place(worker) is not None or offer.skill < job.terms.skill:
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
        engagement = self._attach_engagement(job, worker, promised_us, rules)
        engagement.begin_us = begin_us
        self.timers.arm(engagement, max(promised_us, begin_us, self.now_us) + max(rules.buffer_us, 1))
        return engagement

    def _attach_engagement(self, job: Job, worker: Worker, promised_us: int, rules: Rules) -> Engagement:
        job.queue.leased += 1
        self._last_lease += 1
        engagement = Engagement(self._last_lease, job, worker, self.now_us, promised_us, rules)
        job.lease = engagement
        worker.leases[job.id] = engagement
        self.counters.hired += 1
        self.timers.arm(engagement, max(promised_us, self.now_us) + max(rules.buffer_us, 1))
        return engagement

    def _engagement_due(self, engagement: Engagement) -> None:
        job = engagement.job
        if engagement.run_until_us and engagement.run_until_us <= self.now_us:
            self.counters.expired += 1
            self._revoke(engagement)
            self.fail(engagement, TIMED_OUT, OVERRUN)
        elif engagement.master is not None and engagement.stage in (ARRIVED, PERFORMING):
            self._cancel(job, SUCCESS, b"its provider is silent")
        elif engagement.stage == PERFORMING:
            self._end(job, DONE, SUCCESS, b"")
            self._revoke(engagement)
        elif engagement.stage != ARRIVED:
            self._dismiss(engagement)
        elif self._call_now(engagement):
            engagement.worker.peer.called(engagement)

    def _time_of(self, job: Job, rules: Rules) -> int:
        """How long a worker is told that a job takes."""
        return job.terms.takes_us or job.queue.typical_us or rules.perform_us

    def _unlease(self, lease: Lease) -> None:
        super()._unlease(lease)
        if isinstance(lease, Engagement) and lease.promised:
            worker = lease.worker
            if worker.booked is lease:
                worker.booked = None
            self._invite(worker)

    def _revoke(self, lease: Lease) -> None:
        if not isinstance(lease, Engagement) or not lease.booked:
            super()._revoke(lease)

    def _lose(self, lease: Lease) -> None:
        if isinstance(lease, Engagement) and lease.promised:
            self._give_back(lease, GIVEN_BACK)
        else:
            super()._lose(lease)

    def _give_back(self, lease: Lease, code: int) -> None:
        if isinstance(lease, Engagement) and lease.master is not None:
            # Its provider hears of it, and announces it again if it still wants it.
            self._end(lease.job, CANCELLED, SUCCESS, b"its worker does not do it")
            return
        if not isinstance(lease, Engagement) or not lease.promised or self._abandoned(lease.job):
            super()._give_back(lease, code)
            return
        # It was never begun: there is no attempt to remember.
        job = lease.job
        self._unlease(lease)
        if lease.begin_us > self.now_us:
            self._move(job, DELAYED)
            self._delay(job, lease.begin_us)
        else:
            self._move(job, QUEUED)
            self._enqueue(job, front=True)
        self._note(job)

    def _check_stage(self, engagement: Engagement, stage: int) -> None:
        self._check_live(engagement)
        if engagement.stage != stage:
            self.counters.stale += 1
            raise Refusal(STALE_LEASE, "this is not the moment to say so")


def next_place(worker: Worker) -> Engagement | None:
    """The job that a worker is to do next, if there is one."""
    for lease in worker.leases.values():
        if isinstance(lease, Engagement) and lease.promised:
            return lease
    return None
