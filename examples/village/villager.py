"""A villager: a body that gets hungry and tired, somewhere on the map, and a `Worker` of the hire protocol.

The worker knows what it is hired for, the body what it can bear. Where they disagree, the villager quits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import UUID

from path import EATING, GOING, LEISURE, SLEEPING, SOLDIERING, WAITING, WORKING, Path
from world import HEIGHT, HOUR_S, Spot

from hiringhall.peers.hire import Job, Stage, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from chronicle import Chronicle
    from world import Levy, Person, World

MEAL_H: Final = 0.5
NIGHT_H: Final = 7.0
DOZE_H: Final = 1.0
"""At the end of the night a villager can be talked to: it bids, and says when it will be up."""
BEARABLE_H: Final = 3.0
"""How long hunger or sleep can wait for the work at hand."""
MINUTES_H: Final = 0.2
PATIENCE_H: Final = 5.0
"""How long a villager stands at a workplace before it leaves."""
MUSTER: Final = Spot(1, HEIGHT - 2)
"""Where the king's men wait."""


class Villager:
    def __init__(self, person: Person, world: World, book: Chronicle, hall: str) -> None:
        self.person = person
        self.path = Path(person.home, book.clock)
        self.worker = Worker(
            hall, person.skills, travel_s=self._way_s, tell=self._hear, patience_s=PATIENCE_H * HOUR_S
        )
        self._world = world
        self._book = book
        self._clock = book.clock
        self._out_for: Job | None = None
        """The job that it is on its way to, or at."""
        self._arrived_h = 0.0
        self._hungry_h = person.hungry_h
        self._tired_h = person.bed_h
        self._levies = [levy for levy in world.levies if levy.name == person.name]
        self._errand: asyncio.Task[None] | None = None
        """What the body does now, work aside."""

    # --- its work

    def _way_s(self, craft: str) -> float:
        """The way to a workplace, from where it will be when it is free."""
        start = self.path.here()
        if self.worker.present is not None:
            start = self._world.place_of(self.worker.present.type).spot
        elif self._errand is not None:
            start = self.path.end
        return start.way_h(self._world.place_of(craft).spot) * HOUR_S

    def _hear(self, job: Job) -> None:
        """The worker has come a step further with a job."""
        place = self._world.place_of(job.type)
        if job.stage is Stage.HIRED:
            self._book.tell("hired", f"{self.person.name} is hired by the {place.name}")
        elif job.stage is Stage.GOING:
            self._out_for = job
            self.path.go(place.spot, GOING)
        elif job.stage is Stage.WAITING:
            self._arrived_h = self._clock.now_h()
            self.path.stay(WAITING)
        elif job.stage is Stage.PERFORMING:
            now_h = self._clock.now_h()
            self.path.stay(WORKING)
            self._book.stood_h += now_h - self._arrived_h
            self._book.tasks[job_name(job)].begun(now_h, self.person.skills[job.type])
        else:
            self._end(job, place.name)

    def _end(self, job: Job, place: str) -> None:
        """A job is over, at whatever stage it was."""
        now_h = self._clock.now_h()
        if job.begun:
            task = self._book.tasks[job_name(job)]
            if job.stage is Stage.DISMISSED:
                task.done(now_h)
                self._book.tell("done", f"{self.person.name} is done at the {place}")
            else:
                task.left(now_h)
        elif job.stage is Stage.DISMISSED:
            self._book.tell("dismissed", f"the {place} waits for {self.person.name} no more")
        if job is self._out_for:
            self._out_for = None
            self.path.go(self.person.home, LEISURE)

    def quit(self, why: str) -> None:
        """Drop everything."""
        for job in (self.worker.next, self.worker.present):
            if job is not None:
                place = self._world.place_of(job.type).name
                self._book.tell("quit", f"{self.person.name} {why} and quits the {place}")
        self.worker.quit()

    def stop(self) -> None:
        """The story ends here."""
        if self._errand is not None:
            self._errand.cancel()
        self.path.close()

    # --- its body

    def feel(self) -> None:
        """See to what the body wants. Called many times an hour."""
        now_h = self._clock.now_h()
        if self._nearly_done():
            return
        if self._levies and now_h >= self._levies[0].at_h:
            self._conscript(self._levies.pop(0))
        elif self._errand is not None:
            return
        elif now_h >= self._tired_h:
            self._see_to(self._sleep, self._tired_h, "falls asleep")
        elif now_h >= self._hungry_h:
            self._see_to(self._eat, self._hungry_h, "is hungry")

    def _nearly_done(self) -> bool:
        """Nobody, not even the king's men, spoils the last minutes: a QUIT would cross with the DISMISS."""
        present = self.worker.present
        return present is not None and present.ends_s < self._clock.loop_s(self._clock.now_h() + MINUTES_H)

    def _see_to(self, errand: Callable[[], Coroutine[None, None, None]], since_h: float, why: str) -> None:
        """After the work it has promised; but there is an end to what a body can bear."""
        self.worker.willing = False
        if self.worker.present is not None or self.worker.next is not None:
            if self._clock.now_h() < since_h + BEARABLE_H:
                return
            self.quit(why)
        self._begin(errand())

    def _conscript(self, levy: Levy) -> None:
        self._book.tell("conscripted", f"{self.person.name} is conscripted")
        self.worker.willing = False
        self.quit("has to go")
        if self._errand is not None:
            self._errand.cancel()
        self._begin(self._serve_the_king(levy))

    def _begin(self, errand: Coroutine[None, None, None]) -> None:
        self._errand = asyncio.create_task(errand)

    async def _eat(self) -> None:
        inn = self._world.place_of("serve").spot
        table = min((self.person.home, inn), key=self.path.here().way_h)
        there_h = self.path.go(table, LEISURE)
        self._bid_from(there_h + MEAL_H)
        await self._clock.until(there_h)
        self.path.stay(EATING)
        await self._clock.until(there_h + MEAL_H)
        self._get_up()

    async def _sleep(self) -> None:
        there_h = self.path.go(self.person.home, LEISURE)
        await self._clock.until(there_h)
        self.path.stay(SLEEPING)
        await self._clock.until(there_h + NIGHT_H - DOZE_H)
        self._bid_from(there_h + NIGHT_H)
        await self._clock.until(there_h + NIGHT_H)
        self._tired_h += 24
        self._get_up()

    async def _serve_the_king(self, levy: Levy) -> None:
        await self._clock.until(self.path.go(MUSTER, SOLDIERING) + levy.lasts_h)
        self._tired_h = max(self._tired_h, self._clock.now_h() + 1)
        self._get_up()

    def _bid_from(self, hour: float) -> None:
        """It can be hired from now on, for after this hour."""
        self.worker.busy_until_s = self._clock.loop_s(hour)
        self.worker.willing = True

    def _get_up(self) -> None:
        """Fed, and free to go."""
        self._hungry_h = self._clock.now_h() + self.person.appetite_h
        self._errand = None
        self.worker.willing = True
        if self._out_for is None:
            self.path.go(self.person.home, LEISURE)


def job_name(job: Job) -> str:
    """The hall's jobs have UUIDs that end with their number; a workplace's own jobs are as it calls them."""
    try:
        return str(int.from_bytes(UUID(job.id).bytes[8:], "big"))
    except ValueError:
        return job.id
