"""What all paths to one WMP door share: its options, its name, and the jobs it has given away.

The law: a job that was given away hangs on no path. Its name in TAKE is the proof of who may speak of it, and
it is held as long as somebody does: an answer may take another path than the job did, when a device was started
again or a manager in the middle passed the job on.
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


WAY: Final = "way"
"""Among a job's extras: the managers that it has passed, a line each, if it is another manager's."""
SECRET_BYTES: Final = 32
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True)
class WmpOptions:
    """How one door treats what comes in by it."""

    manager: bytes = b"hall"
    """What the hall calls itself; no other manager that the same workers know may have that name."""
    lease_us: int = 60_000_000
    """Silence about a job after which its worker has lost it."""
    expire_us: int = 60_000_000
    """Silence of a path after which its READY is forgotten."""
    wake_step_us: int = 5_000
    """How long a path may leave a WAKE unanswered before others are woken too."""
    decline_us: int = 10_000
    """How long a path that declines a job rests from its role; twice as long each time in a row."""
    decline_max_us: int = 10_000_000
    roles_max: int = 256
    """Roles that one READY may name."""


class LeaseHolder(Peer):
    """One job in somebody's hands: to the core a worker of its own, heard and lost by itself."""

    def __init__(self, context: WmpContext, path: Session) -> None:
        super().__init__()
        self.context = context
        self.path = path
        """By which the job was last spoken of."""
        self.name = b""
        """What the job is called in TAKE, once there is one."""

    @property
    def speaker(self) -> Peer:
        return self.path

    def revoked(self, lease: Lease) -> None:
        del lease
        self.path.send(self.context.cancel(self.name))


class WmpContext:
    """One door. `secret` is drawn at random when the hall starts: from it come the names of jobs."""

    def __init__(self, scheduler: Scheduler, options: WmpOptions, secret: bytes) -> None:
        manager = options.manager
        if not 0 < len(manager) <= wire.HOP_BYTES_MAX or b"\n" in manager:
            raise ValueError(f"a manager's name has 1 to {wire.HOP_BYTES_MAX} bytes and no line end")
        if options.lease_us <= 0 or options.expire_us <= 0:
            # ZeroMQ tells nobody of a disconnect: without these a job or a path could stay for ever.
            raise ValueError("the lease of a door, and the time it remembers a READY, are above 0")
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"the secret of a door has {SECRET_BYTES} bytes")
        self.scheduler = scheduler
        self.options = options
        self._secret = secret
        self.dropped = 0
        """Messages that were none, or not for us: the protocol has no word to refuse them with."""

    # --- jobs given away

    def give(self, path: Session, ready: Worker, queues: list[Queue]) -> Lease | None:
        """Put the next job of these queues that is good for a worker into its hands, if there is one: before
        all others what it was hired for.
        """
        promise = ready.promise if ready.promise is not None and ready.promise.job.queue in queues else None
        waiting = [queue for queue in queues if queue.ready]
        if promise is not None:
            waiting.append(promise.job.queue)
        if not waiting:
            return None
        scheduler = self.scheduler
        hand = LeaseHolder(self, path)
        worker = scheduler.workforce.stand_in(hand, ready)
        for queue in waiting:
            scheduler.can_do(worker, queue.name)
        if promise is not None:
            scheduler.hiring.pass_on(promise, worker)
        lease = scheduler.take(worker)
        # It will take no other: it is not counted among those who can do the queue.
        scheduler.cant_do_any(worker)
        if lease is None:
            scheduler.leave(hand)
        else:
            hand.name = self._name(lease)
            scheduler.expect(worker, self.options.lease_us)
        return lease

    def _name(self, lease: Lease) -> bytes:
        """What a job is called on the wire: another name for each attempt, and none that could be guessed."""
        attempt = b"%d-%d-%d" % (lease.job.id, lease.number, lease.started_us)
        digest = blake2b(attempt, digest_size=_DIGEST_BYTES, key=self._secret).hexdigest()
        return b"%d-%s" % (lease.job.id, digest.encode())

    def find_lease(self, name: bytes) -> Lease | None:
        """The live lease that a report names. Any other was given back, was taken away, or never was."""
        job = self.scheduler.jobs.get(ids.parse(name.partition(b"-")[0]))
        lease = job.lease if job is not None else None
        if lease is not None:
            hand = lease.worker.peer
            if isinstance(hand, LeaseHolder) and hand.context is self and compare_digest(hand.name, name):
                return lease
        self.scheduler.counters.stale += 1
        return None

    def spoken_of(self, lease: Lease, path: Session) -> None:
        """Somebody works on it."""
        hand = lease.worker.peer
        assert isinstance(hand, LeaseHolder)
        hand.path = path
        self.scheduler.beat(lease.worker)

    def lease_us(self, job: Job) -> int:
        """Silence about a job that loses it: the door's lease, or that of its own terms if it is shorter."""
        own_us = job.terms.lease_us
        return min(own_us, self.options.lease_us) if own_us else self.options.lease_us

    # --- a manager's words

    def wake(self, role: bytes) -> bytes:
        return wire.encode_body(wire.WAKE, [(b"manager", self.options.manager), (b"role", role)])

    def no(self, role: bytes) -> bytes:
        """To a GIVE that named a role, or none."""
        headers = [(b"manager", self.options.manager)]
        if role:
            headers.append((b"role", role))
        return wire.encode_body(wire.NO, headers)

    def take(self, lease: Lease) -> bytes:
        job = lease.job
        hand = lease.worker.peer
        assert isinstance(hand, LeaseHolder)
        headers = [(b"manager", self.options.manager), (b"job", hand.name), (b"role", job.queue.name)]
        if job.key and len(job.key) <= wire.NAME_BYTES_MAX and b"\n" not in job.key:
            headers.append((b"key", job.key))
        headers.append((b"lease", wire.encode_seconds(self.lease_us(job))))
        if job.extras is not None and WAY in job.extras:
            headers += [(b"via", manager) for manager in job.extras[WAY].split(b"\n")]
        return wire.encode_body(wire.TAKE, headers, job.work)

    def cancel(self, name: bytes) -> bytes:
        return wire.encode_body(wire.CANCEL, [(b"manager", self.options.manager), (b"job", name)])
