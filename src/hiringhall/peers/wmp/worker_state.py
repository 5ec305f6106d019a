"""A worker's state machine, without sockets, clock or handlers: how its capacity is shared among managers.

Invariant: what is locked for managers plus what is used by jobs never exceeds the capacity. A lock ends with
TAKE, NO or its timeout, so everything becomes free again even if messages are lost.

Each input returns the effects, in order: messages to send, jobs to start and to stop. Time is an integer of
microseconds that the caller passes in; `next_deadline` says when to call `tick`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp.deadlines import Deadlines, earliest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Route = tuple[int, tuple[bytes, ...]]
"""A route to a manager: the number of the link, and the hops from there."""

SECOND_US: Final = 1_000_000
ROUTES_MAX: Final = 1024
"""Remembered routes to managers; the least recently used is forgotten first."""
_BEATS_PER_LEASE: Final = 3
"""Heartbeats within the time after which a manager treats a silent worker as lost."""
_BEAT_MIN_US: Final = SECOND_US // 1000
"""The shortest time between heartbeats."""


@dataclass(frozen=True)
class WorkerTerms:
    """Parameters of a worker. `capacity` is the maximum total cost of its jobs."""

    capacity: int = 1
    name: bytes = b""
    lock_us: int = 5 * SECOND_US
    ready_first_us: int = SECOND_US // 2
    ready_max_us: int = 10 * SECOND_US
    beat_us: int = 10 * SECOND_US
    skills: tuple[tuple[bytes, int], ...] = ()
    """Its skill in some roles."""
    resources: bytes = b""
    """What it has for jobs that need some of it."""
    via: bytes = b""
    """Its identity, if it is a manager that has the jobs done by others."""


class Order:
    """A job that this worker has, from TAKE until its handler has ended."""

    __slots__ = (
        "beat_us",
        "cost",
        "job",
        "key",
        "manager",
        "payload",
        "resources",
        "role",
        "route",
        "via",
        "wanted",
    )

    def __init__(self, message: wire.Message, route: Route, cost: int, beat_us: int) -> None:
        self.manager = message.first(b"manager")
        self.job = message.first(b"job")
        self.role = message.first(b"role")
        self.key = message.first(b"key")
        self.payload = message.payload
        self.via = message.every(b"via")
        self.resources = message.first(b"resource")
        """What it may use of the resources of the worker."""
        """The managers that the job has passed, in order."""
        self.route = route
        """The route for reports to its manager."""
        self.cost = cost
        self.beat_us = beat_us
        self.wanted = True
        """False after CANCEL: its end is not reported, but it uses its capacity until then."""


class Lock(NamedTuple):
    """Capacity reserved for a manager that was asked for a job."""

    role: bytes
    cost: int


class Send(NamedTuple):
    link: int
    frames: list[bytes]


class Start(NamedTuple):
    order: Order


class Stop(NamedTuple):
    """Stop the handler; `give_back` or another end reports when it has stopped."""

    order: Order


Effect = Send | Start | Stop


class WorkerState:
    """The locks and jobs of a worker."""

    def __init__(
        self,
        links: int,
        costs: Mapping[bytes, int],
        terms: WorkerTerms,
        room: Callable[[bytes], int] | None = None,
    ) -> None:
        """`links` is the number of managers it is connected to; `costs` has the cost of a job of each role.
        `room` returns how many more jobs of a role others could do for it; None: it does them itself.
        """
        for role, cost in costs.items():
            if not 1 <= cost <= terms.capacity:
                raise ValueError(f"a job of {role!r} must cost from 1 to {terms.capacity}, not {cost}")
        self.capacity = terms.capacity
        self.locked = 0
        """Total cost of `locks`."""
        self.used = 0
        """Total cost of `orders`."""
        self.locks: dict[Route, Lock] = {}
        self.orders: dict[Order, None] = {}
        """Every order whose handler has not ended, wanted or not."""
        self.malformed = 0
        """Number of malformed messages."""
        self.declined = 0
        """Number of jobs declined for lack of room."""
        self.until_us: int | None = None
        """When it will leave; None: it stays."""
        self._links = links
        self._costs = dict(costs)
        self._terms = terms
        self._wanted: dict[tuple[bytes, bytes], Order] = {}
        """By manager and job: the orders whose end must be reported."""
        self._owners: dict[Route, bytes] = {}
        """Which manager says that it is at the end of a route; the most recent one is last."""
        self._locks_due: Deadlines[Route] = Deadlines()
        self._beats_due: Deadlines[Order] = Deadlines()
        self._ready_at_us: int | None = None
        """When to send READY again; None while there is no room for a job."""
        self._ready_wait_us = terms.ready_first_us
        self._here = False
        """It takes jobs: from its start until it leaves."""
        self._room = room
        self._announced: dict[bytes, None] = {}
        """The roles of the latest READY, without those whose WAKE it could not answer."""
        self._missed: dict[Route, bytes] = {}
        """The roles of WAKEs for which others had no room: they are answered when there is room."""
        self._effects: list[Effect] = []

    @property
    def free(self) -> int:
        return self.capacity - self.used - self.locked

    def next_deadline(self) -> int | None:
        """When to call `tick`."""
        return earliest(self._locks_due.next_us(), self._beats_due.next_us(), self._ready_at_us)

    def start(self, now_us: int) -> list[Effect]:
        """The worker starts."""
        self._here = True
        self._say_ready(now_us)
        return self._result()

    def leave(self) -> list[Effect]:
        """Take no more jobs; the running ones continue."""
        self._here = False
        self._ready_at_us = None
        for route in list(self.locks):
            self._unlock(route)
        return self._result()

    def stay(self, left_us: int | None, now_us: int) -> list[Effect]:
        """Set how much time it has left, None for no limit, and tell all managers."""
        self.until_us = now_us + left_us if left_us is not None else None
        self._say_ready(now_us)
        return self._result()

    @property
    def has_news(self) -> bool:
        """There is room for a role that was not announced to the managers."""
        return self._here and any(role not in self._announced and self._fits(role) for role in self._costs)

    def look_for_room(self, now_us: int) -> list[Effect]:
        """There may be more room: answer missed WAKEs and announce it."""
        for route, role in list(self._missed.items()):
            if self._here and self._fits(role):
                del self._missed[route]
                self._ask(route, role, now_us)
        if self.has_news:
            self._say_ready(now_us)
        return self._result()

    def tick(self, now_us: int) -> list[Effect]:
        """Do what is due."""
        expired = self._locks_due.due(now_us)
        for route in expired:
            self.locked -= self.locks.pop(route).cost
        if expired:
            self._say_ready(now_us)
        for order in self._beats_due.due(now_us):
            self._tell_status(order, [], b"", now_us)
        if self._ready_at_us is not None and self._ready_at_us <= now_us:
            self._ready_wait_us = min(2 * self._ready_wait_us, self._terms.ready_max_us)
            self._say_ready(now_us)
        return self._result()

    # --- messages from managers

    def received(self, link: int, frames: list[bytes], now_us: int) -> list[Effect]:
        """A message was received on one of the links."""
        parts = wire.split_frames(frames)
        if parts is None or parts[0]:
            self.malformed += 1
            return []
        try:
            message = wire.parse_body(parts[2])
        except wire.BadMessage:
            self.malformed += 1
            return []
        manager = message.first(b"manager")
        if not 0 < len(manager) <= wire.HOP_BYTES_MAX:
            self.malformed += 1
            return []
        self._ready_wait_us = self._terms.ready_first_us
        if self._ready_at_us is not None:
            # Not later than planned: another manager may wait for it.
            self._ready_at_us = min(self._ready_at_us, now_us + self._ready_wait_us)
        route = (link, tuple(parts[1]))
        free_before = self.free
        if message.command == wire.WAKE:
            self._woken(route, message, now_us)
        elif message.command == wire.TAKE:
            self._given(route, message, now_us)
        elif message.command == wire.NO:
            self._refused(route, message)
        elif message.command == wire.CANCEL:
            self._cancelled(manager, message.first(b"job"))
        else:
            self.malformed += 1
        self._say_ready_if_more(free_before, now_us)
        return self._result()

    def _woken(self, route: Route, message: wire.Message, now_us: int) -> None:
        self._learn(route, message)
        role = message.first(b"role")
        cost = self._costs.get(role)
        if cost is None or not self._here:
            return
        # A new WAKE of this manager replaces its earlier one.
        self._unlock(route)
        self._missed.pop(route, None)
        if self._fits(role):
            self._ask(route, role, now_us)
        elif self._room is not None:
            self._announced.pop(role, None)
            self._missed[route] = role
            if len(self._missed) > ROUTES_MAX:
                del self._missed[next(iter(self._missed))]

    def _ask(self, route: Route, role: bytes, now_us: int) -> None:
        """Reserve room for a job, and ask for it."""
        self._unlock(route)
        cost = self._costs[role]
        self.locks[route] = Lock(role, cost)
        self.locked += cost
        self._locks_due.set(route, now_us + self._terms.lock_us)
        self._send(route, wire.GIVE, [(b"role", role)])

    def _refused(self, route: Route, message: wire.Message) -> None:
        self._learn(route, message)
        lock = self.locks.get(route)
        if lock is not None and message.first(b"role") in (lock.role, b""):
            self._unlock(route)

    def _given(self, route: Route, message: wire.Message, now_us: int) -> None:
        manager, job, role = message.first(b"manager"), message.first(b"job"), message.first(b"role")
        if not 0 < len(job) <= wire.JOB_BYTES_MAX:
            self.malformed += 1
            return
        lock = self.locks.get(route)
        if lock is not None and lock.role == role:
            self._unlock(route)
        have = self._wanted.get((manager, job))
        if have is not None:
            # The manager does not know that we have it, or the message came twice.
            self._tell_status(have, [], b"", now_us)
            return
        answer_route = self._answer_route(route, manager)
        cost = self._costs.get(role)
        if cost is None or not self._fits(role) or not self._here:
            self.declined += 1
            status = (b"status", b"declined")
            self._send(answer_route, wire.DONE, [(b"manager", manager), (b"job", job), status])
            return
        order = Order(message, answer_route, cost, self._beat_us(message))
        self.used += cost
        self.orders[order] = None
        self._wanted[manager, job] = order
        self._beats_due.set(order, now_us + order.beat_us)
        self._say_ready(now_us)
        self._effects.append(Start(order))

    def _cancelled(self, manager: bytes, job: bytes) -> None:
        order = self._wanted.pop((manager, job), None)
        if order is not None:
            order.wanted = False
            self._beats_due.clear(order)
            self._effects.append(Stop(order))

    # --- reports of handlers

    def finish(self, order: Order, result: bytes, now_us: int) -> list[Effect]:
        return self._end(order, [], result, now_us)

    def fail(self, order: Order, reason: bytes, code: int, now_us: int) -> list[Effect]:
        return self._end(order, [(b"status", b"failed"), (b"code", b"%d" % code)], reason, now_us)

    def give_back(self, order: Order, now_us: int) -> list[Effect]:
        """It was not done here: another worker may do it."""
        return self._end(order, [(b"status", b"declined")], b"", now_us)

    def progress(self, order: Order, numerator: int, denominator: int, now_us: int) -> list[Effect]:
        self._tell_status(order, [(b"progress", b"%d/%d" % (numerator, denominator))], b"", now_us)
        return self._result()

    def send_data(self, order: Order, data: bytes, now_us: int) -> list[Effect]:
        """Send a part of the result before the end."""
        self._tell_status(order, [], data, now_us)
        return self._result()

    def _end(
        self, order: Order, headers: list[tuple[bytes, bytes]], payload: bytes, now_us: int
    ) -> list[Effect]:
        del self.orders[order]
        if order.wanted:
            del self._wanted[order.manager, order.job]
            self._beats_due.clear(order)
            about = [(b"manager", order.manager), (b"job", order.job)]
            self._send(order.route, wire.DONE, about + headers, payload)
        free_before = self.free
        self.used -= order.cost
        self._say_ready_if_more(free_before, now_us)
        return self._result()

    # --- helpers

    def _learn(self, route: Route, message: wire.Message) -> None:
        """WAKE and NO come from the manager at the end of the route; TAKE may name another manager."""
        self._owners.pop(route, None)
        self._owners[route] = message.first(b"manager")
        if len(self._owners) > ROUTES_MAX:
            del self._owners[next(iter(self._owners))]

    def _answer_route(self, route: Route, manager: bytes) -> Route:
        """The route to the manager that TAKE named: TAKE's own, unless another route is known to lead there."""
        if self._owners.get(route) != manager:
            for other, owner in reversed(self._owners.items()):
                if owner == manager:
                    return other
        return route

    def _beat_us(self, message: wire.Message) -> int:
        lease = message.first(b"lease")
        if not lease:
            return self._terms.beat_us
        try:
            return max(wire.parse_seconds(lease) // _BEATS_PER_LEASE, _BEAT_MIN_US)
        except wire.BadMessage:
            self.malformed += 1
            return self._terms.beat_us

    def _unlock(self, route: Route) -> None:
        lock = self.locks.pop(route, None)
        if lock is not None:
            self.locked -= lock.cost
            self._locks_due.clear(route)

    def _say_ready_if_more(self, free_before: int, now_us: int) -> None:
        """Send READY if there is now room for a role that had none."""
        if any(free_before < cost <= self.free for cost in self._costs.values()):
            self._say_ready(now_us)

    def _fits(self, role: bytes) -> bool:
        """Whether there is room for another job of this role, beside those already asked for."""
        if self._costs[role] > self.free:
            return False
        return self._room is None or self._room(role) > sum(lock.role == role for lock in self.locks.values())

    def _say_ready(self, now_us: int) -> None:
        """Tell all managers for which roles there is room."""
        self._announced = {role: None for role in self._costs if self._fits(role)}
        headers = [(b"role", role) for role in self._announced]
        if not headers or not self._here:
            self._ready_at_us = None
            return
        if self._terms.name:
            headers.append((b"worker", self._terms.name))
        headers.append((b"slots", b"%d" % self.capacity))
        if self._terms.via:
            headers.append((b"via", self._terms.via))
        headers += ((b"skill", b"%d %s" % (skill, role)) for role, skill in self._terms.skills)
        if self._terms.resources:
            headers.append((b"resource", self._terms.resources))
        if self.until_us is not None:
            headers.append((b"time-left", wire.encode_seconds(max(self.until_us - now_us, 0))))
        body = wire.encode_body(wire.READY, headers)
        self._effects += (Send(link, wire.join_frames([], [], body)) for link in range(self._links))
        self._ready_at_us = now_us + self._ready_wait_us

    def _tell_status(
        self, order: Order, headers: list[tuple[bytes, bytes]], payload: bytes, now_us: int
    ) -> None:
        if order.wanted:
            about = [(b"manager", order.manager), (b"job", order.job)]
            self._send(order.route, wire.STATUS, about + headers, payload)
            self._beats_due.set(order, now_us + order.beat_us)

    def _send(
        self, route: Route, command: bytes, headers: list[tuple[bytes, bytes]], payload: bytes = b""
    ) -> None:
        link, hops = route
        frames = wire.join_frames(list(hops), [], wire.encode_body(command, headers, payload))
        self._effects.append(Send(link, frames))

    def _result(self) -> list[Effect]:
        if self.locked < 0 or self.used < 0 or self.free < 0:
            raise AssertionError(f"{self.locked} locked and {self.used} used of {self.capacity}")
        effects = self._effects
        self._effects = []
        return effects

    def audit(self) -> None:
        """Check every sum and every cross-reference."""
        assert self.locked == sum(lock.cost for lock in self.locks.values())
        assert self.used == sum(order.cost for order in self.orders)
        assert len(self._locks_due) == len(self.locks)
        wanted = [order for order in self.orders if order.wanted]
        assert list(self._wanted.values()) == wanted
        assert len(self._beats_due) == len(wanted)
        room = self._room is None and any(cost <= self.free for cost in self._costs.values())
        assert self._ready_at_us is not None or not room or not self._here, "READY will not be sent"
