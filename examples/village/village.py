"""One village and its hall: villagers look for work at one door, workplaces hand in their needs at another."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from chronicle import Chronicle, Task
from villager import Villager
from world import FIRST_H, HOUR_S

from hiringhall.peers.gearman import AsyncClient
from hiringhall.peers.hire import POLICIES, Provider

if TYPE_CHECKING:
    from world import Clock, Need, Workplace, World

AHEAD_H: Final = {"least_waiting": 1.5}
"""How long before it is due a job is announced, under each policy; others announce what is due."""
KNOWN_H: Final = 6.0
"""How long before it is due a workplace knows that it needs somebody, whatever the policy."""
WINDOW_H: Final = 0.05
BUFFER_H: Final = 1.0
"""How late a worker may be."""
GRACE_H: Final = 12.0
"""What was due by the end of the run may still be done within this time."""
HEARTBEAT_H: Final = 0.1


class Doors(NamedTuple):
    gearman: str
    hire: str


def ahead_h(policy: str) -> float:
    return AHEAD_H.get(policy, 0.0)


class Village:
    def __init__(self, world: World, clock: Clock, policy: str, doors: Doors) -> None:
        self.world = world
        self.clock = clock
        self.policy = policy
        self.ahead_h = ahead_h(policy)
        self.book = Chronicle(clock)
        self.villagers = [Villager(person, world, self.book, f"tcp://{doors.hire}") for person in world.people]
        self._doors = doors
        self._numbers = count(1)

    async def live(self) -> None:
        """From the first hour to the last, and on until the work is done."""
        async with AsyncExitStack() as stack:
            for villager in self.villagers:
                await stack.enter_async_context(villager.worker)
            client = await stack.enter_async_context(AsyncClient(self._doors.gearman))
            asking = [asyncio.create_task(self._hand_in(client))]
            for place in self.world.workplaces:
                if place.announces:
                    provider = await stack.enter_async_context(self._provider())
                    asking.append(asyncio.create_task(self._announce(place, provider)))
            try:
                await self.clock.until(FIRST_H)
                await self._beat(asking)
            finally:
                for task in asking:
                    task.cancel()
        for villager in self.villagers:
            villager.stop()

    def state_of(self, place: Workplace) -> str:
        """Whether somebody is wanted there, or at work; else nothing."""
        now_h = self.clock.now_h()
        states = [task.state(now_h) for task in self.book.tasks.values() if task.place is place]
        return next((state for state in ("wanted", "in work") if state in states), "")

    async def _beat(self, asking: list[asyncio.Task[None]]) -> None:
        """Hearts beat: bodies get hungry while others ask for their work."""
        while self.clock.now_h() < self.world.last_h + GRACE_H:
            await self.clock.pass_h(HEARTBEAT_H)
            for villager in self.villagers:
                villager.feel()
            for task in asking:
                if task.done():
                    task.result()
            if self.clock.now_h() >= self.world.last_h and self._all_done():
                return

    def _all_done(self) -> bool:
        return all(task.done_h is not None for task in self.book.tasks.values())

    def _needs(self, *, announced: bool) -> list[Need]:
        return [need for need in self.world.needs if need.workplace.announces == announced]

    async def _hand_in(self, client: AsyncClient) -> None:
        """Most workplaces hand their jobs in at the Gearman door, as soon as they know of them."""
        for need in self._needs(announced=False):
            await self.clock.until(max(need.due_h - KNOWN_H, FIRST_H))
            receipt = await client.submit_at(
                need.workplace.craft, need.workplace.name.encode(), epoch_s=self.clock.epoch_s(need.due_h)
            )
            number = receipt.handle.rpartition(b":")[2].decode()
            self.book.tasks[number] = Task(need.workplace, need.due_h)

    async def _announce(self, place: Workplace, provider: Provider) -> None:
        """Some announce what they need themselves; the hall is their switchboard."""
        async with asyncio.TaskGroup() as jobs:
            for need in self._needs(announced=True):
                if need.workplace is not place:
                    continue
                await self.clock.until(max(need.due_h - KNOWN_H, FIRST_H))
                job = f"{place.name}-{next(self._numbers)}"
                self.book.tasks[job] = Task(place, need.due_h)
                jobs.create_task(self._employ(provider, place, job, self.clock.loop_s(need.due_h)))

    async def _employ(self, provider: Provider, place: Workplace, job: str, due_s: float) -> None:
        await provider.employ(place.craft, place.takes_h * HOUR_S, due_s=due_s, job=job)

    def _provider(self) -> Provider:
        return Provider(
            f"tcp://{self._doors.hire}",
            policy=POLICIES[self.policy],
            window_s=WINDOW_H * HOUR_S,
            buffer_s=BUFFER_H * HOUR_S,
            ahead_s=self.ahead_h * HOUR_S,
            pause_s=0.25 * HOUR_S,
            pause_max_s=0.5 * HOUR_S,
        )
