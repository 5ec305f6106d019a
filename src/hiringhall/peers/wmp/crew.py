"""A worker's state machine, without sockets, clock or handlers: who may have which part of its resources.

The law: what is locked for managers and what is used by jobs never exceeds the capacity. A lock ends by TAKE,
NO or its timeout, so whatever message is lost, everything is free again in the end.

Each input returns what is to be done, in order: messages to send, jobs to start and to stop. Time is an integer
of microseconds that the caller hands in, and `next_deadline` says when to `tick`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp.alarms import Alarms, earliest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Route = tuple[int, tuple[bytes, ...]]
"""A way to a manager: the link it is reached by, and the hops from there."""

SECOND_US: Final = 1_000_000
ROUTES_MAX: Final = 1024
"""Ways to managers that are remembered; the one heard of longest ago is forgotten first."""
_BEATS_A_LEASE: Final = 3
"""Signs of life within the time after which a manager takes a silent worker for lost."""
_BEAT_MIN_US: Final = SECOND_US // 1000
"""A thousand signs of life a second are enough for anybody."""


@dataclass(frozen=True)
class CrewTerms:
    """How a worker behaves. `capacity` is what all its jobs together may cost."""

    capacity: int = 1
    name: bytes = b""
    lock_us: int = 5 * SECOND_US
    ready_first_us: int = SECOND_US // 2
    ready_max_us: int = 10 * SECOND_US
    beat_us: int = 10 * SECOND_US
    skills: tuple[tuple[bytes, int], ...] = ()
    """How good it is at some roles."""
    via: bytes = b""
    """Who it is, if it is a manager that has the jobs done by others."""


class Order:
    """A job that this worker has, from its TAKE until its handler is over."""

    __slots__ = ("beat_us", "cost", "job", "key", "manager", "payload", "role", "route", "via", "wanted")

    def __init__(self, message: wire.Message, route: Route, cost: int, beat_us: int) -> None:
        self.manager = message.first(b"manager")
        self.job = message.first(b"job")
        self.role = message.first(b"role")
        self.key = message.first(b"key")
        self.payload = message.payload
        self.via = message.every(b"via")
        """The managers that it has passed, the first one first."""
        self.route = route
        """Where its manager hears of it."""
        self.cost = cost
        self.beat_us = beat_us
        self.wanted = True
        """False after CANCEL: nobody is told how it ends, but what it uses is used until it does."""


class Lock(NamedTuple):
    """Resources kept for a manager that was asked for a job."""

    role: bytes
    cost: int


class Send(NamedTuple):
    link: int
    frames: list[bytes]


class Start(NamedTuple):
    order: Order


class Stop(NamedTuple):
    """The handler is to stop; `give_back`, or any other end, says when it has."""

    order: Order


Effect = Send | Start | Stop


class Crew:
    """What a worker has promised to whom."""

    def __init__(
        self,
        links: int,
        costs: Mapping[bytes, int],
        terms: CrewTerms,
        room: Callable[[bytes], int] | None = None,
    ) -> None:
        """`links` counts the managers it is connected to; `costs` says what a job of each role takes. `room`
        says how many more jobs of a role others could do for it; None: it does them itself.
        """
        for role, cost in costs.items():
            if not 1 <= cost <= terms.capacity:
                raise ValueError(f"a job of {role!r} costs {cost}; it must cost 1 to {terms.capacity}")
        self.capacity = terms.capacity
        self.locked = 0
        """What `locks` keep."""
        self.used = 0
        """What `orders` use."""
        self.locks: dict[Route, Lock] = {}
        self.orders: dict[Order, None] = {}
        """Every order whose handler is not over, wanted or not."""
        self.ill_formed = 0
        """Messages that made no sense."""
        self.declined = 0
        """Jobs that came when there was no room for them."""
        self.until_us: int | None = None
        """When it has to go; None: it stays."""
        self._links = links
        self._costs = dict(costs)
        self._terms = terms
        self._wanted: dict[tuple[bytes, bytes], Order] = {}
        """By manager and job: the orders whose end somebody waits for."""
        self._owners: dict[Route, bytes] = {}
        """Which manager is at the end of a route, by its own word; the latest heard is the last."""
        self._locks_due: Alarms[Route] = Alarms()
        self._beats_due: Alarms[Order] = Alarms()
        self._ready_at_us: int | None = None
        """When to say READY again; None while there is nothing to be ready for."""
        self._ready_wait_us = terms.ready_first_us
        self._here = False
        """It takes jobs: from its start until it leaves."""
        self._room = room
        self._told: dict[bytes, None] = {}
        """The roles of the latest READY, without those whose WAKE it could not answer."""
        self._missed: dict[Route, bytes] = {}
        """The roles of WAKEs for which others had no room: they are answered when there is some."""
        self._effects: list[Effect] = []

    @property
    def free(self) -> int:
        return self.capacity - self.used - self.locked

    def next_deadline(self) -> int | None:
        """When `tick` has something to do."""
        return earliest(self._locks_due.next_us(), self._beats_due.next_us(), self._ready_at_us)

    def start(self, now_us: int) -> list[Effect]:
        """The worker is there."""
        self._here = True
        self._say_ready(now_us)
        return self._result()

    def leave(self) -> list[Effect]:
        """Take no more jobs; those it has go on."""
        self._here = False
        self._ready_at_us = None
        for route in list(self.locks):
            self._unlock(route)
        return self._result()

    def stay(self, left_us: int | None, now_us: int) -> list[Effect]:
        """It has so much time left, None for no end: all managers are told."""
        self.until_us = now_us + left_us if left_us is not None else None
        self._say_ready(now_us)
        return self._result()

    @property
    def has_news(self) -> bool:
        """There is room for a role of which no manager knows."""
        return self._here and any(role not in self._told and self._fits(role) for role in self._costs)

    def look_for_room(self, now_us: int) -> list[Effect]:
        """There may be more room than there was."""
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

    # --- what managers say

    def heard(self, link: int, frames: list[bytes], now_us: int) -> list[Effect]:
        """A message came by one of the links."""
        parts = wire.split_frames(frames)
        if parts is None or parts[0]:
            self.ill_formed += 1
            return []
        try:
            message = wire.parse_body(parts[2])
        except wire.BadMessage:
            self.ill_formed += 1
            return []
        manager = message.first(b"manager")
        if not 0 < len(manager) <= wire.HOP_BYTES_MAX:
            self.ill_formed += 1
            return []
        self._ready_wait_us = self._terms.ready_first_us
        if self._ready_at_us is not None:
            # Not later than planned: another manager may have waited for it.
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
            self.ill_formed += 1
        self._say_ready_if_more(free_before, now_us)
        return self._result()

    def _woken(self, route: Route, message: wire.Message, now_us: int) -> None:
        self._learn(route, message)
        role = message.first(b"role")
        cost = self._costs.get(role)
        if cost is None or not self._here:
            return
        # The manager asks anew, so it no longer counts on what it asked before.
        self._unlock(route)
        self._missed.pop(route, None)
        if self._fits(role):
            self._ask(route, role, now_us)
        elif self._room is not None:
            self._told.pop(role, None)
            self._missed[route] = role
            if len(self._missed) > ROUTES_MAX:
                del self._missed[next(iter(self._missed))]

    def _ask(self, route: Route, role: bytes, now_us: int) -> None:
        """Keep room for a job, and ask for it."""
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
            self.ill_formed += 1
            return
        lock = self.locks.get(route)
        if lock is not None and lock.role == role:
            self._unlock(route)
        have = self._wanted.get((manager, job))
        if have is not None:
            # The manager does not know that it is here, or the message came twice.
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

    # --- what handlers say

    def finish(self, order: Order, result: bytes, now_us: int) -> list[Effect]:
        return self._end(order, [], result, now_us)

    def fail(self, order: Order, reason: bytes, code: int, now_us: int) -> list[Effect]:
        return self._end(order, [(b"status", b"failed"), (b"code", b"%d" % code)], reason, now_us)

    def give_back(self, order: Order, now_us: int) -> list[Effect]:
        """It was not done here: another worker may have it."""
        return self._end(order, [(b"status", b"declined")], b"", now_us)

    def progress(self, order: Order, numerator: int, denominator: int, now_us: int) -> list[Effect]:
        self._tell_status(order, [(b"progress", b"%d/%d" % (numerator, denominator))], b"", now_us)
        return self._result()

    def send_data(self, order: Order, data: bytes, now_us: int) -> list[Effect]:
        """A piece of the result, ahead of the end."""
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

    # --- parts of these

    def _learn(self, route: Route, message: wire.Message) -> None:
        """WAKE and NO come from the manager at the end of the route itself; TAKE may name another."""
        self._owners.pop(route, None)
        self._owners[route] = message.first(b"manager")
        if len(self._owners) > ROUTES_MAX:
            del self._owners[next(iter(self._owners))]

    def _answer_route(self, route: Route, manager: bytes) -> Route:
        """The way to the manager that TAKE named: TAKE's own if it leads there, or if no other is known to."""
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
            return max(wire.parse_seconds(lease) // _BEATS_A_LEASE, _BEAT_MIN_US)
        except wire.BadMessage:
            self.ill_formed += 1
            return self._terms.beat_us

    def _unlock(self, route: Route) -> None:
        lock = self.locks.pop(route, None)
        if lock is not None:
            self.locked -= lock.cost
            self._locks_due.clear(route)

    def _say_ready_if_more(self, free_before: int, now_us: int) -> None:
        """There is room for a role for which there was none."""
        if any(free_before < cost <= self.free for cost in self._costs.values()):
            self._say_ready(now_us)

    def _fits(self, role: bytes) -> bool:
        """There is room for another job of this role, beside those that managers were asked for."""
        if self._costs[role] > self.free:
            return False
        return self._room is None or self._room(role) > sum(lock.role == role for lock in self.locks.values())

    def _say_ready(self, now_us: int) -> None:
        """Tell all managers what there is room for."""
        self._told = {role: None for role in self._costs if self._fits(role)}
        headers = [(b"role", role) for role in self._told]
        if not headers or not self._here:
            self._ready_at_us = None
            return
        if self._terms.name:
            headers.append((b"worker", self._terms.name))
        headers.append((b"slots", b"%d" % self.capacity))
        if self._terms.via:
            headers.append((b"via", self._terms.via))
        headers += ((b"skill", b"%d %s" % (skill, role)) for role, skill in self._terms.skills)
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
        """Every sum and every cross-reference holds."""
        assert self.locked == sum(lock.cost for lock in self.locks.values())
        assert self.used == sum(order.cost for order in self.orders)
        assert len(self._locks_due) == len(self.locks)
        wanted = [order for order in self.orders if order.wanted]
        assert list(self._wanted.values()) == wanted
        assert len(self._beats_due) == len(wanted)
        room = self._room is None and any(cost <= self.free for cost in self._costs.values())
        assert self._ready_at_us is not None or not room or not self._here, "nobody will hear that it is ready"
