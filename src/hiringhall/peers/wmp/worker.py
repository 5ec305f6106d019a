"""The worker, for asyncio: a `WorkerState` with sockets, a clock and handlers."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Self

from hiringhall.dialects.wmp import wire
from hiringhall.peers.failures import describe, log_failure
from hiringhall.peers.results import as_result
from hiringhall.peers.wmp.errors import JobDeclined, JobFailed
from hiringhall.peers.wmp.links import Links, LinkTerms, Timer, endpoint
from hiringhall.peers.wmp.worker_state import SECOND_US, Order, Send, Start, WorkerState, WorkerTerms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from hiringhall.peers.wmp.security import Curve
    from hiringhall.peers.wmp.worker_state import Effect

log: Final = logging.getLogger("hiringhall.wmp")

_ROOM_S: Final = 5.0
"""How long the messages of a job wait for a manager that does not read, before they are dropped."""


class Job:
    """A job to do, as a handler gets it."""

    __slots__ = ("_order", "_worker")

    def __init__(self, worker: Worker, order: Order) -> None:
        self._worker = worker
        self._order = order

    @property
    def payload(self) -> bytes:
        return self._order.payload

    @property
    def role(self) -> str:
        return self._order.role.decode(errors="surrogateescape")

    @property
    def key(self) -> bytes:
        """The key given by its submitter; may be empty."""
        return self._order.key

    @property
    def resources(self) -> str:
        """What it may use of the resources of the worker, such as `cpus=2 gpus=1[0]`; empty: it needs none."""
        return self._order.resources.decode(errors="surrogateescape")

    @property
    def id(self) -> bytes:
        """Its id at its manager."""
        return self._order.job

    @property
    def manager(self) -> bytes:
        """The identity of its manager."""
        return self._order.manager

    @property
    def via(self) -> tuple[bytes, ...]:
        """The managers that it has passed before its own, in order."""
        return tuple(self._order.via)

    async def progress(self, numerator: int, denominator: int) -> None:
        """Report how much is done: numerator of denominator."""
        if numerator < 0 or denominator < 0:
            raise ValueError(f"progress must not be negative: {numerator}/{denominator}")
        await self._worker.tell_progress(self._order, numerator, denominator)

    async def send(self, data: bytes) -> None:
        """Send a part of the result before the end."""
        await self._worker.tell_data(self._order, data)


Handler = Callable[[Job], Awaitable[bytes | None]]
"""Gets a job, returns the bytes of its result. Raising JobFailed fails the job with its reason and code,
JobDeclined gives it back for another worker, any other exception fails it with the exception's text. It is
cancelled when its manager cancels the job."""


class Worker:
    """Does jobs for any number of managers until it is stopped.

        async def resize(job: Job) -> bytes:
            await job.progress(1, 2)
            return await shrink(job.payload)

        worker = Worker(["127.0.0.1:5555", "127.0.0.1:5556"], {"resize": resize}, slots=4)
        await worker.run()

    A job takes `costs[role]` of the `slots`; the default is 1. Slots are reserved for a manager that was asked
    for a job for at most `lock_timeout_s`. READY is repeated after `ready_first_s`, with a pause that doubles
    up to `ready_max_s`, while nothing is received. A running job sends a heartbeat every `beat_s`, or as often
    as its lease requires. A manager that is not up is connected to when it comes.

    `skills` has its skill in some of its roles, and `time_left_s` says how long it stays from its start. A
    manager that knows the needs of its jobs gives it only jobs that it can do and finish. See `stay`.
    `resources` is what it has for jobs that need some of it: `cpus=8 gpus=2 mem=32G`.

    `via` is the identity of a manager that has these jobs done by its own workers. Then `room` returns how many
    more jobs of a role those could take now; call `look_for_room` when that changes.

    `identity` is a socket name that stays over reconnects. No two workers may use the same.
    """

    def __init__(
        self,
        managers: Sequence[str],
        handlers: Mapping[str, Handler],
        *,
        slots: int = 1,
        costs: Mapping[str, int] | None = None,
        name: str = "",
        lock_timeout_s: float = 5.0,
        ready_first_s: float = 0.5,
        ready_max_s: float = 10.0,
        beat_s: float = 10.0,
        skills: Mapping[str, int] | None = None,
        time_left_s: float | None = None,
        resources: str = "",
        identity: bytes | None = None,
        curve: Curve | None = None,
        links: LinkTerms | None = None,
        via: str = "",
        room: Callable[[bytes], int] | None = None,
    ) -> None:
        if not managers or not handlers:
            raise ValueError("a worker needs at least one manager and one handler")
        for manager in managers:
            endpoint(manager)
        unknown = sorted(set(costs or ()) - set(handlers))
        if unknown:
            raise ValueError(f"costs are given for roles without a handler: {', '.join(unknown)}")
        for role, skill in (skills or {}).items():
            if role not in handlers or not 0 <= skill <= wire.SKILL_MAX:
                raise ValueError(f"the skill of {role} needs a handler and a value from 0 to {wire.SKILL_MAX}")
        if time_left_s is not None and time_left_s < 0:
            raise ValueError("the time left must not be negative")
        if slots < 1 or min(lock_timeout_s, ready_first_s, beat_s) <= 0 or ready_max_s < ready_first_s:
            raise ValueError("slots and times must be more than 0, and ready_max_s at least ready_first_s")
        self._handlers = {as_header(role, "role"): handler for role, handler in handlers.items()}
        terms = WorkerTerms(
            capacity=slots,
            name=as_header(name, "name", empty=True),
            lock_us=_us(lock_timeout_s),
            ready_first_us=_us(ready_first_s),
            ready_max_us=_us(ready_max_s),
            beat_us=_us(beat_s),
            skills=tuple((as_header(role, "role"), skill) for role, skill in (skills or {}).items()),
            resources=as_header(resources, "resources", empty=True),
            via=as_header(via, "via", empty=True),
        )
        costs_by_role = {as_header(role, "role"): (costs or {}).get(role, 1) for role in handlers}
        self.state = WorkerState(len(managers), costs_by_role, terms, room)
        """Its locks and jobs; read-only."""
        self._left_us = _us(time_left_s) if time_left_s is not None else None
        self._managers = list(managers)
        self._identity = identity
        self._curve = curve
        self._link_terms = links or LinkTerms()
        self._links: Links | None = None
        self._timer: Timer | None = None
        self._tasks: dict[Order, asyncio.Task[bytes | JobFailed | JobDeclined]] = {}
        self._stop = asyncio.Event()
        self._idle = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def refused(self) -> int:
        """Number of messages that could not be sent to a manager."""
        return self._links.refused if self._links is not None else 0

    async def run(self) -> None:
        """Work until `stop`, then finish the running jobs.

        Cancelling it cancels the handlers, and their jobs are given back.
        """
        async with Links(self._received, self._link_terms, self._curve) as self._links:
            self._timer = Timer(self._links, self._tick)
            try:
                for number, manager in enumerate(self._managers):
                    self._links.connect(manager, number, self._identity)
                if self._left_us is not None:
                    self.state.until_us = self._timer.now_us() + self._left_us
                self._do(self.state.start(self._timer.now_us()))
                await self._links.until(self._stopped())
            finally:
                await self._give_all_back()
                self._timer.clear()

    def stay(self, seconds: float | None) -> None:
        """Set how much time is left from now on, None for no limit, and tell all managers at once."""
        if seconds is not None and seconds < 0:
            raise ValueError("the time left must not be negative")
        self._left_us = _us(seconds) if seconds is not None else None
        if self._timer is not None:
            self._do(self.state.stay(self._left_us, self._now_us()))

    def look_for_room(self) -> None:
        """There may be more `room`: tell the managers."""
        if self._timer is not None:
            self._do(self.state.look_for_room(self._now_us()))

    def stop(self) -> None:
        """Take no more jobs; `run` returns when the running ones are done."""
        self._stop.set()

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the running jobs; after an exception, cancel them instead."""
        assert self._running is not None
        if error is None:
            self.stop()
            await self._running
        else:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _stopped(self) -> None:
        await self._stop.wait()
        self._do(self.state.leave())
        while self._tasks:
            self._idle.clear()
            await self._idle.wait()

    async def _give_all_back(self) -> None:
        # A job that is given back must not come again, and one may have been on its way.
        self._do(self.state.leave())
        while self._tasks:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.wait(self._tasks.values())

    # --- sockets, clock and handlers

    def _received(self, link: int, frames: list[bytes]) -> None:
        self._do(self.state.received(link, frames, self._now_us()))

    def _tick(self) -> None:
        self._do(self.state.tick(self._now_us()))

    def _now_us(self) -> int:
        assert self._timer is not None
        return self._timer.now_us()

    def _do(self, effects: Iterable[Effect]) -> None:
        assert self._links is not None
        assert self._timer is not None
        for effect in effects:
            if isinstance(effect, Send):
                self._links.send(effect.link, effect.frames)
            elif isinstance(effect, Start):
                task = asyncio.create_task(self._work(effect.order))
                self._tasks[effect.order] = task
                task.add_done_callback(functools.partial(self._over, effect.order))
            else:
                self._tasks[effect.order].cancel()
        self._timer.set(self.state.next_deadline())

    async def tell_progress(self, order: Order, numerator: int, denominator: int) -> None:
        """For a job's handler."""
        await self._room(order)
        self._do(self.state.progress(order, numerator, denominator, self._now_us()))

    async def tell_data(self, order: Order, data: bytes) -> None:
        """For a job's handler."""
        await self._room(order)
        self._do(self.state.send_data(order, data, self._now_us()))

    async def _room(self, order: Order) -> None:
        assert self._links is not None
        await self._links.room(order.route[0], _ROOM_S)

    async def _work(self, order: Order) -> bytes | JobFailed | JobDeclined:
        """Run the handler."""
        try:
            result = as_result(await self._handlers[order.role](Job(self, order)))
        except (JobFailed, JobDeclined) as failure:
            return failure
        except Exception as error:  # noqa: BLE001 (a handler may raise anything, and its manager gets it)
            log_failure(log, f"{order.job.decode(errors='replace')}: {order.role!r}", error)
            return JobFailed(describe(error))
        await self._room(order)
        return result

    def _over(self, order: Order, task: asyncio.Task[bytes | JobFailed | JobDeclined]) -> None:
        """Report the end of a handler. A cancelled task may not even have started."""
        assert self._links is not None
        del self._tasks[order]
        with self._links.watched():
            now_us = self._now_us()
            if task.cancelled():
                # By CANCEL, which needs no answer, or because the worker ends.
                self._do(self.state.give_back(order, now_us))
            elif isinstance(end := task.result(), JobDeclined):
                self._do(self.state.give_back(order, now_us))
            elif isinstance(end, JobFailed):
                self._do(self.state.fail(order, end.reason, end.code, now_us))
            else:
                self._do(self.state.finish(order, end, now_us))
        self._idle.set()


def as_header(text: str, what: str, *, empty: bool = False) -> bytes:
    """A name as the value of a header."""
    name = text.encode(errors="surrogateescape")
    if b"\n" in name or (not name and not empty):
        raise ValueError(f"a {what} must have at least one character and no line end: {text!r}")
    return name


def _us(seconds: float) -> int:
    return round(seconds * SECOND_US)
