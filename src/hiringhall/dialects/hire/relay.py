"""Providers of others: their jobs are announced through the hall, and once somebody is hired, jobs of the hall.

The laws: only who announced a job hires, calls and dismisses for it; only who was hired speaks of doing it. A
worker of another dialect is entered as a bidder, and the hall speaks for it. What ends an engagement without
the provider's doing reaches the provider as QUIT, in the worker's name.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.errors import Refusal
from hiringhall.core.jobs import PROVIDER, JobSpec
from hiringhall.core.leases import ARRIVED, CALLED, HIRED, PERFORMING, Engagement
from hiringhall.core.markets import BIDS_MAX
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import DONE
from hiringhall.core.terms import NO_REQUIREMENT, Terms
from hiringhall.core.workers import Worker  # noqa: TC001 (compiled, a NamedTuple looks its types up)
from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.wire import BadLine, Line

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.markets import Rules
    from hiringhall.dialects.hire.hire_bus import HireBus, Participant

POSTINGS_MAX: Final = 100_000
"""Jobs of providers that are announced at once."""
OTHERS_MAX: Final = 100
"""Workers of other dialects that are entered for one of them."""
STANDING_MAX: Final = 1000
"""Announcements that one who comes late is told of."""
LOOKS_MAX: Final = 10_000
"""Workers of a queue that are looked at to find those, and postings to find some that are over, or stand."""
SILENCE_US: Final = 60_000_000
"""A worker that is known by its name only, holds nothing and was silent for longer may be gone."""
NOTICES: Final = 20
"""So often in the time that it may be silent a provider's life is noticed, however much it says."""

_MEMORY: Final = Terms()
_LOGGED: Final = Terms(logged=True)


class Bid(NamedTuple):
    """A worker that a provider may hire."""

    worker: Worker
    available_us: int
    """When it can begin."""
    hirings: int
    """The worker's count of hirings when it bid: hired since then, its bid is void."""


class Posting:
    """One job of a provider, from its announcement until its dismissal."""

    __slots__ = ("bids", "engagement", "finished", "job", "provider", "type", "until_us")

    def __init__(self, provider: Participant, job: bytes, name: bytes) -> None:
        self.provider = provider
        self.job = job
        """Its id, as the provider calls it."""
        self.type = name
        self.until_us = 0
        """With nobody hired it is forgotten at this time."""
        self.bids: dict[bytes, Bid] = {}
        """By the UUID of the worker: its own, or the one that was made for a worker of another dialect."""
        self.engagement: Engagement | None = None
        """Who was hired; its job has this posting's id as its key."""
        self.finished = b""
        """A worker of another dialect that is done with it and waits for nothing; the provider knows it not."""


