"""All who speak at the hire doors of one hall, and the hall among them as a provider.

The law: a UUID is spoken with by one connection, or on one bus; what is said of a job is passed on and acted
upon only if it comes from whom that job concerns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import STALE_LEASE, WRONG_STATE, Refusal
from hiringhall.core.leases import CALLED, HIRED, Engagement
from hiringhall.core.peer import Peer
from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.names import Names
from hiringhall.dialects.hire.relay import ProviderRelay
from hiringhall.dialects.hire.wire import AVAIL, DISMISS, HIRE, PERFORM, PERFORMING, QUIT, START, BadLine, Line

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.hire.context import HireContext
    from hiringhall.dialects.hire.relay import Posting
    from hiringhall.dialects.session import Session

SWEEP_PAUSE_US: Final = 60_000_000
FULL_PAUSE_US: Final = 1_000_000
"""How often a full table is looked through for speakers that can be forgotten."""


class Participant(Peer):
    """Who speaks with one UUID: a worker, a provider, or both."""

    def __init__(self, hire_bus: HireBus, uuid: bytes, context: HireContext, session: Session) -> None:
        super().__init__()
        self.uuid = uuid
        self.hire_bus = hire_bus
        self.context = context
        self.session = session
        """Its connection, or the bus."""
        self.heard_us = 0
        self.noticed_us = 0
        """When those who work for it were last told that it is there."""
        self.postings: dict[bytes, Posting] = {}
        """Its jobs, as it announced them."""

    @property
    def speaker(self) -> Peer:
        return self.session

    @property
    def idle(self) -> bool:
        """It holds nothing, and nobody works for it."""
        worker = self.worker
        free = worker is None or (not worker.leases and worker.promise is None)
        return free and not self.hire_bus.relay.stands_for(self)

    def hired(self, engagement: Engagement) -> None:
        hire_bus = self.hire_bus
        job = hire_bus.names.job(engagement.job.id)
        hire_bus.say(Line(hire_bus.names.hall, HIRE, job, worker=self.uuid), self)

    def called(self, engagement: Engagement) -> None:
        self.hire_bus.call(self, engagement)

    def revoked(self, lease: Lease) -> None:
        assert isinstance(lease, Engagement)
        hire_bus = self.hire_bus
        provider = lease.provider
        if isinstance(provider, Participant):
            hire_bus.say(Line(provider.uuid, DISMISS, lease.job.key, worker=self.uuid), self)
        else:
            job = hire_bus.names.job(lease.job.id)
            hire_bus.say(Line(hire_bus.names.hall, DISMISS, job, worker=self.uuid), self)

    def joined(self, engagement: Engagement) -> None:
        self.hire_bus.relay.joined(engagement)

    def ended(self, job: Job) -> None:
        self.hire_bus.relay.ended(job)


class HireBus:
    """One hall's hire doors together."""

    def __init__(self, scheduler: Scheduler, hall_id: bytes) -> None:
        self.scheduler = scheduler
        self.names = Names(hall_id)
        self.speakers: dict[bytes, Participant] = {}
        """By UUID."""
        self.stale = 0
        """Lines about a job that was not, or not any more, the speaker's."""
        self.relay = ProviderRelay(self)
        self._doors: list[HireContext] = []
        self._open_air = False
        self._swept_us = 0

    def add_door(self, context: HireContext) -> None:
        self._doors.append(context)
        self._open_air = self._open_air or context.open_air

    # --- who is here

    def introduce(self, uuid: bytes, context: HireContext, session: Session) -> Participant:
        """Somebody speaks with this UUID. Raises BadLine if it is not for them to do so."""
        holder = self.speakers.get(uuid)
        if holder is not None:
            if holder.session is session:
                return holder
            # On a bus nobody can prove who they are; a connection may have what is not in use there.
            if context.options.bus or not holder.context.options.bus or not holder.idle:
                raise BadLine("another connection speaks with this UUID")
            self.part(holder)
        if self.names.owns(uuid):
            raise BadLine("UUIDs that begin as this one does are the hall's")
        if context.options.bus:
            self._sweep(context)
        participant = Participant(self, uuid, context, session)
        self.speakers[uuid] = participant
        return participant

    def part(self, participant: Participant) -> None:
        """It is gone: its jobs are called off, and what it was hired for is announced again."""
        if self.speakers.get(participant.uuid) is participant:
            del self.speakers[participant.uuid]
        self.relay.part(participant)
        self.scheduler.leave(participant)

    def _sweep(self, context: HireContext) -> None:
        """Forget who was only heard, long ago, on a bus: it tells nobody who leaves."""
        now_us = self.scheduler.awake_us
        full = len(self.speakers) >= context.options.speakers_max
        if now_us - self._swept_us >= (FULL_PAUSE_US if full else SWEEP_PAUSE_US):
            self._swept_us = now_us
            silent_us = now_us - (0 if full else context.options.idle_us)
            for participant in list(self.speakers.values()):
                if participant.context.options.bus and participant.heard_us < silent_us and participant.idle:
                    self.part(participant)
        if len(self.speakers) >= context.options.speakers_max:
            raise BadLine("so many are here that there is no room for another")

    # --- what is said

    def say(self, line: Line, to: Participant) -> None:
        """Tell the one whom it is for, and all who hear everything."""
        for context in self._doors:
            if context.open_air:
                context.spread(line, self._session_of(line.speaker))
            elif to.context is context:
                to.session.send(context.write(line))

    def announce(self, line: Line) -> None:
        """A provider has a job: everybody is told."""
        for context in self._doors:
            context.spread(line, self._session_of(line.speaker))

    def overhear(self, line: Line) -> None:
        """Tell those who hear everything; whom it is for has heard it."""
        if self._open_air:
            for context in self._doors:
                if context.open_air:
                    context.spread(line, self._session_of(line.speaker))

    def _session_of(self, speaker: bytes) -> Session | None:
        participant = self.speakers.get(speaker)
        return participant.session if participant is not None else None

    # --- what is heard

    def hear(self, who: Participant, line: Line) -> None:
        """Raises BadLine if it is not for this speaker to say. What merely comes too late is passed over."""
        who.heard_us = self.scheduler.awake_us
        if who.postings and who.context.options.bus:
            self.relay.notice(who)
        number = self.names.job_number(line.job)
        try:
            if number < 0:
                self.relay.hear(who, line)
            elif line.verb == AVAIL:
                self._take_avail(who, line, number)
            elif line.verb == START:
                self._take_start(who, line, number)
            elif line.verb == PERFORMING:
                self._take_performing(who, line, number)
            elif line.verb == QUIT:
                self._take_quit(who, line, number)
            else:
                raise BadLine("this job is the hall's, and so is this word about it")
        except Refusal as refusal:
            if refusal.reason not in (STALE_LEASE, WRONG_STATE):
                raise BadLine(refusal.text) from refusal
            self.stale += 1

    def worker(self, who: Participant) -> Worker:
        """The speaker as a worker, from its first bid on."""
        worker = who.worker
        if worker is None:
            worker = self.scheduler.worker(who)
            self.scheduler.introduce(worker, wire.write_uuid(who.uuid))
            self.scheduler.workforce.set_bidder(worker)
        return worker

    def uuid_of(self, worker: Worker) -> bytes:
        """Its own, or the one that was made for a worker of another dialect."""
        peer = worker.peer
        return (
            peer.uuid
            if isinstance(peer, Participant)
            else self.names.worker(self.scheduler.epoch, worker.number)
        )

    def call(self, who: Participant, engagement: Engagement) -> None:
        job = engagement.job
        self.say(
            Line(
                self.names.hall,
                PERFORM,
                self.names.job(job.id),
                type=job.queue.name,
                time_us=min(engagement.perform_us, wire.TIME_US_MAX),
            ),
            who,
        )

    def _take_avail(self, who: Participant, line: Line, number: int) -> None:
        # ... AVAIL 6fa459ea-ee8a-3ca4-0000-00100000002a:2.5:40
        if number not in self.scheduler.auctions.by_job:
            self.stale += 1
            return
        self.scheduler.auctions.bid(self.worker(who), number, line.time_us, line.skill)
        self.overhear(line)

    def _take_start(self, who: Participant, line: Line, number: int) -> None:
        # ... START 6fa459ea-ee8a-3ca4-0000-00100000002a
        engagement = self._engagement(who, number)
        if engagement is None:
            self._turn_away(who, line)
        elif engagement.stage == HIRED:
            self.overhear(line)
            if self.scheduler.hiring.arrive(engagement):
                self.call(who, engagement)
        elif engagement.stage == CALLED:
            # It has not heard our answer.
            self.call(who, engagement)

    def _take_performing(self, who: Participant, line: Line, number: int) -> None:
        # ... PERFORMING 6fa459ea-ee8a-3ca4-0000-00100000002a
        engagement = self._engagement(who, number)
        if engagement is None:
            self._turn_away(who, line)
        elif engagement.stage <= CALLED and self.scheduler.hiring.perform(engagement):
            self.overhear(line)

    def _take_quit(self, who: Participant, line: Line, number: int) -> None:
        # ... QUIT 6fa459ea-ee8a-3ca4-0000-00100000002a
        engagement = self._engagement(who, number)
        if engagement is not None:
            self.overhear(line)
            self.scheduler.hiring.quit(engagement)
        elif who.worker is not None and self.scheduler.auctions.unbid(who.worker, number):
            self.overhear(line)
        else:
            self.stale += 1

    def _engagement(self, who: Participant, number: int) -> Engagement | None:
        """What the hall has hired the speaker for."""
        worker = who.worker
        if worker is None:
            return None
        promise = worker.promise
        lease = promise if promise is not None and promise.job.id == number else worker.leases.get(number)
        return lease if isinstance(lease, Engagement) and lease.provider is None else None

    def _turn_away(self, who: Participant, line: Line) -> None:
        """It works on a job that is not, or no longer, its own: perhaps the hall was started again."""
        self.stale += 1
        self.say(Line(self.names.hall, DISMISS, line.job, worker=who.uuid), who)
