"""Passes on what providers and workers say to each other about the providers' jobs.

A provider's job is announced through the hall. Once its provider has hired a worker, it is a job of the hall.

Invariants: only the provider that announced a job may hire, call and dismiss for it; only the hired worker may
report on it. The hall bids and answers for workers of other dialects. If an engagement ends without its
provider's doing, the provider is sent QUIT in the worker's name.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from hiringhall.core.bidding.markets import BIDS_MAX
from hiringhall.core.errors import Refusal
from hiringhall.core.jobs import PROVIDER, JobSpec
from hiringhall.core.leases import ARRIVED, CALLED, HIRED, PERFORMING
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import DONE
from hiringhall.core.terms import NO_REQUIREMENT, Terms
from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.postings import Bid, Postings
from hiringhall.dialects.hire.wire import BadLine, Line

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Rules
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Engagement, Lease
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.hire.hire_bus import HireBus, Participant
    from hiringhall.dialects.hire.postings import Posting

OTHERS_MAX: Final = 100
"""Workers of other dialects for which the hall bids, for each announcement."""
SCANNED_MAX: Final = 10_000
"""Workers of a queue that are looked at to find them."""
SILENCE_US: Final = 60_000_000
"""A resident that holds nothing and was silent for longer may be gone: the hall does not bid for it."""
HEARD_TIMES: Final = 20
"""How often, in the time that it may be silent, the core is told that a provider was heard."""

_MEMORY: Final = Terms()
_LOGGED: Final = Terms(logged=True)


class ProviderRelay:
    """The providers of one hall."""

    def __init__(self, hire_bus: HireBus) -> None:
        self._hire_bus = hire_bus
        self._scheduler = hire_bus.scheduler
        self.postings = Postings(hire_bus.scheduler)

    def receive(self, who: Participant, line: Line) -> None:
        """Raises BadLine if the sender may not send this."""
        posting = self.postings.find(line.job)
        verb = line.verb
        if verb == wire.ANNOUNCE:
            self._on_announce(who, line, posting)
        elif posting is None:
            # Others on a bus may know it from the time before the hall was started.
            self._hire_bus.stale += 1
            self._hire_bus.send_copies(line)
        elif verb in (wire.HIRE, wire.PERFORM, wire.DISMISS):
            if posting.provider is not who:
                raise BadLine("this job is another provider's: only that provider may send this verb about it")
            if verb == wire.HIRE:
                self._on_hire(posting, line)
            elif verb == wire.PERFORM:
                self._on_perform(posting, line)
            else:
                self._on_dismiss(posting, line)
        elif verb == wire.AVAIL:
            self._on_avail(who, posting, line)
        else:
            self._on_report(who, posting, line)

    def provider_heard(self, provider: Participant) -> None:
        """A provider on a bus was heard: the time that it may be silent starts again for its workers."""
        now_us = self._scheduler.now_us
        if now_us - provider.noted_us > provider.context.options.posting_us // HEARD_TIMES:
            provider.noted_us = now_us
            for posting in provider.postings.values():
                if posting.engagement is not None:
                    self._scheduler.hiring.hear_provider(posting.engagement)

    def provider_left(self, provider: Participant) -> None:
        for posting in list(provider.postings.values()):
            self._cancel(posting, b"its provider is gone")
            self.postings.remove(posting)

    def announcements(self) -> list[Line]:
        """The announcements for which no worker is hired, the oldest first."""
        return [
            Line(posting.provider.uuid, wire.ANNOUNCE, posting.job, type=posting.type)
            for posting in self.postings.unhired()
        ]

    # --- from a provider

    def _on_announce(self, who: Participant, line: Line, posting: Posting | None) -> None:
        # ... ANNOUNCE 16fd2706-8baf-433b-82eb-8c7fada847da:smithy
        if len(line.type) > self._scheduler.limits.queue_name_bytes_max:
            raise BadLine(f"a type may have {self._scheduler.limits.queue_name_bytes_max} bytes")
        if posting is None:
            posting = self.postings.add(who, line.job, line.type)
            if posting is None:
                count = self.postings.postings_max
                raise BadLine(f"{count} jobs are announced already, which is the limit")
        elif posting.provider is not who:
            raise BadLine("another provider has announced a job with this id")
        elif posting.type != line.type:
            raise BadLine("this job was announced with another type")
        else:
            self._cancel(posting, b"announced again by its provider")
            posting.bids.clear()
            posting.finished = b""
        self.postings.renew(posting)
        self._hire_bus.broadcast(line)
        self._bid_for_others(posting)

    def _bid_for_others(self, posting: Posting) -> None:
        """Bid for workers of other dialects."""
        scheduler = self._scheduler
        queue = scheduler.queues.get(posting.type)
        if queue is None:
            return
        needs = scheduler.needs.by_queue.get(posting.type, NO_REQUIREMENT)
        for worker in islice(queue.workers, SCANNED_MAX):
            if len(posting.bids) >= OTHERS_MAX:
                return
            fits = worker.fits(posting.type, needs, scheduler.now_us)
            if not fits or not self._bids_for(worker, posting.type):
                continue
            uuid = self._uuid(worker)
            skill = min(worker.skill(posting.type), wire.SKILL_MAX)
            free_in_us = self._free_in_us(worker, posting.provider.context.rules)
            posting.bids[uuid] = Bid(worker, scheduler.now_us + free_in_us, worker.hirings)
            line = Line(uuid, wire.AVAIL, posting.job, time_us=free_in_us, skill=skill)
            self._hire_bus.send(line, posting.provider)

    def _bids_for(self, worker: Worker, name: bytes) -> bool:
        """Whether the hall bids for a worker. It does for one that asks the hall for each job; of any other,
        the skill and the time until it is free must be known.
        """
        if worker.bids or worker.promise is not None:
            return False
        if worker.resident is None and not worker.delegates:
            return True
        if worker.skills is None or name not in worker.skills:
            return False
        if worker.delegates:
            return worker.asleep
        seen = len(worker.leases) > 0 or self._scheduler.now_us - worker.heard_us <= SILENCE_US
        return seen and worker.name != OUTSIDE

    def _free_in_us(self, worker: Worker, rules: Rules) -> int:
        """How long a worker of another dialect will still be busy, as far as is known."""
        if not worker.leases or worker.asleep or worker.credit:
            return 0
        return min(wire.TIME_US_MAX, *[self._remaining_us(lease, rules) for lease in worker.leases.values()])

    def _remaining_us(self, lease: Lease, rules: Rules) -> int:
        """A job that takes longer than expected is assumed to be half done."""
        passed_us = self._scheduler.now_us - lease.started_us
        expected_us = lease.expected_us - lease.started_us if lease.expected_us else 0
        expected_us = expected_us or lease.job.queue.average_run_us or rules.perform_us
        return expected_us - passed_us if expected_us > passed_us else passed_us

    def _on_hire(self, posting: Posting, line: Line) -> None:
        # ... HIRE 6fa459ea-ee8a-3ca4-894e-db77e160355e:16fd2706-8baf-433b-82eb-8c7fada847da
        engagement = posting.engagement
        if engagement is not None or posting.finished:
            if engagement is None or self._uuid(engagement.worker) != line.worker:
                raise BadLine("a worker is hired for this job already: dismiss it first")
            if engagement.stage == HIRED and engagement.worker.bids:
                self._send_to_worker(engagement, line)
            return
        bid = posting.bids.get(line.worker)
        if bid is not None and not bid.worker.bids:
            self._hire_bus.send_copies(line)
        if bid is None or bid.worker.hirings != bid.hirings:
            self._hire_bus.stale += 1
            self._send_quit(posting, line.worker)
        elif not self._engage(posting, bid):
            self._send_quit(posting, line.worker)
        elif bid.worker.bids:
            assert posting.engagement is not None
            self._send_to_worker(posting.engagement, line)

    def _engage(self, posting: Posting, bid: Bid) -> bool:
        """Make the posting a job of the hall that is promised to the bidder. False: it cannot take the job."""
        provider = posting.provider
        worker = bid.worker
        now_us = self._scheduler.now_us
        if worker.bids:
            promised_us = max(bid.available_us, now_us) + provider.context.rules.travel_us
        else:
            promised_us = now_us + self._free_in_us(worker, provider.context.rules)
        terms = _LOGGED if provider.context.options.log_all else _MEMORY
        extras = {PROVIDER: wire.write_uuid(provider.uuid)}
        spec = JobSpec(posting.type, b"", posting.job, terms, extras=extras)
        options = provider.context.options
        silence_us = options.posting_us if options.bus else 0
        try:
            engagement = self._scheduler.hiring.engage(
                spec, worker, promised_us, provider, provider.context.rules, silence_us
            )
        except Refusal:
            self._hire_bus.stale += 1
            return False
        posting.engagement = engagement
        return True

    def _on_perform(self, posting: Posting, line: Line) -> None:
        # ... PERFORM 16fd2706-8baf-433b-82eb-8c7fada847da:smithy:12.5
        if line.type != posting.type:
            raise BadLine("this job was announced with another type")
        hire_bus = self._hire_bus
        engagement = posting.engagement
        if posting.finished:
            hire_bus.send_copies(line)
            hire_bus.send(Line(posting.finished, wire.PERFORMING, posting.job), posting.provider)
        elif engagement is None:
            hire_bus.stale += 1
        elif not engagement.worker.bids:
            if engagement.stage == PERFORMING:
                self._scheduler.hiring.set_time(engagement, line.time_us)
                hire_bus.send_copies(line)
                performing = Line(self._uuid(engagement.worker), wire.PERFORMING, posting.job)
                hire_bus.send(performing, posting.provider)
        else:
            if engagement.stage == ARRIVED and not self._scheduler.hiring.call(engagement, line.time_us):
                return
            if engagement.stage == CALLED:
                self._send_to_worker(engagement, line)
            else:
                hire_bus.stale += 1

    def _on_dismiss(self, posting: Posting, line: Line) -> None:
        # ... DISMISS 6fa459ea-ee8a-3ca4-894e-db77e160355e:16fd2706-8baf-433b-82eb-8c7fada847da
        engagement = posting.engagement
        if engagement is None:
            self._hire_bus.send_copies(line)
        elif self._uuid(engagement.worker) != line.worker:
            raise BadLine("another worker is hired for this job")
        else:
            if not engagement.worker.bids:
                self._hire_bus.send_copies(line)
            if engagement.stage == PERFORMING:
                # The job is done to the provider's satisfaction.
                posting.engagement = None
                self._scheduler.hiring.complete(engagement)
            else:
                self._cancel(posting, b"dismissed by its provider")
        self.postings.remove(posting)

    # --- from a worker

    def _on_avail(self, who: Participant, posting: Posting, line: Line) -> None:
        # ... AVAIL 16fd2706-8baf-433b-82eb-8c7fada847da:2.5:40
        if posting.provider is who:
            raise BadLine("a provider cannot bid for its own job")
        worker = self._hire_bus.worker(who)
        skill, takes_us, _ = self._scheduler.needs.by_queue.get(posting.type, NO_REQUIREMENT)
        late = worker.until_us > 0 and self._scheduler.now_us + line.time_us + takes_us > worker.until_us
        busy = posting.engagement is not None or posting.finished or worker.promise is not None
        if busy or late or line.skill < skill:
            self._hire_bus.stale += 1
            return
        if len(posting.bids) >= BIDS_MAX and who.uuid not in posting.bids:
            raise BadLine(f"the job has {BIDS_MAX} bids already")
        posting.bids[who.uuid] = Bid(worker, self._scheduler.now_us + line.time_us, worker.hirings)
        self._hire_bus.send(line, posting.provider)

    def _on_report(self, who: Participant, posting: Posting, line: Line) -> None:
        # ... START 16fd2706-8baf-433b-82eb-8c7fada847da, and PERFORMING and QUIT likewise
        engagement = posting.engagement
        if engagement is None or engagement.worker is not who.worker:
            if line.verb == wire.QUIT and posting.bids.pop(who.uuid, None) is not None:
                self._hire_bus.send(line, posting.provider)
            else:
                self._hire_bus.stale += 1
        elif line.verb == wire.QUIT:
            self._scheduler.hiring.quit(engagement)
        elif line.verb == wire.START and engagement.stage == HIRED:
            self._scheduler.hiring.arrive(engagement)
            self._hire_bus.send(line, posting.provider)
        elif line.verb == wire.PERFORMING:
            if self._scheduler.hiring.perform(engagement):
                self._hire_bus.send(line, posting.provider)
        else:
            self._hire_bus.stale += 1

    # --- from the core

    def joined(self, engagement: Engagement) -> None:
        """A worker of another dialect has begun: the provider is sent START in its name."""
        posting = self.postings.by_job.get(engagement.job.key)
        if posting is not None:
            posting.engagement = engagement
            start = Line(self._uuid(engagement.worker), wire.START, posting.job)
            self._hire_bus.send(start, posting.provider)

    def ended(self, job: Job) -> None:
        """A provider's job has ended; if it is still the posting's, then without the provider's doing."""
        posting = self.postings.by_job.get(job.key)
        engagement = posting.engagement if posting is not None else None
        if posting is None or engagement is None or engagement.job is not job:
            return
        posting.engagement = None
        self.postings.renew(posting)
        if job.state == DONE:
            posting.finished = self._uuid(engagement.worker)
        else:
            self._send_quit(posting, self._uuid(engagement.worker))

    def _send_quit(self, posting: Posting, worker: bytes) -> None:
        self._hire_bus.send(Line(worker, wire.QUIT, posting.job), posting.provider)

    def _send_to_worker(self, engagement: Engagement, line: Line) -> None:
        participant = self._hire_bus.participants[self._uuid(engagement.worker)]
        self._hire_bus.send(line, participant)

    def _cancel(self, posting: Posting, reason: bytes) -> None:
        """End the posting's job, if it has one."""
        engagement = posting.engagement
        posting.engagement = None
        if engagement is not None:
            self._scheduler.cancel(engagement.job, reason)

    def _uuid(self, worker: Worker) -> bytes:
        return self._hire_bus.uuid_of(worker)
