"""What the core and the sessions tell the operator by way of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.jobs import JobSpec
from hiringhall.dialects.session import BAD_INPUT, Caller, Reporter
from stage.talker import BACKGROUND, FOREGROUND, TalkerHall, submit

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.terms import Terms
    from hiringhall.core.workers import Worker


class Notes(Reporter):
    """Writes down what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, ...]] = []

    def dead_letter(self, job: Job, worker: Worker | None) -> None:
        self.told.append(
            ("dead letter", job.payload.decode(), worker.name.decode() if worker is not None else "")
        )

    def worker_lost(self, worker: Worker, job: Job | None, reason: bytes = b"") -> None:
        payload = job.payload.decode() if job is not None else ""
        self.told.append(("lost", worker.name.decode(), payload, *([reason.decode()] if reason else [])))

    def report(self, kind: str, text: str, caller: Caller, queue: bytes = b"", key: bytes = b"") -> None:
        self.told.append((kind, text, caller.address, queue.decode(), key.decode()))


class NotedHall(TalkerHall):
    def __init__(self) -> None:
        self.notes = Notes()
        super().__init__(reporter=self.notes)

    def working(self, name: bytes, payload: bytes, terms: Terms) -> Worker:
        """A worker of that name, at work on a job of that payload."""
        clerk, _ = self.peer("clerk")
        session, _ = self.peer("worker")
        with self.turn():
            submit(self.scheduler, clerk, JobSpec(b"rev", payload, b"", terms))
            worker = self.scheduler.worker(session)
            worker.name = name
            self.scheduler.can_do(worker, b"rev")
            assert self.scheduler.take(worker) is not None
        return worker


def test_a_durable_job_that_fails_for_good_is_reported_with_its_last_worker() -> None:
    hall = NotedHall()
    worker = hall.working(b"ada", b"fatal", BACKGROUND)
    with hall.turn():
        hall.scheduler.fail(next(iter(worker.leases.values())))
    assert hall.notes.told == [("dead letter", "fatal", "ada")]


def test_a_failed_job_of_memory_is_no_dead_letter() -> None:
    hall = NotedHall()
    worker = hall.working(b"ada", b"passing", FOREGROUND)
    with hall.turn():
        hall.scheduler.fail(next(iter(worker.leases.values())))
    assert hall.notes.told == []


def test_a_worker_that_leaves_with_a_job_is_reported_lost() -> None:
    hall = NotedHall()
    worker = hall.working(b"ada", b"dropped", BACKGROUND)
    with hall.turn():
        hall.scheduler.leave(worker.peer)
    assert hall.notes.told == [("lost", "ada", "dropped")]


def test_a_worker_that_leaves_idle_is_not_reported() -> None:
    hall = NotedHall()
    session, _ = hall.peer("worker")
    with hall.turn():
        hall.scheduler.can_do(hall.scheduler.worker(session), b"rev")
    with hall.turn():
        hall.scheduler.leave(session)
    assert hall.notes.told == []


def test_a_worker_that_is_silent_for_too_long_is_reported_once() -> None:
    hall = NotedHall()
    idle, _ = hall.peer("idle")
    busy = hall.working(b"ada", b"stalled", BACKGROUND)
    with hall.turn():
        hall.scheduler.expect(busy, 1_000_000)
        waiting = hall.scheduler.worker(idle)
        waiting.name = b"bob"
        hall.scheduler.expect(waiting, 1_000_000)
    with hall.turn(2_000_000):
        pass
    assert sorted(hall.notes.told) == [("lost", "ada", "stalled"), ("lost", "bob", "")]


def test_what_a_session_reports_names_its_caller() -> None:
    hall = NotedHall()
    session, _ = hall.peer("peer")
    session.report(BAD_INPUT, "no magic", b"rev", b"u7")
    assert hall.notes.told == [("bad_input", "no magic", "127.0.0.1", "rev", "u7")]
