"""A turn without a loop: the real engine and core, a store that answers when the story says so, and
connections that write down what they are given.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.terms import Terms
from hiringhall.dialects.session import Caller, Link, Session
from hiringhall.engine.deadlines import STARTED_US
from hiringhall.engine.turn import Engine
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import Batch, EndRow
    from hiringhall.core.errors import Refusal
    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.core.leases import Lease

START_US: Final = 1_700_000_000_000_000
FOREGROUND: Final = Terms()
BACKGROUND: Final = Terms(durable=True, detached=True)
WATCHED: Final = Terms(durable=True)
"""On disk before it is acknowledged, and its submitter waits for the end."""


class Wire(Link):
    """The link of one peer: every write, and whether it is read from."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self._paused = False
        self.closed = False

    def write(self, messages: list[bytes]) -> None:
        assert not self.closed, "nothing is written after the close"
        self.writes.append(b"".join(messages))

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def is_paused(self) -> bool:
        return self._paused

    def said(self) -> list[str]:
        """What came since the last look: one text for each write."""
        writes = [data.decode() for data in self.writes]
        self.writes = []
        return writes


class Talker(Session):
    """A session that says in words what a dialect would say in packets; each message ends with a bar."""

    def __init__(self, name: str) -> None:
        super().__init__(Caller("127.0.0.1", 3))
        self.name = name
        self.parts = 0

    def receive(self, data: bytes) -> None:
        self.send(b"echo " + data + b"|")

    def withdrawn(self, job: Job, refusal: Refusal) -> bytes:
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


def submit(core: Scheduler, session: Talker, spec: JobSpec) -> Job:
    """Who asked for a durable job is promised one; who did not hears at once that it is taken in."""
    watching = not spec.terms.detached
    job = core.submit(spec, session if watching else None)
    if spec.terms.durable:
        session.acknowledge(job, b"accepted %s|" % spec.payload, watching=watching)
    else:
        session.send(b"accepted %s|" % spec.payload)
    return job


class Desk:
    """The writer: batches and questions lie here until the story says how they fared."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.times_us: list[int] = []
        self.questions: list[tuple[Session, int]] = []
        self.parents: list[list[ParentRef]] = []

    def write(self, batch: Batch, now_us: int) -> None:
        self.batches.append(batch)
        self.times_us.append(now_us)

    def look_up(self, session: Session, job_id: int) -> None:
        self.questions.append((session, job_id))

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        self.parents.append(refs)


class Room:
    """The engine with its scheduler, its store and its peers."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.core = Scheduler(limits if limits is not None else Limits(), 1, START_US)
        self.desk = Desk()
        self.store = MemoryStore()
        self.engine = Engine(self.core, self.desk)
        self.now_us = START_US
        self._answered = 0

    def peer(self, name: str) -> tuple[Talker, Wire]:
        session, wire = Talker(name), Wire()
        session.link = wire
        self.engine.join(session)
        return session, wire

    @contextmanager
    def turn(self, after_us: int = 1, *, coalesce: bool = False) -> Iterator[None]:
        self.now_us += after_us
        self.engine.begin(self.now_us)
        yield
        self.engine.end(coalesce=coalesce)
        self.core.audit()

    def busy(self) -> bool:
        return self.engine.busy

    def under_way(self) -> Batch | None:
        """The batch that the store has not answered yet; there is never more than one."""
        waiting = self.desk.batches[self._answered :]
        assert len(waiting) <= 1, "one transaction at a time"
        return waiting[0] if waiting else None

    def commit(self) -> None:
        """Inside a turn: the store has taken the batch under way."""
        batch = self.under_way()
        assert batch is not None
        if not batch.empty:
            self.store.commit(batch, self.now_us)
        self._answered += 1
        self.engine.committed()

    def fail(self, trouble: str = "disk full") -> None:
        """Inside a turn: the store could not."""
        assert self.under_way() is not None
        self._answered += 1
        self.engine.failed(trouble)

    def answer(self, trouble: str = "") -> None:
        """Inside a turn: the store has looked up what was asked first."""
        session, job_id = self.desk.questions.pop(0)
        found = [] if trouble else self.store.history(HistoryQuery(id=job_id))
        self.engine.looked_up(session, job_id, found[0] if found else None, trouble)

    def is_at_rest(self) -> None:
        """Nothing is left to be done, once the hall has looked which of the jobs that began still run."""
        deadline_us = self.engine.next_deadline()
        if deadline_us:
            assert deadline_us <= self.now_us + STARTED_US
            with self.turn(after_us=max(1, deadline_us - self.now_us)):
                pass
        assert self.engine.next_deadline() == 0
        assert self.under_way() is None
        assert not self.busy()

    def turn_that_commits(self) -> None:
        with self.turn():
            self.commit()

    def turn_that_fails(self, trouble: str = "disk full") -> None:
        with self.turn():
            self.fail(trouble)

    def submit(self, session: Talker, name: str, terms: Terms = BACKGROUND, key: str = "") -> Job:
        """As a client does it: a background job is not watched, a foreground job is."""
        return submit(self.core, session, JobSpec(b"q", name.encode(), key.encode(), terms))

    def worker(self, name: str) -> tuple[Talker, Wire]:
        session, wire = self.peer(name)
        self.core.can_do(self.core.worker(session), b"q")
        return session, wire

    def take(self, session: Talker) -> Lease:
        lease = self.core.take(self.core.worker(session))
        assert lease is not None
        return lease
