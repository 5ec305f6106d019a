"""A manager's state machine, without sockets or clock: ready workers, waiting jobs, and who holds which job.

Invariant: a submitted job ends once: with the first result, by cancelling, or after too many lost workers.
The holder of a job must report within its lease, or the job goes to another worker. So every job ends while
there are workers, even if messages are lost.

Each input returns the effects, in order: messages to post and updates of jobs. Time is an integer of
microseconds that the caller passes in; `next_deadline` says when to call `tick`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp.deadlines import Deadlines, earliest

Path = tuple[bytes, ...]
"""The route to a worker: the identity at the manager's own socket, and the hops from there."""

SECOND_US: Final = 1_000_000
ROLES_MAX: Final = 1024
"""Roles in one READY."""
LOST_HOLDERS_MAX: Final = 64
"""How many lost workers a job remembers: the latest. Reports of earlier ones are accepted again."""

OK: Final = "ok"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"


@dataclass(frozen=True)
class ManagerTerms:
    """Parameters of a manager. A job fails after `losses_max` lost workers; 0: no limit."""

    wake_us: int = SECOND_US // 2
    wake_step_us: int = SECOND_US // 200
    """How long a WAKE may stay unanswered before others are woken too."""
    lease_us: int = 30 * SECOND_US
    losses_max: int = 0
    jobs_max: int = 1_000_000
    readys_max: int = 10_000


class Ticket:
    """A job that has not ended."""

    __slots__ = ("holder", "id", "key", "losses", "lost_holders", "payload", "role")

    def __init__(self, job_id: bytes, role: bytes, payload: bytes, key: bytes) -> None:
        self.id = job_id
        self.role = role
        self.payload = payload
        self.key = key
        self.holder: Path | None = None
        """The worker that has it; None while it waits."""
        self.losses = 0
        self.lost_holders: dict[Path, None] = {}
        """The latest workers that had it and were silent for too long, in order."""


class Outcome(NamedTuple):
    status: str
    code: int
    payload: bytes


class Post(NamedTuple):
    """A message to send. If it cannot be sent now, call `undelivered`."""

    path: Path
    frames: list[bytes]
    ticket: Ticket | None
    """The job, if it is a TAKE."""


class Progressed(NamedTuple):
    ticket: Ticket
    numerator: int
    denominator: int


class Chunked(NamedTuple):
    ticket: Ticket
    data: bytes


class Ended(NamedTuple):
    ticket: Ticket
    outcome: Outcome


Effect = Post | Progressed | Chunked | Ended


class _ReadyWorker:
    """A worker whose READY is remembered."""

    __slots__ = ("fresh", "overdue", "roles", "woken_for")

    def __init__(self) -> None:
        self.roles: tuple[bytes, ...] = ()
        self.woken_for: bytes | None = None
        """The role of an unanswered WAKE."""
        self.fresh = False
        """It has sent READY again after that WAKE."""
        self.overdue = False
        """It has not answered that WAKE within `wake_step_us`. It still may, but no job is reserved for it."""


class _Lane:
    """Jobs and workers of one role."""

    __slots__ = ("idle", "overdue", "waiting", "woken")

    def __init__(self) -> None:
        self.waiting: OrderedDict[bytes, Ticket] = OrderedDict()
        self.idle: dict[Path, None] = {}
        """Ready workers that were not woken, the longest waiting first."""
        self.woken = 0
        """Recent WAKEs for this role without an answer: that many jobs count as given."""
        self.overdue = 0
        """WAKEs for this role that were not answered in time. For each of them another worker is woken, in
        addition to one for each job: 1, 2, 4 and so on, until one answers."""

    @property
    def wanted(self) -> int:
        """How many recent WAKEs there should be."""
        return len(self.waiting) + self.overdue if self.waiting else 0


