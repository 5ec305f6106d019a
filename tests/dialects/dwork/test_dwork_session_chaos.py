"""Everything at once at the dwork door: clients, workers of another dialect that fail, a store that fails, a
hall that dies. No law of the hall is broken, each request is answered once, and what is left can be done.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from dwork_said import Said, SaidTask
from dwork_session_room import EXIT, Room

from hiringhall.core.limits import SECOND_US
from hiringhall.core.peer import Peer
from hiringhall.core.states import DONE
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkOptions

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
        self.room = Room(options)
        self.asked = 0
        self.heard = 0
        self.come_in()

    def come_in(self) -> None:
        """Everybody is new: the hall has just opened."""
        self.asked = self.heard = 0
        self.guests = [self.room.guest() for _ in range(3)]
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
            worker = self.room.hall.residents.find(self.room.door.queue, location)
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
        room = self.room
        room.begin()
        worker = room.hall.worker(self.stranger)
        room.hall.can_do(worker, room.door.queue)
        live = [lease for lease in self.leases if lease.job.lease is lease]
        if live and self.dice.random() < 0.6:
            lease = self.dice.choice(live)
            end = self.dice.randrange(3)
            if end == 0:
                room.hall.finish(lease, b"")
            elif end == 1:
                room.hall.fail(lease)
            else:
                room.hall.release(lease)
        else:
            taken = room.hall.take(worker)
            if taken is not None:
                self.leases.append(taken)
        room.end()

    def leave_elsewhere(self) -> None:
        self.room.begin()
        self.room.hall.leave(self.stranger)
        self.room.end()

    def trouble(self) -> None:
        """The store is slow from now on, or answers, or fails."""
        room = self.room
        if not room.held:
            room.held = True
        elif not room.desk.batches:
            room.held = False
        elif self.dice.random() < 0.5:
            room.commit()
        else:
            room.fail()

    def pass_time(self) -> None:
        self.room.wait(self.dice.choice((1000, 20_000, 10 * SECOND_US)))

    def die(self) -> None:
        self.listen()
        self.room.die()
        self.come_in()

    def listen(self) -> None:
        self.heard += sum(len(guest.hears()) for guest in self.guests)
        assert self.heard <= self.asked

    def calm_down(self) -> None:
        """The store works, and everybody has been answered."""
        room = self.room
        room.held = False
        while room.desk.batches:
            room.commit()
        room.recover()
        room.wait(SECOND_US)
        self.listen()
        assert self.heard == self.asked

    def finish(self) -> None:
        """Every name comes, everybody but one goes home, and that one does what is left."""
        room = self.room
        room.begin()
        room.hall.leave(self.stranger)
        room.end()
        guest = room.guest()
        for location in LOCATIONS:
            guest.leaves_as(location)
        for _ in range(len(NAMES)):
            for name in NAMES:
                guest.creates(name)
            room.wait(3600 * SECOND_US)
            while stolen := guest.steals(b"w0", 99):
                unknown = guest.completes(b"w0", *stolen).tasks
                assert unknown == ()
            if guest.asks(Said(wire.STEAL, location=b"w0")) == EXIT:
                return
        raise AssertionError(f"these wait for ever: {room.snapshot()}")


@pytest.mark.parametrize("seed", range(60))
def test_no_law_is_broken_whatever_happens(seed: int) -> None:
    chaos = Chaos(seed)
    steps = [chaos.ask] * 12 + [chaos.work_elsewhere] * 3 + [chaos.trouble] * 2
    steps += [chaos.leave_elsewhere, chaos.pass_time, chaos.die, chaos.calm_down]
    for _ in range(150):
        chaos.dice.choice(steps)()
    chaos.calm_down()
    chaos.finish()
    if chaos.room.options.durable:
        rows = chaos.room.history()
        assert len({row.id for row in rows}) == len(rows)
        assert any(row.state == DONE for row in rows)
        assert list(chaos.room.store.live()) == []
