"""The worker against a server that says exactly what each story needs."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from puppet_server import PuppetServer

from hiringhall.dialects.gearman import wire
from hiringhall.peers.gearman import AsyncWorker, JobFailed, ServerError, Worker, WorkerJob

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from puppet_server import Line

    Story = Callable[[AsyncWorker, Line], Awaitable[None]]


def play(worker: AsyncWorker, server: PuppetServer, story: Story) -> Awaitable[None]:
    """The worker's run and the story side by side; the worker is stopped at the story's end."""

    async def stage() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await story(worker, await server.line())
            worker.stop()

    return stage()


def act(story: Story, register: Callable[[AsyncWorker], None] | None = None, slots: int = 1) -> None:
    """A worker that can do "echo" and whatever else is registered, at one server."""

    async def stage() -> None:
        async with PuppetServer() as server:
            worker = AsyncWorker(server.address, slots=slots)
            worker.register("echo", lambda job: job.data)
            if register is not None:
                register(worker)
            await play(worker, server, story)

    asyncio.run(stage())


async def fall_asleep(line: Line) -> None:
    await line.expect(("GRAB_JOB_ALL", b""))
    line.say(wire.NO_JOB)
    await line.expect(("PRE_SLEEP", b""))


def test_a_server_that_counts_milliseconds_is_told_them() -> None:
    async def stage() -> None:
        async with PuppetServer() as server:
            worker = AsyncWorker(server.address, timeout_unit="ms")
            worker.register("limited", lambda job: job.data, timeout_s=5)

            async def story(worker: AsyncWorker, line: Line) -> None:
                await line.expect(("CAN_DO_TIMEOUT", b"limited\x005000"))
                await fall_asleep(line)
                worker.stop()
                await line.expect(("closed", b""))

            await play(worker, server, story)

    asyncio.run(stage())


def test_it_introduces_itself_asks_and_sleeps() -> None:
    async def stage() -> None:
        async with PuppetServer() as server:
            worker = AsyncWorker(server.address, client_id="me", grab="unique")
            worker.register("plain", lambda job: job.data)
            worker.register(b"limited", lambda job: job.data, timeout_s=5)

            async def story(worker: AsyncWorker, line: Line) -> None:
                await line.expect(
                    ("SET_CLIENT_ID", b"me"),
                    ("CAN_DO", b"plain"),
                    ("CAN_DO_TIMEOUT", b"limited\x005"),
                    ("GRAB_JOB_UNIQ", b""),
                )
                line.say(wire.NO_JOB)
                await line.expect(("PRE_SLEEP", b""))
                line.say(wire.NOOP)
                await line.expect(("GRAB_JOB_UNIQ", b""))
                line.say(wire.NO_JOB)
                await line.expect(("PRE_SLEEP", b""))
                worker.stop()
                await line.expect(("closed", b""))

            await play(worker, server, story)

    asyncio.run(stage())


@pytest.mark.parametrize(
    ("packet", "body"),
    [
        (wire.JOB_ASSIGN, b"H:1\0tell\0da\0ta"),
        (wire.JOB_ASSIGN_UNIQ, b"H:1\0tell\0u\0da\0ta"),
        (wire.JOB_ASSIGN_ALL, b"H:1\0tell\0u\0r\0da\0ta"),
    ],
)
def test_each_assignment_is_understood(packet: int, body: bytes) -> None:
    told: list[tuple[bytes, str, bytes, bytes, bytes]] = []

    async def tell(job: WorkerJob) -> None:
        told.append((job.handle, job.function, job.unique, job.reducer, job.data))

    async def story(worker: AsyncWorker, line: Line) -> None:
        await line.expect(("CAN_DO", b"echo"), ("CAN_DO", b"tell"), ("GRAB_JOB_ALL", b""))
        line.say(packet, body)
        await line.expect(("WORK_COMPLETE", b"H:1\0"))
        await fall_asleep(line)

    act(story, lambda worker: worker.register("tell", tell))
    unique = b"" if packet == wire.JOB_ASSIGN else b"u"
    reducer = b"r" if packet == wire.JOB_ASSIGN_ALL else b""
    assert told == [(b"H:1", "tell", unique, reducer, b"da\0ta")]


@pytest.mark.parametrize("threaded", [True, False])
def test_what_a_handler_says_goes_out_in_order(threaded: bool) -> None:
    def speak(job: WorkerJob) -> bytes:
        job.progress(1, 2)
        job.send_data(b"piece")
        job.warn(b"careful")
        return b"end"

    async def speak_in_loop(job: WorkerJob) -> bytes:
        await job.drain()
        return speak(job)

    async def story(worker: AsyncWorker, line: Line) -> None:
        await line.expect(("CAN_DO", b"echo"), ("CAN_DO", b"speak"), ("GRAB_JOB_ALL", b""))
        line.say(wire.JOB_ASSIGN, b"H:1", b"speak", b"")
        await line.expect(
            ("WORK_STATUS", b"H:1\x001\x002"),
            ("WORK_DATA", b"H:1\0piece"),
            ("WORK_WARNING", b"H:1\0careful"),
            ("WORK_COMPLETE", b"H:1\0end"),
        )
        await fall_asleep(line)

    act(story, lambda worker: worker.register("speak", speak if threaded else speak_in_loop))


def test_failures_of_a_handler() -> None:
    def fall(job: WorkerJob) -> bytes:
        if job.data == b"silent":
            raise JobFailed
        if job.data == b"eloquent":
            raise JobFailed(b"out of luck")
        if job.data == b"wrong":
            return "text"  # type: ignore[return-value]
        if job.data == b"done":
            raise StopIteration
        raise ValueError("no such luck" if job.data == b"clumsy" else "\ud800")

    async def story(worker: AsyncWorker, line: Line) -> None:
        await line.expect(("CAN_DO", b"echo"), ("CAN_DO", b"fall"))
        for data, answer in (
            (b"silent", ("WORK_FAIL", b"H:1")),
            (b"eloquent", ("WORK_EXCEPTION", b"H:1\0out of luck")),
            (b"wrong", ("WORK_EXCEPTION", b"H:1\0TypeError: a handler must return bytes or None, not str")),
            (b"clumsy", ("WORK_EXCEPTION", b"H:1\0ValueError: no such luck")),
            (b"half", ("WORK_EXCEPTION", b"H:1\0ValueError: \\ud800")),
            (b"done", ("WORK_EXCEPTION", b"H:1\0RuntimeError: the function raised StopIteration")),
        ):
            await line.expect(("GRAB_JOB_ALL", b""))
            line.say(wire.JOB_ASSIGN, b"H:1", b"fall", data)
            heard, body = await line.hear()
            said, _, trace = body.partition(b"\n")
            assert (heard, said) == answer
            # Whoever waits for the job learns where it failed.
            assert (b", in fall\n" in trace) == (data in {b"clumsy", b"half", b"done"})
        await line.expect(("GRAB_JOB_ALL", b""))
        line.say(wire.JOB_ASSIGN, b"H:2", b"never registered", b"")
        heard, body = await line.hear()
        assert (heard, body.partition(b"\0")[0]) == ("WORK_EXCEPTION", b"H:2")
        await fall_asleep(line)

    act(story, lambda worker: worker.register("fall", fall))


def test_it_asks_no_more_than_it_has_slots() -> None:
    gate = threading.Event()

    def wait(job: WorkerJob) -> bytes:
        gate.wait(10)
        return b""

    async def story(worker: AsyncWorker, line: Line) -> None:
        await line.expect(("CAN_DO", b"echo"), ("CAN_DO", b"wait"), ("GRAB_JOB_ALL", b""))
        line.say(wire.JOB_ASSIGN, b"H:1", b"wait", b"")
        await line.expect(("GRAB_JOB_ALL", b""))
        line.say(wire.JOB_ASSIGN, b"H:2", b"wait", b"")
        line.say(wire.NOOP)
        gate.set()
        heard = [(await line.hear())[0] for _ in range(3)]
        assert heard[0] == "WORK_COMPLETE", "no question before a slot is free"
        assert sorted(heard) == ["GRAB_JOB_ALL", "WORK_COMPLETE", "WORK_COMPLETE"]
        line.say(wire.NO_JOB)
        await line.expect(("PRE_SLEEP", b""))

    act(story, lambda worker: worker.register("wait", wait), slots=2)


def test_one_slot_for_two_servers() -> None:
    gate = asyncio.Event()

    async def wait(job: WorkerJob) -> bytes:
        await gate.wait()
        return b""

    async def stage() -> None:
        async with PuppetServer() as one, PuppetServer() as two:
            worker = AsyncWorker(one.address, two.address)
            worker.register("wait", wait)
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                first, second = await one.line(), await two.line()
                await first.expect(("CAN_DO", b"wait"))
                await second.expect(("CAN_DO", b"wait"))
                asked, other = first, second
                await asked.expect(("GRAB_JOB_ALL", b""))
                asked.say(wire.JOB_ASSIGN, b"H:1", b"wait", b"")
                gate.set()
                await asked.expect(("WORK_COMPLETE", b"H:1\0"))
                await fall_asleep(other)
                await fall_asleep(asked)
                worker.stop()

    asyncio.run(stage())


def test_stopping_answers_the_job_that_runs_and_the_one_that_just_came() -> None:
    gate = asyncio.Event()

    async def wait(job: WorkerJob) -> bytes:
        await gate.wait()
        return b"done"

    async def story(worker: AsyncWorker, line: Line) -> None:
        await line.expect(("CAN_DO", b"echo"), ("CAN_DO", b"wait"), ("GRAB_JOB_ALL", b""))
        line.say(wire.JOB_ASSIGN, b"H:1", b"wait", b"")
        await line.expect(("GRAB_JOB_ALL", b""))
        worker.stop()
        line.say(wire.JOB_ASSIGN, b"H:2", b"echo", b"late")
        await line.expect(("WORK_COMPLETE", b"H:2\0late"))
        gate.set()
        await line.expect(("WORK_COMPLETE", b"H:1\0done"), ("closed", b""))

    act(story, lambda worker: worker.register("wait", wait), slots=2)


def test_after_a_loss_it_comes_back_and_the_old_job_is_dropped() -> None:
    dropped = asyncio.Event()
    lost: list[bool] = []

    async def wait(job: WorkerJob) -> bytes:
        try:
            await asyncio.sleep(60)
        finally:
            lost.append(job.lost)
            dropped.set()
        return b""

    async def stage() -> None:
        async with PuppetServer() as server:
            worker = AsyncWorker(server.address)
            worker.register("wait", wait)

            async def story(worker: AsyncWorker, line: Line) -> None:
                await line.expect(("CAN_DO", b"wait"), ("GRAB_JOB_ALL", b""))
                line.say(wire.JOB_ASSIGN, b"H:1", b"wait", b"")
                await line.hang_up()
                await dropped.wait()
                line = await server.line()
                await line.expect(("CAN_DO", b"wait"))
                await fall_asleep(line)

            await play(worker, server, story)

    asyncio.run(stage())
    assert lost == [True]


def test_complaints_of_the_server_are_passed_on_and_it_goes_on() -> None:
    complaints: list[ServerError] = []

    async def stage() -> None:
        async with PuppetServer() as server:
            worker = AsyncWorker(server.address, on_error=complaints.append)
            worker.register("echo", lambda job: job.data)

            async def story(worker: AsyncWorker, line: Line) -> None:
                await line.expect(("CAN_DO", b"echo"), ("GRAB_JOB_ALL", b""))
                line.say(wire.ERROR, b"JOB_NOT_FOUND", b"too late")
                line.say(wire.JOB_ASSIGN, b"H:1", b"echo", b"x")
                await line.expect(("WORK_COMPLETE", b"H:1\0x"))
                await fall_asleep(line)

            await play(worker, server, story)

    asyncio.run(stage())
    assert [(error.code, error.text) for error in complaints] == [("JOB_NOT_FOUND", "too late")]


def test_it_shows_life_while_a_job_runs() -> None:
    gate = asyncio.Event()

    async def wait(job: WorkerJob) -> bytes:
        await gate.wait()
        return b""

    async def stage() -> None:
        async with PuppetServer() as server:
            worker = AsyncWorker(server.address, heartbeat_s=0.02)
            worker.register("wait", wait)

            async def story(worker: AsyncWorker, line: Line) -> None:
                await line.expect(("CAN_DO", b"wait"), ("GRAB_JOB_ALL", b""))
                line.say(wire.JOB_ASSIGN, b"H:1", b"wait", b"")
                for _ in range(3):
                    await line.expect(("ECHO_REQ", b"alive"))
                    line.say(wire.ECHO_RES, b"alive")
                gate.set()

            await play(worker, server, story)

    asyncio.run(stage())


def test_abilities_change_while_it_works() -> None:
    async def story(worker: AsyncWorker, line: Line) -> None:
        await line.expect(("CAN_DO", b"echo"))
        await fall_asleep(line)
        worker.register("more", lambda job: b"!")
        await line.expect(("CAN_DO", b"more"), ("GRAB_JOB_ALL", b""))
        line.say(wire.JOB_ASSIGN, b"H:1", b"more", b"")
        await line.expect(("WORK_COMPLETE", b"H:1\0!"))
        worker.unregister("more")
        worker.unregister("never known")
        await line.expect(("GRAB_JOB_ALL", b""), ("CANT_DO", b"more"))
        line.say(wire.NO_JOB)
        await line.expect(("PRE_SLEEP", b""))

    act(story)


def test_the_blocking_worker_can_be_stopped_before_and_while_it_works() -> None:
    async def closed_port() -> str:
        async with PuppetServer() as server:
            return server.address

    address = asyncio.run(closed_port())
    worker = Worker(address)
    worker.stop()
    worker.work()
    with Worker(address):
        pass