class ProviderRelay:
    """The postings of one bus."""

    def __init__(self, hire_bus: HireBus) -> None:
        self._hire_bus = hire_bus
        self._scheduler = hire_bus.scheduler
        self.postings: dict[bytes, Posting] = {}
        """By the id of the job; an id names one job on the bus. Those that expire first come first, except
        those for which a worker is hired."""
        self.postings_max = POSTINGS_MAX

    def hear(self, who: Participant, line: Line) -> None:
        posting = self._find(line.job)
        verb = line.verb
        if verb == wire.ANNOUNCE:
            self._take_announce(who, line, posting)
        elif posting is None:
            # It may be known to others on a bus, from before the hall was there.
            self._hire_bus.stale += 1
            self._hire_bus.overhear(line)
        elif verb in (wire.HIRE, wire.PERFORM, wire.DISMISS):
            if posting.provider is not who:
                raise BadLine("this job is another provider's, and so is this word about it")
            if verb == wire.HIRE:
                self._take_hire(posting, line)
            elif verb == wire.PERFORM:
                self._take_perform(posting, line)
            else:
                self._take_dismiss(posting, line)
        elif verb == wire.AVAIL:
            self._take_avail(who, posting, line)
        else:
            self._take_report(who, posting, line)

    def notice(self, provider: Participant) -> None:
        """A provider on a bus shows life: its workers need not fear that they wait for nobody."""
        now_us = self._scheduler.now_us
        if now_us - provider.noticed_us > provider.context.options.posting_us // NOTICES:
            provider.noticed_us = now_us
            for posting in provider.postings.values():
                if posting.engagement is not None:
                    self._scheduler.hiring.hear_provider(posting.engagement)

    def standing(self) -> list[Line]:
        """The announcements for which nobody is hired, as they were made: first those made first."""
        lines: list[Line] = []
        for posting in islice(self.postings.values(), LOOKS_MAX):
            if len(lines) >= STANDING_MAX:
                break
            if posting.engagement is None and not posting.finished and not self._is_over(posting):
                lines.append(Line(posting.provider.uuid, wire.ANNOUNCE, posting.job, type=posting.type))
        return lines

    def part(self, provider: Participant) -> None:
        for posting in list(provider.postings.values()):
            self._call_off(posting, b"its provider is gone")
            self._forget(posting)

    # --- a provider's words

    def _take_announce(self, who: Participant, line: Line, posting: Posting | None) -> None:
        # ... ANNOUNCE 16fd2706-8baf-433b-82eb-8c7fada847da:smithy
        if len(line.type) > self._scheduler.limits.queue_name_bytes_max:
            raise BadLine(f"a type may have {self._scheduler.limits.queue_name_bytes_max} bytes")
        if posting is None:
            if len(self.postings) >= self.postings_max and not self._forget_oldest():
                raise BadLine(f"{self.postings_max} jobs are announced, which is as many as the hall passes on")
            posting = Posting(who, line.job, line.type)
            self.postings[line.job] = who.postings[line.job] = posting
        elif posting.provider is not who:
            raise BadLine("another provider has announced a job with this id")
        elif posting.type != line.type:
            raise BadLine("this job was announced with another type")
        else:
            self._call_off(posting, b"announced again by its provider")
            posting.bids.clear()
            posting.finished = b""
        self._let_stand(posting)
        self._hire_bus.announce(line)
        self._enter_others(posting)

    def _enter_others(self, posting: Posting) -> None:
        """Bid for workers of other dialects."""
        scheduler = self._scheduler
        queue = scheduler.queues.get(posting.type)
        if queue is None:
            return
        needs = scheduler.needs.by_queue.get(posting.type, NO_REQUIREMENT)
        for worker in islice(queue.workers, LOOKS_MAX):
            if len(posting.bids) >= OTHERS_MAX:
                return
            if not self._bids_for(worker, posting.type) or not worker.fits(
                posting.type, needs, scheduler.now_us
            ):
                continue
            uuid = self._uuid(worker)
            skill = min(worker.skill(posting.type), wire.SKILL_MAX)
            free_in_us = self._free_in_us(worker, posting.provider.context.rules)
            posting.bids[uuid] = Bid(worker, scheduler.now_us + free_in_us, worker.hirings)
            line = Line(uuid, wire.AVAIL, posting.job, time_us=free_in_us, skill=skill)
            self._hire_bus.say(line, posting.provider)

    def _bids_for(self, worker: Worker, name: bytes) -> bool:
        """Whether the hall says AVAIL for a worker. One that asks the hall for each job is known well enough;
        of any other the skill and the time until it is free must be known.
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
        """How long a worker of another dialect still works, as far as anybody knows."""
        if not worker.leases or worker.asleep or worker.credit:
            return 0
        return min(wire.TIME_US_MAX, *[self._rest_us(lease, rules) for lease in worker.leases.values()])

    def _rest_us(self, lease: Lease, rules: Rules) -> int:
        """What takes longer than it was thought to is taken to be half done."""
        passed_us = self._scheduler.now_us - lease.started_us
        expected_us = lease.expected_us - lease.started_us if lease.expected_us else 0
        expected_us = expected_us or lease.job.queue.average_run_us or rules.perform_us
        return expected_us - passed_us if expected_us > passed_us else passed_us

    def _take_hire(self, posting: Posting, line: Line) -> None:
        # ... HIRE 6fa459ea-ee8a-3ca4-894e-db77e160355e:16fd2706-8baf-433b-82eb-8c7fada847da
        engagement = posting.engagement
        if engagement is not None or posting.finished:
            if engagement is None or self._uuid(engagement.worker) != line.worker:
                raise BadLine("somebody is hired for this job already: dismiss them first")
            if engagement.stage == HIRED and engagement.worker.bids:
                self._tell_worker(engagement, line)
            return
        bid = posting.bids.get(line.worker)
        if bid is not None and not bid.worker.bids:
            self._hire_bus.overhear(line)
        if bid is None or bid.worker.hirings != bid.hirings:
            self._hire_bus.stale += 1
            self._tell_quit(posting, line.worker)
        elif not self._engage(posting, bid):
            self._tell_quit(posting, line.worker)
        elif bid.worker.bids:
            assert posting.engagement is not None
            self._tell_worker(posting.engagement, line)

    def _engage(self, posting: Posting, bid: Bid) -> bool:
        """The posting becomes a job of the hall, promised to the worker that bid, if that can take it."""
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

    def _take_perform(self, posting: Posting, line: Line) -> None:
        # ... PERFORM 16fd2706-8baf-433b-82eb-8c7fada847da:smithy:12.5
        if line.type != posting.type:
            raise BadLine("this job was announced with another type")
        hire_bus = self._hire_bus
        engagement = posting.engagement
        if posting.finished:
            hire_bus.overhear(line)
            hire_bus.say(Line(posting.finished, wire.PERFORMING, posting.job), posting.provider)
        elif engagement is None:
            hire_bus.stale += 1
        elif not engagement.worker.bids:
            if engagement.stage == PERFORMING:
                self._scheduler.hiring.set_time(engagement, line.time_us)
                hire_bus.overhear(line)
                hire_bus.say(
                    Line(self._uuid(engagement.worker), wire.PERFORMING, posting.job), posting.provider
                )
        else:
            if engagement.stage == ARRIVED and not self._scheduler.hiring.call(engagement, line.time_us):
                return
            if engagement.stage == CALLED:
                self._tell_worker(engagement, line)
            else:
                hire_bus.stale += 1

    def _take_dismiss(self, posting: Posting, line: Line) -> None:
        # ... DISMISS 6fa459ea-ee8a-3ca4-894e-db77e160355e:16fd2706-8baf-433b-82eb-8c7fada847da
        engagement = posting.engagement
        if engagement is None:
            self._hire_bus.overhear(line)
        elif self._uuid(engagement.worker) != line.worker:
            raise BadLine("another worker is hired for this job")
        else:
            if not engagement.worker.bids:
                self._hire_bus.overhear(line)
            if engagement.stage == PERFORMING:
                # The provider is satisfied.
                posting.engagement = None
                self._scheduler.finish(engagement, b"")
                engagement.worker.peer.revoked(engagement)
            else:
                self._call_off(posting, b"dismissed by its provider")
        self._forget(posting)

    # --- a worker's words

    def _take_avail(self, who: Participant, posting: Posting, line: Line) -> None:
        # ... AVAIL 16fd2706-8baf-433b-82eb-8c7fada847da:2.5:40
        if posting.provider is who:
            raise BadLine("a provider does not bid for its own job")
        worker = self._hire_bus.worker(who)
        skill, takes_us = self._scheduler.needs.by_queue.get(posting.type, NO_REQUIREMENT)
        late = worker.until_us > 0 and self._scheduler.now_us + line.time_us + takes_us > worker.until_us
        busy = posting.engagement is not None or posting.finished or worker.promise is not None
        if busy or late or line.skill < skill:
            self._hire_bus.stale += 1
            return
        if len(posting.bids) >= BIDS_MAX and who.uuid not in posting.bids:
            raise BadLine(f"{BIDS_MAX} others have bid for this job already")
        posting.bids[who.uuid] = Bid(worker, self._scheduler.now_us + line.time_us, worker.hirings)
        self._hire_bus.say(line, posting.provider)

    def _take_report(self, who: Participant, posting: Posting, line: Line) -> None:
        # ... START 16fd2706-8baf-433b-82eb-8c7fada847da, and PERFORMING and QUIT likewise
        engagement = posting.engagement
        if engagement is None or engagement.worker is not who.worker:
            if line.verb == wire.QUIT and posting.bids.pop(who.uuid, None) is not None:
                self._hire_bus.say(line, posting.provider)
            else:
                self._hire_bus.stale += 1
        elif line.verb == wire.QUIT:
            self._scheduler.hiring.quit(engagement)
        elif line.verb == wire.START and engagement.stage == HIRED:
            self._scheduler.hiring.arrive(engagement)
            self._hire_bus.say(line, posting.provider)
        elif line.verb == wire.PERFORMING:
            if self._scheduler.hiring.perform(engagement):
                self._hire_bus.say(line, posting.provider)
        else:
            self._hire_bus.stale += 1

    # --- what comes of it

    def joined(self, engagement: Engagement) -> None:
        """A worker of another dialect has begun: it is there, and waits for nothing."""
        posting = self.postings.get(engagement.job.key)
        if posting is not None:
            posting.engagement = engagement
            self._hire_bus.say(Line(self._uuid(engagement.worker), wire.START, posting.job), posting.provider)

    def ended(self, job: Job) -> None:
        """A provider's job has ended, without the provider's doing if it still stands here."""
        posting = self.postings.get(job.key)
        engagement = posting.engagement if posting is not None else None
        if posting is None or engagement is None or engagement.job is not job:
            return
        posting.engagement = None
        self._let_stand(posting)
        if job.state == DONE:
            posting.finished = self._uuid(engagement.worker)
        else:
            self._tell_quit(posting, self._uuid(engagement.worker))

    def _tell_quit(self, posting: Posting, worker: bytes) -> None:
        self._hire_bus.say(Line(worker, wire.QUIT, posting.job), posting.provider)

    def _tell_worker(self, engagement: Engagement, line: Line) -> None:
        participant = self._hire_bus.speakers[self._uuid(engagement.worker)]
        self._hire_bus.say(line, participant)

    def _call_off(self, posting: Posting, reason: bytes) -> None:
        engagement = posting.engagement
        posting.engagement = None
        if engagement is not None:
            self._scheduler.cancel(engagement.job, reason)

    def stands_for(self, provider: Participant) -> bool:
        """It has announced something that still counts."""
        return any(not self._is_over(posting) for posting in provider.postings.values())

    def _let_stand(self, posting: Posting) -> None:
        """It stands for a while from now on, and is the last of all to be forgotten."""
        posting.until_us = self._scheduler.awake_us + posting.provider.context.options.posting_us
        del self.postings[posting.job]
        self.postings[posting.job] = posting

    def _find(self, job: bytes) -> Posting | None:
        posting = self.postings.get(job)
        if posting is not None and self._is_over(posting):
            self._forget(posting)
            return None
        return posting

    def _is_over(self, posting: Posting) -> bool:
        return posting.engagement is None and posting.until_us <= self._scheduler.awake_us

    def _forget(self, posting: Posting) -> None:
        del self.postings[posting.job]
        del posting.provider.postings[posting.job]

    def _forget_oldest(self) -> bool:
        """Make room where a posting's time is over."""
        for posting in list(islice(self.postings.values(), LOOKS_MAX)):
            if self._is_over(posting):
                self._forget(posting)
            elif posting.engagement is None:
                break  # those behind it were announced later
            else:
                self._let_stand(posting)
        return len(self.postings) < self.postings_max

    def _uuid(self, worker: Worker) -> bytes:
        return self._hire_bus.uuid_of(worker)
