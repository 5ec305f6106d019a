"""A hall with dwork doors, a real engine and a store in memory, and guests who talk to it without a socket.

A hall can close and open again on what was committed. The store can be slow, and fail: while `held` nothing is
answered until the story says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dwork_said import Said, SaidTask, said

from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkContext, DworkOptions
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.dialects.session import Caller, Link, Reporter
from hiringhall.engine.deadlines import GROUP_COMMIT_US
from hiringhall.engine.recovery import open_scheduler
from hiringhall.engine.turn import Engine
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.memory import MemoryStore

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, EndRow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.peer import Peer

START_US: Final = 1_767_225_600_000_000
OK: Final = Said(wire.OK)
NOT_FOUND: Final = Said(wire.NOT_FOUND)
EXIT: Final = Said(wire.EXIT)
DETACHED: Final = Terms(durable=True, detached=True)


class Mouth(Link):
    """What the hall says to one guest, message by message."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[bytes] = []

    def write(self, messages: list[bytes]) -> None:
        self.messages += messages

    def close(self) -> None:
        raise AssertionError("a session of this door is never closed")


class Desk:
    """The writer: batches lie here until the room says how they fared."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.parents: list[ParentRef] = []
        """The parents asked for; empty: nobody asks."""

    def write(self, batch: Batch, now_us: int) -> None:
        self.batches.append(batch)

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        self.parents = refs


class Clerk(Reporter):
    """Keeps what sessions report."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, str, bytes]] = []
        """The kind, the text and the queue."""

    def report(self, kind: str, text: str, caller: Caller, queue: bytes = b"", handle: bytes = b"") -> None:
        self.reports.append((kind, text, queue))


class Guest:
    """A client at the door: one request, one answer."""

    def __init__(self, room: Room, door: DworkContext) -> None:
        self.room = room
        self.mouth = Mouth()
        self.session = DworkSession(Caller("127.0.0.1", -1, (b"guest",)), door)
        self.session.link = self.mouth
        room.engine.join(self.session)

    def says(self, *requests: Said) -> None:
        """All in one turn; the answers are left for `hears`."""
        self.says_bytes(*(request.encode() for request in requests))

    def says_bytes(self, *bodies: bytes) -> None:
        self.room.begin()
        for body in bodies:
            self.session.receive(body)
        self.room.end()

    def hears(self) -> list[Said]:
        heard = [said(wire.parse(message)) for message in self.mouth.messages]
        self.mouth.messages = []
        return heard

    def ask_bytes(self, body: bytes) -> Said:
        self.says_bytes(body)
        (answer,) = self.hears()
        return answer

    def asks(self, request: Said) -> Said:
        return self.ask_bytes(request.encode())

    def creates(self, *tasks: SaidTask | bytes) -> Said:
        return self.asks(create(*tasks))

    def steals(self, location: bytes, n: int | None = None) -> list[bytes]:
        """The names of the tasks it was given."""
        answer = self.asks(Said(wire.STEAL, n=n, location=location))
        if answer.type != wire.TRANSFER:
            assert answer in (NOT_FOUND, EXIT)
            return []
        assert answer == Said(wire.TRANSFER, answer.tasks)
        assert 1 <= len(answer.tasks) <= (n or 1)
        return [task.name for task in answer.tasks]

    def completes(self, location: bytes, *names: bytes) -> Said:
        return self.asks(Said(wire.COMPLETE, tuple(SaidTask(name, b"") for name in names), location=location))

    def transfers(self, location: bytes, *tasks: SaidTask) -> Said:
        return self.asks(Said(wire.TRANSFER, tasks, location=location))

    def leaves_as(self, location: bytes) -> Said:
        return self.asks(Said(wire.EXIT, location=location))

    def looks_up(self, name: bytes) -> Said:
        return self.asks(Said(wire.LOOKUP, name=name))

    def is_refused(self, request: Said) -> str:
        """The reason that the Error gives, which has nothing else."""
        answer = self.asks(request)
        assert answer.type == wire.ERROR
        assert answer.name
        assert answer == Said(wire.ERROR, name=answer.name)
        return answer.name.decode()


