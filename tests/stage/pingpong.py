"""A hall in memory with one PING/PONG door, and its workers and clients.

As in the transport, there is a session for each envelope. It receives only the bodies of messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.terms import DEFAULT_TERMS, Terms
from hiringhall.dialects.pingpong import wire
from hiringhall.dialects.pingpong.context import PingPongContext, PingPongOptions
from hiringhall.dialects.pingpong.session import ClientSession, WorkerSession
from hiringhall.dialects.session import Caller
from stage.guest import Guest
from stage.hall import Hall
from stage.watcher import Watcher

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease

EXPIRE_US: Final = 5 * SECOND_US
JOB_TIMEOUT_US: Final = 60 * SECOND_US


class PingPongGuest(Guest):
    """A worker or a client: says bodies, hears bodies."""

    def say(self, *bodies: bytes) -> Self:
        """One message for each body, all in one turn."""
        self.say_bytes(*bodies)
        self.hall.end()
        return self

    def hears(self) -> list[bytes]:
        return self.messages()

    def lease(self) -> Lease:
        worker = self.session.worker
        assert worker is not None
        (lease,) = worker.leases.values()
        return lease


class PingPongHall(Hall):
    """A hall with a PING/PONG door."""

    def __init__(self, options: PingPongOptions | None = None, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.context = PingPongContext(self.scheduler, options or PingPongOptions())
        self._names = 0

    def worker(self, identity: bytes = b"") -> PingPongGuest:
        """A worker that has said nothing yet."""
        caller = self._caller(wire.worker_route([identity or self._name(b"w"), b""]))
        return PingPongGuest(self, WorkerSession(caller, self.context))

    def ready_worker(self, identity: bytes = b"") -> PingPongGuest:
        return self.worker(identity).say(wire.READY)

    def client(self, *own: bytes) -> PingPongGuest:
        caller = self._caller(wire.client_route([self._name(b"c"), *own, b""]))
        return PingPongGuest(self, ClientSession(caller, self.context))

    def submit_elsewhere(self, payload: bytes, terms: Terms = DEFAULT_TERMS) -> tuple[Job, Watcher]:
        """A job for the same queue from another door, and who waits for it."""
        watcher = Watcher(self)
        job = watcher.submits(self.context.options.queue, payload, terms=terms)
        self.end()
        return job, watcher

    def is_ready(self, guest: PingPongGuest) -> bool:
        """Whether a worker is in the ready queue."""
        worker = guest.session.worker
        queue = self.scheduler.queues.get(self.context.options.queue)
        return worker is not None and queue is not None and worker in queue.takers and worker.credit == 1

    def _caller(self, route: list[bytes] | None) -> Caller:
        assert route is not None
        return Caller("127.0.0.1", -1, tuple(route))

    def _name(self, prefix: bytes) -> bytes:
        self._names += 1
        return prefix + b"%d" % self._names
