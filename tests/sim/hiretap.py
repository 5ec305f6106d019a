"""The taps of the hire doors, and what is known from outside of who was hired.

A hired worker holds its job from HIRE on: nobody else may have it. Each stage has its deadline, and until it
has said PERFORMING, which it may only after PERFORM, the job has cost nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.leases import Engagement
from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.hire_bus import Participant

from . import startlaws
from .sights import Holding
from .taps import Holder, Tap
from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Rules
    from hiringhall.core.leases import Lease
    from hiringhall.dialects.hire.names import Names
    from hiringhall.dialects.session import Session

    from .laws import Laws
    from .sights import Sight


def told(line: wire.Line) -> str:
    """A line for the log: the beginnings of ids, in the long form."""
    text = wire.write_line(line._replace(speaker=bytes(16), worker=bytes(16))).decode().split(" ", 1)[1]
    names = f"{line.speaker[:3].hex()} {text}"
    return names.replace("00000000-0000-0000-0000-000000000000", line.worker[:3].hex())


class Promise(Holding):
    """A worker was hired; perhaps it came, and was told to perform, and does."""

    def __init__(self, tap: Holder, now_us: int) -> None:
        super().__init__(tap, now_us, 0, 0)
        self.begun = False
        self.arrived = False
        """It has said START."""
        self.earliest_us = self.deadline_us = 0
        """When its stage ends without another word: not earlier, and no later."""
        self.perform_us = -1
        """How long it was told to perform; less than nothing: it was not."""

    def ends(self, earliest_us: int, latest_us: int) -> None:
        self.earliest_us = earliest_us
        self.deadline_us = latest_us

    def lapse(self, now_us: int) -> None:
        if self.earliest_us <= now_us:
            self.done = self.begun
            self.taken_us = self.taken_us if self.doubtful else now_us
            self.doubtful = True
        if self.deadline_us <= now_us and not self.until_us:
            self.until_us = self.deadline_us


class VillagerHolder(Holder):
    """Who speaks with one UUID."""

    def __init__(self, number: int, laws: Laws, uuid: bytes = b"") -> None:
        super().__init__(number, laws)
        self.uuid = uuid
        self.bids: dict[int, list[tuple[int, int]]] = {}
        """For jobs of the hall: when it bid, and when it can begin, as it said."""
        self.quit_us: dict[int, int] = {}
        """When it last quit each of them."""
        self.hired_us = 0
        """When the hall last hired it: bids that it made before are void."""
        self.early: list[tuple[int, wire.Line]] = []
        """What it said of a job while it was not known to be hired for it, or not known to be called, with the
        time: the hall may have hired or called it earlier in the same turn."""

    def has(self, lease: Lease) -> bool:
        peer = lease.worker.peer
        return isinstance(lease, Engagement) and isinstance(peer, Participant) and peer.uuid == self.uuid


class Notary:
    """The account of promises, for both kinds of doors."""

    def __init__(self, laws: Laws, rules: Rules, names: Names) -> None:
        self._laws = laws
        self._rules = rules
        self._names = names
        self._owed: dict[tuple[VillagerHolder, int], None] = {}
        """Who was hired for a job that was gone by then: it hears DISMISS in the same turn."""

    def check(self) -> None:
        """At the end of a turn nobody is left hired for a job that is gone."""
        for who, job_id in self._owed:
            raise Violation("dismiss", f"c{who.number} is hired for {job_id}, which is gone, and not dismissed")

    def holder(self, line: wire.Line) -> Holder | None:
        """Who is hired for the job of a line, as far as is known."""
        sight = self._laws.sights.get(self._names.job_number(line.job))
        return sight.holding.tap if sight is not None and sight.holding is not None else None

    def heard(self, who: VillagerHolder, line: wire.Line) -> None:
        """A worker speaks of a job of the hall's."""
        number = self._names.job_number(line.job)
        if number < 0:
            return
        laws = self._laws
        if line.verb == wire.AVAIL:
            available_us = laws.now_us + line.time_us + self._rules.travel_us
            who.bids.setdefault(number, []).append((laws.now_us, available_us))
            return
        if not self._counts(who, number, line):
            who.early = [*_of_turn(who.early, laws.now_us), (laws.now_us, line)]

    def _counts(self, who: VillagerHolder, number: int, line: wire.Line) -> bool:
        """Note what a hired worker says; False: as far as is known, it does not count."""
        laws = self._laws
        sight = laws.sights.get(number)
        promise = sight.holding if sight is not None else None
        if sight is None or not isinstance(promise, Promise) or promise.tap is not who or promise.until_us:
            return False
        if line.verb == wire.QUIT:
            who.quit_us[sight.id] = laws.now_us
            self._quits(sight, promise)
        elif line.verb == wire.START and not promise.begun and promise.perform_us < 0:
            if not promise.arrived:
                promise.arrived = True
                # It cannot have been called before: a PERFORMING of that time came too early, and is no word.
                who.early = [(heard_us, early) for heard_us, early in who.early if early.job != line.job]
            self._ends_after(promise, sight, laws.now_us, self._rules.answer_us)
        elif line.verb == wire.PERFORMING and not promise.begun and promise.perform_us >= 0:
            promise.begun = True
            # A pause of the same turn came first: then it is dismissed.
            promise.doubtful |= laws.pauses.asked_us.get(sight.queue) == laws.now_us
            promise.since_us = laws.now_us
            promise.ends(laws.now_us + promise.perform_us, laws.now_us + promise.perform_us)
            sight.assignments += 1
            sight.results[b""] = None
        else:
            return False
        return True

    def _hear_again(self, who: VillagerHolder, number: int) -> None:
        """The hall hired it, or called it, before it took in what came in this turn: now that counts."""
        early = _of_turn(who.early, self._laws.now_us)
        who.early = []
        for heard_us, line in early:
            if self._names.job_number(line.job) != number or not self._counts(who, number, line):
                who.early.append((heard_us, line))

    def said(self, who: VillagerHolder, line: wire.Line) -> None:
        """The hall speaks to a worker of a job of its own."""
        number = self._names.job_number(line.job)
        if number < 0 or line.speaker != self._names.hall:
            return
        sight = self._laws.see(number)
        if line.verb == wire.HIRE:
            self._hires(who, sight)
            self._hear_again(who, number)
        elif line.verb == wire.PERFORM:
            self._calls(who, sight, line)
            self._hear_again(who, number)
        elif line.verb == wire.DISMISS:
            self._dismisses(who, sight)

    def left_untold(self, who: VillagerHolder, line: wire.Line) -> None:
        """A worker leaves before it hears this. If it was hired, the job was given back since, or is now."""
        number = self._names.job_number(line.job)
        by_hall = number >= 0 and line.speaker == self._names.hall
        if by_hall and line.verb == wire.HIRE and line.worker == who.uuid:
            self._laws.see(number).hired = True

    def _hires(self, who: VillagerHolder, sight: Sight) -> None:
        laws = self._laws
        job = laws.scheduler.jobs.get(sight.id)
        has_quit = self._has_quit_now(who, sight.id)
        if job is None and (laws.may_be_taken_back(sight.id) or self._ends_unbegun(sight, has_quit=has_quit)):
            # It was chosen as the turn began. In the turn the job was cancelled, or was not stored, or nobody
            # waited for it when it was given back. Who has quit is not dismissed.
            if not has_quit:
                self._owed[who, sight.id] = None
            return
        submit = laws.submit_of(job.id, job.payload) if job is not None else None
        if submit is None:
            raise Violation("identity", f"c{who.number} is hired for {sight.id}, which nobody submitted")
        sight.made_by(submit)
        # The choice was made as the turn began: what was said in it came too late for that.
        bids = [bid for bid in who.bids.get(sight.id, ()) if bid[0] < laws.now_us]
        if not bids:
            raise Violation("hire", f"c{who.number} is hired for {sight.id}, and has not bid for it")
        available_us = bids[-1][1]
        sight.hired = True
        for other in laws.sights.values():
            place = other.holding
            if isinstance(place, Promise) and place.tap is who and not place.begun and not place.doubtful:
                raise Violation("next place", f"c{who.number} is hired for {other.id} and for {sight.id}")
        if bids[-1][0] < who.hired_us:
            raise Violation("void bid", f"c{who.number} is hired for {sight.id}; it was hired since it bid")
        who.hired_us = laws.now_us
        holding = sight.holding
        if holding is not None and not holding.doubtful:
            raise Violation("lease", f"job {sight.id} is with c{holding.tap.number} and with c{who.number}")
        laws.let_lapse(sight)
        startlaws.check(laws, sight, submit, ahead_us=self._rules.ahead_us)
        promise = sight.holding = Promise(who, laws.now_us)
        self._ends_after(promise, sight, max(available_us, laws.now_us), self._rules.buffer_us)
        promise.doubtful = laws.may_be_taken_back(sight.id) or sight.id in laws.drains.dismissals_now
        sight.returned_us = 0

    def _ends_unbegun(self, sight: Sight, *, has_quit: bool) -> bool:
        """In this turn who was hired for it has quit, or is dismissed by a pause of its queue or because it
        drains; and perhaps nobody waits for the job then.
        """
        laws = self._laws
        paused_now = laws.know_name(sight) and laws.pauses.asked_us.get(sight.queue) == laws.now_us
        given_back = has_quit or paused_now or sight.id in laws.drains.dismissals_now
        return given_back and not sight.ended_order and startlaws.may_end_when_given_back(laws, sight)

    def _has_quit_now(self, who: VillagerHolder, job_id: int) -> bool:
        """It said QUIT in this turn, before it could be told that it is hired."""
        lines = [line for _, line in _of_turn(who.early, self._laws.now_us) if line.verb == wire.QUIT]
        return any(self._names.job_number(line.job) == job_id for line in lines)

    def _calls(self, who: VillagerHolder, sight: Sight, line: wire.Line) -> None:
        promise = sight.holding
        if who.quit_us.get(sight.id) == self._laws.now_us:
            return  # its START and its QUIT came in one turn: it was called in between
        if not isinstance(promise, Promise) or promise.tap is not who:
            raise Violation("lease", f"c{who.number} is to perform {sight.id}, and is not hired for it")
        if sight.earliest_us > self._laws.now_us:
            raise Violation("due", f"c{who.number} is to perform {sight.id} before its time")
        if promise.perform_us < 0:
            promise.perform_us = line.time_us
            answer_us = self._laws.now_us + self._rules.answer_us
            promise.ends(answer_us, answer_us)

    def _dismisses(self, who: VillagerHolder, sight: Sight) -> None:
        self._owed.pop((who, sight.id), None)
        promise = sight.holding
        if not isinstance(promise, Promise) or promise.tap is not who:
            return  # it came for what was not its own
        if not promise.doubtful and sight.queue not in self._laws.pauses.asked_us:
            raise Violation("dismiss", f"c{who.number} is to leave {sight.id} before its time")
        self._laws.disturbed = True
        if not promise.begun:
            sight.holding = None

    def _quits(self, sight: Sight, promise: Promise) -> None:
        laws = self._laws
        laws.disturbed = True
        if promise.begun and not promise.doubtful:
            laws.quits(sight.id)
        sight.returned_us = 0 if promise.doubtful else laws.now_us
        sight.holding = None

    def _ends_after(self, promise: Promise, sight: Sight, from_us: int, patience_us: int) -> None:
        """A stage that may last until the job is due, and so much longer."""
        submit = sight.submit
        assert submit is not None
        # A retry may have been refused; the pause after a failure doubles, and some may not have been seen.
        due_us = max(submit.due_us, sight.not_before_us, sight.perhaps_us, promise.since_us)
        backoff_us = submit.backoff_us << submit.failures_max if submit.failures_max else 0
        earliest_us = max(from_us, sight.earliest_us) + patience_us
        promise.ends(earliest_us, max(from_us, due_us + backoff_us) + patience_us)


