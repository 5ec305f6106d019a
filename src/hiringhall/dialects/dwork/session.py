"""One dwork peer: each request is answered once, in order.

A peer may send requests for any location; the scheduler knows by name what each location holds. A session only
keeps the tasks in answers that may not have been delivered.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import Refusal
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import LEASED
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import keep_log
from hiringhall.dialects.session import BAD_INPUT, REFUSED_SUBMIT, Session

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.dwork.context import DworkContext
    from hiringhall.dialects.dwork.wire import Query
    from hiringhall.dialects.session import Caller

STEAL_MAX: Final = 10_000
"""The limit for the tasks in the answer to one Steal."""
STEAL_BYTES_MAX: Final = 4 << 20
"""An answer of this size gets no further task."""

_OK: Final = wire.encode(wire.OK)
_NOT_FOUND: Final = wire.encode(wire.NOT_FOUND)
_EXIT: Final = wire.encode(wire.EXIT)

_REQUESTS: Final = {
    # What each request must have ("+"), may have ("?") and must not have ("-"): task, name, n, location.
    wire.CREATE: "+---",
    wire.STEAL: "--?+",
    wire.COMPLETE: "+--+",
    wire.TRANSFER: "+--+",
    wire.LOOKUP: "-+--",
    wire.OK: "----",
    wire.EXIT: "---+",
}
_FIELDS: Final = ("task", "name", "n", "location")


def _bits(rule: str, marks: str) -> int:
    """A bit for each field with one of these marks."""
    return sum([1 << place for place, mark in enumerate(rule) if mark in marks])


_NEEDED: Final = {kind: _bits(rule, "+") for kind, rule in _REQUESTS.items()}
_ALLOWED: Final = {kind: _bits(rule, "+?") for kind, rule in _REQUESTS.items()}


class DworkSession(Session):
    """One peer: a producer, a consumer, or both."""

    def __init__(self, caller: Caller, context: DworkContext) -> None:
        super().__init__(caller)
        self.context = context
        self._requests = 0
        """Requests so far. The answers are counted in the same way."""
        self._unconfirmed: deque[tuple[int, list[Lease]]] = deque()
        """The leases in answers that may not have been delivered, with the number of the answer."""

    @property
    def dialect(self) -> str:
        return "dwork"

    def receive(self, data: bytes) -> None:
        self._requests += 1
        while self._unconfirmed and self._unconfirmed[0][0] <= self.delivered:
            self._unconfirmed.popleft()
        try:
            query = wire.parse(data)
            _check(query)
        except wire.BadMessage as error:
            self.report(BAD_INPUT, str(error))
            self._refuse(str(error))
            return
        try:
            self._answer(query)
        except Refusal as refusal:
            self._refuse(refusal.text)

    def undelivered(self) -> None:
        """Give back the tasks that the peer has not received. They count no loss."""
        while self._unconfirmed:
            number, leases = self._unconfirmed.pop()
            for lease in reversed(leases):
                if number > self.delivered and lease.job.lease is lease:
                    self.context.scheduler.release(lease)

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:  # noqa: ARG002 (as contracted)
        return wire.encode(wire.ERROR, name=refusal.text.encode())

    def _answer(self, query: Query) -> None:
        kind = query.type
        if kind == wire.COMPLETE:
            # Also while the hall is closing: the work is done.
            self._complete(query)
        elif self.context.scheduler.closing:
            self.send(_EXIT)
        elif kind == wire.STEAL:
            self._steal(query)
        elif kind == wire.CREATE:
            self._create(query)
        elif kind == wire.TRANSFER:
            self._transfer(query)
        elif kind == wire.OK:
            self._status()
        elif kind == wire.LOOKUP:
            assert query.name is not None
            self._lookup(query.name)
        else:
            self._exit(query)

    def _refuse(self, text: str) -> None:
        """Answer with Error and the reason as its name. Clients that do not read the name are not affected."""
        self.send(wire.encode(wire.ERROR, name=text.encode()))

    def _create(self, query: Query) -> None:
        try:
            jobs = self.context.create(query.tasks)
        except Refusal as refusal:
            # Few producers read the answer, so log it.
            self.report(REFUSED_SUBMIT, refusal.text, self.context.queue)
            raise
        self._confirm(jobs)

    def _confirm(self, jobs: list[Job]) -> None:
        """Answer OK once all changes are on disk."""
        durable = False
        newest: Job | None = None
        for job in jobs:
            if job.terms.durable:
                durable = True
                if not job.stored and (newest is None or job.id > newest.id):
                    newest = job
        if newest is not None:
            # No other job is in a later commit: once this one is on disk, all of them are.
            self.acknowledge(newest, _OK)
        elif durable:
            self.pledge(_OK)
        else:
            self.send(_OK)

    def _steal(self, query: Query) -> None:
        context = self.context
        scheduler = context.scheduler
        assert query.location is not None
        worker = scheduler.residents.get(context.queue, query.location, self.dialect)
        scheduler.beat(worker)
        tasks: list[bytes] = []
        leases: list[Lease] = []
        size = 0
        durable = False
        lease_us = context.options.lease_us
        wanted = 1 if query.n is None else min(query.n, STEAL_MAX)
        while wanted > 0 and size < STEAL_BYTES_MAX:
            lease = scheduler.take(worker)
            if lease is None:
                break
            job = lease.job
            durable = durable or job.terms.durable
            if lease_us and not job.terms.lease_us and worker.silence_us != lease_us:
                # Its own door sets no lease, and a location has no connection that could be lost.
                scheduler.expect(worker, lease_us)
            task = context.describe(job)
            tasks.append(task)
            leases.append(lease)
            size += len(task)
            wanted -= 1
        if leases:
            self._unconfirmed.append((self._requests, leases))
        if not tasks:
            done = not context.counts().live and not context.options.keep_open
            self.send(_EXIT if done else _NOT_FOUND)
        elif durable:
            self.send_after_commit_if_idle(wire.encode(wire.TRANSFER, tasks))
        else:
            self.send(wire.encode(wire.TRANSFER, tasks))

    def _complete(self, query: Query) -> None:
        context = self.context
        scheduler = context.scheduler
        worker = self._known_location(query)
        anybody = not context.options.complete_by_holder
        unknown: list[bytes] = []
        durable = False
        for task in query.tasks:
            lease = self._lease(worker, task.name, anybody=anybody)
            if lease is None:
                scheduler.leases.stale()  # counts it
                unknown.append(wire.encode_task(task.name, task.origin))
                continue
            keep_log(self.context.scheduler, lease.job, task)
            durable = durable or lease.job.terms.durable
            scheduler.finish(lease, task.origin)
        reply = _EXIT if scheduler.closing else _OK
        if unknown:
            reply = wire.encode(wire.NOT_FOUND, unknown)
        if durable:
            self.pledge(reply)
        else:
            self.send(reply)

    def _transfer(self, query: Query) -> None:
        worker = self._known_location(query)
        leases: list[Lease] = []
        for task in query.tasks:
            lease = self._lease(worker, task.name)
            if lease is None:
                self.send(_NOT_FOUND)
                return
            leases.append(lease)
        self._confirm(self.context.transfer(query.tasks, leases))

    def _exit(self, query: Query) -> None:
        scheduler = self.context.scheduler
        worker = self._known_location(query)
        if worker is None:
            # Its last tasks may have ended in this turn: a crash before the commit would give them back to it.
            self.pledge(_NOT_FOUND)
            return
        jobs = [lease.job for lease in worker.leases.values()]
        scheduler.residents.retire(worker)
        self._confirm(jobs)

    def _status(self) -> None:
        queue = self.context.counts()
        waiting = queue.live - queue.ready - queue.leased
        failed = self.context.scheduler.archive.failed(queue.name)
        text = f"{queue.ready} ready, {waiting} waiting, {queue.leased} assigned, {failed} failed"
        self.send(wire.encode(wire.OK, None, text.encode(), queue.ready))

    def _lookup(self, name: bytes) -> None:
        context = self.context
        job = context.find(name) or context.scheduler.archive.find_key(context.queue, name)
        if job is None or not job.worker_name or (job.state < LEASED):
            self.send(_NOT_FOUND)
        else:
            self.send(wire.encode(wire.OK, [context.describe(job)], name, None, job.worker_name))

    def _known_location(self, query: Query) -> Worker | None:
        assert query.location is not None
        worker = self.context.scheduler.residents.find(self.context.queue, query.location)
        if worker is not None:
            self.context.scheduler.beat(worker)
        return worker

    def _lease(self, worker: Worker | None, name: bytes, *, anybody: bool = False) -> Lease | None:
        """The lease of a task that this location holds; with `anybody`, that any location holds."""
        job = self.context.find(name)
        lease = job.lease if job is not None else None
        if lease is None:
            return None
        holder = lease.worker
        if holder is worker:
            return lease
        held = holder.resident is not None and holder.name != OUTSIDE and holder.promise is not lease
        return lease if anybody and held else None


def _check(query: Query) -> None:
    needed = _NEEDED.get(query.type)
    if needed is None:
        raise wire.BadMessage("this type is an answer, not a request")
    present = 1 if query.tasks else 0
    if query.name is not None:
        present |= 2
    if query.n is not None:
        present |= 4
    if query.location is not None:
        present |= 8
    allowed = _ALLOWED[query.type]
    if present & needed != needed or present & allowed != present:
        raise wire.BadMessage(_first_mistake(present, needed, allowed))
    if query.n is not None and query.n < 1:
        raise wire.BadMessage("n, the number of tasks, must be at least 1")


def _first_mistake(present: int, needed: int, allowed: int) -> str:
    for place, field in enumerate(_FIELDS):
        if (present & ~allowed) >> place & 1:
            return f"{field} is not allowed in this type of request"
        if (needed & ~present) >> place & 1:
            break
    return f"{field} is missing from this type of request"
