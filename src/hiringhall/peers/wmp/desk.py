"""A manager's state machine, without sockets or clock: who is ready, what waits, and who has it.

The law: a job that was taken in ends once: with the first result anybody brings, by cancelling, or after too
many lost workers. Whoever has a job shows life within its lease, or the job goes to another. So whatever
message is lost, every job ends while there are workers.

Each input returns what is to be done, in order: messages to post and news of jobs. Time is an integer of
microseconds that the caller hands in, and `next_deadline` says when to `tick`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp.alarms import Alarms, earliest

Path = tuple[bytes, ...]
"""The way to a worker: the identity at the manager's own socket, and the hops from there."""

SECOND_US: Final = 1_000_000
ROLES_MAX: Final = 1024
"""Roles of one READY."""
PASSED_OVER_MAX: Final = 64
"""Lost workers that one job remembers, the latest. What an earlier one says of it counts again."""

OK: Final = "ok"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"


@dataclass(frozen=True)
class DeskTerms:
    """How a manager behaves. `losses_max`: lost workers after which a job has failed; 0: no limit."""

    wake_us: int = SECOND_US // 2
    wake_step_us: int = SECOND_US // 200
    """How long a worker may leave a WAKE unanswered before others are woken too."""
    lease_us: int = 30 * SECOND_US
    losses_max: int = 0
    jobs_max: int = 1_000_000
    readys_max: int = 10_000


class Ticket:
    """A job that has not ended."""

    __slots__ = ("holder", "id", "key", "losses", "passed_over", "payload", "role")

    def __init__(self, job_id: bytes, role: bytes, payload: bytes, key: bytes) -> None:
        self.id = job_id
        self.role = role
        self.payload = payload
        self.key = key
        self.holder: Path | None = None
        """Who has it; None while it waits."""
        self.losses = 0
        self.passed_over: dict[Path, None] = {}
        """Who had it and was silent for too long: the latest of them, in that order."""


class Outcome(NamedTuple):
    status: str
    code: int
    payload: bytes


class Post(NamedTuple):
    """A message to send. If that cannot be done now, `undelivered` is told."""

    path: Path
    frames: list[bytes]
    ticket: Ticket | None
    """The job it gives, if it is a TAKE."""


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


class _Mate:
    """A worker whose READY is remembered."""

    __slots__ = ("fresh", "overdue", "roles", "woken_for")

    def __init__(self) -> None:
        self.roles: tuple[bytes, ...] = ()
        self.woken_for: bytes | None = None
        """The role of a WAKE that is not answered yet."""
        self.fresh = False
        """It was ready once more after that WAKE."""
        self.overdue = False
        """It has let `wake_step_us` pass after that WAKE. It may still answer, but stands for no job."""


class _Lane:
    """Jobs and workers of one role."""

    __slots__ = ("idle", "overdue", "waiting", "woken")

    def __init__(self) -> None:
        self.waiting: OrderedDict[bytes, Ticket] = OrderedDict()
        self.idle: dict[Path, None] = {}
        """Remembered and not woken for anything, the longest first."""
        self.woken = 0
        """WAKEs for this role that may be about to be answered: so many jobs are as good as taken."""
        self.overdue = 0
        """WAKEs for this role that were not answered in time. For each of them another is woken, beside those
        for the jobs: 1, 2, 4 and so on, until somebody answers."""

    @property
    def wanted(self) -> int:
        """How many should be about to answer a WAKE."""
        return len(self.waiting) + self.overdue if self.waiting else 0


