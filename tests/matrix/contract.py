"""What a submitter and a worker of any dialect can be asked to do.

A method that a dialect has no message for raises `Unsupported`. What a dialect does not show stays None or
empty, so that an aspect sees what a user of that dialect would see.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from .house import House

PATIENCE_S: Final = 30.0
"""Nothing takes as long on a busy machine, unless it never happens."""
ASK_S: Final = 0.1
"""Between two questions, in a dialect whose peers ask again and again."""


class Unsupported(Exception):
    """The dialect has no message for this."""


class Refused(Exception):
    """The hall has refused the job, and its submitter was told."""


class End(NamedTuple):
    """The end of a job, as its submitter's dialect shows it."""

    state: str
    """"done", "failed" or "cancelled"; "ended": it does not say which; empty: it does not say that either."""
    data: bytes | None = None
    """The result, or the text of the failure."""
    code: int | None = None


class Submitted:
    """A job that was handed in."""

    asks = False
    """Progress and data are not sent to the submitter: it asks for them."""

    def __init__(self) -> None:
        self.progress: list[tuple[int, int]] = []
        self.chunks = b""
        """Data that came before the end."""

    async def look(self) -> None:
        """Ask for progress and data, in a dialect in which they are asked for."""

    async def end(self) -> End:
        """Wait until this dialect shows that the job has ended. Raises Refused."""
        raise NotImplementedError

    async def cancel(self) -> None:
        raise Unsupported


class Submitter:
    """Hands in jobs of one queue."""

    keeps_jobs = False
    """Its jobs stay with it until a worker is found: the hall does not refuse them."""
    waits_for_room = False
    """The hall takes its jobs only while it knows a worker that could start them."""
    announces_again = False
    """It looks for another worker if one has failed."""

    def __init__(self, house: House, queue: str) -> None:
        self.house = house
        self.queue = queue

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        """Raises Refused, here or from `Submitted.end`."""
        raise NotImplementedError

    async def submit_with_need(self, payload: bytes, skill: int) -> Submitted:
        """Hand in a job that states the skill that it needs."""
        raise Unsupported

    async def submit_with_resources(self, payload: bytes, resources: str) -> Submitted:
        """Hand in a job that states the resources that it needs, such as `saws=2`."""
        raise Unsupported

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave, in good order or not: the jobs are the hall's concern."""


class Task(NamedTuple):
    """A job, as its worker is given it."""

    payload: bytes | None
    key: bytes | None
    own: object
    """The dialect's own name or object for it."""
    resources: str = ""
    """What it may use of the resources of the worker."""


class Worker:
    """Does jobs of one queue, one at a time."""

    states_skill = False
    """Its dialect lets a worker say how good it is."""
    ends_with_time = False
    """Its job is done when the time of the job is over: it cannot say when."""
    known_by_bid = False
    """The hall learns what it can do from its first bid."""

    def __init__(self, house: House, queue: str, *, skill: int = 0, doomed: bool = False) -> None:
        """`doomed`: it takes a job and dies."""
        self.house = house
        self.queue = queue
        self.skill = skill
        self.doomed = doomed
        self.name = f"{queue}-{house.number()}"
        self.arrived: asyncio.Queue[Task] = asyncio.Queue()

    async def take(self) -> Task:
        """The next job."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.arrived.get()

    async def progress(self, task: Task, numerator: int, denominator: int) -> None:
        raise Unsupported

    async def chunk(self, task: Task, data: bytes) -> None:
        raise Unsupported

    async def finish(self, task: Task, result: bytes) -> None:
        raise NotImplementedError

    async def fail(self, task: Task, code: int, text: bytes) -> None:
        raise Unsupported

    async def told_to_stop(self, task: Task) -> None:
        """Wait until the hall says that the job is not wanted any more."""
        raise Unsupported

    async def told_at_report(self, task: Task) -> bool:
        """Report on a job that is not wanted any more: whether the hall says so."""
        raise Unsupported

    async def die(self) -> None:
        """Be gone without a word."""
        raise NotImplementedError

    async def rate(self, skill: int) -> None:
        """Say how good it is from now on."""
        raise Unsupported

    async def equip(self, resources: str) -> None:
        """Say what resources it has from now on."""
        raise Unsupported

    async def __aenter__(self) -> Self:
        """Come, and be ready for a job."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave, whatever it has."""


class HandlerWorker(Worker):
    """A worker whose library calls a handler for each job: the handler waits until it is told what to do."""

    def __init__(self, house: House, queue: str, *, skill: int = 0, doomed: bool = False) -> None:
        super().__init__(house, queue, skill=skill, doomed=doomed)
        self._outcomes: dict[int, asyncio.Future[bytes]] = {}
        self._running: asyncio.Task[None] | None = None

    async def handle(self, payload: bytes | None, key: bytes | None, own: object, resources: str = "") -> bytes:
        outcome: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._outcomes[id(own)] = outcome
        self.arrived.put_nowait(Task(payload, key, own, resources))
        return await outcome

    def outcome(self, task: Task) -> asyncio.Future[bytes]:
        return self._outcomes[id(task.own)]

    async def finish(self, task: Task, result: bytes) -> None:
        self.outcome(task).set_result(result)

    def run(self, work: Coroutine[None, None, None]) -> None:
        self._running = asyncio.create_task(work)

    async def die(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            self._running = None

    async def __aexit__(self, *_: object) -> None:
        await self.die()


async def until(holds: Callable[[], Awaitable[object]], what: str) -> None:
    """Ask again and again until the answer is yes."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await holds():  # noqa: ASYNC110 (what is waited for happens in another process)
                await asyncio.sleep(ASK_S)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S} s: {what}") from None


async def stop(task: asyncio.Task[object] | asyncio.Task[None] | None) -> None:
    """End a task of the test's own."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
