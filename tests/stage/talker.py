"""A dialect of plain words, for tests of the engine. The store answers when the test says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.jobs import JobSpec
from hiringhall.core.terms import Terms
from hiringhall.dialects.session import Caller, Reporter, Session
from hiringhall.engine.deadlines import STARTED_US
from stage.guest import RecordingLink
from stage.hall import Hall

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.errors import Refusal
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.limits import Limits
    from hiringhall.core.scheduler import Scheduler

FOREGROUND: Final = Terms()
BACKGROUND: Final = Terms(durable=True, detached=True)
WATCHED: Final = Terms(durable=True)
"""On disk before it is acknowledged, and its submitter waits for the end."""


class Wire(RecordingLink):
    """The link of a talker."""

    @property
    def written(self) -> list[bytes]:
        """Each write since the last time, as one piece."""
        return [b"".join(messages) for messages in self.writes]

    def said(self) -> list[str]:
        """The same as texts. The next time, only what was written since then."""
        texts = [data.decode() for data in self.written]
        self.writes = []
        return texts


class Talker(Session):
    """Says in words what a dialect would say in packets; each message ends with a bar."""

    def __init__(self, name: str) -> None:
        super().__init__(Caller("127.0.0.1", 3))
        self.name = name
        self.parts = 0

    def receive(self, data: bytes) -> None:
        self.send(b"echo " + data + b"|")

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:
        return b"refused %s: %s|" % (job.payload, refusal.text.encode())

    def disconnected(self) -> None:
        self.parts += 1

    def looked_up(self, job_id: int, line: EndRow | None, trouble: str) -> None:
        if trouble:
            self.send(b"cannot look up: %s|" % trouble.encode())
        elif line is None:
            self.send(b"unknown %d|" % job_id)
        else:
            self.send(b"found %s|" % line.result)

    def woken(self) -> None:
        self.send(b"woken|")

    def assigned(self, lease: Lease) -> None:
        self.send(b"assigned " + lease.job.payload + b"|")

    def ended(self, job: Job) -> None:
        self.conclude(job, b"ended " + job.payload + b"|")


def submit(scheduler: Scheduler, session: Talker, spec: JobSpec) -> Job:
    """A durable job is acknowledged when it is on disk, any other at once."""
    watching = not spec.terms.detached
    job = scheduler.submit(spec, session if watching else None)
    if spec.terms.durable:
        session.acknowledge(job, b"accepted %s|" % spec.payload, watching=watching)
    else:
        session.send(b"accepted %s|" % spec.payload)
    return job


class TalkerHall(Hall):
    """A hall whose peers are talkers. Nothing happens between two turns."""

    waits_out_groups = False

    def __init__(self, limits: Limits | None = None, reporter: Reporter | None = None) -> None:
        super().__init__(limits, reporter=reporter)
        self.held = True

    def peer(self, name: str) -> tuple[Talker, Wire]:
        session, wire = Talker(name), Wire()
        session.link = wire
        self.engine.join(session)
        return session, wire

    def worker(self, name: str) -> tuple[Talker, Wire]:
        session, wire = self.peer(name)
        self.scheduler.can_do(self.scheduler.worker(session), b"q")
        return session, wire

    def submit(self, session: Talker, name: str, terms: Terms = BACKGROUND, key: str = "") -> Job:
        """A background job is not watched, a foreground job is."""
        return submit(self.scheduler, session, JobSpec(b"q", name.encode(), key.encode(), terms))

    def take(self, session: Talker) -> Lease:
        lease = self.scheduler.take(self.scheduler.worker(session))
        assert lease is not None
        return lease

    def is_at_rest(self) -> None:
        """Nothing is left to do, once the engine has noted which jobs are still with their workers."""
        deadline_us = self.engine.next_deadline()
        if deadline_us:
            assert deadline_us <= self.now_us + STARTED_US
            with self.turn(after_us=max(1, deadline_us - self.now_us)):
                pass
        assert self.engine.next_deadline() == 0
        assert self.requests.under_way() is None
        assert not self.engine.busy
