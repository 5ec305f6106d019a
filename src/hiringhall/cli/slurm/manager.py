"""The loop of `hall work --slurm`: look at the hall, ask squeue now and then, call sbatch and scancel.

Invariants: one program of Slurm runs at a time. A worker is drained at the hall before its allocation is ended,
so no job that it just got is interrupted. While the hall does not answer, nothing is submitted or ended.
"""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.cli.reporting import INTERRUPTED
from hiringhall.cli.slurm.programs import TAG_PREFIX, ProgramError
from hiringhall.cli.wording import counted, duration
from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HallRefused, HallUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.cli.slurm.fleet import Allocation, Fleet
    from hiringhall.cli.slurm.order import Order
    from hiringhall.cli.slurm.programs import Slurm
    from hiringhall.sdk.connection import Connection
    from hiringhall.worker.board import Told

LOOK_S: Final = 2.0
"""How often the hall is asked."""
WORKERS_MAX: Final = 100_000
QUEUES_MAX: Final = 100_000


class Seen(NamedTuple):
    """What the hall tells."""

    ready: int
    """Jobs that wait in the queues, unless these are paused."""
    numbers: dict[str, list[int]]
    """The numbers of workers, by the ids of their allocations."""
    jobs: dict[str, int]
    """Their jobs."""


