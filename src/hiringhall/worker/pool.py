"""A pool: one kind of functions, with a connection to the hall and the processes that run them.

Invariant: every lease that the hall has given is in `tasks` until its end was reported, or until the hall has
taken it back. A job is reported as lost only if a process had begun it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec import ValidationError

from hiringhall.dialects.native import wire
from hiringhall.worker import messages, reports
from hiringhall.worker.listening import Listening
from hiringhall.worker.prefetch import TICK_US, WAIT_US_MAX, Prefetch
from hiringhall.worker.process import KILLED, RETIRING, WORKING
from hiringhall.worker.stating import Stated
from hiringhall.worker.tasks import Task

if TYPE_CHECKING:
    from hiringhall.worker.board import Board
    from hiringhall.worker.crew import Crew
    from hiringhall.worker.link import Link
    from hiringhall.worker.parents import Parents
    from hiringhall.worker.process import Child

TICK_S: Final = TICK_US / 1e6
WAIT_S_MAX: Final = WAIT_US_MAX / 1e6
ROUNDS_MIN: Final = 16
"""Jobs that may wait for a process, from which on the children are heard in rounds."""
RENEW_S: Final = 0.005
"""A job with a time limit that waited longer than this before it began gets its whole time again."""
REVOKE_S: Final = 2.0
"""How long a job that shares its process may take to stop, before the process is replaced."""
VOID_S: Final = 5.0
"""How long a job may go on after its connection was lost, if the hall does not come back sooner."""
FRAME_BYTES: Final = 64
"""What a frame has beside the result."""
MARK: Final = b"$job"
"""In the payload of a job with handles among its arguments."""


class Pool:
    """Gives the jobs of the hall to processes."""

    def __init__(self, mode: str, capacity: int, crew: Crew, board: Board, name: str, recycle: int) -> None:
        self.mode = mode
        self._capacity = capacity
        self.crew = crew
        self._board = board
        self._name = name
        self._recycle = recycle
        self._loop = asyncio.get_running_loop()
        self._prefetch = Prefetch() if mode != messages.ASYNC else None
        self.link: Link
        self.parents: Parents
        self.queues: list[messages.Served] = []
        self.stated = Stated()
        self.tasks: dict[int, Task] = {}
        self._backlog: deque[Task] = deque()
        """Jobs for which there is no process at this moment."""
        self._idle: dict[Child, None] = {}
        """Children that begin a job at once."""
        self._turn = 0
        self._told_slots = -1
        self._ticking = False
        self._finished = 0
        self._finished_before = 0
        self._ticked_at = 0.0
        self._result_bytes_max = 64 << 20
        self._body_bytes_max = wire.FRAME_BYTES_MAX
        self._listening = Listening(crew)
        self.draining = False
        crew.pool = self

    # --- the hall speaks

    def connected(self, welcome: dict[str, Any]) -> None:
        self._result_bytes_max = int(welcome.get("payload_bytes_max", self._result_bytes_max))
        self._body_bytes_max = int(welcome.get("frame_bytes_max", wire.FRAME_BYTES_MAX))
        self._body_bytes_max = min(self._body_bytes_max, self._result_bytes_max + FRAME_BYTES)
        self._stop_void()
        self._board.connected(self.mode, str(self.link.address), str(welcome.get("hall", "")))
        self.introduce()

    def introduce(self) -> None:
        """Tell the hall what this pool does."""
        self._told_slots = self._slots()
        queues = [(served.queue, 0, self.stated.skill(served.queue)) for served in self.queues]
        answer = self.link.ask(wire.WORK, self.stated.work_body(self._name.encode(), self._told_slots, queues))
        answer.add_done_callback(self._introduced)

    def _introduced(self, answer: asyncio.Future[Any]) -> None:
        if not answer.cancelled() and (error := answer.exception()) is not None and self.link.up:
            self._board.refused(str(error))

    def disconnected(self, reason: str) -> None:
        self._board.disconnected(self.mode, reason)
        self._void()
        self._loop.call_later(VOID_S, self._stop_void)

    def lost(self) -> None:
        """The hall has heard nothing for too long and has given the jobs to others."""
        self._board.disconnected(self.mode, "the hall has taken this worker for lost")
        self._void()
        self._stop_void()
        self.introduce()

    def drained(self, draining: bool) -> None:
        """The hall drains this worker, or no longer does: it sends no jobs meanwhile."""
        self._board.hall_drains(self.mode, draining)

    def refused(self, code: str, text: str) -> None:
        if code != "stale_lease":
            self._board.refused(f"{text} ({code})")

    def flow(self, flowing: bool) -> None:
        self._listening.flow(flowing)

    def busy(self) -> bool:
        return bool(self.tasks)

    def assigned(self, frame: bytes) -> None:
        try:
            lease, job, queue, payload, _, _, run_us = messages.ASSIGN_FRAME.decode(frame)[2]
        except ValidationError:
            lease, job, queue, payload, _, _, run_us, _ = messages.RESOURCED_FRAME.decode(frame)[2]
        counts = self._board.counts_of(queue)
        task = Task(lease, job, frame, run_us, counts, self._loop.time())
        counts.running += 1
        self.tasks[lease] = task
        if not self._ticking:
            self._begin_ticking()
        if self.draining:
            self._release(task)
        elif MARK in payload:
            self.parents.fill(task, payload)
        else:
            self.place(task)

    def revoked(self, lease: int) -> None:
        task = self.tasks.pop(lease, None)
        if task is None:
            return
        task.revoked = True
        task.counts.running -= 1
        task.counts.stopped += 1
        self._board.stopped(task)
        self._stop(task)
        self._ended_one()

    # --- jobs to processes

    def place(self, task: Task) -> None:
        """Give a job to a process."""
        child = self._pick()
        if child is None or not child.channel.give(task.packet, task.lease):
            self._backlog.append(task)
            return
        task.child = child
        tasks = child.tasks
        tasks[task.lease] = task
        count = len(tasks)
        if count <= child.capacity:
            self._started(task)
            if count == child.capacity:
                self._idle.pop(child, None)
        else:
            child.waiting.append(task)
        child.given += 1
        if child.given == self._recycle:
            self._dismiss(child)
            child.finish()

    def _pick(self) -> Child | None:
        for child in self._idle:
            return child
        working = self.crew.working
        if not working:
            return None
        # The shortest queue of a few, beginning with another one each time.
        self._turn = turn = self._turn + 1
        best = working[turn % len(working)]
        for step in range(1, min(len(working), 4)):
            other = working[(turn + step) % len(working)]
            if len(other.waiting) < len(best.waiting):
                best = other
        return best

    def _started(self, task: Task) -> None:
        task.started_at = now = self._loop.time()
        if task.run_us and now - task.taken_at > RENEW_S:
            self.link.tell(reports.RENEW, (task.lease,))

    def _feed(self) -> None:
        """Give waiting jobs to processes, as far as these take them."""
        backlog = self._backlog
        for _ in range(len(backlog)):
            task = backlog.popleft()
            if not task.revoked:
                self.place(task)

    def _reclaim(self, child: Child) -> list[Task]:
        """The jobs that a child has not begun; it will not see them. Everything that it has said is heard."""
        taken = [child.tasks.pop(lease) for lease in child.channel.take_back()]
        if taken:
            left = set(taken)
            begun = [task for task in child.waiting if task not in left]
        else:
            begun = list(child.waiting)
        child.waiting.clear()
        for task in begun:
            self._started(task)
        for task in taken:
            task.child = None
            child.given -= 1
        child.pump_all()
        return [task for task in taken if not task.revoked]

    def _stop(self, task: Task) -> None:
        """End a job that the hall has taken back."""
        child = task.child
        if child is None or task.lease not in child.tasks:
            return
        others = self._reclaim(child)
        if task.lease in child.tasks:
            if child.capacity == 1 and self.mode != messages.ASYNC:
                self._kill(child)
            else:
                child.revoke(task.lease)
                self._loop.call_later(REVOKE_S, self._insist, child, task)
        for other in others:
            self.place(other)

    def _insist(self, child: Child, task: Task) -> None:
        """A job that shares its process did not stop: the process ends, as soon as the other jobs allow it."""
        if child.tasks.get(task.lease) is not task:
            return
        if child.state == WORKING:
            self._board.stuck(task, child)
            others = self._reclaim(child)
            self._dismiss(child)
            child.state = RETIRING
            self._loop.call_later(self._board.grace_s, self._expire, child)
            for other in others:
                self.place(other)
        self._check_retiring(child)

    def _expire(self, child: Child) -> None:
        if child.state == RETIRING:
            child.kill(reports.GRACE)

    def _kill(self, child: Child, doom: str = "") -> None:
        self._dismiss(child)
        child.kill(doom)

    def _dismiss(self, child: Child) -> None:
        """It gets no more jobs. The hall is told first, so that it does not send more than the rest can do."""
        self._idle.pop(child, None)
        self.crew.dismiss(child)
        self.offer()

    def retire(self, child: Child) -> None:
        """It finishes what it runs, and ends; the rest goes to others."""
        others = self._reclaim(child)
        self._dismiss(child)
        if child.state == WORKING:
            child.finish()
        self._check_retiring(child)
        for other in others:
            self.place(other)

    def _check_retiring(self, child: Child) -> None:
        if child.state == RETIRING and all(task.revoked for task in child.tasks.values()):
            if child.tasks:
                child.kill()
            else:
                self.crew.linger(child)

    # --- processes speak

    def joined(self, child: Child) -> None:
        """A child is ready."""
        child.owner = self
        child.begin(self.mode, self._capacity, self._result_bytes_max)
        self._listening.add(child)
        self._idle[child] = None
        if self._backlog:
            self._feed()
        self.offer()

    def heard(self, child: Child, tag: int, lease: int, body: bytes) -> None:
        if tag == messages.SAID:
            if lease in self.tasks:
                self.link.send(body)
            return
        task = child.tasks.pop(lease, None)
        if task is None:
            return
        if child.waiting:
            self._started(child.waiting.popleft())
        elif child.state == WORKING:
            self._idle[child] = None
        if not task.revoked:
            del self.tasks[lease]
            counts = task.counts
            counts.running -= 1
            self._finished += 1
            if tag == messages.DONE:
                if len(body) > self._body_bytes_max:
                    # The child knows the limit of the hall that it met first.
                    self._fail(task, *reports.too_large(len(body), self._body_bytes_max))
                else:
                    counts.done += 1
                    self.link.send(body)
            elif tag == messages.FAILED:
                counts.failed += 1
                self.link.send(body)
                self._board.failed(task, body)
            self._ended_one()
        if child.state != WORKING:
            self._check_retiring(child)
        if self._backlog:
            self._feed()

    def _fail(self, task: Task, code: int, data: bytes, retry: bool) -> None:
        frame = wire.encode(wire.FAIL, 0, (task.lease, code, data, retry))
        task.counts.failed += 1
        self.link.send(frame)
        self._board.failed(task, frame)

    def fail(self, task: Task, code: int, data: bytes, retry: bool) -> None:
        """End a job that no process has begun."""
        if self.tasks.pop(task.lease, None) is not None:
            task.counts.running -= 1
            self._fail(task, code, data, retry)
            self._ended_one()

    def ended(self, child: Child) -> None:
        """A child's process has ended, and everything that it said was heard."""
        others = self._reclaim(child)
        ran = [task for task in child.tasks.values() if not task.revoked]
        child.tasks.clear()
        self._idle.pop(child, None)
        alone = len(ran) == 1
        for task in ran:
            del self.tasks[task.lease]
            task.counts.running -= 1
            if child.doom == reports.GRACE:
                self.link.tell(wire.RELEASE, (task.lease, True))
                self._board.released(task)
            elif child.doom.startswith(reports.MEMORY) and alone:
                self._fail(task, *reports.over_memory(child.doom))
            else:
                task.counts.lost += 1
                reason = child.doom or child.ending
                self.link.tell(reports.LOSE, (task.lease, reason.encode()))
                self._board.lost(task, reason)
        self.crew.left(child)
        self.offer()
        for other in others:
            self.place(other)
        if self._backlog:
            self._feed()
        if ran:
            self._ended_one()

    def over_memory(self, child: Child, used: int, limit: int) -> None:
        """A child uses too much memory."""
        others = self._reclaim(child)
        self._board.over_memory(child, used, limit)
        self._kill(child, reports.memory_text(used, limit))
        for other in others:
            self.place(other)

    # --- slots

    def _slots(self) -> int:
        if self.draining:
            return 0
        working = self.crew.working
        # A job that waits here would keep its resources from others.
        each = self._prefetch.each if self._prefetch is not None and not self.stated.resources else 0
        return sum([child.capacity for child in working]) + each * len(working)

    def offer(self) -> None:
        """Tell the hall how many jobs this pool takes, if that has changed."""
        slots = self._slots()
        if slots != self._told_slots:
            self._told_slots = slots
            self.link.tell(wire.SLOTS, (slots,))

    def _begin_ticking(self) -> None:
        self._ticking = True
        self._ticked_at = self._loop.time()
        self._finished_before = self._finished
        self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        elapsed = now - self._ticked_at
        finished = self._finished - self._finished_before
        self._ticked_at = now
        self._finished_before = self._finished
        prefetch = self._prefetch
        if prefetch is not None:
            prefetch.tick(len(self.crew.working), finished, int(elapsed * 1e6))
        # If this process itself was held up, the times say nothing about the jobs.
        if elapsed < 3 * TICK_S:
            self._give_back(now - WAIT_S_MAX)
        self._listening.in_rounds(prefetch is not None and prefetch.each >= ROUNDS_MIN)
        self.offer()
        if finished or self._backlog or any(child.waiting for child in self.crew.working):
            self._loop.call_later(TICK_S, self._tick)
        else:
            self._listening.in_rounds(False)
            self._ticking = False

    def _give_back(self, since: float) -> None:
        """Jobs that have waited since then could run elsewhere."""
        stalled = [child for child in self.crew.working if child.waiting and child.waiting[0].taken_at < since]
        late = bool(self._backlog) and self._backlog[0].taken_at < since
        if not stalled and not late:
            return
        if self._prefetch is not None:
            self._prefetch.stalled()
        self.offer()
        waited = [task for child in stalled for task in self._reclaim(child)]
        waited += [task for task in self._backlog if not task.revoked]
        self._backlog.clear()
        for place, task in enumerate(waited):
            if not self._idle:
                self._release_all(waited[place:])
                break
            self.place(task)

    def _release_all(self, tasks: list[Task]) -> None:
        # The last one first: each goes to the front of its queue.
        for task in reversed(tasks):
            self._release(task)

    def _release(self, task: Task) -> None:
        if self.tasks.pop(task.lease, None) is not None:
            task.counts.running -= 1
            task.revoked = True
            self.link.tell(wire.RELEASE, (task.lease, True))
            self._ended_one()

    # --- the end

    def _void(self) -> None:
        """No lease counts any more. Unbegun jobs are dropped; those that run are stopped later."""
        for task in self.tasks.values():
            task.revoked = True
            task.counts.running -= 1
        self.tasks.clear()
        self._backlog.clear()
        self._told_slots = -1
        for child in self.crew.everyone:
            self._reclaim(child)
        self._ended_one()

    def _stop_void(self) -> None:
        for child in self.crew.everyone:
            for task in [task for task in child.tasks.values() if task.revoked]:
                if child.state != KILLED:
                    self._board.stopped(task)
                    self._stop(task)

    def drain(self) -> None:
        """Take no more jobs; give back those that have not begun."""
        self.draining = True
        self.offer()
        waited = [task for child in self.crew.everyone for task in self._reclaim(child)]
        waited += [task for task in self._backlog if not task.revoked]
        self._backlog.clear()
        self._release_all(waited)
        self._ended_one()

    def kill_all(self) -> None:
        """End what runs, and give it back."""
        for child in self.crew.everyone:
            child.doom = reports.GRACE
        self.crew.kill_all()

    def _ended_one(self) -> None:
        if self.draining and not self.tasks:
            self._board.drained()
