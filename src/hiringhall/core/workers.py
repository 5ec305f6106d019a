"""A worker: what it can do, what it has, and how it wants to hear of more."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from hiringhall.core.terms import PLAIN
from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Engagement, Lease
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.rests import Rest
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.terms import Shape


class Worker(Timed):
    """A peer that works. Its timer guards a wake-up it has not answered and its silence, whichever is first."""

    __slots__ = (
        "abilities",
        "asleep",
        "bids",
        "credit",
        "delegates",
        "heard_us",
        "hirings",
        "leases",
        "name",
        "number",
        "overdue",
        "passes_on",
        "peer",
        "promise",
        "quiet_at_work",
        "requeues_overruns",
        "resident",
        "rests",
        "rotation",
        "silence_us",
        "skills",
        "until_us",
        "wake_step_us",
        "wake_until_us",
        "waking",
        "waking_shape",
    )

    def __init__(self, number: int, peer: Peer, now_us: int) -> None:
        super().__init__()
        self.number = number
        self.peer = peer
        self.name = b""
        """What it calls itself; shown to people and kept in the history."""
        self.abilities: dict[Queue, int] = {}
        """The queues it can do, in the order in which it said so, with its run limit in us (0: none)."""
        self.leases: dict[int, Lease] = {}
        """What it works on, by job id."""
        self.promise: Engagement | None = None
        """What it is to do next, and has not begun. If it does not bid, nobody has told it: it is given this
        before all else."""
        self.hirings = 0
        """How often it was hired so far. Each hiring voids the bids that it made before."""
        self.asleep = False
        """Waits for `woken`; it is in `sleepers` of each of its queues exactly while this is set."""
        self.waking: Queue | None = None
        """The queue it was woken for, until it asks for work, sleeps again, or lets `wake_until_us` pass."""
        self.wake_step_us = 0
        """It may leave a wake-up unanswered, because it works elsewhere: after this long others are woken too,
        twice as many each time. 0: who is woken asks for work."""
        self.overdue = False
        """It was woken and has let `wake_step_us` pass. It may still answer, but stands for no job."""
        self.waking_shape = PLAIN
        """Of what shape the job is that it was woken for."""
        self.wake_until_us = 0
        self.credit = 0
        """Slots offered and not yet filled; it is in `takers` of each of its queues while this is above 0."""
        self.rotation: OrderedDict[Queue, None] | None = None
        """Its queues in the order in which it takes from them in turn; None: the oldest job goes first."""
        self.requeues_overruns = False
        """An attempt that overruns its limit is followed by another; otherwise the job has failed."""
        self.heard_us = now_us
        """When it last showed life."""
        self.silence_us = 0
        """Silence after which it counts as lost; 0: only leaving does."""
        self.quiet_at_work = False
        """Its silence does not count while it has a job, and is counted from the end of the last one."""
        self.bids = False
        """It is told of jobs by announcement, and hired: it is neither woken nor pushed to."""
        self.delegates = False
        """Each of its jobs is held by a worker of its own: only while it sleeps is it known to be free."""
        self.passes_on = False
        """It is another hall, which has jobs done by its own workers."""
        self.skills: dict[bytes, int] | None = None
        """How good it is at some queues, by name; None: it has not said, and gets what needs no skill."""
        self.until_us = 0
        """When it has to go: it is given nothing that takes longer; 0: it stays."""
        self.rests: dict[bytes, Rest] | None = None
        """Queues it could do and is given nothing of for a while, by name; None: it never had to rest."""
        self.resident: Queue | None = None
        """The one queue of a worker that is known by its name and not by a connection: what it holds is kept
        when the hall closes."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.workforce.worker_due(self)

    def skill(self, name: bytes) -> int:
        return 0 if self.skills is None else self.skills.get(name, 0)

    def fits(self, name: bytes, shape: Shape, now_us: int) -> bool:
        """Whether jobs of this queue and shape may be given to it."""
        return shape[0] <= self.skill(name) and (not self.until_us or now_us + shape[1] <= self.until_us)

    def work_quietly(self) -> None:
        """From now on its silence does not count while it has a job."""
        self.quiet_at_work = True

    def bound_work(self, silence_us: int) -> None:
        """From now on its silence counts while it has a job, too."""
        self.quiet_at_work = False
        self.silence_us = silence_us

    def take_turns(self) -> None:
        """Take from its queues in turn: from the one that was served longest ago, and of those that were not
        served yet from the one that was named last.
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
