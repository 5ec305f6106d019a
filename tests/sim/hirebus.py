"""The bus in memory: what is published reaches the hall or is lost, what the hall says reaches each or is lost.

The law: what arrives of one speaker, or at one listener, arrives in order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hiringhall.dialects.session import Caller, Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session

    from .hall import Hall
    from .hireactors import BusActor
    from .hiretap import BusTap
    from .network import Weather
    from .world import World


class Bus:
    """Both directions, and who listens."""

    def __init__(self, world: World, weather: Weather, hall: Hall) -> None:
        self.world = world
        self.weather = weather
        self.hall = hall
        self.lose = world.random.choice((0.0, 0.02, 0.1))
        self.session: Session | None = None
        self._tap: BusTap | None = None
        self._clear_us: dict[tuple[BusActor, bool], int] = {}
        self._listeners: dict[BusActor, None] = {}

    def open(
        self, make_session: Callable[[Caller], Session], make_tap: Callable[[int, Session], BusTap]
    ) -> None:
        """A boot: the session for all of them."""
        number = self.hall.next_number()
        self.session = make_session(Caller("", -1))
        self._tap = make_tap(number, self.session)
        self.session.link = BusLink(self)
        self.hall.engine.join(self.session)
        self.world.note(f"c{number} is the bus")
        self.session.listeners_changed(len(self._listeners))

    def calm(self) -> None:
        self.lose = 0.0

    def subscribe(self, actor: BusActor) -> None:
        self._listeners[actor] = None
        self._attended()

    def unsubscribe(self, actor: BusActor) -> None:
        del self._listeners[actor]
        self._attended()

    def _attended(self) -> None:
        if self.hall.up and self.session is not None:
            self.hall.turn()
            self.session.listeners_changed(len(self._listeners))

    def publish(self, actor: BusActor, data: bytes) -> None:
        boot = self.hall.boot
        self._carry(actor, data, inward=True, arrive=lambda: self._into_hall(boot, data))

    def _into_hall(self, boot: int, data: bytes) -> None:
        if boot == self.hall.boot and self.hall.up and self.session is not None and self._tap is not None:
            self.hall.turn()
            self._tap.heard(data)
            self.session.receive(data)

    def said(self, messages: list[bytes]) -> None:
        assert self._tap is not None
        for data in messages:
            self._tap.said(data)
            for actor in self._listeners:
                self._carry(actor, data, inward=False, arrive=partial(_hears, actor, data))

    def _carry(self, actor: BusActor, data: bytes, *, inward: bool, arrive: Callable[[], None]) -> None:
        if self.lose and self.world.chance(self.lose):
            self.world.note(f"the bus loses {data[-60:]!r} {'of' if inward else 'for'} {actor.name}")
            return
        delay_us = self.world.random.randrange(self.weather.delay_max_us)
        at_us = max(self._clear_us.get((actor, inward), 0), self.world.now_us + delay_us)
        self._clear_us[actor, inward] = at_us
        self.world.at(at_us, arrive)


def _hears(actor: BusActor, data: bytes) -> None:
    if actor.here:
        actor.heard(data)


class BusLink(Link):
    """The hall's side."""

    def __init__(self, bus: Bus) -> None:
        super().__init__()
        self._bus = bus

    def write(self, messages: list[bytes]) -> None:
        self._bus.said(messages)

    def close(self) -> None:
        raise AssertionError("the hall closes a bus")
