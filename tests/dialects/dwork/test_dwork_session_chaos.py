"""Everything at once at the dwork door: clients, workers of another dialect that fail, a store that fails, a
hall that dies. No law of the hall is broken, each request is answered once, and what is left can be done.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from hiringhall.core.limits import SECOND_US
from hiringhall.core.peer import Peer
from hiringhall.core.states import DONE
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions
from stage.dwork import EXIT, DworkHall
from stage.dwork_said import Said, SaidTask

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease

NAMES = [b"t%d" % number for number in range(15)]
LOCATIONS = [b"w%d" % number for number in range(3)]


class Chaos:
    """One hall, and dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        options = DworkOptions(
            durable=self.dice.random() < 0.8,
            lease_us=self.dice.choice((0, 30 * SECOND_US)),
            losses_max=self.dice.choice((0, 1, 3)),
            failures_max=self.dice.choice((0, 2)),
            on_parent_failure=self.dice.choice((FAIL_WITH_PARENT, RUN_ANYWAY, HOLD)),
        )
        self.hall = DworkHall(options)
        self.asked = 0
        self.heard = 0
        self.come_in()

    def come_in(self) -> None:
        """Everybody is new: the hall has just opened."""
        self.asked = self.heard = 0
        self.guests = [self.hall.guest() for _ in range(3)]
        self.stranger = Peer()
        self.leases: list[Lease] = []

    def task(self) -> SaidTask:
        dice = self.dice
        preds = dice.sample(NAMES, dice.choice((0, 0, 1, 2)))
        succs = dice.sample(NAMES, dice.choice((0, 0, 0, 1)))
        log = ((dice.randrange(8), dice.randrange(100)),) if dice.random() < 0.2 else ()
        return SaidTask(dice.choice(NAMES), b"o", tuple(preds), tuple(succs), log)

    def request(self) -> Said:
        dice = self.dice
        tasks = tuple(self.task() for _ in range(dice.choice((1, 1, 2, 4))))
        location = dice.choice(LOCATIONS)
        kind = dice.choice((wire.CREATE,) * 4 + (wire.STEAL,) * 3 + tuple(range(8)))
        if kind == wire.CREATE:
            return Said(kind, tasks)
        if kind in (wire.COMPLETE, wire.TRANSFER):
            worker = self.hall.scheduler.residents.find(self.hall.context.queue, location)
            held = [lease.job.key for lease in worker.leases.values() if lease.job.key] if worker else []
            if held and dice.random() < 0.8:
                tasks = tuple(task._replace(name=dice.choice(held)) for task in tasks)
            return Said(kind, tasks, location=location)
        if kind == wire.STEAL:
            return Said(kind, n=dice.choice((None, 1, 3)), location=location)
        return Said(kind, name=dice.choice(NAMES)) if kind == wire.LOOKUP else Said(kind, location=location)

    def ask(self) -> None:
        requests = [self.request() for _ in range(self.dice.choice((1, 1, 3)))]
        self.dice.choice(self.guests).says(*requests)
        self.asked += len(requests)

    def work_elsewhere(self) -> None:
        """A worker of another dialect takes a task, or is done with one in its way."""
        hall = self.hall
        hall.begin()
        worker = hall.scheduler.worker(self.stranger)
        hall.scheduler.can_do(worker, hall.context.queue)
        live = [lease for lease in self.leases if lease.job.lease is lease]
        if live and self.dice.random() < 0.6:
            lease = self.dice.choice(live)
            end = self.dice.randrange(3)
            if end == 0:
                hall.scheduler.finish(lease, b"")
            elif end == 1:
                hall.scheduler.fail(lease)
            else:
                hall.scheduler.release(lease)
        else:
            taken = hall.scheduler.take(worker)
            if taken is not None:
                self.leases.append(taken)
        hall.end()

    def leave_elsewhere(self) -> None:
        self.hall.begin()
        self.hall.scheduler.leave(self.stranger)
        self.hall.end()

    def trouble(self) -> None:
        """The store is slow from now on, or answers, or fails."""
        hall = self.hall
        if not hall.held:
            hall.held = True
        elif hall.requests.under_way() is None:
            hall.held = False
        elif self.dice.random() < 0.5:
            hall.turn_that_commits()
        else:
            hall.turn_that_fails()

    def pass_time(self) -> None:
        self.hall.wait(self.dice.choice((1000, 20_000, 10 * SECOND_US)))

    def die(self) -> None:
        self.listen()
        self.hall.die()
        self.come_in()

    def listen(self) -> None:
        self.heard += sum(len(guest.hears()) for guest in self.guests)
        assert self.heard <= self.asked

    def calm_down(self) -> None:
        """The store works, and everybody has been answered."""
        hall = self.hall
        hall.held = False
        hall.end()
        hall.recover()
        hall.wait(SECOND_US)
        self.listen()
        assert self.heard == self.asked

    def finish(self) -> None:
        """Every name comes, everybody but one goes home, and that one does what is left."""
        hall = self.hall
        hall.begin()
        hall.scheduler.leave(self.stranger)
        hall.end()
        guest = hall.guest()
        for location in LOCATIONS:
            guest.leaves_as(location)
        for _ in range(len(NAMES)):
            for name in NAMES:
                guest.creates(name)
            hall.wait(3600 * SECOND_US)
            while stolen := guest.steals(b"w0", 99):
                unknown = guest.completes(b"w0", *stolen).tasks
                assert unknown == ()
            if guest.asks(Said(wire.STEAL, location=b"w0")) == EXIT:
                return
        raise AssertionError(f"these wait for ever: {hall.snapshot()}")


@pytest.mark.parametrize("seed", range(60))
def test_no_law_is_broken_whatever_happens(seed: int) -> None:
    chaos = Chaos(seed)
    steps = [chaos.ask] * 12 + [chaos.work_elsewhere] * 3 + [chaos.trouble] * 2
    steps += [chaos.leave_elsewhere, chaos.pass_time, chaos.die, chaos.calm_down]
    for _ in range(150):
        chaos.dice.choice(steps)()
    chaos.calm_down()
    chaos.finish()
    if chaos.hall.options.durable:
        rows = chaos.hall.history()
        assert len({row.id for row in rows}) == len(rows)
        assert any(row.state == DONE for row in rows)
        assert list(chaos.hall.store.live()) == []