class ManagerState:
    """The jobs of a manager and its ready workers."""

    def __init__(self, identity: bytes, life: bytes, terms: ManagerTerms) -> None:
        """`life` is the prefix of its job ids: a manager that was restarted must not use an id again."""
        if not 0 < len(identity) <= wire.HOP_BYTES_MAX or b"\n" in identity:
            raise ValueError("a manager's identity must have 1 to 255 bytes and no line end")
        if min(terms.lease_us, terms.wake_us, terms.wake_step_us) <= 0:
            raise ValueError("the lease and the wake times must be above 0: a lost message would block a job")
        self.identity = identity
        self.malformed = 0
        """Number of malformed messages."""
        self.late = 0
        """Number of reports on jobs that are unknown or have ended."""
        self.jobs: dict[bytes, Ticket] = {}
        self._life = life
        self._terms = terms
        self._number = 0
        self._workers: dict[Path, _ReadyWorker] = {}
        self._lanes: dict[bytes, _Lane] = {}
        self._wakes_due: Deadlines[Path] = Deadlines()
        self._leases_due: Deadlines[Ticket] = Deadlines()
        self._effects: list[Effect] = []

    def next_deadline(self) -> int | None:
        """When to call `tick`."""
        return earliest(self._wakes_due.next_us(), self._leases_due.next_us())

    @property
    def full(self) -> bool:
        return len(self.jobs) >= self._terms.jobs_max

    # --- calls of the submitter

    def submit(self, role: bytes, payload: bytes, key: bytes, now_us: int) -> tuple[Ticket, list[Effect]]:
        """Add a job. The caller checks `full` first."""
        if not 0 < len(role) <= wire.NAME_BYTES_MAX or len(key) > wire.NAME_BYTES_MAX or b"\n" in role + key:
            raise ValueError(f"a role or a key must have no line end and at most {wire.NAME_BYTES_MAX} bytes")
        self._number += 1
        ticket = Ticket(b"%s-%d" % (self._life, self._number), role, payload, key)
        self.jobs[ticket.id] = ticket
        self._lane(role).waiting[ticket.id] = ticket
        self._wake(role, now_us)
        return ticket, self._result()

    def cancel(self, ticket: Ticket) -> list[Effect]:
        """Cancel a job; ignored if it has ended."""
        if ticket.id in self.jobs:
            self._end(ticket, Outcome(CANCELLED, 0, b""), None)
        return self._result()

    # --- time, and the network

    def tick(self, now_us: int) -> list[Effect]:
        """Do what is due."""
        for path in self._wakes_due.due(now_us):
            worker = self._workers[path]
            if not worker.overdue:
                self._mark_overdue(path, worker, now_us)
                continue
            self._clear_wake(worker)
            if worker.fresh:
                self._add_idle(path, worker, now_us)
            else:
                del self._workers[path]
        for ticket in self._leases_due.due(now_us):
            self._lose(ticket, now_us)
        return self._result()

    def undelivered(self, post: Post, now_us: int) -> list[Effect]:
        """The worker at the end of the path is gone."""
        self._forget(post.path, now_us)
        ticket = post.ticket
        if ticket is not None and ticket.id in self.jobs and ticket.holder == post.path:
            self._requeue(ticket, now_us)
        return self._result()

    # --- messages from workers

    def received(self, frames: list[bytes], now_us: int) -> list[Effect]:
        """A message was received; its first frame is the sender's identity."""
        parts = wire.split_frames(frames[1:])
        if parts is None or parts[0]:
            self.malformed += 1
            return []
        path = (frames[0], *parts[1])
        try:
            self._dispatch(path, wire.parse_body(parts[2]), now_us)
        except wire.BadMessage:
            self.malformed += 1
        return self._result()

    def _dispatch(self, path: Path, message: wire.Message, now_us: int) -> None:
        command = message.command
        if command == wire.READY:
            self._ready(path, message, now_us)
        elif command == wire.GIVE:
            self._asked(path, message.first(b"role"), now_us)
        elif command not in (wire.DONE, wire.STATUS) or message.first(b"manager") != self.identity:
            raise wire.BadMessage("not for this manager")
        elif command == wire.DONE:
            self._done(path, message, now_us)
        else:
            self._status(path, message, now_us)

    def _ready(self, path: Path, message: wire.Message, now_us: int) -> None:
        roles = tuple(dict.fromkeys(message.every(b"role")))
        if not 0 < len(roles) <= ROLES_MAX or not all(0 < len(role) <= wire.NAME_BYTES_MAX for role in roles):
            raise wire.BadMessage("READY has too many roles, none, or an invalid one")
        worker = self._workers.get(path)
        if worker is None:
            if len(self._workers) >= self._terms.readys_max:
                self._forget(next(iter(self._workers)), now_us)
            worker = self._workers[path] = _ReadyWorker()
        elif worker.woken_for is not None and not worker.overdue:
            worker.roles = roles
            worker.fresh = True
            return
        elif worker.woken_for is not None:
            self._wakes_due.clear(path)
            self._clear_wake(worker)
        elif worker.roles == roles:
            return
        else:
            self._remove_idle(path, worker)
        worker.roles = roles
        self._add_idle(path, worker, now_us)

    def _asked(self, path: Path, role: bytes, now_us: int) -> None:
        """GIVE: a TAKE uses up the worker's READY; a NO does not. Without a role any job may be given."""
        worker = self._workers.get(path)
        woken_for = None
        if worker is not None and worker.woken_for is not None:
            self._wakes_due.clear(path)
            woken_for = self._clear_wake(worker)
        elif worker is not None:
            self._remove_idle(path, worker)
        ticket = self._next_of(worker.roles if worker is not None and not role else (role,))
        if ticket is not None:
            self._workers.pop(path, None)
            ticket.holder = path
            ticket.lost_holders.pop(path, None)
            self._leases_due.set(ticket, now_us + self._terms.lease_us)
            self._post(path, wire.TAKE, [], ticket)
        else:
            self._post(path, wire.NO, [(b"role", role)] if role else [])
            if worker is not None:
                self._add_idle(path, worker, now_us)
        if woken_for is not None:
            self._wake(woken_for, now_us)

    def _next_of(self, roles: tuple[bytes, ...]) -> Ticket | None:
        """Remove and return the next waiting job of one of these roles."""
        for role in roles:
            lane = self._lanes.get(role)
            if lane is not None and lane.waiting:
                ticket = lane.waiting.popitem(last=False)[1]
                self._drop_if_empty(role)
                return ticket
        return None

    def _done(self, path: Path, message: wire.Message, now_us: int) -> None:
        status = message.first(b"status") or b"ok"
        code = wire.parse_number(message.first(b"code") or b"1")
        if status not in (b"ok", b"failed", b"declined") or not 1 <= code <= 255:
            raise wire.BadMessage("DONE has an invalid status or code")
        ticket = self.jobs.get(message.first(b"job"))
        if ticket is None:
            self.late += 1
        elif status == b"ok":
            self._end(ticket, Outcome(OK, 0, message.payload), path)
        elif status == b"failed":
            self._end(ticket, Outcome(FAILED, code, message.payload), path)
        elif self._is_held(ticket, path):
            self._requeue(ticket, now_us)
        else:
            self.late += 1

    def _status(self, path: Path, message: wire.Message, now_us: int) -> None:
        progress = message.first(b"progress")
        numerator, denominator = wire.parse_progress(progress) if progress else (0, 0)
        job = message.first(b"job")
        ticket = self.jobs.get(job)
        if ticket is None or not self._is_held(ticket, path):
            # It does not know yet that the job is no longer its own.
            self.late += 1
            self._post(path, wire.CANCEL, [(b"job", job)])
            return
        ticket.holder = path
        self._leases_due.set(ticket, now_us + self._terms.lease_us)
        if progress:
            self._effects.append(Progressed(ticket, numerator, denominator))
        if message.payload:
            self._effects.append(Chunked(ticket, message.payload))

    @staticmethod
    def _is_held(ticket: Ticket, path: Path) -> bool:
        """A report comes from the holder, whose path may have changed after a reconnect."""
        return ticket.holder is not None and path not in ticket.lost_holders

    # --- state changes of a job

    def _lose(self, ticket: Ticket, now_us: int) -> None:
        """Its holder was silent for too long."""
        holder = ticket.holder
        assert holder is not None
        ticket.losses += 1
        ticket.lost_holders[holder] = None
        if len(ticket.lost_holders) > LOST_HOLDERS_MAX:
            del ticket.lost_holders[next(iter(ticket.lost_holders))]
        if 0 < self._terms.losses_max <= ticket.losses:
            reason = b"%d workers were lost while they had it" % ticket.losses
            self._end(ticket, Outcome(FAILED, 1, reason), None)
        else:
            self._post(holder, wire.CANCEL, [(b"job", ticket.id)])
            self._requeue(ticket, now_us)

    def _requeue(self, ticket: Ticket, now_us: int) -> None:
        """Put the job at the head of its queue."""
        ticket.holder = None
        self._leases_due.clear(ticket)
        waiting = self._lane(ticket.role).waiting
        waiting[ticket.id] = ticket
        waiting.move_to_end(ticket.id, last=False)
        self._wake(ticket.role, now_us)

    def _end(self, ticket: Ticket, outcome: Outcome, path: Path | None) -> None:
        """End the job, reported by `path`. Another holder is told to stop."""
        del self.jobs[ticket.id]
        if ticket.holder is None:
            del self._lanes[ticket.role].waiting[ticket.id]
            self._drop_if_empty(ticket.role)
        else:
            self._leases_due.clear(ticket)
            if ticket.holder != path:
                self._post(ticket.holder, wire.CANCEL, [(b"job", ticket.id)])
        self._effects.append(Ended(ticket, outcome))

    # --- state changes of a worker

    def _add_idle(self, path: Path, worker: _ReadyWorker, now_us: int) -> None:
        for role in worker.roles:
            self._lane(role).idle[path] = None
        for role in worker.roles:
            self._wake(role, now_us)

    def _remove_idle(self, path: Path, worker: _ReadyWorker) -> None:
        for role in worker.roles:
            del self._lanes[role].idle[path]
            self._drop_if_empty(role)

    def _wake(self, role: bytes, now_us: int) -> None:
        """Wake one worker for each waiting job, and one for each overdue WAKE."""
        lane = self._lanes.get(role)
        while lane is not None and lane.idle and lane.wanted > lane.woken:
            path = next(iter(lane.idle))
            worker = self._workers[path]
            lane.woken += 1
            self._remove_idle(path, worker)
            worker.woken_for = role
            worker.fresh = False
            self._wakes_due.set(path, now_us + self._terms.wake_step_us)
            self._post(path, wire.WAKE, [(b"role", role)])

    def _clear_wake(self, worker: _ReadyWorker) -> bytes:
        """A WAKE was answered, or is no longer expected to be."""
        role = worker.woken_for
        assert role is not None
        worker.woken_for = None
        lane = self._lanes[role]
        if worker.overdue:
            worker.overdue = False
            lane.overdue -= 1
        else:
            lane.woken -= 1
        self._drop_if_empty(role)
        return role

    def _mark_overdue(self, path: Path, worker: _ReadyWorker, now_us: int) -> None:
        """Its WAKE is overdue: wake others too."""
        role = worker.woken_for
        assert role is not None
        lane = self._lanes[role]
        worker.overdue = True
        lane.woken -= 1
        lane.overdue += 1
        left_us = max(self._terms.wake_us - self._terms.wake_step_us, 0)
        self._wakes_due.set(path, now_us + left_us)
        self._wake(role, now_us)

    def _forget(self, path: Path, now_us: int) -> None:
        worker = self._workers.pop(path, None)
        if worker is None:
            return
        if worker.woken_for is None:
            self._remove_idle(path, worker)
            return
        self._wakes_due.clear(path)
        self._wake(self._clear_wake(worker), now_us)

    def _lane(self, role: bytes) -> _Lane:
        lane = self._lanes.get(role)
        if lane is None:
            lane = self._lanes[role] = _Lane()
        return lane

    def _drop_if_empty(self, role: bytes) -> None:
        lane = self._lanes[role]
        if not lane.waiting and not lane.idle and not lane.woken and not lane.overdue:
            del self._lanes[role]

    # --- messages

    def _take_body(self, ticket: Ticket) -> bytes:
        headers = [(b"manager", self.identity), (b"job", ticket.id), (b"role", ticket.role)]
        if ticket.key:
            headers.append((b"key", ticket.key))
        headers.append((b"lease", wire.encode_seconds(self._terms.lease_us)))
        return wire.encode_body(wire.TAKE, headers, ticket.payload)

    def _post(
        self, path: Path, command: bytes, headers: list[tuple[bytes, bytes]], ticket: Ticket | None = None
    ) -> None:
        if ticket is not None:
            body = self._take_body(ticket)
        else:
            body = wire.encode_body(command, [(b"manager", self.identity), *headers])
        self._effects.append(Post(path, wire.join_frames(list(path), [], body), ticket))

    def _result(self) -> list[Effect]:
        effects = self._effects
        self._effects = []
        return effects

    def audit(self) -> None:
        """Check every sum and every cross-reference."""
        waiting = 0
        for role, lane in self._lanes.items():
            waiting += len(lane.waiting)
            assert all(ticket.holder is None and ticket.role == role for ticket in lane.waiting.values())
            assert all(self._workers[path].woken_for is None for path in lane.idle)
            assert all(role in self._workers[path].roles for path in lane.idle)
            woken = [worker.overdue for worker in self._workers.values() if worker.woken_for == role]
            assert (lane.woken, lane.overdue) == (woken.count(False), woken.count(True))
            assert lane.waiting or lane.idle or woken
            assert lane.wanted <= lane.woken or not lane.idle, "another worker should be woken"
        assert len(self._wakes_due) == sum(worker.woken_for is not None for worker in self._workers.values())
        assert len(self._leases_due) == len(self.jobs) - waiting
