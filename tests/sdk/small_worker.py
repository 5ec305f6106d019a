"""A small worker in a thread: runs the functions of a `Hall`, over the connection of the SDK."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self

from hiringhall.dialects.native import wire
from hiringhall.sdk.codec import BadArguments, argument_parents, decode_arguments, encode_result
from hiringhall.sdk.connection import Connection
from hiringhall.sdk.context import CurrentJob, running
from hiringhall.sdk.conversation import Assigned
from hiringhall.sdk.failures import encode_failure

if TYPE_CHECKING:
    from types import TracebackType

    from hiringhall.sdk.functions import JobFunction
    from hiringhall.sdk.hall import Hall


class SmallWorker:
    """Runs until the block ends. Functions run on its loop, so they must be quick."""

    def __init__(self, hall: Hall, url: str, slots: int = 100) -> None:
        self._functions = hall.functions
        self._connection = Connection(url, name="small worker", patience_s=None)
        self._slots = slots
        self.ran: list[int] = []
        """Ids of the jobs that were run, each attempt."""
        self._loop = asyncio.new_event_loop()
        self._working = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._working.wait(20)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._work())
        finally:
            self._loop.close()

    async def _work(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connection.on_connected.append(self._offer)
        self._connection.on_frame[Assigned] = self._assigned
        await self._connection.connect()
        self._working.set()
        await self._stop.wait()
        for task in self._tasks:
            task.cancel()
        await self._connection.close()

    def _offer(self) -> None:
        queues = [(queue.encode(), 0, 0) for queue in self._functions]
        self._connection.send(wire.WORK, (b"small worker", self._slots, queues, -1, 0))

    def _assigned(self, assigned: Assigned) -> None:
        task = self._loop.create_task(self._run_job(assigned))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_job(self, assigned: Assigned) -> None:
        function = self._functions[assigned.queue.decode()]
        self.ran.append(assigned.job_id)
        job = CurrentJob(
            (
                assigned.lease,
                assigned.job_id,
                assigned.queue,
                assigned.payload,
                assigned.key,
                assigned.attempt,
                assigned.run_us,
            ),
            _Sink(self._connection),
        )
        try:
            results = {
                parent: (await self._connection.request(wire.JOB, (parent,)))["result"]
                for parent in argument_parents(function, assigned.payload)
            }
            with running(job):
                result = await _call(function, assigned.payload, results)
            self._connection.send(wire.FINISH, (assigned.lease, encode_result(function, result)))
        except Exception as error:  # noqa: BLE001
            retry = function.retry_on is None or isinstance(error, function.retry_on)
            code = 2 if isinstance(error, BadArguments) else 1
            body = (assigned.lease, code, encode_failure(error), retry and code == 1)
            self._connection.send(wire.FAIL, body)


async def _call(function: JobFunction[..., Any], payload: bytes, results: dict[int, bytes]) -> Any:
    args, kwargs = decode_arguments(function, payload, results)
    assert function.body is not None
    result = function.body(*args, **kwargs)
    return await result if function.is_async else result


class _Sink:
    """Sends what a job reports."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def say(self, lease: int, frame: bytes) -> None:
        kind, _, body = wire.decode_frame(frame[wire.HEADER_BYTES :])
        self._connection.send(kind, body)
