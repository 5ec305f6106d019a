"""What must hold for jobs, judged only by what crossed the links and what the store was given.

The law of laws: when it cannot be known from outside what the hall has decided, both outcomes are accepted;
everything else is a violation, with the name of the law in front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.leases import Engagement
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import DONE

from . import handlaws, startlaws, turnlaws
from .drainlaws import Drains
from .dworktap import LocationHolder
from .pauselaws import Pauses
from .resultlaws import Results
from .sights import Holding, Sight
from .storelaws import Mirror
from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.gearman.session import GearmanOptions

    from .hall import Hall
    from .limitlaws import LimitLaws
    from .resourcelaws import ResourceLaws
    from .sights import Submit
    from .spacers import SpacingLaws
    from .taps import Holder, Tap
    from .wmptap import HandHolder
    from .world import World


LOCATIONS_FIRST: Final = 100_001
"""Locations have numbers as connections do, from here on."""


class Laws:
    """The account of the whole run."""

    def __init__(self, world: World, options: GearmanOptions, *, audited: bool = True) -> None:
        self.world = world
        self.options = options
        self.audited = audited
        """Off: the core's own audit is not asked, so that the laws out here must find it alone."""
        self.bean_durable = True
        """What is put in the beanstalkd protocol is on disk before that is told."""
        self.mirror = Mirror(self)
        self.sights: dict[int, Sight] = {}
        self.submits: dict[bytes, Submit] = {}
        """By payload."""
        self.named: dict[tuple[bytes, bytes], list[Submit]] = {}
        """By queue and key."""
        self.taps: dict[int, Tap] = {}
        self.foreign: dict[int, None] = {}
        """Jobs of providers, who are told by themselves how they go."""
        self.hands: dict[bytes, HandHolder] = {}
        """Who has what was given to a WMP worker, by its name on the wire."""
        self.locations: dict[tuple[bytes, bytes], LocationHolder] = {}
        """By queue and name."""
        self.pauses = Pauses()
        self.drains = Drains()
        self.limits: LimitLaws | None = None
        """What must hold for the queue with limits; None: there is none."""
        self.spacing: SpacingLaws | None = None
        """What must hold for debounced and throttled jobs; None: there are none."""
        self.resources: ResourceLaws | None = None
        """What must hold for the queue whose jobs need resources; None: there is none."""
        self.now_us = world.now_us
        """The stamp of the turn."""
        self.order = 0
        self.disturbed = False
        """In this turn somebody may have had a job without anybody being told."""
        self.withdrawing = False
        """In this turn a commit failed."""
        self.withdrawn: dict[int, tuple[ParentRef, int]] = {}
        """Jobs with a key that were taken back because a commit failed, with the name, and when."""
        self.undelivered = False
        """In this turn somebody could not be sent what was said to it."""
        self.assigned_now: list[Sight] = []
        self.results = Results(self)
        self.cancels_now: dict[int, None] = {}
        """Jobs that somebody asked to end in this turn."""
        self.woken_now: dict[bytes, None] = {}
        """Roles for which somebody was woken in this turn. Another turn may have the same time."""
        self._unbegun: dict[int, tuple[int, int]] = {}
        """Jobs that somebody is hired for and has not begun, with their losses and the attempts that were over,
        as the turn began."""
        self.origins: dict[int, bytes] = {}
        """The payloads of dwork's tasks, by id: workers of other dialects are told the name in its place."""
        self._ids: dict[bytes, int] = {}
        """Jobs by payload: some dialects have no other name for them."""
        self.reported: dict[ParentRef, dict[bytes, int]] = {}
        """Tasks that run outside, by queue and key, with the results and codes that were told of their ends."""
        self.scheduler: Scheduler
        """That of the latest boot."""

    # --- the hall

    def opened(self, hall: Hall) -> None:
        self.now_us = self.world.now_us
        self.scheduler = hall.scheduler
        self.mirror.agrees_with_hall(hall.scheduler)
        for location in self.locations.values():
            location.silence_us = 0
        for row in self.mirror.live.values():
            if row.holder and row.holder != OUTSIDE:
                location = self.location(row.queue, row.holder)
                location.heard_us = self.now_us
                holding = Holding(location, self.now_us, row.terms.run_us, row.terms.lease_us)
                self.see(row.id).holding = holding

    def crashed(self, hall: Hall) -> None:
        """What is on disk lives on as it is there; the rest is gone, and must not have been promised."""
        self.results.crashed()
        self.mirror.agrees_with_store(hall.disk.store)
        self.drains.forget()
        for tap in self.taps.values():
            tap.open = False
        self.taps = {}
        self.hands = {}
        for sight in self.sights.values():
            sight.holding = None
            row = self.mirror.live.get(sight.id)
            if row is not None:
                sight.revive(row.losses, row.failures, 0)
            elif sight.id not in self.mirror.history:
                sight.gone = True
                sight.succeeded_surely = False
                if sight.promised:
                    raise Violation("missing", f"job {sight.id} was acknowledged and is not on disk")
            elif self.mirror.history[sight.id].state != DONE:
                # A dead letter that was retried and succeeded, and of that nothing was on disk.
                sight.succeeded_surely = False

    def turn_began(self, now_us: int) -> None:
        self.now_us = now_us
        self.disturbed = self.withdrawing = self.undelivered = False
        self.assigned_now = []
        self.results.turn_began()
        self.drains.turn_began()
        self.cancels_now = {}
        self.woken_now = {}
        self._unbegun = {}
        for sight in self.sights.values():
            holding = sight.holding
            if holding is not None:
                holding.lapse(now_us)
                if holding.done:
                    sight.succeeded = True
                if not holding.begun:
                    self._unbegun[sight.id] = self._losses(sight.id)

    def _losses(self, job_id: int) -> tuple[int, int]:
        """How many workers a job has lost, and how many attempts at it are over."""
        job = self.scheduler.find(job_id)
        if job is None:
            return 0, 0
        lease = job.lease
        running = lease is not None and not (isinstance(lease, Engagement) and lease.promised)
        return job.losses, job.attempts - running

    def quits(self, job_id: int) -> None:
        """Somebody who had begun quits: that ends the attempt, and is no loss."""
        job = self.scheduler.find(job_id)
        if job is not None:
            self._unbegun[job_id] = (job.losses, job.attempts)

    def turn_ended(self, hall: Hall) -> None:
        self.take_census()
        if self.audited:
            hall.scheduler.audit()
        self.results.check_told()
        if self.withdrawing:
            self._note_withdrawn()
        turnlaws.check(self, hall)
        for job_id, (losses, attempts) in self._unbegun.items():
            losses_now, attempts_now = self._losses(job_id)
            # Somebody may have begun and left within the turn, and nobody was told.
            if losses_now - losses > max(attempts_now - attempts, 0):
                raise Violation("blame", f"job {job_id} has lost somebody who had not begun, or who quit")
        if hall.hire_bus is not None:
            hall.hire_bus.check(hall)

    def flushed(self) -> None:
        """Between two turns, peers were sent what had been kept back."""
        self.results.check_told()

    @property
    def jobs_seen(self) -> int:
        """How many jobs there were of which it is known who asked for them."""
        return sum(sight.submit is not None for sight in self.sights.values())

    def stored(self, batch: Batch, sealed_us: int) -> None:
        self.mirror.apply(batch)
        self.mirror.has_holders(sealed_us)

    def troubled(self) -> None:
        """A commit failed: jobs that were not on disk may be taken back, from their workers too."""
        self.disturbed = self.withdrawing = True
        for sight in self.sights.values():
            if sight.holding is not None and sight.id not in self.mirror.live:
                sight.holding.doubtful = True

    def doubted(self) -> None:
        """Nobody knows whether a commit has succeeded: durable jobs are refused."""
        self.disturbed = True

    def disconnected(self, tap: Tap) -> None:
        tap.parts()
        tap.open = False
        tap.parted_us = self.now_us
        del self.taps[tap.number]
        self.results.parted(tap)
        if tap.able:
            self.lost(tap)

    def location(self, queue: bytes, name: bytes) -> LocationHolder:
        location = self.locations.get((queue, name))
        if location is None:
            number = LOCATIONS_FIRST + len(self.locations)
            location = self.locations[queue, name] = LocationHolder(number, self, queue, name)
        return location

    def take_census(self) -> None:
        """Note what each job is called, by its payload and to its worker: once it is gone this is not known."""
        for job_id, job in self.scheduler.jobs.items():
            self._ids[job.payload] = job_id
            self._ids[job.work] = job_id

    def _note_withdrawn(self) -> None:
        """A commit failed: what nobody was told of, and what is neither on disk nor in the hall, was taken
        back.
        """
        for payload, job_id in self._ids.items():
            submit = self.submits.get(payload)
            if submit is None or not submit.durable or not submit.key or submit.acknowledged:
                continue
            if job_id in self.scheduler.jobs or job_id in self.mirror.live or job_id in self.mirror.history:
                continue
            sight = self.sights.get(job_id)
            if sight is None or not (sight.acknowledged or sight.ended_order or sight.gone):
                self.withdrawn.setdefault(job_id, ((submit.queue, submit.key), self.order))

    def know_name(self, sight: Sight) -> bool:
        """Whether it is known who asked for a job, if need be by the hall's own number for what was asked."""
        maker = self.find_maker(sight.id) if not sight.queue else None
        if maker is not None:
            sight.made_by(maker)
        return bool(sight.queue)

    def find_maker(self, job_id: int) -> Submit | None:
        """The submit that made a job, by the hall's own number for what was asked."""
        made = [payload for payload, known_id in self._ids.items() if known_id == job_id]
        return next((self.submits[payload] for payload in reversed(made) if payload in self.submits), None)

    def find_id(self, payload: bytes) -> int:
        """The job of that payload; 0: none was ever counted."""
        self.take_census()
        return self._ids.get(payload, 0)

    def submit_of(self, job_id: int, payload: bytes) -> Submit | None:
        """The submit that made a job, of which a worker, or the store, is told this payload."""
        origin = self.origins.get(job_id)
        submit = self.submits.get(payload if origin is None else origin)
        if submit is None or origin is None or payload in (origin, submit.key):
            return submit
        return None

    def id_of(self, payload: bytes) -> int:
        """The job that somebody is told of by its payload."""
        job_id = self.find_id(payload)
        if not job_id:
            raise Violation("identity", f"somebody is told of {payload[:20]!r}, which is no job")
        return job_id

    def lost(self, tap: Tap) -> None:
        """The worker is gone, and with it all that it had."""
        self.disturbed = True
        for sight in self.sights.values():
            holding = sight.holding
            if holding is not None and holding.tap is tap:
                sight.holding = None
                sight.losses += holding.begun and (holding.lost or not holding.doubtful)
                handlaws.came_back(self, sight, holding)

    # --- submitting

    def submitted(self, submit: Submit) -> None:
        self.order += 1
        submit.order = self.order
        self.submits[submit.payload] = submit
        if submit.key:
            self.named.setdefault((submit.queue, submit.key), []).append(submit)

    def created(self, submit: Submit, job_id: int) -> None:
        sight = self.see(job_id)
        if not sight.queue:
            sight.queue, sight.key = submit.queue, submit.key
            if not submit.key:
                sight.made_by(submit)
        elif sight.submit is not submit:
            if not submit.key or (sight.queue, sight.key) != (submit.queue, submit.key):
                raise Violation("identity", f"id {job_id} names two jobs")
            if sight.gone or 0 < sight.ended_order < submit.order:
                raise Violation("key", f"a submit joined job {job_id}, which had ended")
        sight.acknowledged = submit.acknowledged = True
        if submit.durable:
            if job_id not in self.mirror.live and job_id not in self.mirror.history:
                raise Violation("promise", f"job {job_id} was acknowledged and is not on disk")
            sight.promised = True
        if submit.watched:
            self.watching(submit.tap, job_id)

    def watching(self, tap: Tap, job_id: int) -> None:
        tap.watches[job_id] = tap.watches.get(job_id, 0) + 1
        self.see(job_id).watchers.append(tap)

    def see(self, job_id: int) -> Sight:
        return self.sights.setdefault(job_id, Sight(job_id))

    def told_end(self, tap: Tap, job_id: int, state: int, data: bytes) -> None:
        """A watcher hears that a job has ended."""
        if self.mirror.is_spaced(job_id):
            tap.watches.pop(job_id, None)
            return
        sight = self.see(job_id)
        if not tap.watches.get(job_id) and job_id not in tap.unwatched:
            raise Violation("one end", f"c{tap.number} hears an end of {job_id} and waits for none")
        if tap.watches.get(job_id):
            tap.watches[job_id] -= 1
        if job_id in self.mirror.live and not sight.retried:
            raise Violation("promise", f"c{tap.number} was told the end of {job_id} before it was on disk")
        if sight.promised and job_id not in self.mirror.history and not sight.retried:
            raise Violation("promise", f"c{tap.number} was told an end of {job_id} that is not on disk")
        if state != DONE or self.results.told(sight, data):
            self.ended(sight)

    def ended(self, sight: Sight) -> None:
        """Somebody was told of its end."""
        if not sight.retried:
            self._end(sight)

    def cancelling(self, job_id: int) -> None:
        """Somebody asks to end a job: from now on its worker may have lost it."""
        self.cancels_now[job_id] = None
        self.in_doubt(job_id)

    def cancelled(self, job_id: int) -> None:
        if job_id in self.mirror.live:
            raise Violation("promise", f"the cancel of {job_id} was told before it was on disk")
        self._end(self.see(job_id))

    # --- working

    def assigned(self, tap: Holder, job_id: int, queue: bytes, payload: bytes, since_us: int = 0) -> None:
        """A worker is told that it has a job, since this turn or an earlier one."""
        if not payload:
            # A provider's own, which has none: the hall does not know what it is about.
            self.foreign[job_id] = None
            return
        sight = self.see(job_id)
        submit = self.submit_of(job_id, payload)
        if submit is None or submit.queue != queue:
            raise Violation("identity", f"job {job_id} is not what anybody submitted")
        if sight.submit is not None and sight.submit is not submit:
            raise Violation("identity", f"id {job_id} names two jobs")
        sight.made_by(submit)
        if queue not in tap.able:
            raise Violation("ability", f"c{tap.number} got a job of {queue!r}, which it cannot do")
        holding = sight.holding
        if holding is not None:
            if not holding.doubtful:
                raise Violation("lease", f"job {job_id} is with c{holding.tap.number} and with c{tap.number}")
            self.let_lapse(sight)
        startlaws.check(self, sight, submit)
        run_us = [limit_us for limit_us in (tap.able[queue], submit.run_us) if limit_us]
        sight.holding = Holding(tap, since_us or self.now_us, min(run_us, default=0), submit.lease_us)
        sight.holding.doubtful = self.may_be_taken_back(job_id)
        sight.assignments += 1
        sight.returned_us = 0
        sight.declined = False
        sight.not_before_us = 0 if sight.hastened else sight.not_before_us
        sight.hastened = False
        if sight.holding.since_us == self.now_us:
            self.assigned_now.append(sight)
        self.results.assigned(tap, sight)

    def finished(self, tap: Holder, job_id: int, result: bytes) -> None:
        """A worker says that it is done. It counts if the worker has the job, and not otherwise."""
        sight = self._held_by(tap, job_id, result)
        if sight is None:
            return
        assert sight.holding is not None
        sight.results[result] = None
        sight.succeeded = True
        if not sight.holding.doubtful:
            sight.succeeded_surely = True
            self._end(sight)
        sight.holding = None

    def finished_by_name(self, holder: Holder, job_id: int, result: bytes) -> None:
        """Somebody who has a job says that it is done; perhaps before it was told that it has it, or after it
        was taken away for its silence.
        """
        sight = self.see(job_id)
        if sight.holding is not None and sight.holding.tap is holder:
            self.finished(holder, job_id, result)
        sight.results[result] = None
        sight.succeeded = True

    def in_doubt(self, job_id: int) -> None:
        """Somebody asks for something that may take the job from its worker."""
        sight = self.sights.get(job_id)
        if sight is not None and sight.holding is not None:
            sight.holding.doubtful = True

    def failed(self, tap: Holder, job_id: int, *, retry: bool = True) -> None:
        """An attempt has failed. Without `retry` it was the last one."""
        sight = self._held_by(tap, job_id, None)
        if sight is None:
            return
        assert sight.holding is not None
        assert sight.submit is not None
        if not sight.holding.doubtful:
            sight.failures += 1 if retry else sight.submit.failures_max + 1
            if sight.failures <= sight.submit.failures_max:
                sight.not_before_us = self.now_us + sight.submit.backoff_us
        sight.holding = None

    def released(self, tap: Holder, job_id: int) -> None:
        sight = self._held_by(tap, job_id, None)
        self.disturbed = True
        if sight is None:
            return
        assert sight.holding is not None
        handlaws.came_back(self, sight, sight.holding)
        sight.holding = None

    def _held_by(self, tap: Holder, job_id: int, result: bytes | None) -> Sight | None:
        """The job, if its worker reports on it. A worker may also report on what it gets in this very turn."""
        sight = self.sights.get(job_id)
        holding = sight.holding if sight is not None else None
        ours = holding is not None and holding.tap is tap
        if holding is None or not ours or holding.doubtful:
            self.results.reported_early(tap, job_id, result)
        late = holding is not None and 0 < holding.until_us < self.now_us
        return sight if ours and not late else None

    def may_be_taken_back(self, job_id: int) -> bool:
        """What somebody is given in this turn may be gone at its end."""
        return (self.withdrawing and job_id not in self.mirror.live) or job_id in self.cancels_now

    def let_lapse(self, sight: Sight) -> None:
        """Whoever had it has it no more."""
        holding = sight.holding
        sight.holding = None
        if holding is not None and holding.lost:
            sight.losses += 1

    def _end(self, sight: Sight) -> None:
        self.order += 1
        if not sight.ended_order:
            sight.ended_order = self.order
