"""Where somebody is at every moment, and what for: a day as a row of legs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from world import Spot

if TYPE_CHECKING:
    from world import Clock

LEISURE, GOING, WAITING, WORKING, EATING, SLEEPING, SOLDIERING = DOINGS = (
    "at leisure",
    "on the way",
    "waiting",
    "working",
    "eating",
    "sleeping",
    "soldiering",
)


class Leg(NamedTuple):
    """From here to there, or staying."""

    from_h: float
    to_h: float
    start: Spot
    end: Spot
    doing: str


class Path:
    def __init__(self, start: Spot, clock: Clock) -> None:
        self.legs: list[Leg] = []
        """Those that are over."""
        self._clock = clock
        self._leg = Leg(clock.now_h(), clock.now_h(), start, start, LEISURE)

    @property
    def doing(self) -> str:
        return self._leg.doing

    @property
    def end(self) -> Spot:
        return self._leg.end

    def here(self) -> Spot:
        return self._spot(self._clock.now_h())

    def _spot(self, now_h: float) -> Spot:
        _, to_h, start, end, _ = leg = self._leg
        if now_h >= to_h:
            return end
        part = (now_h - leg.from_h) / (to_h - leg.from_h)
        return Spot(start.x + part * (end.x - start.x), start.y + part * (end.y - start.y))

    def go(self, end: Spot, doing: str) -> float:
        """Set out; the hour of arrival."""
        now_h = self._clock.now_h()
        start = self._spot(now_h)
        self._close(now_h)
        self._leg = Leg(now_h, now_h + start.way_h(end), start, end, doing)
        return self._leg.to_h

    def stay(self, doing: str) -> None:
        """Do something at the end of the leg."""
        self.go(self._leg.end, doing)

    def close(self) -> None:
        """Write down what was until now."""
        self._close(self._clock.now_h())

    def _close(self, now_h: float) -> None:
        leg = self._leg
        if now_h < leg.to_h:
            self.legs.append(leg._replace(to_h=now_h, end=self._spot(now_h)))
            return
        if leg.to_h > leg.from_h:
            self.legs.append(leg)
        if now_h > leg.to_h:
            self.legs.append(Leg(leg.to_h, now_h, leg.end, leg.end, leg.doing))
