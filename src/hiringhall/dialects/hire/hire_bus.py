"""The participants at all hire doors of one hall. The hall itself is one of them, a provider.

Invariants: a UUID belongs to one connection, or to one bus; a line about a job is passed on and acted upon only
if it comes from a participant that the job concerns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import STALE_LEASE, WRONG_STATE, Refusal
from hiringhall.core.leases import CALLED, HIRED, Engagement
from hiringhall.core.limits import SECOND_US
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
    from hiringhall.dialects.hire.postings import Posting
    from hiringhall.dialects.session import Session

SWEEP_PAUSE_US: Final = 60_000_000
FULL_PAUSE_US: Final = 1_000_000
"""How often a full table is searched for participants that can be forgotten."""


class Participant(Peer):
    """Everything that is said with one UUID: by a worker, a provider, or both."""

    def __init__(self, hire_bus: HireBus, uuid: bytes, context: HireContext, session: Session) -> None:
        super().__init__()
        self.uuid = uuid
        self.hire_bus = hire_bus
        self.context = context
        self.session = session
        """Its connection, or the bus."""
        self.heard_us = 0
        self.noted_us = 0
        """When the core was last told that this provider was heard; see `ProviderRelay.provider_heard`."""
        self.postings: dict[bytes, Posting] = {}
        """The jobs that it has announced, by their ids."""

    @property
    def dialect(self) -> str:
        return self.session.dialect

    @property
    def speaker(self) -> Peer:
        return self.session

    @property
    def idle(self) -> bool:
        """Whether it has no work, no next job and no announced job."""
        worker = self.worker
        free = worker is None or (not worker.leases and worker.promise is None)
        return free and not self.hire_bus.relay.postings.has_any(self)

    def hired(self, engagement: Engagement) -> None:
        hire_bus = self.hire_bus
        job = hire_bus.names.job(engagement.job.id)
        hire_bus.send(Line(hire_bus.names.hall, HIRE, job, worker=self.uuid), self)

    def called(self, engagement: Engagement) -> None:
        self.hire_bus.send_perform(self, engagement)

    def revoked(self, lease: Lease) -> None:
        assert isinstance(lease, Engagement)
        hire_bus = self.hire_bus
        provider = lease.provider
        if isinstance(provider, Participant):
            hire_bus.send(Line(provider.uuid, DISMISS, lease.job.key, worker=self.uuid), self)
        else:
            job = hire_bus.names.job(lease.job.id)
            hire_bus.send(Line(hire_bus.names.hall, DISMISS, job, worker=self.uuid), self)

    def joined(self, engagement: Engagement) -> None:
        self.hire_bus.relay.joined(engagement)

    def ended(self, job: Job) -> None:
        self.hire_bus.relay.ended(job)


class HireBus:
    """Connects the hire doors of one hall."""

    def __init__(self, scheduler: Scheduler, hall_id: bytes) -> None:
        self.scheduler = scheduler
        self.names = Names(hall_id)
        self.participants: dict[bytes, Participant] = {}
        """By UUID."""
        self.stale = 0
        """Lines that came too late, or were about a job that did not concern the sender."""
        self.relay = ProviderRelay(self)
        self._contexts: list[HireContext] = []
        """One for each hire door."""
        self._has_public = False
        """Some context is `public`."""
        self._swept_us = 0

    def add_context(self, context: HireContext) -> None:
        self._contexts.append(context)
        self._has_public = self._has_public or context.public

    # --- participants

    def introduce(self, uuid: bytes, context: HireContext, session: Session) -> Participant:
        """The participant with this UUID; a new one if there is none. Raises BadLine if the session may not use
        the UUID.
        """
        holder = self.participants.get(uuid)
        if holder is not None:
            if holder.session is session:
                return holder
            # On a bus nobody can prove who they are: a connection may take over a UUID that is idle there.
            if context.options.bus or not holder.context.options.bus or not holder.idle:
                raise BadLine("another connection uses this UUID")
            self.leave(holder)
        if self.names.owns(uuid):
            raise BadLine("UUIDs that start like this one are reserved for the hall")
        if context.options.bus:
            self._sweep(context)
        participant = Participant(self, uuid, context, session)
        self.participants[uuid] = participant
        return participant

    def leave(self, participant: Participant) -> None:
        """A participant is gone: its jobs are cancelled, and those it was hired for are announced again."""
        if self.participants.get(participant.uuid) is participant:
            del self.participants[participant.uuid]
        self.relay.provider_left(participant)
        self.scheduler.leave(participant)

    def _sweep(self, context: HireContext) -> None:
        """Forget idle participants of buses: a bus does not show who leaves."""
        now_us = self.scheduler.awake_us
        full = len(self.participants) >= context.options.participants_max
        if now_us - self._swept_us >= (FULL_PAUSE_US if full else SWEEP_PAUSE_US):
            self._swept_us = now_us
            silent_us = now_us - (0 if full else context.options.idle_us)
            for participant in list(self.participants.values()):
                if participant.context.options.bus and participant.heard_us < silent_us and participant.idle:
                    self.leave(participant)
        if len(self.participants) >= context.options.participants_max:
            raise BadLine(f"there are {context.options.participants_max} participants already")

    # --- sending

    def send(self, line: Line, to: Participant) -> None:
        """Send a line to one participant, and a copy of it to all public doors."""
        for context in self._contexts:
            if context.public:
                context.broadcast(line, self._session_of(line.speaker))
            elif to.context is context:
                to.session.send(context.write(line))

    def broadcast(self, line: Line) -> None:
        """Send a line to everybody."""
        for context in self._contexts:
            context.broadcast(line, self._session_of(line.speaker))

    def send_copies(self, line: Line) -> None:
        """Send a copy of a line, which its addressee has received, to all public doors."""
        if self._has_public:
            for context in self._contexts:
                if context.public:
                    context.broadcast(line, self._session_of(line.speaker))

    def _session_of(self, speaker: bytes) -> Session | None:
        participant = self.participants.get(speaker)
        return participant.session if participant is not None else None

    # --- receiving

    def receive(self, who: Participant, line: Line) -> None:
        """Raises BadLine if the sender may not send this. A line that merely came too late is ignored."""
        who.heard_us = self.scheduler.awake_us
        if who.postings and who.context.options.bus:
            self.relay.provider_heard(who)
        number = self.names.job_number(line.job)
        try:
            if number < 0:
                self.relay.receive(who, line)
            elif line.verb == AVAIL:
                self._on_avail(who, line, number)
            elif line.verb == START:
                self._on_start(who, line, number)
            elif line.verb == PERFORMING:
                self._on_performing(who, line, number)
            elif line.verb == QUIT:
                self._on_quit(who, line, number)
            else:
                raise BadLine("this job is the hall's: only the hall may send this verb about it")
        except Refusal as refusal:
            self._refused(refusal)

    def receive_bid(self, who: Participant, fields: bytes) -> bool:
        """The fields of an AVAIL over TCP. Most bids are for a job that was named lately, with a time in whole
        seconds: they are read here, for speed. False: read this line as any other.
        """
        # 6fa459ea-ee8a-3ca4-0000-00100000002a:2:40
        words = fields.split(b":")
        if len(words) != 3 or self._has_public:
            return False
        job, time, skill = words
        number = self.names.known_number(job)
        if number < 0 or not wire.is_brief_number(time) or not wire.is_brief_number(skill):
            return False
        who.heard_us = self.scheduler.awake_us
        if number not in self.scheduler.auctions.by_job:
            self.stale += 1
            return True
        try:
            self.scheduler.auctions.bid(self.worker(who), number, int(time) * SECOND_US, int(skill))
        except Refusal as refusal:
            self._refused(refusal)
        return True

    def _refused(self, refusal: Refusal) -> None:
        """Raises BadLine, unless a line merely came too late."""
        if refusal.reason not in (STALE_LEASE, WRONG_STATE):
            raise BadLine(refusal.text) from refusal
        self.stale += 1

    def worker(self, who: Participant) -> Worker:
        """The participant as a worker; it becomes one by its first bid."""
        worker = who.worker
        if worker is None:
            worker = self.scheduler.worker(who)
            self.scheduler.introduce(worker, wire.write_uuid(who.uuid))
            self.scheduler.workforce.set_bidder(worker)
        return worker

    def uuid_of(self, worker: Worker) -> bytes:
        """A participant's own UUID, or the one that is made for a worker of another dialect."""
        peer = worker.peer
        if isinstance(peer, Participant):
            return peer.uuid
        return self.names.worker(self.scheduler.epoch, worker.number)

    def send_perform(self, who: Participant, engagement: Engagement) -> None:
        job = engagement.job
        name = self.names.job(job.id)
        time_us = min(engagement.perform_us, wire.TIME_US_MAX)
        self.send(Line(self.names.hall, PERFORM, name, type=job.queue.name, time_us=time_us), who)

    def _on_avail(self, who: Participant, line: Line, number: int) -> None:
        # ... AVAIL 6fa459ea-ee8a-3ca4-0000-00100000002a:2.5:40
        if number not in self.scheduler.auctions.by_job:
            self.stale += 1
            return
        self.scheduler.auctions.bid(self.worker(who), number, line.time_us, line.skill)
        self.send_copies(line)

    def _on_start(self, who: Participant, line: Line, number: int) -> None:
        # ... START 6fa459ea-ee8a-3ca4-0000-00100000002a
        engagement = self._engagement(who, number)
        if engagement is None:
            self._dismiss_stale(who, line)
        elif engagement.stage == HIRED:
            self.send_copies(line)
            if self.scheduler.hiring.arrive(engagement):
                self.send_perform(who, engagement)
        elif engagement.stage == CALLED:
            # It has not received our answer.
            self.send_perform(who, engagement)

    def _on_performing(self, who: Participant, line: Line, number: int) -> None:
        # ... PERFORMING 6fa459ea-ee8a-3ca4-0000-00100000002a
        engagement = self._engagement(who, number)
        if engagement is None:
            self._dismiss_stale(who, line)
        elif engagement.stage <= CALLED and self.scheduler.hiring.perform(engagement):
            self.send_copies(line)

    def _on_quit(self, who: Participant, line: Line, number: int) -> None:
        # ... QUIT 6fa459ea-ee8a-3ca4-0000-00100000002a
        engagement = self._engagement(who, number)
        if engagement is not None:
            self.send_copies(line)
            self.scheduler.hiring.quit(engagement)
        elif who.worker is not None and self.scheduler.auctions.unbid(who.worker, number):
            self.send_copies(line)
        else:
            self.stale += 1

    def _engagement(self, who: Participant, number: int) -> Engagement | None:
        """The engagement by which the hall has hired this participant for a job."""
        worker = who.worker
        if worker is None:
            return None
        promise = worker.promise
        if promise is not None and promise.job.id == number:
            return promise if promise.provider is None else None
        job = self.scheduler.jobs.get(number)
        lease = worker.leases.get(job) if job is not None else None
        return lease if isinstance(lease, Engagement) and lease.provider is None else None

    def _dismiss_stale(self, who: Participant, line: Line) -> None:
        """Dismiss a worker from a job that is not, or no longer, its own: perhaps the hall was restarted."""
        self.stale += 1
        self.send(Line(self.names.hall, DISMISS, line.job, worker=who.uuid), who)
