"""How a child runs jobs: one at a time on its main thread, in threads, or side by side on an event loop.

Invariant: a job is read from the socket when it begins and not before, so the supervisor knows which jobs
have begun, and can take back the others.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, Final

from hiringhall.sdk.context import CURRENT, PROCESS
from hiringhall.worker import messages
from hiringhall.worker.running import Caller, said

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from hiringhall.sdk.context import CurrentJob
    from hiringhall.sdk.functions import JobFunction
    from hiringhall.worker.channel import ChildChannel
    from hiringhall.worker.messages import Begin
    from hiringhall.worker.running import Call


class _Fork:
    """Whether this process is a fork of the child, made by a function."""

    happened = False


def _forked() -> None:
    _Fork.happened = True


os.register_at_fork(after_in_child=_forked)


def _leave_if_forked() -> None:
    """After a call. A function that forks may return twice: the second process has no part in the jobs."""
    if _Fork.happened:
        os._exit(0)


class _Direct:
    """Frames of jobs go to the supervisor at once; threads take turns."""

    def __init__(self, channel: ChildChannel) -> None:
        self._send = channel.send
        self._turn = threading.Lock()

    def say(self, lease: int, frame: bytes) -> None:
        self.send(said(lease, frame))

    def send(self, message: bytes) -> None:
        with self._turn:
            self._send(message)


def run_plain(channel: ChildChannel, functions: Mapping[bytes, JobFunction[..., Any]], begin: Begin) -> None:
    """One job after another, on the main thread."""
    sink = _Direct(channel)
    caller = Caller(functions, sink, begin.result_bytes_max)
    send = sink.send
    while (packet := channel.next_job()) is not None:
        call, report = caller.open(packet)
        if call is not None:
            PROCESS.job = call.job
            try:
                value = call.body(*call.args, **call.kwargs)
            except BaseException as error:  # noqa: BLE001 (whatever a function raises is its failure)
                report = caller.failed(call, error)
            else:
                report = caller.done(call, value)
                value = None
            _leave_if_forked()
            PROCESS.job = None
        send(report)
        call = None


class _Threads:
    """Several threads, each of which takes the next job."""

    def __init__(
        self, channel: ChildChannel, functions: Mapping[bytes, JobFunction[..., Any]], begin: Begin
    ) -> None:
        self._channel = channel
        self._sink = _Direct(channel)
        self._caller = Caller(functions, self._sink, begin.result_bytes_max)
        self._running: dict[int, CurrentJob] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"job-{number}") for number in range(begin.capacity)
        ]

    def run(self) -> None:
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        while (control := self._channel.read_control()) is not None:
            job = self._running.get(control[1])
            if control[0] == messages.REVOKE and job is not None:
                job.cancelled = True

    def _work(self) -> None:
        caller = self._caller
        while (packet := self._channel.next_job()) is not None:
            call, report = caller.open(packet)
            if call is not None:
                report = self._call(call)
            self._sink.send(report)
            call = None

    def _call(self, call: Call) -> bytes:
        self._running[call.lease] = call.job
        token = CURRENT.set(call.job)
        try:
            value = call.body(*call.args, **call.kwargs)
        except BaseException as error:  # noqa: BLE001 (as above)
            report = self._caller.failed(call, error)
        else:
            report = self._caller.done(call, value)
        _leave_if_forked()
        CURRENT.reset(token)
        del self._running[call.lease]
        return report


def run_threads(channel: ChildChannel, functions: Mapping[bytes, JobFunction[..., Any]], begin: Begin) -> None:
    """Several jobs at a time, each in a thread."""
    _Threads(channel, functions, begin).run()


CONTROL_BYTES: Final = 4096


class _Loop:
    """Async functions as tasks. Everything happens on the loop's thread, apart from `say`."""

    def __init__(
        self, channel: ChildChannel, functions: Mapping[bytes, JobFunction[..., Any]], begin: Begin
    ) -> None:
        self._channel = channel
        self._caller = Caller(functions, self, begin.result_bytes_max)
        self._capacity = begin.capacity
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._tasks: dict[int, tuple[asyncio.Task[None], Call]] = {}
        self._running = 0
        self._listening = False
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._ending = False
        self._controls = messages.Reader(1 << 16)
        self._out: list[bytes] = []
        self._unsent = b""

    async def run(self) -> None:
        self._channel.jobs.setblocking(False)
        self._channel.stream.setblocking(False)
        self._loop.add_reader(self._channel.stream.fileno(), self._hear)
        self._take()
        await self._over
        self._loop.remove_writer(self._channel.stream.fileno())
        self._channel.stream.setblocking(True)
        self._flush()

    def _take(self) -> None:
        """Begin jobs until there is none, or enough run."""
        try:
            while self._running < self._capacity:
                packet = self._channel.next_job()
                if packet is None:
                    self._end()
                    return
                self._begin(packet)
        except BlockingIOError:
            if not self._listening:
                self._listening = True
                self._loop.add_reader(self._channel.jobs.fileno(), self._take)
            return
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._channel.jobs.fileno())

    def _end(self) -> None:
        """There will be no more jobs."""
        self._ending = True
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._channel.jobs.fileno())
        if not self._running and not self._over.done():
            self._over.set_result(None)

    def _begin(self, packet: bytes) -> None:
        call, report = self._caller.open(packet)
        if call is None:
            self._send(report)
            return
        self._running += 1
        self._tasks[call.lease] = self._loop.create_task(self._call(call)), call

    async def _call(self, call: Call) -> None:
        CURRENT.set(call.job)
        try:
            value = await _coroutine(call)
        except BaseException as error:  # noqa: BLE001 (as above)
            report = self._caller.failed(call, error)
        else:
            report = self._caller.done(call, value)
        _leave_if_forked()
        if call.job.cancelled:
            report = self._caller.dropped(call.lease)
        del self._tasks[call.lease]
        self._send(report)
        self._running -= 1
        if self._ending:
            self._end()
        elif not self._listening:
            self._take()

    def _hear(self) -> None:
        data = self._channel.stream.recv(CONTROL_BYTES)
        if not data:
            raise SystemExit(0)
        for tag, lease, _ in self._controls.feed(data):
            found = self._tasks.get(lease)
            if tag == messages.REVOKE and found is not None:
                task, call = found
                call.job.cancelled = True
                task.cancel()

    # --- output

    def say(self, lease: int, frame: bytes) -> None:
        message = said(lease, frame)
        if threading.get_ident() == self._thread_id:
            self._send(message)
        else:
            self._loop.call_soon_threadsafe(self._send, message)

    def _send(self, message: bytes) -> None:
        if not self._out and not self._unsent:
            self._loop.call_soon(self._flush)
        self._out.append(message)

    def _flush(self) -> None:
        data = self._unsent + b"".join(self._out)
        self._out.clear()
        try:
            count = self._channel.stream.send(data)
        except BlockingIOError:
            count = 0
        if count == len(data):
            if self._unsent:
                self._loop.remove_writer(self._channel.stream.fileno())
            self._unsent = b""
            return
        if not self._unsent:
            self._loop.add_writer(self._channel.stream.fileno(), self._flush)
        self._unsent = data[count:]


def _coroutine(call: Call) -> Coroutine[Any, Any, Any]:
    started: Coroutine[Any, Any, Any] = call.body(*call.args, **call.kwargs)
    return started


def run_async(channel: ChildChannel, functions: Mapping[bytes, JobFunction[..., Any]], begin: Begin) -> None:
    """Many jobs at a time, as tasks of an event loop."""

    async def run() -> None:
        await _Loop(channel, functions, begin).run()

    try:
        import uvloop  # noqa: PLC0415 (not needed by the other loops)
    except ImportError:
        asyncio.run(run())
    else:
        uvloop.run(run())


LOOPS: Final = {messages.PLAIN: run_plain, messages.THREADS: run_threads, messages.ASYNC: run_async}
