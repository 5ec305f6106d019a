"""A flow, as a program sees it: jobs that belong together under one name, and what becomes of them as a whole.

Invariant: within `with hall.flow(name):` every job that is submitted to that hall belongs to the flow, in this
thread and in the tasks that it starts, unless its own options name another.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias

from hiringhall.dialects.native import wire
from hiringhall.sdk.options import in_seconds, microseconds

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextvars import Token
    from types import TracebackType

    from hiringhall.sdk.hall import Hall
    from hiringhall.sdk.options import Seconds

FlowState: TypeAlias = Literal["running", "stuck", "done", "failed", "cancelled"]
"""stuck: some jobs are live, and all of them wait for jobs that failed or never came."""

_CURRENT: Final[ContextVar[Flow | None]] = ContextVar("flow", default=None)


class Retried(NamedTuple):
    """What `retry` did."""

    retried: int
    refused: int
    """Failed jobs that cannot run again, such as those whose parent was cancelled."""


@dataclass(frozen=True)
class FlowInfo:
    """A flow as the hall describes it."""

    name: str
    state: FlowState
    created: dt.datetime
    ended: dt.datetime | None
    """None: some of its jobs are live."""
    jobs: int
    """All that it has had."""
    held: int
    delayed: int
    ready: int
    running: int
    done: int
    failed: int
    cancelled: int


class Flow:
    """Made by `hall.flow(name)`."""

    def __init__(self, hall: Hall, name: str) -> None:
        self._hall = hall
        self._name = name.encode()
        self.name = name
        self._entered: list[Token[Flow | None]] = []

    # --- what it is doing

    def state(self) -> FlowState:
        """running, stuck, done, failed or cancelled. Raises HallRefused if the hall has no such flow."""
        return self._hall.run(self.astate())

    async def astate(self) -> FlowState:
        """As `state`."""
        return (await self.ainfo()).state

    def info(self) -> FlowInfo:
        """How many of its jobs are in which state. Raises HallRefused if the hall has no such flow."""
        return self._hall.run(self.ainfo())

    async def ainfo(self) -> FlowInfo:
        """As `info`."""
        return _read(await self._hall.connection().request(wire.FLOW, (self._name,)))

    def wait(self, timeout: Seconds | None = None) -> FlowState:
        """Wait until none of its jobs is live: done, failed or cancelled. Raises TimeoutError."""
        return self._hall.run(self.await_end(timeout))

    async def await_end(self, timeout: Seconds | None = None) -> FlowState:  # noqa: ASYNC109 (as `wait`)
        """As `wait`."""
        if timeout is None:
            return (await self._until_ended(None)).state
        limit_s = in_seconds("timeout", timeout)
        try:
            async with self._hall.connection().limit(limit_s):
                info = await self._until_ended(microseconds("timeout", timeout))
        except TimeoutError:
            info = None
        if info is None or info.ended is None:
            raise TimeoutError(f"flow {self.name!r} has not ended within {limit_s:g} s")
        return info.state

    def __await__(self) -> Generator[Any, Any, FlowState]:
        return self.await_end().__await__()

    async def _until_ended(self, timeout_us: int | None) -> FlowInfo:
        connection = self._hall.connection()
        answer = asyncio.ensure_future(connection.request(wire.WAIT_FLOW, (self._name, timeout_us)))
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: object) -> None:
            if not waiter.done():
                waiter.set_result(None)

        answer.add_done_callback(wake)
        try:
            await connection.wait(waiter)
            return _read(await answer)
        finally:
            answer.cancel()

    # --- what can be done to it

    def cancel(self, reason: str = "") -> int:
        """Cancel all its live jobs; how many there were."""
        return self._hall.run(self.acancel(reason))

    async def acancel(self, reason: str = "") -> int:
        """As `cancel`."""
        count: int = await self._hall.connection().request(wire.CANCEL_FLOW, (self._name, reason.encode()))
        return count

    def retry(self) -> Retried:
        """Have every failed job run again. Those that failed with a parent wait for it again."""
        return self._hall.run(self.aretry())

    async def aretry(self) -> Retried:
        """As `retry`."""
        return Retried(*await self._hall.connection().request(wire.RETRY_FLOW, (self._name,)))

    # --- jobs that belong to it

    def __enter__(self) -> Self:
        self._entered.append(_CURRENT.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CURRENT.reset(self._entered.pop())

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<Flow {self.name!r}>"


def current_flow(hall: Hall) -> str | None:
    """The flow to which jobs of this hall belong here; None: none."""
    flow = _CURRENT.get()
    return flow.name if flow is not None and flow._hall is hall else None  # noqa: SLF001 (its own module)


def _read(described: dict[str, Any]) -> FlowInfo:
    ended_us = described["ended_us"]
    return FlowInfo(
        name=described["name"].decode(errors="replace"),
        created=_moment(described["created_us"]),
        ended=_moment(ended_us) if ended_us else None,
        **{
            name: described[name]
            for name in FlowInfo.__dataclass_fields__
            if name not in {"name", "created", "ended"}
        },
    )


def _moment(time_us: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(time_us / 1e6, dt.UTC)
