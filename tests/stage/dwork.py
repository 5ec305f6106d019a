"""A hall in memory with dwork doors, and its guests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkContext, DworkOptions
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.dialects.session import Caller, Reporter
from hiringhall.storage.contract import HistoryQuery
from stage.dwork_said import Said, SaidTask, said
from stage.guest import Guest
from stage.hall import SECOND_US, Hall

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.limits import Limits
    from hiringhall.core.peer import Peer

OK: Final = Said(wire.OK)
NOT_FOUND: Final = Said(wire.NOT_FOUND)
EXIT: Final = Said(wire.EXIT)
DETACHED: Final = Terms(durable=True, detached=True)


class Reports(Reporter):
    """Keeps what sessions report: the kind, the text and the queue."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, str, bytes]] = []

    def report(self, kind: str, text: str, caller: Caller, queue: bytes = b"", handle: bytes = b"") -> None:
        self.reports.append((kind, text, queue))


class DworkGuest(Guest):
    """A client: one request, one answer."""

    def close(self) -> None:
        raise AssertionError("a session of this door is never closed")

    def says(self, *requests: Said) -> None:
        """All in one turn; the answers are left for `hears`."""
        self.says_bytes(*(request.encode() for request in requests))

    def says_bytes(self, *bodies: bytes) -> None:
        self.say_bytes(*bodies)
        self.hall.end()

    def hears(self) -> list[Said]:
        return [said(wire.parse(message)) for message in self.take_messages()]

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


class DworkHall(Hall):
    """A hall with a dwork door."""

    def __init__(self, options: DworkOptions | None = None, limits: Limits | None = None) -> None:
        self.options = options or DworkOptions()
        self.reporter = Reports()
        super().__init__(limits, reporter=self.reporter)

    def open(self) -> None:
        super().open()
        self.context = DworkContext(self.scheduler, self.options)
        self.end()

    def restart(self) -> DworkGuest:
        """The hall is idle for a second, dies, and opens again: a new guest at the same door."""
        self.wait(SECOND_US)
        return self.die()

    def die(self) -> DworkGuest:
        """The hall dies now, and opens again on what was committed: a new guest at the same door."""
        self.held = False
        self.now_us += SECOND_US
        self.open()
        return self.guest()

    def guest(self, options: DworkOptions | None = None) -> DworkGuest:
        context = self.context if options is None else DworkContext(self.scheduler, options)
        return DworkGuest(self, DworkSession(Caller("127.0.0.1", -1, (b"guest",)), context))

    def submit_elsewhere(
        self, payload: bytes, key: bytes = b"", terms: Terms = DETACHED, watcher: Peer | None = None
    ) -> Job:
        """A job for the same queue from another door."""
        self.begin()
        job = self.scheduler.submit(JobSpec(self.context.queue, payload, key, terms), watcher)
        self.end()
        return job

    def get_task(self, name: bytes) -> Job:
        job = self.scheduler.find_key(self.context.queue, name)
        assert job is not None, f"{name!r} is not alive"
        return job

    def state(self, name: bytes) -> int:
        return self.get_task(name).state

    def waits_for(self, name: bytes) -> list[bytes]:
        """The names that a task still waits for."""
        names = []
        for ref, parent in (self.get_task(name).parents or {}).items():
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
            for job in self.scheduler.jobs.values()
        ]


def hall_with_a_held_task() -> DworkHall:
    """bench-1 holds "held", and "idle" is ready."""
    hall = DworkHall()
    guest = hall.guest()
    assert guest.creates(b"held", b"idle") == OK
    assert guest.steals(b"bench-1") == [b"held"]
    return hall


def create(*tasks: SaidTask | bytes) -> Said:
    whole = tuple(SaidTask(task, b"o") if isinstance(task, bytes) else task for task in tasks)
    return Said(wire.CREATE, whole)


def task(name: bytes, *preds: bytes, succs: tuple[bytes, ...] = ()) -> SaidTask:
    return SaidTask(name, b"o", preds, succs)