class Room:
    """The hall around them. Every turn ends with an audit."""

    def __init__(self, options: DworkOptions | None = None, limits: Limits | None = None) -> None:
        self.options = options or DworkOptions()
        self.limits = limits or Limits()
        self.store = MemoryStore()
        self.clerk = Clerk()
        self.held = False
        """The store answers only when the story says so."""
        self.now_us = START_US
        self._open()

    def _open(self) -> None:
        self.hall = open_scheduler(self.store, self.limits, self.now_us)
        self.desk = Desk()
        self.engine = Engine(self.hall, self.desk, self.clerk)
        self.door = DworkContext(self.hall, self.options)
        self.begin()
        self.end()

    def restart(self) -> Guest:
        """The hall is at leisure for a second, dies, and opens again: a new guest at the same door."""
        self.wait(SECOND_US)
        return self.die()

    def die(self) -> Guest:
        """The hall dies now, and opens again on what was committed."""
        self.held = False
        self.now_us += SECOND_US
        self._open()
        return self.guest()

    def guest(self, options: DworkOptions | None = None) -> Guest:
        return Guest(self, self.door if options is None else DworkContext(self.hall, options))

    def begin(self) -> None:
        self.now_us += 1
        self.engine.begin(self.now_us)

    def end(self) -> None:
        self._end()
        while (self.desk.batches or self.desk.parents) and not self.held:
            if self.desk.batches:
                self.commit()
            else:
                self.find_parents()

    def find_parents(self) -> None:
        """The store answers the look-up under way."""
        refs, self.desk.parents = self.desk.parents, []
        self.now_us += 1
        self.engine.begin(self.now_us)
        self.engine.parents_looked_up(self.store.latest_ends(refs), "")
        self._end()

    def _end(self) -> None:
        """The end of a turn, and of the moment in which a commit waits for those who shared the last ones."""
        self.engine.end()
        self.hall.audit()
        while self._awaits_company():
            self.now_us = self.engine.next_deadline()
            self.engine.begin(self.now_us)
            self.engine.end()
            self.hall.audit()

    def _awaits_company(self) -> bool:
        if self.desk.batches or not self.engine.busy:
            return False
        return 0 < self.engine.next_deadline() - self.now_us <= GROUP_COMMIT_US

    def commit(self) -> None:
        """The store takes the batch under way."""
        (batch,) = self.desk.batches
        self.desk.batches.clear()
        self.now_us += 1
        self.engine.begin(self.now_us)
        if not batch.empty:
            self.store.commit(batch, self.now_us)
        self.engine.committed()
        self._end()

    def fail(self, trouble: str = "the disk is full") -> None:
        """The store cannot take the batch under way."""
        assert len(self.desk.batches) == 1
        self.desk.batches.clear()
        self.begin()
        self.engine.failed(trouble)
        self.engine.end()
        self.hall.audit()

    def recover(self) -> None:
        """The store works again, and is found to do so."""
        self.held = False
        while self.hall.store_trouble:
            self.wait(5 * SECOND_US)

    def wait(self, duration_us: int) -> None:
        """Time passes, deadline by deadline."""
        until_us = self.now_us + duration_us
        while 0 < self.engine.next_deadline() <= until_us:
            self.now_us = max(self.now_us, self.engine.next_deadline())
            self.begin()
            self.end()
        self.now_us = max(self.now_us, until_us)
        self.begin()
        self.end()

    def submit_elsewhere(
        self, payload: bytes, key: bytes = b"", terms: Terms = DETACHED, watcher: Peer | None = None
    ) -> Job:
        """A job for the same queue from another door."""
        self.begin()
        job = self.hall.submit(JobSpec(self.door.queue, payload, key, terms), watcher)
        self.end()
        return job

    def state(self, name: bytes) -> int:
        job = self.hall.find_key(self.door.queue, name)
        assert job is not None, f"{name!r} is not alive"
        return job.state

    def waits_for(self, name: bytes) -> list[bytes]:
        """The names that a task still waits for."""
        job = self.hall.find_key(self.door.queue, name)
        assert job is not None
        names = []
        for ref, parent in (job.parents or {}).items():
            if parent is not None:
                names.append(parent.key)
            else:
                assert isinstance(ref, tuple)
                names.append(ref[1])
        return sorted(names)

    def done(self) -> list[bytes]:
        """The names in the history, oldest first."""
        return [row.key for row in reversed(self.history())]

    def history(self) -> list[EndRow]:
        return self.store.history(HistoryQuery(limit=1_000_000))

    def snapshot(self) -> list[tuple[bytes, int, bytes, list[bytes]]]:
        """All that a request could have changed."""
        return [
            (job.key, job.state, job.lease.worker.name if job.lease else b"", self.waits_for(job.key))
            for job in self.hall.jobs.values()
        ]


def room_with_a_held_task() -> Room:
    """bench-1 holds "held", and "idle" is ready."""
    room = Room()
    guest = room.guest()
    assert guest.creates(b"held", b"idle") == OK
    assert guest.steals(b"bench-1") == [b"held"]
    return room


def create(*tasks: SaidTask | bytes) -> Said:
    whole = tuple(SaidTask(task, b"o") if isinstance(task, bytes) else task for task in tasks)
    return Said(wire.CREATE, whole)


def task(name: bytes, *preds: bytes, succs: tuple[bytes, ...] = ()) -> SaidTask:
    return SaidTask(name, b"o", preds, succs)
