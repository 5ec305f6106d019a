"""The village as it is before anybody moves: who lives where and can do what, and who will be needed when.

All of it follows from the seed, so that one village can live through the same day under several policies.
"""

from __future__ import annotations

import asyncio
import math
import time
from random import Random
from typing import NamedTuple

WIDTH, HEIGHT = 72, 22
"""The map, in fields."""
PACE = 24.0
"""Fields that a villager walks in an hour."""
HOUR_S = 1.0
"""An hour of the village, in seconds. Gearman knows times to the second, so what is due is due on the hour."""
FIRST_H = 4
"""The hour at which a run begins."""
SKILL_MAX = 100


class Spot(NamedTuple):
    x: float
    y: float

    def way_h(self, other: Spot) -> float:
        """How long the way to another spot is. A field is twice as high as it is wide, as in a terminal."""
        return math.hypot(self.x - other.x, 2 * (self.y - other.y)) / PACE


class Workplace(NamedTuple):
    name: str
    craft: str
    """What is done there: the type of its jobs."""
    spot: Spot
    shifts: tuple[int, ...]
    """The hours of a day at which hands are usually needed."""
    takes_h: float = 0.0
    """How long a job takes at a workplace that announces its jobs itself. The others hand theirs in and leave
    the rest to the hall, which knows it from hall.toml."""

    @property
    def announces(self) -> bool:
        return self.takes_h > 0


class Need(NamedTuple):
    workplace: Workplace
    due_h: int


class Person(NamedTuple):
    name: str
    home: Spot
    skills: dict[str, int]
    appetite_h: float
    """Hours from one meal to the next hunger."""
    hungry_h: float
    """The hour of the first hunger."""
    bed_h: float
    """The hour of going to bed."""


class Levy(NamedTuple):
    """The king's men come for somebody."""

    name: str
    at_h: float
    lasts_h: float


class World(NamedTuple):
    seed: int
    last_h: float
    workplaces: tuple[Workplace, ...]
    people: tuple[Person, ...]
    needs: tuple[Need, ...]
    levies: tuple[Levy, ...]

    def place_of(self, craft: str) -> Workplace:
        return next(place for place in self.workplaces if place.craft == craft)


WORKPLACES = (
    Workplace("bakery", "bake", Spot(29, 8), (6, 7, 9, 12, 15, 17)),
    Workplace("mill", "grind", Spot(46, 3), (6, 8, 10, 13, 15)),
    Workplace("smithy", "forge", Spot(21, 13), (7, 9, 11, 14, 16)),
    Workplace("well", "draw", Spot(36, 12), (6, 8, 10, 12, 14, 16, 18)),
    Workplace("farm", "plough", Spot(7, 4), (6, 7, 10, 13, 15)),
    Workplace("pasture", "herd", Spot(63, 4), (6, 8, 11, 14, 17)),
    Workplace("orchard", "pick", Spot(9, 16), (7, 9, 11, 14, 16)),
    Workplace("sawmill", "saw", Spot(63, 17), (7, 10, 13, 16)),
    Workplace("brewery", "brew", Spot(47, 16), (8, 11, 14, 17)),
    Workplace("inn", "serve", Spot(40, 8), (7, 11, 12, 17, 18, 19), takes_h=1.0),
    Workplace("chapel", "ring", Spot(24, 4), (6, 9, 12, 15, 18), takes_h=0.5),
    Workplace("tower", "watch", Spot(55, 10), (6, 10, 14, 18, 21, 24, 27), takes_h=3.0),
)

_ROLL = (
    "Ada Ben Cleo Dirk Edda Finn Greta Hugo Ida Jon Kaja Lars Mina Nils Olga Per Quinn Runa Sven Tilda "
    "Ulf Vera Wim Xenia Yorick Zora Alma Bo Carl Dora Egon Frida Gus Hedda Ivo Jule Knut Lena Max Nora"
)
NAMES = _ROLL.split()


def found(seed: int, days: float) -> World:
    """The village of a seed, and what so many days will ask of it."""
    chance = Random(seed)  # noqa: S311 (a village, not a secret)
    last_h = FIRST_H + 24 * days
    people = tuple(_person(name, number, chance) for number, name in enumerate(NAMES))
    needs = [
        Need(place, due_h)
        for day in range(math.ceil(days) + 1)
        for place in WORKPLACES
        for shift in place.shifts
        for due_h in _dues(24 * day + shift, chance)
        if FIRST_H + 2 <= due_h <= last_h
    ]
    needs.sort(key=lambda need: need.due_h)
    return World(seed, last_h, WORKPLACES, people, tuple(needs), tuple(_levies(days, chance)))


def _person(name: str, number: int, chance: Random) -> Person:
    home = Spot(round(chance.uniform(14, 58), 1), round(chance.uniform(2, HEIGHT - 3), 1))
    crafts = [place.craft for place in WORKPLACES]
    # Everybody is born into one craft, so that none is without hands, and picks up others.
    learnt = {crafts[number % len(crafts)], *chance.sample(crafts, 4)}
    skills = {craft: chance.randint(10, SKILL_MAX) for craft in crafts if craft in learnt}
    owl = "watch" in skills and chance.random() < 0.5
    appetite_h = chance.uniform(4.5, 7.0)
    hungry_h = FIRST_H + appetite_h * chance.uniform(0.3, 1.0)
    bed_h = chance.uniform(8.0, 10.0) if owl else chance.uniform(20.5, 22.5)
    return Person(name, home, skills, appetite_h, hungry_h, bed_h)


def _dues(hour: int, chance: Random) -> list[int]:
    """A shift needs one or two pairs of hands, sometimes three or none, and not always at its usual hour."""
    hands = chance.choices((0, 1, 2, 3), (1, 5, 4, 1))[0]
    return [hour + chance.choice((0, 0, 0, 1)) for _ in range(hands)]


def _levies(days: float, chance: Random) -> list[Levy]:
    """On every day the king's men come for a few, at any hour of the light."""
    return [
        Levy(name, FIRST_H + 24 * day + chance.uniform(3, 16), chance.uniform(4, 8))
        for day in range(math.ceil(days))
        for name in chance.sample(NAMES, 7)
    ]


class Clock:
    """The time of the village. Its hours begin with the seconds of the world's clock."""

    def __init__(self) -> None:
        now_s = time.time()
        self._epoch_s = math.ceil(now_s + 0.5)
        self._start_s = asyncio.get_running_loop().time() + self._epoch_s - now_s
        self._stopped_h: float | None = None

    def now_h(self) -> float:
        if self._stopped_h is not None:
            return self._stopped_h
        return FIRST_H + (asyncio.get_running_loop().time() - self._start_s) / HOUR_S

    def stop(self) -> None:
        """From here on it is always now."""
        self._stopped_h = self.now_h()

    def loop_s(self, hour: float) -> float:
        """An hour on the clock of the event loop."""
        return self._start_s + (hour - FIRST_H) * HOUR_S

    def epoch_s(self, hour: int) -> int:
        """An hour in seconds since 1970."""
        return self._epoch_s + round((hour - FIRST_H) * HOUR_S)

    async def until(self, hour: float) -> None:
        await asyncio.sleep(self.loop_s(hour) - asyncio.get_running_loop().time())

    async def pass_h(self, hours: float) -> None:
        await asyncio.sleep(hours * HOUR_S)


def show_hour(hour: float) -> str:
    """As people write it; the hours of all days count on from the first.

    >>> show_hour(29.5)
    '05:30'
    """
    minutes = int(hour * 60)
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"
