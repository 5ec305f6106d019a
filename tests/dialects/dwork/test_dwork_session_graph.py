"""Random graphs of tasks, played by random locations with random requests, beside a model that is a few dicts.

After each request the hall's answer is the model's, every cross-reference holds, and the counts agree. The
hall dies and opens again in between; a task is done once, after all those it waits for, and stays with the
location that has it.
"""

from __future__ import annotations

import random

import pytest

from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions
from stage.dwork import EXIT, NOT_FOUND, OK, DworkGuest, DworkHall, task
from stage.dwork_said import Said, SaidTask

NAMES = [b"t%d" % number for number in range(40)]
LOCATIONS = [b"w%d" % number for number in range(4)]


class Model:
    """What the hall should know."""

    def __init__(self) -> None:
        self.waits: dict[bytes, set[bytes]] = {}
        """Living tasks, each with the unmet tasks that it waits for."""
        self.holder: dict[bytes, bytes] = {}
        self.done: list[bytes] = []
        self.active: set[bytes] = set()
        """Locations that the hall has heard of."""

    def ready(self) -> set[bytes]:
        return {name for name, unmet in self.waits.items() if not unmet and name not in self.holder}

    def unmet(self, preds: list[bytes]) -> set[bytes]:
        return {name for name in preds if name in self.waits or name not in self.done}

    def closes_cycle(self, name: bytes, preds: set[bytes]) -> bool:
        """Whether one of `preds` is the task itself or waits for it."""
        stack, seen = list(preds), set(preds)
        while stack:
            at = stack.pop()
            if at == name:
                return True
            for further in self.waits.get(at, set()) - seen:
                seen.add(further)
                stack.append(further)
        return False

    def complete(self, name: bytes) -> None:
        del self.waits[name]
        del self.holder[name]
        self.done.append(name)
        for unmet in self.waits.values():
            unmet.discard(name)