def _of_turn(lines: list[tuple[int, wire.Line]], now_us: int) -> list[tuple[int, wire.Line]]:
    """Those that came in this turn."""
    return [(heard_us, line) for heard_us, line in lines if heard_us == now_us]


class LineTap(Tap, VillagerHolder):
    """A connection of lines: one participant."""

    def __init__(self, number: int, session: Session, laws: Laws, notary: Notary, *, direct: bool) -> None:
        super().__init__(number, session, laws)
        self._direct = direct
        self._notary = notary
        self._inward = self._outward = b""

    def has(self, lease: Lease) -> bool:
        return VillagerHolder.has(self, lease)

    def heard(self, data: bytes) -> None:
        super().heard(data)
        *lines, self._inward = (self._inward + data).split(b"\n")
        for text in lines:
            line = wire.read_line(text)
            self.note(f"-> {told(line)}")
            if not self.uuid and self._is_its_own(line.speaker):
                self.uuid = line.speaker
                self.able[b""] = 0
            if line.speaker == self.uuid:
                self._notary.heard(self, line)

    def _is_its_own(self, uuid: bytes) -> bool:
        """No other connection speaks with it, as far as the hall knows."""
        others = [tap for tap in self.laws.taps.values() if isinstance(tap, LineTap) and tap is not self]
        return all(tap.uuid != uuid for tap in others)

    def said(self, data: bytes) -> None:
        *lines, self._outward = (self._outward + data).split(b"\n")
        for text in lines:
            if text.startswith(wire.COMMENT):
                self.note(f"<- {text!r}")
                continue
            line = wire.read_line(text)
            self.note(f"<- {told(line)}")
            overheard = not self._direct and self._notary.holder(line) is not self
            if line.worker == self.uuid if line.worker else not overheard:
                self._notary.said(self, line)

    def parts(self) -> None:
        """It may have been hired as the turn began, and leaves before it is told so."""
        unsent = b"".join((self.session.sealed or []) + self.session.out)
        for text in unsent.splitlines():
            if not text.startswith(wire.COMMENT):
                self._notary.left_untold(self, wire.read_line(text))


class BusTap(Tap):
    """All who speak on the bus."""

    def __init__(self, number: int, session: Session, laws: Laws, notary: Notary) -> None:
        super().__init__(number, session, laws)
        self._notary = notary
        self._villagers: dict[bytes, VillagerHolder] = {}

    def heard(self, data: bytes) -> None:
        super().heard(data)
        line = wire.read_line(data)
        self.note(f"-> {told(line)}")
        who = self._villagers.get(line.speaker)
        if who is None:
            who = self._villagers[line.speaker] = VillagerHolder(self.number, self.laws, line.speaker)
        self._notary.heard(who, line)

    def said(self, data: bytes) -> None:
        line = wire.read_line(data)
        self.note(f"<- {told(line)}")
        if line.worker:
            who = self._villagers.get(line.worker)
            if who is not None:
                self._notary.said(who, line)
        elif line.verb == wire.PERFORM:
            hired = self._notary.holder(line)
            if isinstance(hired, VillagerHolder) and not isinstance(hired, LineTap):
                self._notary.said(hired, line)
