"""The manager, for asyncio: a `ManagerState` with a socket and a clock.

It is for programs with their own jobs; the hall is a manager too.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.peers.updates import JobUpdates
from hiringhall.peers.wmp.errors import JobCancelled, JobFailed, ManagerFull, WmpError
from hiringhall.peers.wmp.links import LinkedPeer, Links, LinkTerms, Timer, endpoint
from hiringhall.peers.wmp.manager_state import (
    CANCELLED,
    OK,
    SECOND_US,
    Chunked,
    Ended,
    ManagerState,
    ManagerTerms,
    Post,
    Progressed,
    Ticket,
)
from hiringhall.peers.wmp.worker import as_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.peers.wmp.manager_state import Effect, Outcome
    from hiringhall.peers.wmp.security import Curve

UPDATES_MAX: Final = 10_000
"""Updates of one job that are kept until they are iterated over; the oldest are dropped first."""


class Progress(NamedTuple):
    """How much is done: numerator of denominator."""

    numerator: int
    denominator: int


class Data(NamedTuple):
    """A part of the result, sent before the end."""

    data: bytes


Update = Progress | Data


class Submitted(JobUpdates[Update, WmpError]):
    """A job that was submitted to a manager. Iterate over it for its updates; `result` waits for its end.

        job = manager.submit("resize", photo)
        async for update in job:
            print(update)
        small = await job.result()

    Updates are kept until they are iterated over; the iteration ends with the job. `result` raises JobFailed or
    JobCancelled.
    """

    def __init__(self, manager: Manager) -> None:
        super().__init__(UPDATES_MAX)
        self.progress = Progress(0, 0)
        """The latest progress."""
        self._manager = manager

    def cancel(self) -> None:
        """Cancel the job; ignored if it has ended."""
        self._manager.cancel(self)

    def add_update(self, update: Update) -> None:
        if isinstance(update, Progress):
            self.progress = update
        super().add_update(update)


class Manager(LinkedPeer):
    """Listens for workers and gives them jobs.

        async with Manager("127.0.0.1:5555", identity="photos") as manager:
            small = await manager.do("resize", photo)

    A worker that does not ask for its job within `wake_s` after it was woken is skipped. One that does not
    report on a job for `lease_s` counts as lost, and the job goes to another; the job fails after `losses_max`
    of them (0: never). Jobs exist only in this process. Workers recognise this manager by its `identity` after
    a restart.
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
        terms = ManagerTerms(
            wake_us=round(wake_s * SECOND_US),
            lease_us=round(lease_s * SECOND_US),
            losses_max=losses_max,
            jobs_max=jobs_max,
            readys_max=readys_max,
        )
        self.state = ManagerState(as_header(identity, "identity"), secrets.token_hex(8).encode(), terms)
        """The jobs and workers; read-only."""
        self.address = address
        """Its listening address; after `open`, with the actual port."""
        self._curve = curve
        self._link_terms = links or LinkTerms()
        self._timer: Timer | None = None
        self._tickets: dict[Submitted, Ticket] = {}
        self._jobs: dict[Ticket, Submitted] = {}

    async def open(self) -> None:
        """Listen. Raises AddressError if the address cannot be used."""
        if self._links is not None:
            raise WmpError("the manager is already open")
        self._links = Links(self._received, self._link_terms, self._curve)
        self._timer = Timer(self._links, self._tick)
        try:
            self.address = self._links.bind(self.address)
        except BaseException:
            await self._links.close()
            raise

    async def close(self) -> None:
        """Cancel all unfinished jobs, tell their workers, and close."""
        if self._links is None or self._timer is None:
            return
        for job in list(self._tickets):
            self.cancel(job)
        self._timer.clear()
        await self._links.close()

    def submit(self, role: str, payload: bytes, *, key: str = "") -> Submitted:
        """Submit a job for a worker of `role`. Raises ManagerFull."""
        if self._links is None or self._timer is None:
            raise WmpError("the manager is not open: use `async with`, or await open()")
        if self.state.full:
            raise ManagerFull("the manager has jobs_max unfinished jobs; wait for some of them to end")
        now_us = self._timer.now_us()
        ticket, effects = self.state.submit(
            as_header(role, "role"), payload, as_header(key, "key", empty=True), now_us
        )
        job = Submitted(self)
        self._tickets[job] = ticket
        self._jobs[ticket] = job
        self._do(effects)
        return job

    async def do(self, role: str, payload: bytes, *, key: str = "") -> bytes:
        """Submit a job, wait, and return its result. Raises JobFailed. Cancelling this call cancels the job."""
        job = self.submit(role, payload, key=key)
        try:
            return await job.result()
        finally:
            job.cancel()

    def cancel(self, job: Submitted) -> None:
        """Cancel a job; ignored if it has ended."""
        ticket = self._tickets.get(job)
        if ticket is not None:
            self._do(self.state.cancel(ticket))

    # --- the socket and the clock

    def _received(self, _link: int, frames: list[bytes]) -> None:
        assert self._timer is not None
        self._do(self.state.received(frames, self._timer.now_us()))

    def _tick(self) -> None:
        assert self._timer is not None
        self._do(self.state.tick(self._timer.now_us()))

    def _do(self, effects: Iterable[Effect]) -> None:
        assert self._links is not None
        assert self._timer is not None
        to_do = deque(effects)
        while to_do:
            effect = to_do.popleft()
            if isinstance(effect, Post):
                if not self._links.send(0, effect.frames):
                    to_do += self.state.undelivered(effect, self._timer.now_us())
            elif isinstance(effect, Progressed):
                self._jobs[effect.ticket].add_update(Progress(effect.numerator, effect.denominator))
            elif isinstance(effect, Chunked):
                self._jobs[effect.ticket].add_update(Data(effect.data))
            else:
                self._ended(effect)
        self._timer.set(self.state.next_deadline())

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
