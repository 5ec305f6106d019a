"""Workers, devices and managers of WMP in memory: the real state machines, and a network that a test disturbs.

The law: nothing happens by itself. A test delivers, drops and repeats messages, ends jobs and lets time pass;
after each step every machine checks itself, and no job may end twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.peers.wmp.manager_state import Chunked, Ended, ManagerState, ManagerTerms, Post, Progressed
from hiringhall.peers.wmp.relay import BELOW, Relay
from hiringhall.peers.wmp.worker_state import SECOND_US, Send, Start, WorkerState, WorkerTerms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.peers.wmp import manager_state as desks
    from hiringhall.peers.wmp import worker_state as crews
    from hiringhall.peers.wmp.manager_state import Outcome, Ticket
    from hiringhall.peers.wmp.relay import Forward
    from hiringhall.peers.wmp.worker_state import Order

LEASE_US: Final = 3 * SECOND_US
LOCK_US: Final = 2 * SECOND_US
READY_MAX_US: Final = 4 * SECOND_US
CALM_STEPS_MAX: Final = 20_000


class Parcel(NamedTuple):
    """A message on its way up, with the sender's identity in front, or down to one link of a node."""

    node: str
    link: int
    frames: list[bytes]


UP: Final = -1


class Town:
    """One worker's links: straight to the first manager, and by two devices in a chain to both."""

    def __init__(self, capacities: Iterable[int], costs: dict[bytes, int], losses_max: int = 0) -> None:
        self.now_us = 0
        self.mail: list[Parcel] = []
        """On its way."""
        self.desks = {
            name: ManagerState(
                name.encode(), b"life-" + name.encode(), ManagerTerms(lease_us=LEASE_US, losses_max=losses_max)
            )
            for name in ("d0", "d1")
        }
        self.relays = {"r0": Relay([b"m0", b"m1"]), "r1": Relay([b"m0"])}
        self.crews: dict[str, WorkerState] = {}
        self.above: dict[str, list[str]] = {"r0": ["d0", "d1"], "r1": ["r0"]}
        self.running: list[tuple[str, Order]] = []
        self.starts: list[bytes] = []
        """The payload of each order that was begun."""
        self.tickets: dict[Ticket, Outcome | None] = {}
        """Every job, and its end."""
        self.news: list[Progressed | Chunked] = []
        self.sent = 0
        self.drop_numbers: frozenset[int] = frozenset()
        """Which messages, counted from 0, are lost."""
        terms = {"lock_us": LOCK_US, "ready_max_us": READY_MAX_US, "beat_us": SECOND_US}
        for number, capacity in enumerate(capacities):
            name = f"c{number}"
            fitting = {role: cost for role, cost in costs.items() if cost <= capacity}
            self.crews[name] = WorkerState(
                2, fitting, WorkerTerms(capacity=capacity, name=name.encode(), **terms)
            )
            self.above[name] = ["d0", "r1"]
        for name, crew in self.crews.items():
            self._worker_does(name, crew.start(self.now_us))

    # --- what a test does

    def submit(self, desk: str, role: bytes, payload: bytes) -> Ticket:
        ticket, effects = self.desks[desk].submit(role, payload, b"", self.now_us)
        self.tickets[ticket] = None
        self._manager_does(desk, effects)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        for name, desk in self.desks.items():
            if ticket.id in desk.jobs:
                self._manager_does(name, desk.cancel(ticket))

    def deliver(self, number: int, *, again: bool = False) -> None:
        """One message arrives; `again`: a copy of it is still on its way."""
        parcel = self.mail[number] if again else self.mail.pop(number)
        node, link, frames = parcel
        if node in self.desks:
            self._manager_does(node, self.desks[node].received(list(frames), self.now_us))
        elif node in self.crews:
            self._worker_does(node, self.crews[node].received(link, list(frames), self.now_us))
        elif link == UP:
            self._forward(node, self.relays[node].from_below(frames))
        else:
            self._forward(node, self.relays[node].from_manager(link, frames))
        self.check()

    def lose(self, number: int) -> None:
        del self.mail[number]

    def finish(self, number: int, how: str) -> None:
        """A handler is over."""
        name, order = self.running.pop(number)
        crew = self.crews[name]
        if how == "fail":
            effects = crew.fail(order, b"no", 3, self.now_us)
        elif how == "give back":
            effects = crew.give_back(order, self.now_us)
        else:
            effects = crew.finish(order, order.payload, self.now_us)
        self._worker_does(name, effects)
        self.check()

    def show(self, number: int) -> None:
        """A handler says something on the way."""
        name, order = self.running[number]
        self._worker_does(name, self.crews[name].progress(order, 1, 2, self.now_us))
        self._worker_does(name, self.crews[name].send_data(order, b"piece", self.now_us))

    def pass_time(self, pause_us: int) -> None:
        self.now_us += pause_us
        for name, desk in self.desks.items():
            self._manager_does(name, desk.tick(self.now_us))
        for name, crew in self.crews.items():
            self._worker_does(name, crew.tick(self.now_us))
        self.check()

    def calm(self, until_us: int | None = None) -> None:
        """Everything arrives and every handler returns, until all jobs have ended (or until then)."""
        for _ in range(CALM_STEPS_MAX):
            if self.mail:
                self.deliver(0)
            elif self.running:
                self.finish(0, "finish")
            elif until_us is None and all(self.tickets.values()):
                return
            else:
                deadline_us = min(self._deadlines())
                if until_us is not None and deadline_us > until_us:
                    return
                self.pass_time(max(deadline_us - self.now_us, 0))
        raise AssertionError(f"no end in sight: {sum(not end for end in self.tickets.values())} jobs are left")

    def check(self) -> None:
        for crew in self.crews.values():
            crew.audit()
        for name, desk in self.desks.items():
            desk.audit()
            mine = [
                ticket for ticket, end in self.tickets.items() if end is None and self._owner(ticket) == name
            ]
            assert sorted(desk.jobs) == sorted(ticket.id for ticket in mine)
        for name, crew in self.crews.items():
            assert (
                sum(order.cost for where, order in self.running if where == name) == crew.used <= crew.capacity
            )

    # --- what the machines want done

    @staticmethod
    def _owner(ticket: Ticket) -> str:
        return ticket.id.decode().removeprefix("life-").partition("-")[0]

    def _deadlines(self) -> list[int]:
        machines: list[ManagerState | WorkerState] = [*self.desks.values(), *self.crews.values()]
        return [deadline_us for machine in machines if (deadline_us := machine.next_deadline()) is not None]

    def _worker_does(self, name: str, effects: Iterable[crews.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._send_up(name, effect.link, effect.frames)
            elif isinstance(effect, Start):
                self.running.append((name, effect.order))
                self.starts.append(effect.order.payload)
            else:
                assert (name, effect.order) in self.running

    def _manager_does(self, name: str, effects: Iterable[desks.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Post):
                self._send_down(effect.frames)
            elif isinstance(effect, Ended):
                assert self.tickets[effect.ticket] is None, "a job ended twice"
                self.tickets[effect.ticket] = effect.outcome
            else:
                assert self.tickets[effect.ticket] is None, "news of a job that has ended"
                self.news.append(effect)

    def _forward(self, name: str, forwards: Iterable[Forward]) -> None:
        for forward in forwards:
            if forward.hop == BELOW:
                self._send_down(forward.frames)
            else:
                self._send_up(name, forward.hop, forward.frames)

    def _send_up(self, name: str, link: int, frames: list[bytes]) -> None:
        self._send(Parcel(self.above[name][link], UP, [f"{name}.{link}".encode(), *frames]))

    def _send_down(self, frames: list[bytes]) -> None:
        name, _, link = frames[0].decode().partition(".")
        self._send(Parcel(name, int(link), frames[1:]))

    def _send(self, parcel: Parcel) -> None:
        if self.sent not in self.drop_numbers:
            self.mail.append(parcel)
        self.sent += 1
