"""The random lives of those who need no connection: residents, tasks that run elsewhere, and schedules.

The model: a firing and its job are on disk together or not at all; of the jobs in memory only the logged ones
are in the history, and a task that runs elsewhere is never handed out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import BACKGROUND, SECOND_US
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from hiringhall.core.changes import Firing
from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, STORE_DOWN, WRONG_STATE, Refusal
from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import DONE, FAILED, LEASED

if TYPE_CHECKING:
    from collections.abc import Callable

    from hall_recorder import Disk

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker

QUEUES = ("p", "q", "r")
KEYS = ("x", "y", "z")
RESIDENTS = (b"u", b"v", b"w")
SCHEDULES = ("hourly", "nightly")
LIMITS = Limits(jobs_max=40, ended_max=8, ended_bytes_max=400, watchers_max=4, residents_max=3)
MOMENTS = st.sampled_from([-SECOND_US, -1, 0, 1, SECOND_US])
"""When something is said to have happened, beside now."""


def attempt(act: Callable[[], Job]) -> tuple[Job | None, str]:
    """What came of it, or why it was refused."""
    try:
        return act(), ""
    except Refusal as refusal:
        return None, refusal.reason


class UnconnectedRules(RuleBasedStateMachine):
    """The part of a hall's life that no connection brings."""

    core: Scheduler
    disk: Disk
    seen: dict[int, None]

    def open_unconnected(self) -> None:
        self.firings: dict[str, Firing] = {}
        """How far each schedule has come, by the model."""
        self.fired_jobs: dict[tuple[str, int], int] = {}
        """The job that came new with a firing, unless it was taken back."""
        self.forgotten: dict[str, int] = {}
        """The last firing that was still before a schedule was forgotten."""
        self.count = 0

    def take_as(self, worker: Worker, name: str | None) -> None:
        """Somebody asks for work, and the model knows what it may be given."""
        raise NotImplementedError

    # --- residents

    @rule(who=st.sampled_from(RESIDENTS), queue=st.sampled_from(QUEUES))
    def resident_takes(self, who: bytes, queue: str) -> None:
        known = self.core.residents.find(queue.encode(), who)
        try:
            worker = self.core.residents.get(queue.encode(), who)
        except Refusal:
            assert known is None
            assert len(self.core.table.residents) >= LIMITS.residents_max
            return
        assert known is None or worker is known
        self.take_as(worker, None)

    @rule(number=st.integers(0, 50))
    def retire(self, number: int) -> None:
        residents = [worker for worker in self.core.table.residents.values() if worker.name != OUTSIDE]
        if residents:
            worker = residents[number % len(residents)]
            before = [(lease.job, lease.job.losses) for lease in worker.leases.values()]
            self.core.residents.retire(worker)
            assert worker not in self.core.workers
            for job, losses in before:
                assert (job.lease, job.losses) == (None, losses)

    # --- schedules

    @rule(
        name=st.sampled_from(SCHEDULES),
        queue=st.sampled_from(QUEUES),
        key=st.sampled_from(("", *KEYS)),
        delay_us=st.sampled_from([0, 10, SECOND_US]),
    )
    def fire(self, name: str, queue: str, key: str, delay_us: int) -> None:
        self.count += 1
        firing = Firing(self.count, b"plan")
        due_us = self.core.now_us + delay_us if delay_us else 0
        spec = JobSpec(queue.encode(), b"fired", key.encode(), BACKGROUND, due_us)
        before = self.core.find_key(queue.encode(), key.encode()) if key else None
        job, reason = attempt(lambda: self.core.firings.fire(name, firing, spec))
        if job is None:
            assert reason in (STORE_DOWN, HALL_FULL)
            return
        self.firings[name] = firing
        self.seen[job.id] = None
        assert job is before if before is not None else job.terms.durable
        if before is None:
            self.fired_jobs[name, self.count] = job.id

    @rule(name=st.sampled_from(SCHEDULES), begins=st.booleans())
    def mark(self, name: str, begins: bool) -> None:
        self.count += 1
        self.core.firings.mark(name, Firing(self.count, b"another plan") if begins else None)
        if begins:
            self.firings[name] = Firing(self.count, b"another plan")
        else:
            self.firings.pop(name, None)
            self.forgotten[name] = self.count

    # --- tasks that run elsewhere

    @rule(queue=st.sampled_from(QUEUES), key=st.sampled_from(("", *KEYS)), beside_us=MOMENTS)
    def report_start(self, queue: str, key: str, beside_us: int) -> None:
        before = self.core.find_key(queue.encode(), key.encode()) if key else None
        spec = JobSpec(queue.encode(), b"", key.encode(), BACKGROUND)
        job, reason = attempt(lambda: self.core.reports.start(spec, b"robot", self.core.now_us + beside_us))
        if job is None:
            assert (reason == BAD_REQUEST) == (not key)
            assert reason != WRONG_STATE or before is not None
            return
        assert key
        assert before is None
        assert job.started_us == job.created_us == self.core.now_us + min(beside_us, 0)
        self.seen[job.id] = None

    @rule(number=st.integers(0, 50), beside_us=MOMENTS, code=st.sampled_from([0, 0, 9]))
    def report_end(self, number: int, beside_us: int, code: int) -> None:
        jobs = [*self._reported(), *self.core.jobs.values()] if number % 3 else self._reported()
        if not jobs:
            return
        job = jobs[number % len(jobs)]
        reported, state, now_us = job in self._reported(), job.state, self.core.now_us
        reason = self._end_outside(job, now_us + beside_us, code)
        if reason == STORE_DOWN:
            # Its start was not stored, and its end cannot be.
            assert (reported, job.state) == (True, state)
            assert self.core.store_trouble
            return
        if reason:
            assert reason == WRONG_STATE
            assert (reported, job.state) == (False, state)
            return
        assert reported
        assert (job.state, job.code) == (FAILED if code else DONE, code)
        assert job.started_us <= job.ended_us <= now_us

    def _end_outside(self, job: Job, ended_us: int, code: int) -> str:
        """Why it was refused, if it was."""
        try:
            self.core.reports.end(job, ended_us, code, b"told")
        except Refusal as refusal:
            return refusal.reason
        return ""

    def _reported(self) -> list[Job]:
        return [
            job for job in self.core.jobs.values() if job.lease is not None and job.lease.worker.name == OUTSIDE
        ]

    # --- what always holds

    def forget_unstored(self) -> None:
        """A commit failed, or the hall died: only what is on disk has fired."""
        self.firings = dict(self.disk.fired)
        for name, number in [key for key, job_id in self.fired_jobs.items() if not self._on_disk(job_id)]:
            del self.fired_jobs[name, number]

    def check_unconnected(self) -> None:
        assert self.core.firings.by_name == self.firings
        for (name, number), job_id in self.fired_jobs.items():
            fired = self.disk.fired.get(name)
            if fired is not None and fired.due_us == number:
                assert self._on_disk(job_id), "a schedule has fired, and its job is not there"
            if self._on_disk(job_id):
                reached = fired.due_us if fired is not None else self.forgotten.get(name, 0)
                assert max(reached, self.forgotten.get(name, 0)) >= number, "a job came, and would come again"
        for end in self.disk.history.values():
            assert end.terms.durable or end.terms.logged
        for job in self._reported():
            assert (job.state, job.attempts) == (LEASED, 1)

    def end_reported(self) -> None:
        for job in self._reported():
            self.core.reports.end(job, self.core.now_us, 0, b"")

    def _on_disk(self, job_id: int) -> bool:
        return job_id in self.disk.live or job_id in self.disk.history
