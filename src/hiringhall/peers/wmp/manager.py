"""The manager, for asyncio: a `Desk` with a socket and a clock.

It is for programs that have jobs of their own; the hall is a manager too.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.peers.wmp.desk import (
    CANCELLED,
    OK,
    SECOND_US,
    Chunked,
    Desk,
    DeskTerms,
    Ended,
    Post,
    Progressed,
    Ticket,
)
from hiringhall.peers.wmp.errors import JobCancelled, JobFailed, ManagerFull, WmpError
from hiringhall.peers.wmp.links import LinkedPeer, Links, LinkTerms, Pacer, endpoint
from hiringhall.peers.wmp.worker import as_header

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from hiringhall.peers.wmp.desk import Effect, Outcome
    from hiringhall.peers.wmp.security import Curve

UPDATES_MAX: Final = 10_000
"""Updates of one job that are kept until somebody iterates over them; the oldest are forgotten first."""


class Progress(NamedTuple):
    """So much of so much is done."""

    numerator: int
    denominator: int


class Data(NamedTuple):
    """A piece of the result, ahead of the end."""

    data: bytes


Update = Progress | Data


class Submitted:
    """A job that a manager was given. Iterate over it for its updates; `result` waits for its end.

        job = manager.submit("resize", photo)
        async for update in job:
            print(update)
        small = await job.result()

    Updates are kept until somebody iterates, and the iteration ends when the job does.
    """

    def __init__(self, manager: Manager) -> None:
        self.progress = Progress(0, 0)
        """The latest."""
        self._manager = manager
        self._updates: deque[Update] = deque(maxlen=UPDATES_MAX)
        self._news = asyncio.Event()
        self._outcome: bytes | WmpError | None = None
        self._end = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self._end.is_set()

    async def result(self) -> bytes:
        """The bytes of its end; raises JobFailed or JobCancelled."""
        await self._end.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, bytes):
            return self._outcome
        raise self._outcome

    def cancel(self) -> None:
        """No result is wanted any more; nothing happens if it has ended."""
        self._manager.cancel(self)

    async def __aiter__(self) -> AsyncIterator[Update]:
        while True:
            while self._updates:
                yield self._updates.popleft()
            if self._end.is_set():
                return
            self._news.clear()
            await self._news.wait()

    def told(self, update: Update) -> None:
        """There is news of it."""
        if isinstance(update, Progress):
            self.progress = update
        self._updates.append(update)
        self._news.set()

    def finish(self, outcome: bytes | WmpError) -> None:
        """Its end is known."""
        self._outcome = outcome
        self._end.set()
        self._news.set()


class Manager(LinkedPeer):
    """Listens for workers and gives them jobs.

        async with Manager("127.0.0.1:5555", identity="photos") as manager:
            small = await manager.do("resize", photo)

    A worker that has not asked for its job `wake_s` after it was woken is passed over. One that is silent about
    a job for `lease_s` counts as lost, and the job goes to another; after `losses_max` of them it has failed
    (0: never). Jobs live in this process and end with it. `identity` is how workers know this manager again
    after a restart.
    """

    def __init__(
        self,
        address: str,
        *,
        identity: str,
        lease_s: float = 30.0,
        wake_s: float = 0.5,
        losses_max: int = 0,
        jobs_max: int = 1_000_000,
        readys_max: int = 10_000,
        curve: Curve | None = None,
        links: LinkTerms | None = None,
    ) -> None:
        super().__init__()
        endpoint(address)
        terms = DeskTerms(
            wake_us=round(wake_s * SECOND_US),
            lease_us=round(lease_s * SECOND_US),
            losses_max=losses_max,
            jobs_max=jobs_max,
            readys_max=readys_max,
        )
        self.desk = Desk(as_header(identity, "identity"), secrets.token_hex(8).encode(), terms)
        """What waits and who has it; to look at."""
        self.address = address
        """Where it listens; with the port that was chosen, once it does."""
        self._curve = curve
        self._link_terms = links or LinkTerms()
        self._pacer: Pacer | None = None
        self._tickets: dict[Submitted, Ticket] = {}
        self._jobs: dict[Ticket, Submitted] = {}

    async def open(self) -> None:
        """Listen. Raises AddressError when that is not possible."""
        if self._links is not None:
            raise WmpError("a manager is opened once")
        self._links = Links(self._heard, self._link_terms, self._curve)
        self._pacer = Pacer(self._links, self._tick)
        try:
            self.address = self._links.bind(self.address)
        except BaseException:
            await self._links.close()
            raise

    async def close(self) -> None:
        """Tell workers to stop what they do for this manager; jobs that have not ended are cancelled."""
        if self._links is None or self._pacer is None:
            return
        for job in list(self._tickets):
            self.cancel(job)
        self._pacer.clear()
        await self._links.close()

    def submit(self, role: str, payload: bytes, *, key: str = "") -> Submitted:
        """Have a job done by whoever can do `role`; raises ManagerFull."""
        if self._links is None or self._pacer is None:
            raise WmpError("the manager is not open: use `async with`, or await open()")
        if self.desk.full:
            raise ManagerFull("this manager has as many jobs as it may have; wait for some of them")
        now_us = self._pacer.now_us()
        ticket, effects = self.desk.submit(
            as_header(role, "role"), payload, as_header(key, "key", empty=True), now_us
        )
        job = Submitted(self)
        self._tickets[job] = ticket
        self._jobs[ticket] = job
        self._do(effects)
        return job

    async def do(self, role: str, payload: bytes, *, key: str = "") -> bytes:
        """The result of a job; raises JobFailed. Cancelling this cancels the job."""
        job = self.submit(role, payload, key=key)
        try:
            return await job.result()
        finally:
            job.cancel()

    def cancel(self, job: Submitted) -> None:
        """No result is wanted any more; nothing happens if it has ended."""
        ticket = self._tickets.get(job)
        if ticket is not None:
            self._do(self.desk.cancel(ticket))

    # --- between the desk and the world

    def _heard(self, _link: int, frames: list[bytes]) -> None:
        assert self._pacer is not None
        self._do(self.desk.heard(frames, self._pacer.now_us()))

    def _tick(self) -> None:
        assert self._pacer is not None
        self._do(self.desk.tick(self._pacer.now_us()))

    def _do(self, effects: Iterable[Effect]) -> None:
        assert self._links is not None
        assert self._pacer is not None
        to_do = deque(effects)
        while to_do:
            effect = to_do.popleft()
            if isinstance(effect, Post):
                if not self._links.send(0, effect.frames):
                    to_do += self.desk.undelivered(effect, self._pacer.now_us())
            elif isinstance(effect, Progressed):
                self._jobs[effect.ticket].told(Progress(effect.numerator, effect.denominator))
            elif isinstance(effect, Chunked):
                self._jobs[effect.ticket].told(Data(effect.data))
            else:
                self._ended(effect)
        self._pacer.set(self.desk.next_deadline())

    def _ended(self, end: Ended) -> None:
        job = self._jobs.pop(end.ticket)
        del self._tickets[job]
        job.finish(_as_result(end.outcome))


def _as_result(outcome: Outcome) -> bytes | WmpError:
    if outcome.status == OK:
        return outcome.payload
    if outcome.status == CANCELLED:
        return JobCancelled("the job was cancelled")
    return JobFailed(outcome.payload, outcome.code)
