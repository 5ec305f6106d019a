"""A worker: what it can do, what it has, and how it wants to hear of more."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import NO_REQUIREMENT
from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from hiringhall.core.cooldowns import Cooldown
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Engagement, Lease
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.resources.capacity import Capacity
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.terms import Requirement

DRAINED: Final = 1
"""A time that is over: a worker that drains has no time left for any job."""
NO_LEASES: Final[dict[Job, Lease]] = {}
"""Shared by all workers that never had a job; never written to."""


class Worker(Timed):
    """A peer that works. Its timer is set for the end of an unanswered wake-up or of its allowed silence,
    whichever comes first.
    """

    __slots__ = (
        "abilities",
        "asleep",
        "bids",
        "capacity",
        "cooldowns",
        "credit",
        "delegates",
        "dialect",
        "draining",
        "heard_us",
        "hirings",
        "leases",
        "leaves_us",
        "name",
        "number",
        "overdue",
        "passes_on",
        "peer",
        "promise",
        "quiet_at_work",
        "requeues_overruns",
        "resident",
        "rotation",
        "silence_us",
        "since_us",
        "skills",
        "stands_for",
        "until_us",
        "wake_step_us",
        "wake_until_us",
        "waking",
        "waking_requirement",
    )

    def __init__(self, number: int, peer: Peer, now_us: int) -> None:
        super().__init__()
        self.number = number
        self.peer = peer
        self.name = b""
        """The name it gave itself; shown to people and kept in the history."""
        self.dialect = peer.dialect
        """The protocol it speaks; kept in the history."""
        self.since_us = now_us
        """When it came."""
        self.abilities: dict[Queue, int] = {}
        """The queues it can do, in the order in which it named them, with its run limit in us (0: none)."""
        self.leases = NO_LEASES
        """What it works on."""
        self.promise: Engagement | None = None
        """The job it was hired for and has not begun. A worker that does not bid has not been told: it receives
        this job before any other."""
        self.hirings = 0
        """How often it was hired. Each hiring voids its earlier bids."""
        self.asleep = False
        """Waits for `woken`; it is in `sleepers` of each of its queues exactly while this is set."""
        self.waking: Queue | None = None
        """The queue it was woken for, until it asks for work, sleeps again, or `wake_until_us` passes."""
        self.wake_step_us = 0
        """It may ignore a wake-up, because it also works elsewhere. After this time others are woken too, twice
        as many each time. 0: a woken worker always asks for work."""
        self.overdue = False
        """It was woken and `wake_step_us` has passed. It may still answer, but no job is reserved for it."""
        self.waking_requirement = NO_REQUIREMENT
        """The requirement of the job it was woken for."""
        self.wake_until_us = 0
        self.credit = 0
        """Slots offered and not yet filled; it is in `takers` of each of its queues while this is above 0."""
        self.rotation: OrderedDict[Queue, None] | None = None
        """Its queues in round-robin order; None: by priority, then the oldest job first."""
        self.requeues_overruns = False
        """A job that exceeds its run limit goes to another worker; otherwise it fails."""
        self.heard_us = now_us
        """When it last showed life."""
        self.silence_us = 0
        """Silence after which it counts as lost; 0: only leaving counts."""
        self.quiet_at_work = False
        """It is not expected to show life while it has a job: its silence counts from the end of the last
        one."""
        self.bids = False
        """It learns of jobs by announcement and is hired; it is never woken, and no job is pushed to it."""
        self.delegates = False
        """Each of its jobs is held by a stand-in worker; it is known to be free only while it sleeps."""
        self.stands_for: Worker | None = None
        """The worker that delegates whose job it holds; None: it works for itself."""
        self.passes_on = False
        """It is another hall, which passes jobs on to its own workers."""
        self.skills: dict[bytes, int] | None = None
        """Its skill by queue name; None: not stated, it gets only jobs that need no skill."""
        self.until_us = 0
        """When it has to leave: it gets no job that takes longer; 0: it stays. DRAINED while it drains. Set by
        `leave_at`, `drain` and `undrain` only."""
        self.draining = False
        """An operator lets it finish what it has, and no more."""
        self.leaves_us = 0
        """What `until_us` is when it does not drain."""
        self.cooldowns: dict[bytes, Cooldown] | None = None
        """Queues it can do but gets no jobs of for a while, by name; None: there was none yet."""
        self.resident: Queue | None = None
        """The one queue of a worker that is known by name and not by a connection: its leases survive a restart
        of the hall."""
        self.capacity: Capacity | None = None
        """Its resources; None: it has stated none, and gets only jobs that need none."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.workforce.worker_due(self)

    def hold(self, lease: Lease) -> None:
        """Add a job that it works on."""
        if self.leases is NO_LEASES:
            self.leases = {}
        self.leases[lease.job] = lease

    def skill(self, name: bytes) -> int:
        return 0 if self.skills is None else self.skills.get(name, 0)

    def fits(self, name: bytes, requirement: Requirement, now_us: int) -> bool:
        """Whether it meets the requirement of jobs of this queue now."""
        return (
            requirement[0] <= self.skill(name)
            and (not self.until_us or now_us + requirement[1] <= self.until_us)
            and (
                not requirement[2]
                or (self.capacity is not None and self.capacity.admits(name, requirement, now_us))
            )
        )

    def leave_at(self, until_us: int) -> None:
        """It has to leave at this time; 0: it stays."""
        self.leaves_us = until_us
        if not self.draining:
            self.until_us = until_us

    def drain(self) -> None:
        """Take no more jobs."""
        self.draining = True
        self.until_us = DRAINED

    def undrain(self) -> None:
        """Take jobs again."""
        self.draining = False
        self.until_us = self.leaves_us

    def has_time(self, now_us: int) -> bool:
        """Whether it has time left for some job."""
        return not self.until_us or now_us < self.until_us

    def work_quietly(self) -> None:
        """From now on it need not show life while it has a job."""
        self.quiet_at_work = True

    def bound_work(self, silence_us: int) -> None:
        """From now on silence of this length loses it, also while it has a job."""
        self.quiet_at_work = False
        self.silence_us = silence_us

    def take_turns(self) -> None:
        """Use round robin: take from the queue that was served longest ago. Of those not served yet, the one
        named last goes first.
        """
        self.rotation = OrderedDict.fromkeys(reversed(self.abilities))

    def pick(self, now_us: int) -> Job | None:
        """The ready job of its queues that goes first for it."""
        if self.rotation is not None:
            return self._pick_in_turn(self.rotation, now_us)
        best: Job | None = None
        for queue in self.abilities:
            if not queue.ready:
                continue
            job = queue.best(self, now_us)
            if job is not None and (
                best is None
                or job.terms.priority < best.terms.priority
                or (job.terms.priority == best.terms.priority and job.id < best.id)
            ):
                best = job
        return best

    def _pick_in_turn(self, rotation: OrderedDict[Queue, None], now_us: int) -> Job | None:
        for queue in rotation:
            job = queue.best(self, now_us) if queue.ready else None
            if job is not None:
                rotation.move_to_end(queue)
                return job
        return None
