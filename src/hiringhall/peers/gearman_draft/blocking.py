"""The blocking face: the same client, worker and result log for plain code. Safe to use from any thread.

    from hiringhall.peers.gearman_draft.blocking import Client, ResultLog, Worker

The law: it has no protocol of its own; every call is a call of the asyncio one, on a loop in a thread.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from hiringhall.peers.gearman_draft import client, resultlog, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from types import TracebackType

    from hiringhall.peers.gearman_draft.errors import ServerError
    from hiringhall.peers.gearman_draft.jobs import Job
    from hiringhall.peers.gearman_draft.worker import Function


class _Closable(Protocol):
    async def close(self) -> None: ...


Args = ParamSpec("Args")
Answer = TypeVar("Answer")
Asynchronous = TypeVar("Asynchronous", bound=_Closable)


class _Face(Generic[Asynchronous]):
    """Something asynchronous, with an event loop in a thread of its own."""

    def __init__(self, asynchronous: Asynchronous, timeout_s: float | None) -> None:
        self.asynchronous = asynchronous
        self.timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gearman-draft", daemon=True)
        self._thread.start()

    def wait_for(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer of any call of the asynchronous one; raises TimeoutError after `timeout_s`."""
        answer = asyncio.run_coroutine_threadsafe(_within(call, self.timeout_s), self._loop)
        try:
            return answer.result()
        finally:
            # Nobody waits for it after a KeyboardInterrupt.
            answer.cancel()

    def close(self) -> None:
        """Leave all servers."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _leave(self) -> None:
        await self.asynchronous.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _within(call: Coroutine[Any, Any, Answer], timeout_s: float | None) -> Answer:
    async with asyncio.timeout(timeout_s):
        return await call


def _blocking(
    method: Callable[Concatenate[Asynchronous, Args], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[_Face[Asynchronous], Args], Answer]:
    """The same method, same arguments, same words of explanation; it waits."""

    def call(face: _Face[Asynchronous], /, *args: Args.args, **kwargs: Args.kwargs) -> Answer:
        return face.wait_for(method(face.asynchronous, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class Client(_Face[client.Client]):
    """Submits jobs and asks about them; see the asyncio Client, whose methods these are.

    >>> with Client(server, timeout_s=30) as client:
    ...     client.run("reverse", b"hello", priority="high")
    b'olleh'

    `timeout_s` bounds each call; a call over it raises TimeoutError. What listens to a status is called in a
    thread of the client's.
    """

    def __init__(
        self, servers: str | Sequence[str], *, connect_timeout_s: float = 5.0, timeout_s: float | None = None
    ) -> None:
        super().__init__(client.Client(servers, connect_timeout_s=connect_timeout_s), timeout_s)

    run = _blocking(client.Client.run)
    submit = _blocking(client.Client.submit)
    throw_away = _blocking(client.Client.throw_away)
    status = _blocking(client.Client.status)
    result = _blocking(client.Client.result)
    wait = _blocking(client.Client.wait)
    lost = _blocking(client.Client.lost)
    resubmit = _blocking(client.Client.resubmit)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that are remembered, the oldest first."""
        return self.asynchronous.jobs

    def remember(self, job: Job) -> None:
        """Remember a job from an earlier life of the application."""
        self._loop.call_soon_threadsafe(self.asynchronous.remember, job)

    def forget(self, job: Job) -> None:
        self._loop.call_soon_threadsafe(self.asynchronous.forget, job)


class ResultLog(_Face[resultlog.ResultLog]):
    """Tells a hall of tasks that ran elsewhere; see the asyncio ResultLog.

    >>> with ResultLog(server) as log:
    ...     start = log.register_start_task(("backup", "2026-11-16"))
    ...     end = log.register_task_result(("backup", "2026-11-16"), result=b"81 GB")
    >>> start == end
    True
    """

    def __init__(self, server: str, *, connect_timeout_s: float = 5.0, timeout_s: float | None = None) -> None:
        super().__init__(resultlog.ResultLog(server, connect_timeout_s=connect_timeout_s), timeout_s)

    register_start_task = _blocking(resultlog.ResultLog.register_start_task)
    register_task_result = _blocking(resultlog.ResultLog.register_task_result)


class Worker:
    """Does tasks until it is stopped; see the asyncio Worker for what its arguments mean.

    >>> worker = Worker(server)
    >>> worker.can_do("shout", lambda task: task.args.upper())
    >>> with worker, Client(server) as client:
    ...     client.run("shout", b"hello")
    b'HELLO'

    `run` does it in the calling thread, `with` in a thread beside. For a process that ends well on SIGTERM:

        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.run()
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        sleep_s: float = 30.0,
        answer_s: float = 10.0,
        connect_timeout_s: float = 5.0,
        retry_max_s: float = 10.0,
        on_error: Callable[[ServerError], None] | None = None,
    ) -> None:
        self.asynchronous = worker.Worker(
            servers,
            sleep_s=sleep_s,
            answer_s=answer_s,
            connect_timeout_s=connect_timeout_s,
            retry_max_s=retry_max_s,
            on_error=on_error,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        """Set while it works."""
        self._stop_asked = False
        self._thread: threading.Thread | None = None

    def can_do(self, name: str | bytes, function: Function) -> None:
        """Be able to do a task, from now on."""
        self._tell(functools.partial(self.asynchronous.can_do, name, function))

    def cant_do(self, name: str | bytes) -> None:
        """Take no more tasks of a name."""
        self._tell(functools.partial(self.asynchronous.cant_do, name))

    def function(self, name: str | bytes) -> Callable[[Function], Function]:
        """Be able to do the decorated function."""

        def decorate(function: Function) -> Function:
            self.can_do(name, function)
            return function

        return decorate

    def run(self) -> None:
        """Work until `stop` is called, from another thread or a signal handler."""
        asyncio.run(self._run())

    def stop(self) -> None:
        """Ask for no more tasks; `run` returns when the one under way is done."""
        self._stop_asked = True
        self._tell(self.asynchronous.stop)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run, name="gearman-draft-worker", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self._thread is not None
        self._thread.join()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stop_asked:
            self.asynchronous.stop()
        try:
            await self.asynchronous.run()
        finally:
            self._loop = None

    def _tell(self, call: Callable[[], None]) -> None:
        """Have something done on the loop, or at once when there is none."""
        loop = self._loop
        if loop is None:
            call()
        else:
            loop.call_soon_threadsafe(call)
