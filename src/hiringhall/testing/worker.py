"""The worker of a stage: takes a job when it is told to, and runs it in the caller's thread or event loop.

Invariant: the hall sees a worker as any other: codec, codes of failures, retries and revokes are those of
`hall work`. A job that was taken is reported once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.dialects.session import Link
from hiringhall.sdk import conversation as said
from hiringhall.sdk.codec import BadArguments, BadResult, argument_parents, decode_arguments, encode_result
from hiringhall.sdk.context import CurrentJob, running
from hiringhall.sdk.errors import HallError, HallRefused
from hiringhall.sdk.failures import Failure, encode_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hiringhall.sdk.context import Sink
    from hiringhall.sdk.functions import JobFunction
    from hiringhall.testing.memory_hall import MemoryHall

NAME: Final = b"stage"
SKILL: Final = 1_000_000
"""Enough for every job."""
EXCEPTION, BAD_ARGUMENTS, BAD_RESULT, SYSTEM_EXIT = 1, 2, 3, 4
"""Codes of failures, as `hall work` gives them."""

Functions = dict[str, "JobFunction[..., Any]"]


class _Ask(said.Request):
    """A request whose answer is there when the hall has received it."""

    __slots__ = ("answer", "error")

    def __init__(self, kind: str, body: Any) -> None:
        super().__init__(kind, body)
        self.answer: Any = None
        self.error: HallError | None = None


@dataclass(eq=False)
class Taken:
    """A job that this worker has."""

    assigned: said.Assigned
    function: JobFunction[..., Any]
    job: CurrentJob | None = None
    """As the function sees it, from its call on."""
    revoked: bool = False
    thread: int = field(default_factory=threading.get_ident)
    """The thread that runs it."""
    cancel: Callable[[], object] | None = None
    """Stops it, if it can be stopped."""


class StageCurrentJob(CurrentJob):
    """What `current_job()` gives in a stage: its time is that of the stage."""

    __slots__ = ("_clock", "_until_s")

    def __init__(self, assigned: said.Assigned, sink: Sink, clock: Callable[[], float]) -> None:
        super().__init__(msgspec.structs.astuple(assigned), sink)
        self._clock = clock
        self._until_s = clock() + assigned.run_us / 1e6 if assigned.run_us else None

    def progress(self, done: int, of: int = 100, *, remaining: float = 0) -> None:
        self._progress_at = 0.0  # each report is sent
        super().progress(done, of, remaining=remaining)

    def heartbeat(self) -> None:
        super().heartbeat()
        if self._until_s is not None:
            self._until_s = self._clock() + self._assign[6] / 1e6

    def time_left(self) -> float | None:
        return None if self._until_s is None else max(self._until_s - self._clock(), 0.0)


class StageWorker(Link):
    """One worker of all functions of the stage."""

    def __init__(
        self, hall: MemoryHall, functions: Callable[[], Functions], clock: Callable[[], float]
    ) -> None:
        super().__init__()
        self._hall = hall
        self._functions = functions
        self._clock = clock
        self._served: frozenset[str] = frozenset()
        self._waiting: deque[said.Assigned] = deque()
        self.taken: dict[int, Taken] = {}
        """Jobs that run, by lease."""
        self.payloads: dict[int, bytes] = {}
        """Payloads of the jobs that it has run, by id."""
        self._conversation = said.Conversation("stage")
        self._session = hall.join(self)
        hall.receive(self._session, self._conversation.hello())

    # --- what the hall says

    def write(self, messages: list[bytes]) -> None:
        for event in self._conversation.receive(b"".join(messages)):
            if isinstance(event, said.Assigned):
                self._waiting.append(event)
            elif isinstance(event, said.Revoked):
                self._revoke(event.lease)
            elif isinstance(event, said.Answered) and isinstance(event.request, _Ask):
                event.request.answer = event.body
            elif isinstance(event, said.Refused) and isinstance(event.request, _Ask):
                event.request.error = HallRefused(event.code, event.text)

    def close(self) -> None:
        """The hall hangs up only on peers that break the protocol."""

    def _revoke(self, lease: int) -> None:
        taken = self.taken.get(lease)
        if taken is not None:
            taken.revoked = True
            if taken.job is not None:
                taken.job.cancelled = True
            if taken.cancel is not None:
                taken.cancel()

    def ask(self, kind: str, body: Any) -> Any:
        """The hall's answer. Raises HallRefused."""
        request = _Ask(kind, body)
        with self._hall.changed:
            self._conversation.add(request)
            self._hall.receive(self._session, self._conversation.frame(request))
        if request.error is not None:
            raise request.error
        return request.answer

    def say(self, lease: int, frame: bytes) -> None:
        """A running job reports something."""
        if lease in self.taken and not self.taken[lease].revoked:
            self._hall.receive(self._session, frame)

    # --- taking jobs

    def take(self) -> Taken | None:
        """The job that a free worker would get now; None: no job is ready."""
        with self._hall.changed:
            functions = self._functions()
            if functions.keys() != self._served:
                self._served = frozenset(functions)
                queues = [(queue.encode(), 0, SKILL) for queue in sorted(functions)]
                self.ask(wire.WORK, (NAME, 0, queues, -1, 0))
            if not functions:
                return None
            self.ask(wire.SLOTS, (len(self.taken) + 1,))
            assigned = self._waiting.popleft() if self._waiting else None
            if assigned is None:
                self.ask(wire.SLOTS, (len(self.taken),))
                return None
            taken = Taken(assigned, functions[assigned.queue.decode()])
            self.taken[assigned.lease] = taken
            self.payloads[assigned.job_id] = assigned.payload
            self.ask(wire.SLOTS, (len(self.taken),))
            return taken

    def beat(self) -> None:
        """Show life, as a worker does in the background."""
        self.ask(wire.BEAT, None)

    # --- running jobs

    def perform(self, taken: Taken) -> None:
        """Run the job of a plain function."""
        with self._call(taken) as call:
            if call is not None:
                args, kwargs, body = call
                self._done(taken, body(*args, **kwargs))

    async def perform_async(self, taken: Taken) -> None:
        """Run the job of a coroutine function, as a task of its own."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        taken.thread = threading.get_ident()
        taken.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            with self._call(taken) as call:
                if call is not None:
                    args, kwargs, body = call
                    self._done(taken, await body(*args, **kwargs))
        except asyncio.CancelledError:
            if not taken.revoked:
                raise

    @contextlib.contextmanager
    def _call(self, taken: Taken) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], Any] | None]:
        """The call of a job, while it is the current one; None: it cannot be called. What is raised in the
        block is its failure.
        """
        assigned, function = taken.assigned, taken.function
        try:
            try:
                results = self._parent_results(argument_parents(function, assigned.payload))
                args, kwargs = decode_arguments(function, assigned.payload, results)
            except (BadArguments, _Missing) as error:
                kind = "BadArguments" if isinstance(error, BadArguments) else "ParentResultMissing"
                self._fail(taken, BAD_ARGUMENTS, _failure(kind, str(error)), retry=False)
                yield None
                return
            taken.job = StageCurrentJob(assigned, self, self._clock)
            try:
                with running(taken.job):
                    yield args, kwargs, function.body
            except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a function raises is its failure)
                code = SYSTEM_EXIT if isinstance(error, SystemExit) else EXCEPTION
                retry_on = function.retry_on
                retry = retry_on is None or isinstance(error, retry_on)
                self._fail(taken, code, encode_failure(error, 1), retry=retry)
            except asyncio.CancelledError:
                if not taken.revoked:
                    self._report(taken, wire.RELEASE, (assigned.lease, True))
                raise
            except BaseException:
                # Ctrl-C, or pytest.fail and the like: for the test, not for the job.
                self._report(taken, wire.RELEASE, (assigned.lease, True))
                raise
        finally:
            self._free(taken)
            self.beat()  # frees the slot of a revoked job

    def give_back(self, taken: Taken) -> None:
        """Its task has ended. If it was cancelled before it began, somebody else may run the job."""
        if taken.assigned.lease in self.taken:
            self._report(taken, wire.RELEASE, (taken.assigned.lease, True))

    def _parent_results(self, job_ids: list[int]) -> Mapping[int, bytes]:
        results: dict[int, bytes] = {}
        for job_id in job_ids:
            parent = self.ask(wire.JOB, (job_id,))
            if parent["state"] != "done":
                raise _Missing(
                    f"the result of job {job_id}, which is an argument, is not there: it is {parent['state']}"
                )
            results[job_id] = parent["result"]
        return results

    def _done(self, taken: Taken, value: Any) -> None:
        try:
            result = encode_result(taken.function, value)
        except BadResult as error:
            self._fail(taken, BAD_RESULT, _failure("BadResult", str(error)), retry=False)
        else:
            self._report(taken, wire.FINISH, (taken.assigned.lease, result))

    def _fail(self, taken: Taken, code: int, data: bytes, *, retry: bool) -> None:
        self._report(taken, wire.FAIL, (taken.assigned.lease, code, data, retry))

    def _report(self, taken: Taken, kind: str, body: Any) -> None:
        with self._hall.changed:
            self._hall.happened += 1
            self._free(taken)
            if not taken.revoked:
                self.ask(kind, body)

    def _free(self, taken: Taken) -> None:
        """Offer one slot less, so that the end of a job does not bring the next."""
        with self._hall.changed:
            if self.taken.pop(taken.assigned.lease, None) is not None:
                self.ask(wire.SLOTS, (len(self.taken),))


class _Missing(Exception):
    """The result of a parent cannot be an argument."""


def _failure(kind: str, text: str) -> bytes:
    return msgspec.json.encode(Failure(kind, text))
