"""A hall with one PING/PONG door, and workers and clients who talk to it without a socket.

As the transport does it: a session stands for each envelope, and is handed the bodies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.peer import Peer
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.terms import DEFAULT_TERMS, Terms
from hiringhall.dialects.pingpong import wire
from hiringhall.dialects.pingpong.context import PingPongContext, PingPongOptions
from hiringhall.dialects.pingpong.session import ClientSession, WorkerSession
from hiringhall.dialects.session import Caller, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.leases import Lease

START_US = 1_767_225_600_000_000
EXPIRE_US = 5 * SECOND_US
JOB_TIMEOUT_US = 60 * SECOND_US


class Guest:
    """Somebody with an identity at one of the two sockets."""

    def __init__(self, room: Room, session: Session) -> None:
        self.room = room
        self.session = session

    def say(self, *bodies: bytes) -> Guest:
        """One message for each body, all in one turn."""
        for body in bodies:
            self.session.receive(body)
        self.room.end_turn()
        return self

    def hears(self) -> list[bytes]:
        """The bodies of all messages since the last time."""
        self.room.end_turn()
        said = list(self.session.out)
        self.session.out.clear()
        self.session.pledges = None
        if self.session in self.room.outbox:
            self.room.outbox.remove(self.session)
        return said

    def is_ready(self) -> bool:
        """It is in the ready queue."""
        worker = self.session.worker
        queue = self.room.hall.queues.get(self.room.door.options.queue)
        return worker is not None and queue is not None and worker in queue.takers and worker.credit == 1

    def lease(self) -> Lease:
        worker = self.session.worker
        assert worker is not None
        (lease,) = worker.leases.values()
        return lease


class Onlooker(Peer):
    """Somebody at another door who watches a job."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[int, int, bytes]] = []

    def ended(self, job: Job) -> None:
        self.heard.append((job.state, job.code, job.result))


class Room:
    """The hall around them. Every turn ends with an audit."""

    def __init__(self, options: PingPongOptions | None = None, limits: Limits | None = None) -> None:
        self.hall = Scheduler(limits or Limits(), 1, START_US)
        self.door = PingPongContext(self.hall, options or PingPongOptions())
        self.outbox: list[Session] = []
        self._names = 0

    def worker(self, identity: bytes = b"") -> Guest:
        """A worker that has said nothing yet."""
        return self._guest(wire.worker_route([identity or self._name(b"w"), b""]), WorkerSession)

    def ready_worker(self, identity: bytes = b"") -> Guest:
        return self.worker(identity).say(wire.READY)

    def client(self, *own: bytes) -> Guest:
        return self._guest(wire.client_route([self._name(b"c"), *own, b""]), ClientSession)

    def submit_elsewhere(self, payload: bytes, terms: Terms = DEFAULT_TERMS) -> tuple[Job, Onlooker]:
        """A job for the same queue from another door."""
        onlooker = Onlooker()
        job = self.hall.submit(JobSpec(self.door.options.queue, payload, b"", terms), onlooker)
        self.end_turn()
        return job, onlooker

    def end_turn(self) -> None:
        self.hall.settle()
        self.hall.audit()
        batch = self.hall.seal()
        if not batch.empty:
            self.hall.committed(batch)

    def wait(self, duration_us: int) -> None:
        """Time passes, deadline by deadline."""
        until_us = self.hall.now_us + duration_us
        while 0 < self.hall.next_deadline() <= until_us:
            self.hall.advance(max(self.hall.now_us, self.hall.next_deadline()))
            self.end_turn()
        self.hall.advance(until_us)
        self.end_turn()

    def _guest(
        self, route: list[bytes] | None, session_type: Callable[[Caller, PingPongContext], Session]
    ) -> Guest:
        assert route is not None
        session = session_type(Caller("127.0.0.1", -1, tuple(route)), self.door)
        session.outbox = self.outbox
        return Guest(self, session)

    def _name(self, prefix: bytes) -> bytes:
        self._names += 1
        return prefix + b"%d" % self._names
