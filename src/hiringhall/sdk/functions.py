"""A job function: a function that can be called here, or submitted as a job.

Invariant: its name is its queue, and nothing but its name, arguments and terms goes to the hall.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from hiringhall.sdk import codec
from hiringhall.sdk.flows import current_flow
from hiringhall.sdk.jobs import Job
from hiringhall.sdk.mapping import WINDOW, Mapping, each, each_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator

    from hiringhall.sdk.conversation import JobSpec
    from hiringhall.sdk.hall import Hall
    from hiringhall.sdk.options import CallOptions, Options
    from hiringhall.sdk.signatures import Signature

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
A = TypeVar("A")


class JobFunction(Generic[P, R]):
    """What `hall.function` returns, and the base of what `@hall.job` makes of a function."""

    def __init__(
        self,
        hall: Hall,
        queue: str,
        signature: Signature,
        body: Callable[..., Any] | None = None,
        *,
        settings: Options,
        codec: codec.CodecName = "json",
        retry_on: tuple[type[BaseException], ...] | None = None,
    ) -> None:
        self.hall = hall
        self.queue = queue
        self.signature = signature
        self.body = body
        """The Python function; None: only workers elsewhere have it."""
        self.settings = settings
        """The options of its jobs."""
        self.codec = codec
        self.retry_on = retry_on
        """Exceptions after which a worker lets a job be retried; None: all."""
        self.is_async = body is not None and inspect.iscoroutinefunction(body)
        self._queue_bytes = queue.encode()
        if body is not None:
            functools.update_wrapper(self, body)  # type: ignore[arg-type]

    def __set_name__(self, owner: type, name: str) -> None:
        # In a class: what takes self would get no object, neither here nor from a worker.
        if inspect.isfunction(self.body) and self.body.__qualname__ == f"{owner.__qualname__}.{name}":
            first = next(iter(inspect.signature(self.body).parameters), "")
            if first in ("self", "cls"):
                raise TypeError(
                    f"{self.body.__qualname__} is a method, and a job has no object to call it on: "
                    "put @hall.job above a function, or above a @staticmethod"
                )

    def options(self, **changes: Unpack[CallOptions]) -> Self:
        """The same function whose jobs have other options."""
        changed = object.__new__(type(self))
        changed.__dict__.update(self.__dict__)
        changed.settings = self.settings.change(dict(changes))
        return changed

    # --- one job

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Submit a job. When this returns, a durable one is on disk."""
        hall = self.hall
        if hall.substitute is not None:
            return hall.run(self.asubmit(*args, **kwargs))
        settings = self.settings
        job = self.spec(args, kwargs)
        watch = hall.submit_spec(job, durable=settings.durable, keyed=settings.key is not None)
        return Job(hall, self, watch.job_id, watch)

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """As `submit`."""
        settings = self.settings
        watch = await self.hall.connection().submit(
            self.spec(args, kwargs), durable=settings.durable, keyed=settings.key is not None
        )
        return Job(self.hall, self, watch.job_id, watch)

    def spec(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JobSpec:
        """The job of a call as it is submitted. Raises TypeError for a wrong call."""
        settings = self.settings
        if settings.key is None and (settings.debounce or settings.throttle):
            word = "debounce" if settings.debounce else "throttle"
            raise ValueError(f"{self.queue}: a job with {word} must have a key: .options(key=...).submit(...)")
        payload, parents = codec.encode_arguments(self, args, kwargs)
        if settings.after:
            parents = list(dict.fromkeys((*parents, *settings.after)))
        key = settings.key.encode() if settings.key is not None else self.hall.next_key()
        delay_us = settings.delay_us(self.hall.time) if settings.is_delayed else 0
        flow = settings.flow if settings.flow is not None else current_flow(self.hall)
        terms = settings.terms if flow is None else settings.terms_in(flow)
        return self._queue_bytes, payload, terms, key, delay_us, parents

    # --- many jobs

    def submit_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Job[R]]:
        """Submit a job for each tuple of positional arguments; they share frames and a commit."""
        return self.hall.run(self.asubmit_many(calls))

    async def asubmit_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Job[R]]:
        """As `submit_many`."""
        settings = self.settings
        watches = await self.hall.connection().submit_all(
            [self.spec(tuple(args), {}) for args in calls],
            durable=settings.durable,
            keyed=settings.key is not None,
        )
        return [Job(self.hall, self, watch.job_id, watch) for watch in watches]

    def map(
        self: JobFunction[Concatenate[A, Q], R],
        iterable: Iterable[A],
        *,
        progress: bool = False,
        ordered: bool = True,
        window: int = WINDOW,
    ) -> Iterator[R]:
        """The results of a job for each item, in order or as they come.

        At most `window` jobs are under way, so the iterable may be endless. `progress` shows a bar on stderr.
        """
        calls = ((item,) for item in iterable)
        return each(Mapping(self, calls, _length(iterable), ordered=ordered, window=window), progress=progress)

    def starmap(
        self,
        iterable: Iterable[tuple[Any, ...]],
        *,
        progress: bool = False,
        ordered: bool = True,
        window: int = WINDOW,
    ) -> Iterator[R]:
        """As `map`, with a tuple of positional arguments for each job."""
        calls = (tuple(args) for args in iterable)
        return each(Mapping(self, calls, _length(iterable), ordered=ordered, window=window), progress=progress)

    def amap(
        self: JobFunction[Concatenate[A, Q], R],
        iterable: Iterable[A],
        *,
        progress: bool = False,
        ordered: bool = True,
        window: int = WINDOW,
    ) -> AsyncIterator[R]:
        """As `map`."""
        calls = ((item,) for item in iterable)
        return each_async(
            Mapping(self, calls, _length(iterable), ordered=ordered, window=window), progress=progress
        )

    def astarmap(
        self,
        iterable: Iterable[tuple[Any, ...]],
        *,
        progress: bool = False,
        ordered: bool = True,
        window: int = WINDOW,
    ) -> AsyncIterator[R]:
        """As `starmap`."""
        calls = (tuple(args) for args in iterable)
        return each_async(
            Mapping(self, calls, _length(iterable), ordered=ordered, window=window), progress=progress
        )

    def __repr__(self) -> str:
        return f"<job function {self.queue}>"


class PlainJobFunction(JobFunction[P, R]):
    """A function with `@hall.job`: calling it runs it here."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        assert self.body is not None
        result: R = self.body(*args, **kwargs)
        return result


class AsyncJobFunction(JobFunction[P, R]):
    """A coroutine function with `@hall.job`: calling it gives a coroutine that runs it here."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        assert self.body is not None
        result: Coroutine[Any, Any, R] = self.body(*args, **kwargs)
        return result


def _length(iterable: Iterable[Any]) -> int | None:
    try:
        return len(iterable)  # type: ignore[arg-type]
    except TypeError:
        return None