class Play:
    """One hall, one model, and dice."""

    def __init__(self, seed: int, *, durable: bool = True) -> None:
        self.dice = random.Random(seed)
        self.by_holder = seed % 2 == 0
        self.hall = DworkHall(DworkOptions(durable=durable, complete_by_holder=self.by_holder))
        self.model = Model()
        self.guests = [self.hall.guest() for _ in range(3)]

    @property
    def guest(self) -> DworkGuest:
        return self.dice.choice(self.guests)

    def create(self) -> None:
        name = self.dice.choice(NAMES)
        preds = self.dice.sample(NAMES, self.dice.choice((0, 0, 1, 2, 3)))
        model = self.model
        unmet = model.unmet(preds)
        answer = self.guest.creates(task(name, *preds))
        held = name in model.holder
        if name in preds or model.closes_cycle(name, unmet) or (held and unmet):
            assert answer.type == wire.ERROR
        else:
            assert answer == OK
            model.waits.setdefault(name, set()).update(unmet)

    def steal(self) -> None:
        location = self.dice.choice(LOCATIONS)
        n = self.dice.choice((None, 1, 2, 5))
        model = self.model
        ready = model.ready()
        answer = self.guest.asks(Said(wire.STEAL, n=n, location=location))
        model.active.add(location)
        if not ready:
            assert answer == (NOT_FOUND if model.waits else EXIT)
            return
        stolen = [task.name for task in answer.tasks]
        assert len(stolen) == len(set(stolen)) == min(n or 1, len(ready))
        assert set(stolen) <= ready
        for name in stolen:
            model.holder[name] = location

    def complete(self) -> None:
        location = self.dice.choice(LOCATIONS)
        names = self.dice.sample(NAMES, self.dice.choice((0, 1)))
        names += [name for name, holder in self.model.holder.items() if holder == location][:4]
        if not names:
            return
        names = list(dict.fromkeys(names))
        self.dice.shuffle(names)
        unknown = [name for name in names if name not in self.model.holder]
        if self.by_holder:
            unknown = [name for name in names if self.model.holder.get(name) != location]
        answer = self.guest.completes(location, *names)
        if unknown:
            assert answer == Said(wire.NOT_FOUND, tuple(SaidTask(name, b"") for name in unknown))
        else:
            assert answer == OK
        for name in names:
            if name not in unknown:
                self.model.complete(name)

    def transfer(self) -> None:
        model = self.model
        location = self.dice.choice(LOCATIONS)
        held = [name for name, holder in model.holder.items() if holder == location]
        name = self.dice.choice(held or NAMES)
        preds = self.dice.sample(NAMES, self.dice.choice((0, 1, 2)))
        unmet = model.unmet(preds)
        answer = self.guest.transfers(location, task(name, *preds))
        if not held:
            assert answer == NOT_FOUND
        elif name in preds or model.closes_cycle(name, unmet):
            assert answer.type == wire.ERROR
        else:
            assert answer == OK
            del model.holder[name]
            model.waits[name] |= unmet

    def leave(self) -> None:
        location = self.dice.choice(LOCATIONS)
        answer = self.guest.leaves_as(location)
        assert answer == (OK if location in self.model.active else NOT_FOUND)
        self.model.active.discard(location)
        for name in [name for name, holder in self.model.holder.items() if holder == location]:
            del self.model.holder[name]

    def look_up(self) -> None:
        name = self.dice.choice(NAMES)
        answer = self.guest.looks_up(name)
        if name in self.model.holder:
            assert answer.location == self.model.holder[name]
        elif name in self.model.waits or name not in self.model.done:
            assert answer == NOT_FOUND
        else:
            assert (answer.type, answer.name) == (wire.OK, name)

    def restart(self) -> None:
        self.guests = [self.hall.restart()] + [self.hall.guest() for _ in range(2)]
        self.model.active = set(self.model.holder.values())

    def check(self) -> None:
        model = self.model
        assert {job.key for job in self.hall.scheduler.jobs.values()} == set(model.waits)
        held = {name: holder for name, _, holder, _ in self.hall.snapshot() if holder}
        assert held == model.holder
        waits = {name: set(unmet) for name, _, _, unmet in self.hall.snapshot()}
        assert waits == model.waits
        assert self.guest.asks(Said(wire.OK)).n == len(model.ready())

    def drain(self) -> None:
        """Do all that can be done: every name that is waited for comes, and every task ends."""
        guest = self.guests[0]
        named = set().union(*self.model.waits.values()) - set(self.model.waits)
        for name in sorted(named):
            assert guest.creates(name) == OK
            self.model.waits[name] = set()
        while self.model.waits:
            for location in LOCATIONS:
                for name in guest.steals(location, 3):
                    assert name in self.model.ready()
                    self.model.holder[name] = location
                names = [name for name, holder in self.model.holder.items() if holder == location]
                if names:
                    assert guest.completes(location, *names) == OK
                    for name in names:
                        self.model.complete(name)
            self.check()
        assert guest.asks(Said(wire.STEAL, location=b"w0")) == EXIT


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("durable", [True, False])
def test_random_requests_are_answered_as_the_model_says(seed: int, durable: bool) -> None:
    play = Play(seed, durable=durable)
    steps = [play.create] * 5 + [play.steal] * 3 + [play.complete] * 2 + [play.transfer, play.leave]
    if durable:
        steps += [play.restart, play.look_up]
    for _ in range(150):
        play.dice.choice(steps)()
        play.check()
    play.drain()
    if durable:
        assert sorted(play.hall.done()) == sorted(play.model.done)


@pytest.mark.parametrize("seed", range(5))
def test_a_graph_that_is_given_whole_is_done_once_and_in_order(seed: int) -> None:
    dice = random.Random(seed)
    count = 300
    preds = {
        b"%d" % number: [b"%d" % dice.randrange(number) for _ in range(dice.choice((0, 1, 1, 2, 4)))]
        for number in range(1, count)
    }
    preds[b"0"] = []
    names = list(preds)
    dice.shuffle(names)
    hall = DworkHall()
    guest = hall.guest()
    blocks = [names[at : at + 30] for at in range(0, count, 30)]
    holding: dict[bytes, list[bytes]] = {location: [] for location in LOCATIONS}
    done: list[bytes] = []
    while len(done) < count:
        if blocks and dice.randrange(3) == 0:
            assert guest.creates(*(task(name, *preds[name]) for name in blocks.pop())) == OK
        location = dice.choice(LOCATIONS)
        for name in guest.steals(location, dice.randrange(1, 20)):
            assert set(preds[name]) <= set(done)
            holding[location].append(name)
        what = dice.randrange(10)
        if what == 0:
            guest = hall.restart()
        elif what == 1:
            guest.leaves_as(location)
            holding[location] = []
        elif holding[location]:
            assert guest.completes(location, *holding[location]) == OK
            done += holding[location]
            holding[location] = []
    assert sorted(hall.done()) == sorted(names)
    assert sorted(done) == sorted(names)
    assert not hall.scheduler.jobs
