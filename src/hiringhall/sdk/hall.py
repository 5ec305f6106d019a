"""A hall, as a program sees it: job functions, handles, and the two faces, blocking and asyncio.

Invariant: an operation is written once, as a coroutine that uses `connection()`. The asyncio face has one
connection for each event loop; the blocking face runs the same coroutine on a loop in a thread of its own, or,
for the submit of a single job, begins the same request there. A forked child uses neither of its parent's.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar, Unpack, overload

from hiringhall.dialects.native import wire
from hiringhall.sdk import executor, schedules
from hiringhall.sdk import limits as queue_limits
from hiringhall.sdk.addresses import read_addresses
from hiringhall.sdk.connection import Connection
from hiringhall.sdk.executor import HallExecutor
from hiringhall.sdk.flows import Flow
from hiringhall.sdk.functions import AsyncJobFunction, JobFunction, PlainJobFunction
from hiringhall.sdk.jobs import Job
from hiringhall.sdk.link import dial
from hiringhall.sdk.loop_thread import LoopThread, Reply
from hiringhall.sdk.naming import queue_name, same_name
from hiringhall.sdk.options import CallOptions, JobOptions, Options
from hiringhall.sdk.signatures import Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from hiringhall.sdk.conversation import JobSpec
    from hiringhall.sdk.limits import Limits
    from hiringhall.sdk.link import Dial
    from hiringhall.sdk.options import Seconds
    from hiringhall.sdk.substitute import Substitute
    from hiringhall.sdk.watching import Watch

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_HALLS: Final[weakref.WeakSet[Hall]] = weakref.WeakSet()
_INHERITED: Final[list[object]] = []
"""In a forked child: what belongs to the parent, and must not be finalized here."""


class Hall:
    """A hall at a URL: `hall://HOST:PORT`, `halls://HOST:PORT` for TLS or `hall+unix:///PATH`.

    Without a URL, that of the environment variable HALL_URL, or the hall on this machine. Several URLs are
    separated by commas; the first that answers is used. Nothing is connected before the first use. A token is
    read from the environment variable HALL_TOKEN, unless it is given here; `ca` is the file of the authorities
    that signed the hall's certificate, for TLS: HALL_CA, or those of the system.
    """

    substitute: Substitute | None = None
    """In tests, what takes the place of the hall, of one object or of all: see `hiringhall.testing`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str | None = None,
        token: str | None = None,
        ca: str | None = None,
    ) -> None:
        self.url = url
        """As it was given; None: HALL_URL, or the hall on this machine."""
        self.name = name or f"python {os.getpid()}"
        """How this program is called in the hall's lists."""
        self._token = token
        self._ca = ca
        self.functions: dict[str, JobFunction[..., Any]] = {}
        """The functions with `@hall.job`, by queue: a worker looks here."""
        self.dial: Dial = dial
        """How streams are opened; tests may put another in its place."""
        self._reset()
        _HALLS.add(self)

    def _reset(self) -> None:
        """Begin without connections."""
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._stopper: weakref.finalize[[], Hall] | None = None
        self._connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = (
            weakref.WeakKeyDictionary()
        )
        self._client = secrets.token_hex(6).encode()
        self._counter = itertools.count(1)

    # --- functions

    @overload
    # A coroutine function is a function too.
    def job(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncJobFunction[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def job(self, function: Callable[P, R], /) -> PlainJobFunction[P, R]: ...
    @overload
    def job(self, /, **options: Unpack[JobOptions]) -> _Decorator: ...
    def job(self, function: Callable[..., Any] | None = None, /, **options: Unpack[JobOptions]) -> Any:
        """Make a job function: `@hall.job`, or with options `@hall.job(retries=3)`."""
        decorator = _Decorator(self, options)
        return decorator if function is None else decorator(function)

    @overload
    def function(
        self, name: str, *, returns: type[R], **options: Unpack[CallOptions]
    ) -> JobFunction[..., R]: ...
    @overload
    def function(
        self, name: str, *, raw: bool, **options: Unpack[CallOptions]
    ) -> JobFunction[[bytes], bytes]: ...
    @overload
    def function(self, name: str, **options: Unpack[CallOptions]) -> JobFunction[..., Any]: ...
    def function(
        self, name: str, *, returns: Any = Any, raw: bool = False, **options: Unpack[CallOptions]
    ) -> JobFunction[..., Any]:
        """A function that workers elsewhere have. Arguments and result are JSON; with `raw`, bytes."""
        return JobFunction(
            self,
            name,
            Signature(name, None, returns),
            settings=Options().change(dict(options)),
            codec="raw" if raw else "json",
        )

    def executor(self, **options: Unpack[CallOptions]) -> HallExecutor:
        """A `concurrent.futures.Executor` for importable functions.

        Workers of a module that makes one serve its calls: they run any function that they can import.
        """
        call = self.functions.get(executor.QUEUE)
        if call is None:
            call = self.job(name=executor.QUEUE)(executor.call)
        return HallExecutor(self, call.options(**options))

    # --- schedules

    @overload
    def schedule(
        self,
        name: str,
        cron: str,
        function: JobFunction[..., Any],
        /,
        *args: Any,
        timezone: str = ...,
        replace: bool = ...,
        **kwargs: Any,
    ) -> None: ...
    @overload
    def schedule(
        self,
        name: str,
        function: JobFunction[..., Any],
        /,
        *args: Any,
        every: Seconds,
        replace: bool = ...,
        **kwargs: Any,
    ) -> None: ...
    def schedule(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Have the hall submit a call at set times, also while no program runs.

        `hall.schedule("nightly", "0 3 * * *", report, "all")` or `hall.schedule("ping", ping, every=60)`. A
        schedule with the same name is replaced unless `replace` is False.
        """
        self.run(self.aschedule(name, *args, **kwargs))

    async def aschedule(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """As `schedule`."""
        await self.connection().request(wire.SCHEDULE, schedules.plan(name, args, kwargs))

    def unschedule(self, name: str) -> None:
        """End a schedule; jobs that it has submitted stay."""
        self.run(self.aunschedule(name))

    async def aunschedule(self, name: str) -> None:
        """As `unschedule`."""
        await self.connection().request(wire.UNSCHEDULE, (name.encode(),))

    # --- limits of queues

    def limit(self, queue: str | JobFunction[..., Any], /, **limits: Unpack[Limits]) -> None:
        """Limit what may run and start of a queue, in place of all limits that it has.

        `hall.limit(report, running_max=5)` takes effect at once, survives a restart of the hall, and wins over
        its settings until `unlimit`.
        """
        self.run(self.alimit(queue, **limits))

    async def alimit(self, queue: str | JobFunction[..., Any], /, **limits: Unpack[Limits]) -> None:
        """As `limit`."""
        await self.connection().request(wire.LIMIT, queue_limits.body(queue, limits))

    def unlimit(self, queue: str | JobFunction[..., Any], /) -> None:
        """Go back to the limits of the hall's settings, which may be none."""
        self.run(self.aunlimit(queue))

    async def aunlimit(self, queue: str | JobFunction[..., Any], /) -> None:
        """As `unlimit`."""
        await self.connection().request(wire.UNLIMIT, {"name": queue_limits.name_of(queue)})

    # --- jobs

    @overload
    def job_of(self, job_id: int) -> Job[Any]: ...
    @overload
    def job_of(self, job_id: int, returns: type[R]) -> Job[R]: ...
    def job_of(self, job_id: int, returns: Any = Any) -> Job[Any]:
        """The handle of a job that was submitted elsewhere or earlier, with the type of its result."""
        return Job(self, self.function("", returns=returns), job_id)

    def flow(self, name: str) -> Flow:
        """A flow: jobs that are submitted inside `with hall.flow(name):` belong to it.

        Give each run a name of its own: jobs that are added to a flow that has ended open it again.
        """
        Options(flow=name)  # refuses a name that is not as it must be
        return Flow(self, name)

    def flow_of(self, name: str) -> Flow:
        """The handle of a flow that was submitted elsewhere or earlier."""
        return self.flow(name)

    def gather(self, *jobs: Job[R]) -> list[R]:
        """The results of all jobs. Raises the first failure."""
        return self.run(self.agather(*jobs))

    async def agather(self, *jobs: Job[R]) -> list[R]:
        """As `gather`."""
        waiting = [asyncio.ensure_future(job.aresult()) for job in jobs]
        try:
            return await asyncio.gather(*waiting)
        finally:
            for task in waiting:
                task.cancel()

    def next_key(self) -> bytes:
        """A key for a job without one: it tells a submit that is repeated from a new one."""
        return b"%b-%x" % (self._client, next(self._counter))

    # --- the two faces

    def connection(self) -> Connection:
        """The connection of the event loop that runs here."""
        if self.substitute is not None:
            return self.substitute.connection()
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            with self._lock:
                for other in [other for other in self._connections if other.is_closed()]:
                    del self._connections[other]
                addresses = read_addresses(self.url, self._ca)
                connection = Connection(addresses, name=self.name, dialled=self.dial, token=self._token)
                self._connections[loop] = connection
        return connection

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the SDK for a blocking caller."""
        return self._loop_thread().run(call) if self.substitute is None else self.substitute.run(call)

    def submit_spec(self, job: JobSpec, *, durable: bool, keyed: bool) -> Watch:
        """As `Connection.submit`, for a blocking caller. It needs no task, which would cost the most of it."""

        def begin(reply: Reply[Watch]) -> None:
            self.connection().begin_submit(job, reply, durable=durable, keyed=keyed)

        return self._loop_thread().ask(begin)

    def start(self, call: Coroutine[Any, Any, object]) -> None:
        """The same for a caller that does not wait."""
        if self.substitute is None:
            self._loop_thread().start(call)
        else:
            self.substitute.start(call)

    def _loop_thread(self) -> LoopThread:
        thread = self._thread
        if thread is None:
            with self._lock:
                thread = self._thread
                if thread is None:
                    thread = self._thread = LoopThread("hiringhall")
                    self._stopper = weakref.finalize(self, thread.stop)
        return thread

    def time(self) -> float:
        """Seconds since 1970, as the clock of this program says."""
        return time.time() if self.substitute is None else self.substitute.time()

    def close(self) -> None:
        """Disconnect the blocking face. A later call connects anew."""
        with self._lock:
            thread, self._thread = self._thread, None
            if self._stopper is not None:
                self._stopper.detach()
        if thread is not None:
            thread.stop()

    async def aclose(self) -> None:
        """Disconnect the face of this event loop. It does so by itself when the loop ends."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.close()

    @property
    def unanswered(self) -> int:
        """Requests of all faces that the hall has not answered yet."""
        return sum(connection.unanswered for connection in list(self._connections.values()))

    def _forked(self) -> None:
        """In a forked child: leave the parent's connections alone, and begin anew."""
        if self._stopper is not None:
            self._stopper.detach()
        connections = list(self._connections.values())
        _INHERITED.append((self._thread, self._connections, [each.abandon() for each in connections]))
        self._reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Hall {', '.join(address.url for address in read_addresses(self.url))}>"


class _Decorator:
    """`@hall.job` with its options."""

    def __init__(self, hall: Hall, options: JobOptions) -> None:
        self._hall = hall
        self._options = options

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncJobFunction[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainJobFunction[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        options: dict[str, Any] = dict(self._options)
        queue = options.pop("name", None) or queue_name(function)
        retry_on = options.pop("retry_on", None)
        kind: Any = AsyncJobFunction if asyncio.iscoroutinefunction(function) else PlainJobFunction
        made: JobFunction[..., Any] = kind(
            self._hall,
            queue,
            Signature(queue, function),
            function,
            codec=options.pop("codec", "json"),
            retry_on=(retry_on,) if isinstance(retry_on, type) else retry_on,
            settings=Options().change(options),
        )
        known = self._hall.functions.get(queue)
        if known is not None and not same_name(known.body, function):
            raise ValueError(f"two functions have the name {queue!r}: give one of them another with name=")
        self._hall.functions[queue] = made
        return made


def all_halls() -> list[Hall]:
    """Every `Hall` of this program."""
    return list(_HALLS)


def _forked() -> None:
    for hall in list(_HALLS):
        hall._forked()  # noqa: SLF001 (its own module)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