class Manager:
    """One fleet of workers."""

    def __init__(
        self,
        fleet: Fleet,
        order: Order,
        queues: Sequence[bytes],
        connection: Connection,
        slurm: Slurm,
        told: Told,
    ) -> None:
        self._fleet = fleet
        self._order = order
        self._queues = queues
        self._connection = connection
        self._slurm = slurm
        self._told = told
        self._stopped = asyncio.Event()
        self._reachable = True
        self._running: asyncio.Task[None] | None = None

    async def run(self, *, end_all: bool) -> int:
        """Until SIGINT or SIGTERM; the exit code. `end_all`: end the allocations then."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        self._running = loop.create_task(self._repeat())
        try:
            await self._running
        except asyncio.CancelledError:
            self._tell_left()
            return INTERRUPTED
        if end_all:
            await self._end_all()
        self._tell_left()
        return 0

    def _stop(self) -> None:
        """The first signal waits for a program of Slurm that is running; the second does not."""
        if self._stopped.is_set() and self._running is not None:
            self._running.cancel()
        self._stopped.set()

    async def _repeat(self) -> None:
        while not self._stopped.is_set():
            await self._step()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._stopped.wait()
            except TimeoutError:
                pass

    async def _step(self) -> None:
        try:
            seen = await self.look()
            self._tell_reachable()
            await self._act(seen)
        except HallUnreachable as error:
            if self._reachable:
                self._told.event("disconnected", str(error), {})
            self._reachable = False

    def _tell_reachable(self) -> None:
        if not self._reachable:
            self._told.event("connected", "the hall answers again", {})
        self._reachable = True

    async def _act(self, seen: Seen) -> None:
        fleet = self._fleet
        for each in fleet.look(time.monotonic(), seen.ready, seen.jobs):
            self._told.event("came", f"allocation {each.id}: its worker has come", {"allocation": each.id})
        if fleet.squeue_due(time.monotonic()):
            await self._squeue()
        for _ in range(fleet.to_submit(time.monotonic())):
            if self._stopped.is_set() or not await self._sbatch():
                break
        for each in fleet.to_end(time.monotonic()):
            if self._stopped.is_set() or not await self._end(each):
                break

    async def look(self) -> Seen:
        """Ask the hall once. Raises HallUnreachable."""
        ready = sum([await self._ready(name) for name in self._queues])
        numbers: dict[str, list[int]] = {}
        jobs: dict[str, int] = {}
        ids = {self._order.called(each.id): each.id for each in self._fleet.allocations.values() if each.id}
        for start in range(0, WORKERS_MAX, wire.LIST_MAX):
            found = await self._connection.request(wire.WORKERS, (start, wire.LIST_MAX))
            for each in found:
                if (number := ids.get(each["name"])) is not None:
                    numbers.setdefault(number, []).append(each["number"])
                    jobs[number] = jobs.get(number, 0) + len(each["jobs"])
            if len(found) < wire.LIST_MAX:
                break
        return Seen(ready, numbers, jobs)

    async def _ready(self, name: bytes) -> int:
        """Jobs that are ready in a queue; 0 while it is paused."""
        for start in range(0, QUEUES_MAX, wire.LIST_MAX):
            # Queues whose names contain this one.
            found = await self._connection.request(wire.QUEUES, (start, wire.LIST_MAX, name))
            for each in found:
                if each["name"] == name:
                    return 0 if each["paused"] else int(each["ready"])
            if len(found) < wire.LIST_MAX:
                break
        return 0

    # --- Slurm

    async def _squeue(self) -> None:
        asked_s = time.monotonic()
        try:
            lines = await self._slurm.squeue(self._order.name)
        except ProgramError as error:
            self._tell_failure("squeue", error, self._fleet.squeue_failed(time.monotonic()))
            return
        adopted, gone = self._fleet.listed(asked_s, lines)
        for each in adopted:
            self._told.event("found", f"allocation {each.id} is there already", {"allocation": each.id})
        for each, in_vain in gone:
            fields = {"allocation": each.id}
            if not each.id:
                self._told.event("refused", "Slurm does not have the job of the last sbatch", fields)
            elif in_vain:
                text = f"allocation {each.id} ended before its worker came to the hall: look at its output"
                self._told.event("broken", text, fields)
            else:
                self._told.event("ended", f"allocation {each.id} has ended", fields)

    async def _sbatch(self) -> bool:
        """Submit one worker. False: it failed, and a pause was made."""
        tag = f"{TAG_PREFIX}{uuid.uuid4().hex}"
        self._fleet.submitting(tag, time.monotonic())
        try:
            number = await self._slurm.sbatch(self._order.options(tag), self._order.script)
        except ProgramError as error:
            self._tell_failure("sbatch", error, self._fleet.submit_failed(tag, time.monotonic()))
            return False
        self._fleet.submitted(tag, time.monotonic(), number)
        of = f"{len(self._fleet.active)} of {self._fleet.wanted} wanted"
        self._told.event("submitted", f"allocation {number} is submitted, {of}", {"allocation": number})
        return True

    async def _end(self, each: Allocation) -> bool:
        """End an allocation, unless its worker has a job by now. False: scancel failed."""
        numbers = (await self.look()).numbers.get(each.id, [])
        await self._change_workers(wire.DRAIN, numbers)
        if (await self.look()).jobs.get(each.id):
            await self._change_workers(wire.UNDRAIN, numbers)
            return True
        if await self._scancel([each], "it was idle" if each.came else "it is not needed"):
            return True
        await self._change_workers(wire.UNDRAIN, numbers)
        return False

    async def _scancel(self, chosen: list[Allocation], why: str) -> bool:
        ids = [each.id for each in chosen]
        for each in chosen:
            self._fleet.cancelled(each)
        try:
            await self._slurm.scancel(ids)
        except ProgramError as error:
            for each in chosen:
                self._fleet.cancel_failed(each, time.monotonic())
            self._tell_failure("scancel", error, self._fleet.bounds.idle_s)
            return False
        for number in ids:
            self._told.event("ending", f"allocation {number} is ended: {why}", {"allocation": number})
        return True

    async def _change_workers(self, kind: str, numbers: list[int]) -> None:
        for number in numbers:
            with suppress(HallRefused):  # the worker has left
                await self._connection.request(kind, (number,))

    # --- the end

    async def _end_all(self) -> None:
        left = [each for each in self._fleet.active if each.id]
        if left:
            await self._scancel(left, "this command was stopped")

    def _tell_left(self) -> None:
        ids = [each.id for each in self._fleet.active if each.id]
        unsure = len(self._fleet.active) - len(ids)
        text = f"{counted(len(ids), 'allocation')} left running"
        if ids:
            text += f"; to end them: scancel {' '.join(ids)}"
        if unsure:
            text += f"; for {counted(unsure, 'sbatch')} nobody knows: see squeue --name {self._order.name}"
        self._told.event("stopped", text, {"allocations": ids, "unsure": unsure})

    def _tell_failure(self, program: str, error: ProgramError, pause_s: float) -> None:
        text = f"{error}; again in {duration(pause_s * 1e6)}"
        self._told.event("failed", text, {"program": program, "reason": str(error), "again_s": pause_s})