class Desk:
    """Where a manager's jobs and its workers meet."""

    def __init__(self, identity: bytes, life: bytes, terms: DeskTerms) -> None:
        """`life` begins the ids of its jobs: a manager that was restarted must not use an id again."""
        if not 0 < len(identity) <= wire.HOP_BYTES_MAX or b"\n" in identity:
            raise ValueError("a manager's identity has 1 to 255 bytes and no line end")
        if min(terms.lease_us, terms.wake_us, terms.wake_step_us) <= 0:
            raise ValueError("a lease and a wake time must be longer than 0: a lost message would hold a job")
        self.identity = identity
        self.ill_formed = 0
        """Messages that made no sense."""
        self.late = 0
        """Reports on jobs that are not here, or not any more."""
        self.jobs: dict[bytes, Ticket] = {}
        self._life = life
        self._terms = terms
        self._number = 0
        self._mates: dict[Path, _Mate] = {}
        self._lanes: dict[bytes, _Lane] = {}
        self._wakes_due: Alarms[Path] = Alarms()
        self._leases_due: Alarms[Ticket] = Alarms()
        self._effects: list[Effect] = []

    def next_deadline(self) -> int | None:
        """When `tick` has something to do."""
        return earliest(self._wakes_due.next_us(), self._leases_due.next_us())

    @property
    def full(self) -> bool:
        return len(self.jobs) >= self._terms.jobs_max

    # --- what the submitter says

    def submit(self, role: bytes, payload: bytes, key: bytes, now_us: int) -> tuple[Ticket, list[Effect]]:
        """Take a job in. The caller looks first whether the desk is full."""
        if not 0 < len(role) <= wire.NAME_BYTES_MAX or len(key) > wire.NAME_BYTES_MAX or b"\n" in role + key:
            raise ValueError(f"a role or a key has no line end and at most {wire.NAME_BYTES_MAX} bytes")
        self._number += 1
        ticket = Ticket(b"%s-%d" % (self._life, self._number), role, payload, key)
        self.jobs[ticket.id] = ticket
        self._lane(role).waiting[ticket.id] = ticket
        self._wake(role, now_us)
        return ticket, self._result()

    def cancel(self, ticket: Ticket) -> list[Effect]:
        """No result is wanted any more; nothing happens if it has ended."""
        if ticket.id in self.jobs:
            self._end(ticket, Outcome(CANCELLED, 0, b""), None)
        return self._result()

    # --- time, and the network

    def tick(self, now_us: int) -> list[Effect]:
        """Do what is due."""
        for path in self._wakes_due.due(now_us):
            mate = self._mates[path]
            if not mate.overdue:
                self._pass_by(path, mate, now_us)
                continue
            self._unwake(mate)
            if mate.fresh:
                self._stand_by(path, mate, now_us)
            else:
                del self._mates[path]
        for ticket in self._leases_due.due(now_us):
            self._lose(ticket, now_us)
        return self._result()

    def undelivered(self, post: Post, now_us: int) -> list[Effect]:
        """The worker's end of the path is not there."""
        self._forget(post.path, now_us)
        ticket = post.ticket
        if ticket is not None and ticket.id in self.jobs and ticket.holder == post.path:
            self._requeue(ticket, now_us)
        return self._result()

    # --- what workers say

    def heard(self, frames: list[bytes], now_us: int) -> list[Effect]:
        """A message came, the sender's identity in front."""
        parts = wire.split_frames(frames[1:])
        if parts is None or parts[0]:
            self.ill_formed += 1
            return []
        path = (frames[0], *parts[1])
        try:
            self._understand(path, wire.parse_body(parts[2]), now_us)
        except wire.BadMessage:
            self.ill_formed += 1
        return self._result()

    def _understand(self, path: Path, message: wire.Message, now_us: int) -> None:
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
            raise wire.BadMessage("READY names too many roles, or none, or one that is none")
        mate = self._mates.get(path)
        if mate is None:
            if len(self._mates) >= self._terms.readys_max:
                self._forget(next(iter(self._mates)), now_us)
            mate = self._mates[path] = _Mate()
        elif mate.woken_for is not None and not mate.overdue:
            mate.roles = roles
            mate.fresh = True
            return
        elif mate.woken_for is not None:
            self._wakes_due.clear(path)
            self._unwake(mate)
        elif mate.roles == roles:
            return
        else:
            self._stand_down(path, mate)
        mate.roles = roles
        self._stand_by(path, mate, now_us)

    def _asked(self, path: Path, role: bytes, now_us: int) -> None:
        """GIVE: TAKE answers a READY, so that it is forgotten; NO does not. Without a role any job will do."""
        mate = self._mates.get(path)
        woken_for = None
        if mate is not None and mate.woken_for is not None:
            self._wakes_due.clear(path)
            woken_for = self._unwake(mate)
        elif mate is not None:
            self._stand_down(path, mate)
        ticket = self._next_of(mate.roles if mate is not None and not role else (role,))
        if ticket is not None:
            self._mates.pop(path, None)
            ticket.holder = path
            ticket.passed_over.pop(path, None)
            self._leases_due.set(ticket, now_us + self._terms.lease_us)
            self._post(path, wire.TAKE, [], ticket)
        else:
            self._post(path, wire.NO, [(b"role", role)] if role else [])
            if mate is not None:
                self._stand_by(path, mate, now_us)
        if woken_for is not None:
            self._wake(woken_for, now_us)

    def _next_of(self, roles: tuple[bytes, ...]) -> Ticket | None:
        """Take the next job of one of these roles out of its line."""
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
            raise wire.BadMessage("no such end")
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
            # It was not told, or has not heard, that nobody waits for this.
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
        """Who speaks of it has it; its path may be another one after a reconnect."""
        return ticket.holder is not None and path not in ticket.passed_over

    # --- the ways of a job

    def _lose(self, ticket: Ticket, now_us: int) -> None:
        """Its holder was silent for too long."""
        holder = ticket.holder
        assert holder is not None
        ticket.losses += 1
        ticket.passed_over[holder] = None
        if len(ticket.passed_over) > PASSED_OVER_MAX:
            del ticket.passed_over[next(iter(ticket.passed_over))]
        if 0 < self._terms.losses_max <= ticket.losses:
            reason = b"%d workers that had it were not heard of again" % ticket.losses
            self._end(ticket, Outcome(FAILED, 1, reason), None)
        else:
            self._post(holder, wire.CANCEL, [(b"job", ticket.id)])
            self._requeue(ticket, now_us)

    def _requeue(self, ticket: Ticket, now_us: int) -> None:
        """It is the next to be given."""
        ticket.holder = None
        self._leases_due.clear(ticket)
        waiting = self._lane(ticket.role).waiting
        waiting[ticket.id] = ticket
        waiting.move_to_end(ticket.id, last=False)
        self._wake(ticket.role, now_us)

    def _end(self, ticket: Ticket, outcome: Outcome, path: Path | None) -> None:
        """Its one end, brought by `path`; whoever else has it may stop."""
        del self.jobs[ticket.id]
        if ticket.holder is None:
            del self._lanes[ticket.role].waiting[ticket.id]
            self._drop_if_empty(ticket.role)
        else:
            self._leases_due.clear(ticket)
            if ticket.holder != path:
                self._post(ticket.holder, wire.CANCEL, [(b"job", ticket.id)])
        self._effects.append(Ended(ticket, outcome))

    # --- the ways of a worker

    def _stand_by(self, path: Path, mate: _Mate, now_us: int) -> None:
        for role in mate.roles:
            self._lane(role).idle[path] = None
        for role in mate.roles:
            self._wake(role, now_us)

    def _stand_down(self, path: Path, mate: _Mate) -> None:
        for role in mate.roles:
            del self._lanes[role].idle[path]
            self._drop_if_empty(role)

    def _wake(self, role: bytes, now_us: int) -> None:
        """Wake as many as there are jobs to give, and one for each who was woken in vain."""
        lane = self._lanes.get(role)
        while lane is not None and lane.idle and lane.wanted > lane.woken:
            path = next(iter(lane.idle))
            mate = self._mates[path]
            lane.woken += 1
            self._stand_down(path, mate)
            mate.woken_for = role
            mate.fresh = False
            self._wakes_due.set(path, now_us + self._terms.wake_step_us)
            self._post(path, wire.WAKE, [(b"role", role)])

    def _unwake(self, mate: _Mate) -> bytes:
        """A WAKE is answered, or will not be."""
        role = mate.woken_for
        assert role is not None
        mate.woken_for = None
        lane = self._lanes[role]
        if mate.overdue:
            mate.overdue = False
            lane.overdue -= 1
        else:
            lane.woken -= 1
        self._drop_if_empty(role)
        return role

    def _pass_by(self, path: Path, mate: _Mate, now_us: int) -> None:
        """It lets its WAKE go unanswered for a while: others are woken too."""
        role = mate.woken_for
        assert role is not None
        lane = self._lanes[role]
        mate.overdue = True
        lane.woken -= 1
        lane.overdue += 1
        left_us = max(self._terms.wake_us - self._terms.wake_step_us, 0)
        self._wakes_due.set(path, now_us + left_us)
        self._wake(role, now_us)

    def _forget(self, path: Path, now_us: int) -> None:
        mate = self._mates.pop(path, None)
        if mate is None:
            return
        if mate.woken_for is None:
            self._stand_down(path, mate)
            return
        self._wakes_due.clear(path)
        self._wake(self._unwake(mate), now_us)

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
        """Every sum and every cross-reference holds."""
        waiting = 0
        for role, lane in self._lanes.items():
            waiting += len(lane.waiting)
            assert all(ticket.holder is None and ticket.role == role for ticket in lane.waiting.values())
            assert all(self._mates[path].woken_for is None for path in lane.idle)
            assert all(role in self._mates[path].roles for path in lane.idle)
            woken = [mate.overdue for mate in self._mates.values() if mate.woken_for == role]
            assert (lane.woken, lane.overdue) == (woken.count(False), woken.count(True))
            assert lane.waiting or lane.idle or woken
            assert lane.wanted <= lane.woken or not lane.idle, "somebody could be woken"
        assert len(self._wakes_due) == sum(mate.woken_for is not None for mate in self._mates.values())
        assert len(self._leases_due) == len(self.jobs) - waiting
