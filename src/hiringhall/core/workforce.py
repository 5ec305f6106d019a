"""Workers: what they can do, how they wait for work, and how they leave.

Pull, push and sleep are three ways to say the same thing: how many more jobs this worker will take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.cooldowns import Cooldown
from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, Refusal
from hiringhall.core.workers import Worker

if TYPE_CHECKING:
    from hiringhall.core.bidding.hiring import Hiring
    from hiringhall.core.leasing import Leases
    from hiringhall.core.needs import Needs
    from hiringhall.core.peer import Peer
    from hiringhall.core.resources.resourcing import Resources
    from hiringhall.core.table import JobTable
    from hiringhall.core.waking import Wakeups
    from hiringhall.core.watching import Watchers


class Workforce:
    """The verbs of workers that look for work, and the deadlines of silence and cooldowns."""

    def __init__(
        self,
        table: JobTable,
        wakeups: Wakeups,
        leases: Leases,
        hiring: Hiring,
        needs: Needs,
        resources: Resources,
        watchers: Watchers,
    ) -> None:
        self._table = table
        self._watchers = watchers
        self._resources = resources
        self._wakeups = wakeups
        self._leases = leases
        self._hiring = hiring
        self._needs = needs
        self._last_worker = 0

    def worker(self, peer: Peer) -> Worker:
        """The worker of a peer, made on first use."""
        worker = peer.worker
        if worker is None:
            self._last_worker += 1
            worker = Worker(self._last_worker, peer, self._table.now_us)
            peer.worker = worker
            self._table.workers[worker] = None
            if self._needs.ratings is not None:
                self._needs.rate_by_name(worker)
        return worker

    def find(self, number: int) -> Worker | None:
        """The worker with this number. A stand-in, which has the same number, is later in the table."""
        for worker in self._table.workers:
            if worker.number == number:
                return worker
        return None

    def stand_in(self, peer: Peer, worker: Worker) -> Worker:
        """A worker that holds one job for a worker that delegates, with the name, skills, time and resources
        of that one.
        """
        other = self.worker(peer)
        other.name = worker.name
        other.number = worker.number
        other.stands_for = worker
        other.skills = worker.skills
        other.capacity = worker.capacity
        other.leave_at(worker.leaves_us)
        if worker.draining:
            other.drain()
        return other

    def delegate(self, worker: Worker, wake_step_us: int) -> None:
        """Each job of this worker is held by a stand-in. The worker may ignore a wake-up: after `wake_step_us`
        others are woken too.
        """
        worker.delegates = True
        worker.wake_step_us = wake_step_us

    def set_passes_on(self, worker: Worker, passes_on: bool) -> None:
        """Whether the worker is another hall, which passes jobs on to its own workers."""
        worker.passes_on = passes_on

    def set_bidder(self, worker: Worker) -> None:
        """The worker learns of jobs by announcement and is hired."""
        worker.bids = True

    def can_do(self, worker: Worker, name: bytes, run_us: int = 0) -> None:
        """The worker can do a queue; its attempts fail after `run_us` (0: no limit)."""
        cooldown = worker.cooldowns.get(name) if worker.cooldowns is not None else None
        if cooldown is not None:
            cooldown.able = True
            cooldown.run_us = run_us
            return
        queue = self._table.queues.get(name)
        if queue is None:
            queue = self._table.queue(name)
        if queue not in worker.abilities:
            if len(worker.abilities) >= self._table.limits.abilities_max:
                text = f"a worker may have {self._table.limits.abilities_max} queues (abilities_max)"
                raise Refusal(HALL_FULL, text)
            queue.workers[worker] = None
            if worker.asleep:
                queue.sleepers[worker] = None
            if worker.credit:
                queue.takers[worker] = None
            if queue.unmatched:
                queue.reconsider(worker, self._table.now_us)
            if queue.ready:
                self._table.unsettle(queue)
            if worker.rotation is not None:
                worker.rotation[queue] = None
                worker.rotation.move_to_end(queue, last=False)
        worker.abilities[queue] = run_us

    def cant_do(self, worker: Worker, name: bytes) -> None:
        """The worker no longer does a queue; a job of it that was promised to the worker goes to another."""
        cooldown = worker.cooldowns.get(name) if worker.cooldowns is not None else None
        if cooldown is not None:
            cooldown.able = False
        else:
            self._forget_ability(worker, name)
        promise = worker.promise
        if promise is not None and promise.booked and promise.job.queue.name == name:
            self._leases.dismiss(promise)

    def _forget_ability(self, worker: Worker, name: bytes) -> None:
        queue = self._table.queues.get(name)
        if queue is None or queue not in worker.abilities:
            return
        if worker.waking is queue:
            self._wakeups.answer(worker)
        del worker.abilities[queue]
        if queue.reservation is not None:
            self._resources.unreserve(worker)
        if worker.rotation is not None:
            del worker.rotation[queue]
        del queue.workers[worker]
        queue.sleepers.pop(worker, None)
        queue.takers.pop(worker, None)

    def cant_do_any(self, worker: Worker) -> None:
        """The worker no longer does any queue."""
        for queue in list(worker.abilities):
            self.cant_do(worker, queue.name)

    def take_turns(self, worker: Worker) -> None:
        """The worker takes from its queues in round robin, regardless of the priorities in other queues."""
        worker.take_turns()

    def requeue_overruns(self, worker: Worker) -> None:
        """A job that exceeds this worker's run limit goes to another worker, as if this one was lost."""
        worker.requeues_overruns = True

    def offer(self, worker: Worker, slots: int) -> None:
        """Push up to `slots` jobs to the worker; replaces its earlier offer."""
        if slots < 0:
            raise Refusal(BAD_REQUEST, "slots must be 0 or more")
        worker.credit = slots
        for queue in worker.abilities:
            if slots:
                queue.takers[worker] = None
                if queue.unmatched:
                    queue.reconsider(worker, self._table.now_us)
                if queue.ready:
                    self._table.unsettle(queue)
            else:
                queue.takers.pop(worker, None)
        if worker.promise is not None:
            self._hiring.expectant.append(worker)

    def sleep(self, worker: Worker) -> None:
        """The worker waits for `woken`, which comes at the end of this turn if a job is ready for it."""
        self._wakeups.fall_asleep(worker)
        if worker.promise is not None:
            self._hiring.expectant.append(worker)

    def expect(self, worker: Worker, silence_us: int) -> None:
        """Count the worker as lost after this much silence; 0: never."""
        worker.silence_us = silence_us
        worker.heard_us = self._table.now_us
        self._wakeups.arm(worker)

    def beat(self, worker: Worker) -> None:
        """The worker shows life: the allowed silence of the worker and of its leases starts anew."""
        worker.heard_us = self._table.now_us

    def cool_down(self, worker: Worker, name: bytes, pause_us: int) -> bool:
        """Give the worker no jobs of this queue, and no wake-ups for it, for `pause_us`. False: it cannot do
        the queue, or its cooldown is not over.
        """
        queue = self._table.queues.get(name)
        if queue is None or queue not in worker.abilities:
            return False
        cooldown = Cooldown(worker, name, worker.abilities[queue])
        self.cant_do(worker, name)
        if worker.cooldowns is None:
            worker.cooldowns = {}
        worker.cooldowns[name] = cooldown
        self._table.timers.arm(cooldown, self._table.now_us + max(pause_us, 1))
        return True

    def cooldown_due(self, cooldown: Cooldown) -> None:
        """The cooldown is over: the worker gets jobs of the queue again, unless it has given the queue up."""
        worker = cooldown.worker
        assert worker.cooldowns is not None
        del worker.cooldowns[cooldown.name]
        if cooldown.able:
            try:
                self.can_do(worker, cooldown.name, cooldown.run_us)
            except Refusal:
                return  # The hall has too many queues by now; the worker may call `can_do` again.

    def leave(self, peer: Peer) -> None:
        """The peer is gone: its leases are lost, and it watches nothing."""
        worker = peer.worker
        if worker is not None:
            self.drop(worker)
        for job in list(peer.watching):
            self._watchers.unwatch(job, peer)

    def worker_due(self, worker: Worker) -> None:
        """It was silent for too long, or has not answered a wake-up."""
        now_us = self._table.now_us
        at_work = worker.quiet_at_work and len(worker.leases) > 0
        if worker.silence_us and worker.heard_us + worker.silence_us <= now_us and not at_work:
            for lease in list(worker.leases.values()):
                self._table.revoke(lease)
            if worker.promise is not None:
                self._table.revoke(worker.promise)
            if not worker.leases:
                self._table.observer.worker_lost(worker, None)
            self.drop(worker)
            worker.peer.lost()
            return
        if worker.waking is not None and worker.wake_until_us <= now_us:
            if worker.wake_step_us and not worker.overdue:
                self._wakeups.pass_by(worker)
            else:
                self._wakeups.answer(worker)
        self._wakeups.arm(worker)

    def drop(self, worker: Worker) -> None:
        """Remove a worker that is gone; its leases are lost."""
        if worker.cooldowns is not None:
            for cooldown in worker.cooldowns.values():
                self._table.timers.disarm(cooldown)
            worker.cooldowns = None
        self.cant_do_any(worker)
        worker.asleep = False
        worker.credit = 0
        # In reverse: each job goes to the front of its lane, so the oldest ends up first.
        if worker.promise is not None:
            self._leases.count_loss(worker.promise)
        for lease in reversed(list(worker.leases.values())):
            self._leases.count_loss(lease)
        self._resources.leave(worker)
        self._table.timers.disarm(worker)
        del self._table.workers[worker]
        if worker.resident is not None:
            del self._table.residents[worker.resident.name, worker.name]
        worker.peer.worker = None
