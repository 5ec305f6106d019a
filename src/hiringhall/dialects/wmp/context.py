"""What all sessions of one WMP door share: its options, its name, and the jobs that it has handed out.

Invariant: a job that was handed out does not depend on a path. Whoever knows its name in TAKE may report on it,
and the lease lives as long as reports come. An answer may come by another path than the job went: a device was
restarted, or a manager in between passed the job on.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.peer import Peer
from hiringhall.dialects.wmp import wire

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.session import Session


PASSED_MANAGERS: Final = "way"
"""The extra of another manager's job that lists the managers it has passed, one in each line."""
SECRET_BYTES: Final = 32
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True)
class WmpOptions:
    """The settings of one WMP door."""

    manager: bytes = b"hall"
    """The hall's name as a manager. No two managers of the same workers may have the same name."""
    lease_us: int = 60_000_000
    """If nothing is heard of a job for this long, its worker loses it."""
    expire_us: int = 60_000_000
    """If nothing is heard from a path for this long, its READY is forgotten."""
    wake_step_us: int = 5_000
    """How long a path may leave a WAKE unanswered before others are woken too."""
    decline_us: int = 10_000
    """The cooldown of a path that declines a job of a role. It doubles with each decline in a row."""
    decline_max_us: int = 10_000_000
    roles_max: int = 256
    """The limit for the roles in one READY."""


class LeaseHolder(Peer):
    """Holds the lease of one job that was handed out. To the core it is a worker of its own."""

    def __init__(self, context: WmpContext, path: Session) -> None:
        super().__init__()
        self.context = context
        self.path = path
        """The path that the latest report came by."""
        self.name = b""
        """The name of the job in TAKE; empty while there is no job."""

    @property
    def dialect(self) -> str:
        return self.path.dialect

    @property
    def speaker(self) -> Peer:
        return self.path

    def revoked(self, lease: Lease) -> None:
        del lease
        self.path.send(self.context.cancel(self.name))


class WmpContext:
    """`secret` is random; the names of jobs are made with it."""

    def __init__(self, scheduler: Scheduler, options: WmpOptions, secret: bytes) -> None:
        manager = options.manager
        if not 0 < len(manager) <= wire.HOP_BYTES_MAX or b"\n" in manager:
            raise ValueError(f"the name of a manager must have 1 to {wire.HOP_BYTES_MAX} bytes and no newline")
        if options.lease_us <= 0 or options.expire_us <= 0:
            # A worker behind a device may go without a word: without these a job or a path could stay for ever.
            raise ValueError("lease_us and expire_us must be above 0")
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"the secret must have {SECRET_BYTES} bytes")
        self.scheduler = scheduler
        self.options = options
        self._secret = secret
        self.dropped = 0
        """Messages that were ignored because they were bad: the protocol has no error message."""

    # --- jobs that were handed out

    def give(self, path: Session, ready: Worker, queues: list[Queue]) -> Lease | None:
        """Lease the next job of these queues that fits a worker. A job that the worker was hired for goes
        first. None: there is no such job.
        """
        promise = ready.promise if ready.promise is not None and ready.promise.job.queue in queues else None
        waiting = [queue for queue in queues if queue.ready]
        if promise is not None:
            waiting.append(promise.job.queue)
        if not waiting:
            return None
        scheduler = self.scheduler
        holder = LeaseHolder(self, path)
        worker = scheduler.workforce.stand_in(holder, ready)
        for queue in waiting:
            scheduler.can_do(worker, queue.name)
        if promise is not None:
            scheduler.hiring.pass_on(promise, worker)
        lease = scheduler.take(worker)
        # It takes no other job, so it does not count as a worker of the queue.
        scheduler.cant_do_any(worker)
        if lease is None:
            scheduler.leave(holder)
        else:
            holder.name = self._name(lease)
            scheduler.expect(worker, self.options.lease_us)
        return lease

    def _name(self, lease: Lease) -> bytes:
        """The name of a job in TAKE: a new one for each attempt, which cannot be guessed."""
        attempt = b"%d-%d-%d" % (lease.job.id, lease.number, lease.started_us)
        digest = blake2b(attempt, digest_size=_DIGEST_BYTES, key=self._secret).hexdigest()
        return b"%d-%s" % (lease.job.id, digest.encode())

    def find_lease(self, name: bytes) -> Lease | None:
        """The live lease that a report names; None: it has ended, or there never was one."""
        job = self.scheduler.jobs.get(ids.parse(name.partition(b"-")[0]))
        lease = job.lease if job is not None else None
        if lease is not None:
            holder = lease.worker.peer
            if isinstance(holder, LeaseHolder) and holder.context is self and compare_digest(holder.name, name):
                return lease
        self.scheduler.leases.stale()  # counts it
        return None

    def heard(self, lease: Lease, path: Session) -> None:
        """A report about a job came by this path."""
        holder = lease.worker.peer
        assert isinstance(holder, LeaseHolder)
        holder.path = path
        self.scheduler.beat(lease.worker)

    def lease_us(self, job: Job) -> int:
        """How long a job may be silent: the door's lease, or that of the job's terms if it is shorter."""
        own_us = job.terms.lease_us
        return min(own_us, self.options.lease_us) if own_us else self.options.lease_us

    # --- messages of a manager

    def wake(self, role: bytes) -> bytes:
        return wire.encode_body(wire.WAKE, [(b"manager", self.options.manager), (b"role", role)])

    def no(self, role: bytes) -> bytes:
        """The answer to a GIVE, with its role if it named one."""
        headers = [(b"manager", self.options.manager)]
        if role:
            headers.append((b"role", role))
        return wire.encode_body(wire.NO, headers)

    def take(self, lease: Lease) -> bytes:
        job = lease.job
        holder = lease.worker.peer
        assert isinstance(holder, LeaseHolder)
        headers = [(b"manager", self.options.manager), (b"job", holder.name), (b"role", job.queue.name)]
        if job.key and len(job.key) <= wire.NAME_BYTES_MAX and b"\n" not in job.key:
            headers.append((b"key", job.key))
        headers.append((b"lease", wire.encode_seconds(self.lease_us(job))))
        if lease.worker.capacity is not None and (given := lease.worker.capacity.given(lease)):
            headers.append((b"resource", given))
        if job.extras is not None and PASSED_MANAGERS in job.extras:
            headers += [(b"via", manager) for manager in job.extras[PASSED_MANAGERS].split(b"\n")]
        return wire.encode_body(wire.TAKE, headers, job.work)

    def cancel(self, name: bytes) -> bytes:
        return wire.encode_body(wire.CANCEL, [(b"manager", self.options.manager), (b"job", name)])
