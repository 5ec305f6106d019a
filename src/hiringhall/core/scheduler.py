"""The scheduler: where a job meets a worker.

Verbs return at once or raise a `Refusal`; what happens later reaches a peer as a notice. A verb only notes
that a queue has something to match; `settle`, at the end of the turn, pairs jobs with credit and wakes
sleepers, one for one job. The submitting verbs stand in `submitting`, the working verbs in `leasing`, the
moves of a job in `floor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core import audit as auditor
from hiringhall.core import ids
from hiringhall.core.auctions import Auctions
from hiringhall.core.errors import Refusal
from hiringhall.core.jobs import Job, is_named
from hiringhall.core.queues import Queue
from hiringhall.core.states import (
    CALLED_OFF,
    CANCELLED,
    CUT_SHORT,
    DELAYED,
    DONE,
    FAILED,
    HELD,
    LEASED,
    PARENT_FAILED,
    QUEUED,
    WITHDRAWN,
)
from hiringhall.core.submitting import Submitting
from hiringhall.core.terms import FAIL_WITH_PARENT, RUN_ANYWAY
from hiringhall.core.timers import NEVER

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, EndRow, Loaded
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.limits import Limits


class Scheduler(Submitting):
    """What the engine calls: time, the end of a turn, and the store's answers."""

    def __init__(self, limits: Limits, epoch: int = 1, now_us: int = 1) -> None:
        super().__init__(limits, epoch, now_us)
        self.auctions = Auctions(self)

    def set_time(self, now_us: int) -> None:
        """It is `now_us`."""
        self.now_us = now_us
        self.awake_us = now_us - self.paused_us

    def resume(self, paused_us: int) -> None:
        """The hall was paused for so long, until now: nobody's silence counts meanwhile. Due dates stay."""
        self.paused_us += paused_us
        self.awake_us -= paused_us
        for worker in self.workers:
            for lease in worker.leases.values():
                # Silence counts from the start of a job if that is later.
                worker.heard_us = max(worker.heard_us, lease.started_us)
                if lease.run_until_us != NEVER:
                    lease.run_until_us += paused_us
            worker.heard_us += paused_us
            worker.wake_until_us += paused_us
        for thing in self.timers.armed():
            if thing.counts_down:
                self.timers.arm(thing, thing.due_us + paused_us)

    def advance(self, now_us: int) -> None:
        """It is `now_us`: act on every deadline that has passed."""
        self.set_time(now_us)
        next_us = self.timers.next_us()
        if next_us == NEVER or next_us > now_us:
            return
        while True:
            thing = self.timers.pop_due(now_us)
            if thing is None:
                return
            thing.ring(self)

    def job_due(self, job: Job) -> None:
        """A delayed job is ready, or a ready one has waited for as long as it may."""
        if job.state == DELAYED:
            self.move(job, QUEUED)
            self._note(job)
        elif job.state == QUEUED:
            self._end(job, CANCELLED, CALLED_OFF, b"no worker took it in time")

    def next_deadline(self) -> int:
        """When `advance` has something to do; 0: never, as things stand."""
        return self.timers.next_us()

    def settle(self) -> None:
        """The end of a turn: failed parents take their children along, ready jobs meet workers."""
        while self._doomed:
            child = self._doomed.pop()
            if child.state == HELD and self._has_failed_parent(child):
                self._end(child, FAILED, PARENT_FAILED, b"a parent did not succeed")
        if self._expectant and not self.closing:
            self._keep_promises()
        if self.closing or not self._unsettled:
            return
        for queue in self._unsettled:
            queue.unsettled = False
            self._match(queue)
        self._unsettled.clear()

    def _has_failed_parent(self, child: Job) -> bool:
        """A parent by number that is not known, nor being looked up, is as good as failed."""
        for ref, parent in (child.parents or {}).items():
            if parent is not None:
                if parent.state > DONE:
                    return True
            elif isinstance(ref, int) and not self.graph.inquiries.pending(ref):
                return True
        return False

    def seal(self) -> Batch:
        """The net effect of all changes since the last seal. No other batch may be under way."""
        return self.ledger.seal()

    def committed(self, batch: Batch) -> None:
        """The batch is on disk, and the store works."""
        self.ledger.committed(batch)
        self._settle_firings(batch)
        self.store_trouble = ""

    def withdraw(self, batch: Batch, trouble: str) -> dict[int, Job]:
        """The batch is not on disk: what nobody was promised is durable no more, the rest stays noted."""
        self.store_trouble = trouble
        for name in self.ledger.unfired(batch):
            before = self._stored_firings.get(name)
            if before is None:
                self.firings.pop(name, None)
            else:
                self.firings[name] = before
        unstored = self.ledger.reopen(batch) + self.ledger.newcomers()
        withdrawn: dict[int, Job] = {}
        for job in unstored:
            if job.id in withdrawn:
                continue
            withdrawn[job.id] = job
            self._withdraw(job)
            if job.state >= DONE:
                self.archive.discard(job)
        return withdrawn

    def _settle_firings(self, batch: Batch) -> None:
        for name, firing in batch.fired.items():
            if firing is None:
                self._stored_firings.pop(name, None)
            else:
                self._stored_firings[name] = firing

    def drop_withdrawn(self, withdrawn: dict[int, Job]) -> None:
        """Once the submitters are refused: what nobody else waits for goes, the rest lives on in memory."""
        for job in withdrawn.values():
            if job.state < DONE and self._abandoned(job):
                if job.key:
                    self.graph.forget(job)
                else:
                    self._free_stored_children(job)
                self._cancel(job, WITHDRAWN, b"the store failed before the job was acknowledged")

    def _free_stored_children(self, parent: Job) -> None:
        """That they wait for it was promised to nobody, and they were promised long ago."""
        for child in list((parent.children or {}).values()):
            if child.stored or child.logged:
                if self.graph.unlink(child, parent):
                    self._release_child(child)
                self._note(child)

    def restore(self, loaded: Loaded) -> None:
        """Fill an empty hall with what the store kept."""
        self.epoch = loaded.epoch
        self._last_id = ids.make(loaded.epoch, 0)
        self.firings.update(loaded.fired)
        self._stored_firings.update(loaded.fired)
        count = 0
        for end in loaded.ended:
            self.archive.add(_ended_job(end, self._restore_queue(end.queue)))
            count += 1
        if count >= self.limits.ended_max:
            self.archive.complete = False
        held: list[tuple[Job, tuple[ParentRef, ...]]] = []
        for row in loaded.jobs:
            queue = self._restore_queue(row.queue)
            job = Job(row.id, queue, row.key, row.payload, row.terms, row.created_us)
            job.attempts = row.attempts
            job.failures = row.failures
            job.losses = row.losses
            job.extras = row.extras
            job.ready_us = row.ready_us
            job.started_us = row.started_us
            job.worker_name = row.worker
            job.tries = list(row.tries) or None
            job.stored = True
            self.jobs[job.id] = job
            queue.live += 1
            if row.key:
                self.keys.add(job)
            if row.state == HELD:
                self.move(job, HELD)
                job.due_us = row.due_us
                held.append((job, row.parents))
            elif row.state == DELAYED and row.due_us:
                self.move(job, DELAYED, due_us=row.due_us)
            elif row.holder:
                self._restore_lease(job, row.holder)
            else:
                if row.state == LEASED:
                    self._remember_try(job, CUT_SHORT, 0)
                    self._note(job)
                self.move(job, QUEUED)
        for job, refs in held:
            for ref in refs:
                self._restore_edge(job, ref)
            if job.parents is None:
                self._release_child(job)
                self._note(job)

    def _restore_queue(self, name: bytes) -> Queue:
        """A queue that was there before, whatever the limits are today."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self._add_queue(name)
        return queue

    def _restore_lease(self, job: Job, holder: bytes) -> None:
        """What a resident held is still its own; its silence counts from now."""
        worker = self.residents.get((job.queue.name, holder))
        if worker is None:
            worker = self._settle_in(job.queue, holder)
        self.move(job, LEASED)
        job.worker_name = job.worker_name or holder
        self._attach_lease(job, worker, job.terms.run_us)

    def _restore_edge(self, child: Job, ref: ParentRef) -> None:
        if isinstance(ref, int):
            parent = self.jobs.get(ref)
            ended = self.archive.find(ref)
        else:
            parent = self.find_key(ref[0], ref[1])
            ended = self.archive.find_key(ref[0], ref[1])
        policy = child.terms.on_parent_failure
        if parent is not None:
            self.graph.link(child, parent)
        elif ended is not None and (ended.state == DONE or policy == RUN_ANYWAY):
            return
        elif ended is not None and policy == FAIL_WITH_PARENT:
            self.graph.link(child, ended)
            self._doomed.append(child)
        elif ended is not None:
            self.graph.expect(child, ref)
        elif not isinstance(ref, int) or not self.archive.complete:
            self._expect(child, ref)
        elif policy != RUN_ANYWAY:
            # It was only in memory, and is gone with the hall that knew it: as good as failed.
            self.graph.expect(child, ref)
            if policy == FAIL_WITH_PARENT:
                self._doomed.append(child)

    def found_parents(self, refs: list[ParentRef], lines: list[EndRow]) -> None:
        """The history was asked for these parents and knows these lines of them. A parent that it knows is kept
        as if it had just ended, and its children act on how it ended.
        """
        inquiries = self.graph.inquiries
        found: dict[ParentRef, EndRow] = {}
        for line in lines:
            found[line.id] = line
            if is_named(line.key, line.extras):
                # An older job of that name may have been asked for by its number.
                latest = found.get((line.queue, line.key))
                if latest is None or latest.ended_us <= line.ended_us:
                    found[line.queue, line.key] = line
        for ref in refs:
            end = found.get(ref)
            if not inquiries.answered(ref, end is not None):
                continue
            if end is not None:
                parent = self.archive.find(end.id)
                if parent is None:
                    # Its queue may be gone since then: for what has ended none is made.
                    parent = _ended_job(end, self.queues.get(end.queue) or Queue(end.queue))
                    self.archive.bring_back(parent)
                self.graph.adopt_as(ref, parent)
                if parent.children is not None:
                    self._tell_children(parent)
                if isinstance(ref, int) and parent.named:
                    self._look_for_successor(parent)
            elif isinstance(ref, int):
                for child in list(self.graph.expected[ref].values()):
                    self._miss_parent(child, ref)

    def _look_for_successor(self, parent: Job) -> None:
        """Children that hold on for a parent that failed wait for whoever has its name, or had it since then:
        a live job, one that memory still knows, or one in the history.
        """
        queue, key = name = (parent.queue.name, parent.key)
        waiting = self.graph.expected.get(name)
        if waiting is None:
            return
        live = self.find_key(queue, key)
        ended = self.archive.find_key(queue, key)
        if live is not None:
            for child in list(waiting.values()):
                self._refuse_circle(child, live, parent)
            self.graph.adopt_as(name, live)
        elif ended is not None and ended.state == DONE:
            self.graph.adopt_as(name, ended)
            self._tell_children(ended)
        else:
            self.graph.inquiries.add(name)

    def _refuse_circle(self, child: Job, live: Job, parent: Job) -> None:
        """With a parent that was known a circle would have been refused at the submit: now the child fails."""
        try:
            self.graph.refuse_cycle({child.id: child}, [live], self.limits.graph_walk_max)
        except Refusal:
            self.graph.give_up(child, (live.queue.name, live.key))
            self.graph.expect(child, parent.id)
            self._doomed.append(child)

    def _miss_parent(self, child: Job, ref: int) -> None:
        """A parent by number that nobody knows was only in memory, and is gone: as good as failed. Nobody can
        retry it, so there is nothing to hold on for.
        """
        if child.terms.on_parent_failure != RUN_ANYWAY:
            self._doomed.append(child)
            return
        if self.graph.give_up(child, ref):
            self._release_child(child)
        self._note(child)

    def audit(self) -> None:
        """Check every cross-reference."""
        auditor.audit(self)


def _ended_job(end: EndRow, queue: Queue) -> Job:
    """A job that has ended, as the history knows it."""
    job = Job(end.id, queue, end.key, end.payload, end.terms, end.created_us, end.state)
    job.code = end.code
    job.attempts = end.attempts
    job.losses = end.losses
    job.started_us = end.started_us
    job.ended_us = end.ended_us
    job.worker_name = end.worker
    job.extras = end.extras
    job.ready_us = end.ready_us
    job.tries = list(end.tries) or None
    job.logged = True
    return job
