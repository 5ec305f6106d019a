"""The handle of a job: its state, its result, and what can be done to it.

Invariant: a handle belongs to no event loop and no thread: it may be made by `asubmit` and asked by `result`.
The end of its job, once heard of, is kept in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hiringhall.dialects.native import wire
from hiringhall.sdk import codec
from hiringhall.sdk.failures import decode_failure, not_kept
from hiringhall.sdk.hooks import Handle
from hiringhall.sdk.information import JobInfo, Progress, State, read_info
from hiringhall.sdk.options import Seconds, in_seconds
from hiringhall.sdk.output import Line, Output

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator

    from hiringhall.sdk.conversation import Ended
    from hiringhall.sdk.hall import Hall
    from hiringhall.sdk.watching import Watch

R = TypeVar("R")


class Job(Handle, Generic[R]):
    """A job in the hall. Forms that begin with `a` are for asyncio; `await job` is `await job.aresult()`."""

    __slots__ = ("__weakref__", "_function", "_hall", "_watch")

    def __init__(self, hall: Hall, function: codec.Function, job_id: int, watch: Watch | None = None) -> None:
        self.id = job_id
        self._hall = hall
        self._function = function
        """Says how to read the result."""
        self._watch = watch
        """How its end was heard of, or will be; None: nobody has asked."""

    @property
    def codec(self) -> str:
        """How its result is encoded; `raw`: not known."""
        return self._function.codec if self._function.queue else "raw"

    def argument(self) -> R:
        """The handle, with the type of its result for type checkers: `g.submit(f.submit(1).argument())`."""
        return self  # type: ignore[return-value]

    # --- result

    def result(self, timeout: Seconds | None = None) -> R:
        """Wait for the result. Raises JobFailed, JobTimeout, JobCancelled; TimeoutError after `timeout`."""
        if self._watch is not None and self._watch.end is not None:
            return self._read(self._watch.end)
        return self._hall.run(self.aresult(timeout))

    async def aresult(self, timeout: Seconds | None = None) -> R:  # noqa: ASYNC109 (as `result`)
        """As `result`."""
        watch = self._watch
        if watch is None or watch.end is None:
            if timeout is None:
                watch = await self._until_ended()
            else:
                limit_s = in_seconds("timeout", timeout)
                try:
                    async with self._hall.connection().limit(limit_s):
                        watch = await self._until_ended()
                except TimeoutError:
                    raise TimeoutError(f"job {self.id} has not ended within {limit_s:g} s") from None
        assert watch.end is not None
        return self._read(watch.end)

    def __await__(self) -> Generator[Any, Any, R]:
        return self.aresult().__await__()

    async def _until_ended(self) -> Watch:
        connection = self._hall.connection()
        watch = self._watch
        if watch is None or watch.owner is not connection:
            watch = self._watch = await connection.watch(self.id)
        while watch.end is None:
            if watch.error is not None:
                self._watch = None
                raise watch.error
            await connection.heard(watch)
        return watch

    def _read(self, end: Ended) -> R:
        if end.state != "done":
            raise decode_failure(self.id, self._function.queue, end.code, end.result)
        if end.truncated:
            raise not_kept(self.id)
        result: R = codec.decode_result(self._function, end.result)
        return result

    # --- what is known of it

    def state(self) -> State:
        """held, delayed, queued, leased (with a worker), done, failed or cancelled."""
        return self._hall.run(self.astate())

    async def astate(self) -> State:
        """As `state`."""
        return (await self.ainfo()).state

    def progress(self) -> Progress | None:
        """How far it is; None: it has not said."""
        return self._hall.run(self.aprogress())

    async def aprogress(self) -> Progress | None:
        """As `progress`."""
        return (await self.ainfo()).progress

    def info(self) -> JobInfo:
        """All that the hall knows of it, while it lives and from the history afterwards."""
        return self._hall.run(self.ainfo())

    async def ainfo(self) -> JobInfo:
        """As `info`."""
        return read_info(await self._hall.connection().request(wire.JOB, (self.id,)))

    # --- what it says

    def chunks(self) -> Iterator[bytes]:
        """The data that the job has sent so far, and then what it sends, until it ends."""
        chunks = self.achunks()
        try:
            while (chunk := self._hall.run(_next(chunks))) is not None:
                yield chunk
        finally:
            self._hall.run(chunks.aclose())

    async def achunks(self) -> AsyncGenerator[bytes, None]:
        """As `chunks`."""
        async for lines in Output(self._hall, self.id).follow():
            for line in lines:
                if line.kind == "data":
                    yield line.data

    def log(self) -> list[Line]:
        """The log lines and warnings of the job so far."""
        return self._hall.run(self.alog())

    async def alog(self) -> list[Line]:
        """As `log`."""
        return [line for line in await Output(self._hall, self.id).read() if line.kind != "data"]

    # --- what can be done to it

    def cancel(self, reason: str = "") -> None:
        """Cancel it; a worker that runs it is told to stop. Raises HallRefused if it has ended."""
        self._hall.run(self.acancel(reason))

    async def acancel(self, reason: str = "") -> None:
        """As `cancel`."""
        await self._hall.connection().request(wire.CANCEL, (self.id, reason.encode()))

    def retry(self) -> None:
        """Have a job that has failed run again. Raises HallRefused if it has not, or is not kept in memory."""
        self._hall.run(self.aretry())

    async def aretry(self) -> None:
        """As `retry`."""
        await self._hall.connection().request(wire.RETRY, (self.id,))
        self._watch = None

    def __repr__(self) -> str:
        watch = self._watch
        state = f" {watch.end.state}" if watch is not None and watch.end is not None else ""
        return f"<Job {self.id} of {self._function.queue or 'any queue'}{state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id and other._hall is self._hall

    def __hash__(self) -> int:
        return hash(self.id)


async def _next(chunks: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(chunks, None)
