"""Agents that bid for the work of a village: `python agents.py ADDRESS`."""

from __future__ import annotations

import asyncio
import sys

from hiringhall.peers.hire import Worker

SKILLS = (40, 65, 90)


async def main(address: str) -> None:
    async with asyncio.TaskGroup() as group:
        for number, skill in enumerate(SKILLS, start=1):
            group.create_task(live(Worker(address, {"village.bake": skill}, travel_s=number * 0.4)))


async def live(worker: Worker) -> None:
    async with worker:
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
