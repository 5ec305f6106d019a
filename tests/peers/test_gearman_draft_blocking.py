"""The blocking face of the draft's peers: the same words, from threads, and an end without a trace."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from concurrent.futures import CancelledError
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from draft_puppet import CLOSED, DraftPuppet

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import ConnectionLost, Job, Status, blocking

if TYPE_CHECKING:
    from types import FrameType


def test_the_blocking_client_has_the_same_words() -> None:
    async def serve(puppet: DraftPuppet) -> None:
        line = await puppet.line()
        await line.expect(("job_create_req", b"f\0k\0\x00\x01x"))
        line.say(wire.pack_job_create_res(b"H:1"))
        await line.expect(("job_status_req", b"H:1"))
        line.say(wire.pack_job_status_res(1, 2))
        await line.expect(("job_complete_req", b"H:1"))
        line.say(wire.pack_job_complete_res(1, 0, b"y"))
        await line.expect(("job_complete_req", b"H:2"), CLOSED)

    def use(address: str) -> None:
        with blocking.Client(address, timeout_s=10) as client:
            job = client.submit("f", b"x", key="k")
            assert client.status(job) == Status(1, 2, 0)
            assert client.wait(job).data == b"y"
            client.remember(job)
            client.forget(job)
            client.timeout_s = 0.05
            with pytest.raises(TimeoutError):
                client.result(Job(b"f", b"", server=address, handle=b"H:2"))
            assert client.jobs == []

    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet:
            await asyncio.gather(serve(puppet), asyncio.to_thread(use, puppet.address))

    asyncio.run(stage())


def test_what_is_remembered_is_so_at_once() -> None:
    """However busy the client's own thread is."""
    gate = threading.Event()
    seen: list[bool] = []
    job = Job(b"f", b"", server="127.0.0.1:1", handle=b"H:1")

    def note() -> None:
        client.remember(job)
        seen.append(job in client.jobs)
        client.forget(job)
        seen.append(job in client.jobs)

    with blocking.Client("127.0.0.1:1", timeout_s=10) as client:
        client._loop.call_soon_threadsafe(gate.wait, 10)
        noting = threading.Thread(target=note)
        noting.start()
        noting.join(0.1)
        gate.set()
        noting.join(10)
        client.remember(job)
    assert seen == [True, False]
    assert client.jobs == [job], "it is remembered when the client has left"
    client.forget(job)
    assert client.jobs == []


def test_a_listener_may_remember_and_may_not_ask() -> None:
    other = Job(b"other", b"", handle=b"H:0")

    async def serve(puppet: DraftPuppet) -> None:
        for _ in range(2):
            line = await puppet.line()
            await line.expect(("job_create_req", b"f\0\0\x00\x00"))
            line.say(wire.pack_job_create_res(), wire.pack_job_status_res(1, 2))
            line.say(wire.pack_job_complete_res(1, 0, b"done"))
            await line.expect(CLOSED)

    def use(address: str) -> None:
        with blocking.Client(address, timeout_s=10) as client:
            assert client.run("f", on_status=lambda _: client.remember(other)) == b"done"
            assert client.jobs == [other]
            with pytest.raises(RuntimeError, match="use another thread"):
                client.run("f", on_status=lambda _: client.forget(client.submit("g")))

    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet:
            await asyncio.gather(serve(puppet), asyncio.to_thread(use, puppet.address))

    asyncio.run(stage())


def test_a_result_over_the_limit_is_not_read() -> None:
    """The largest that a worker may announce is not over it, although its packet has four bytes more."""

    async def serve(puppet: DraftPuppet) -> None:
        for size in (99, 100):
            line = await puppet.line()
            await line.expect(("job_create_req", b"f\0\0\x00\x00"))
            line.say(wire.pack_job_create_res(), wire.pack_job_complete_res(1, 0, bytes(size)))
            await line.expect(CLOSED)

    def use(address: str) -> None:
        with blocking.Client(address, timeout_s=10, packet_bytes_max=100) as client:
            assert client.run("f") == bytes(99)
            with pytest.raises(ConnectionLost, match="a packet of 105 bytes is over the limit"):
                client.run("f")

    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet:
            await asyncio.gather(serve(puppet), asyncio.to_thread(use, puppet.address))

    asyncio.run(stage())


def test_a_blocking_call_that_is_interrupted_is_given_up() -> None:
    """As by Ctrl-C. Closing does not wait for what others still ask for in other threads: they hear of it."""
    handed_in = threading.Event()

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def serve(server: socket.socket) -> None:
        """Hear a job for each connection, then interrupt the main thread; never answer."""
        for _ in range(2):
            connection, _ = server.accept()
            connections.append(stack.enter_context(connection))
            connection.recv(1024)
            handed_in.set()
        signal.pthread_kill(main, signal.SIGUSR1)

    def ask(client: blocking.Client) -> None:
        try:
            client.run("other")
        except CancelledError:
            others.append("cancelled")

    connections: list[socket.socket] = []
    others: list[str] = []
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ExitStack() as stack:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            client = blocking.Client(f"127.0.0.1:{server.getsockname()[1]}")
            serving = threading.Thread(target=serve, args=(server,))
            serving.start()
            asking = threading.Thread(target=ask, args=(client,))
            asking.start()
            assert handed_in.wait(10)
            with pytest.raises(KeyboardInterrupt):
                client.run("f")
            connections[1].settimeout(10)
            assert connections[1].recv(1024) == b"", "its connection is closed"
            client.close()
            for thread in (serving, asking):
                thread.join(10)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert others == ["cancelled"]


def test_the_blocking_worker_has_the_same_words() -> None:
    async def story(puppet: DraftPuppet) -> None:
        worker = blocking.Worker(puppet.address)
        worker.can_do("echo", lambda task: task.args)
        await asyncio.to_thread(worker.__enter__)
        line = await puppet.line()
        await line.expect(("worker_connect", b"echo"), "job_assign_req")
        line.say(wire.NO_JOB_PACKET)
        await line.expect("worker_sleep")
        worker.function("shout")(lambda task: task.args.upper())
        await line.expect(("worker_connect", b"echo\0shout"), "job_assign_req")
        line.say(wire.pack_job_assign_res(b"shout", b"hello"))
        await line.expect(("job_complete_announce", b"\0HELLO"), "job_assign_req")
        line.say(wire.NO_JOB_PACKET)
        await line.expect("worker_sleep")
        worker.cant_do("shout")
        await line.expect(("worker_connect", b"echo"), "job_assign_req")
        line.say(wire.NO_JOB_PACKET)
        await line.expect("worker_sleep")
        await asyncio.to_thread(worker.__exit__, None, None, None)
        await line.expect("worker_disconnect", CLOSED)

    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet:
            await story(puppet)

    asyncio.run(stage())


def test_the_blocking_log_has_the_same_words() -> None:
    async def serve(puppet: DraftPuppet) -> None:
        line = await puppet.line()
        await line.expect(("task_start", b"backup\0monday\0" + (1_000_000).to_bytes(8, "big")))
        line.say(wire.pack_job_create_res(b"H:1"))
        await line.expect(
            ("task_result", b"backup\0monday\0" + (2_000_000).to_bytes(8, "big") + b"\0x"), CLOSED
        )

    def use(address: str) -> None:
        with blocking.ResultLog(address, timeout_s=10) as log:
            assert log.register_start_task(("backup", "monday"), 1) == b"H:1"
            log.timeout_s = 0.2
            with pytest.raises(TimeoutError):
                log.register_task_result(("backup", "monday"), 2, b"x")
        log.close()

    async def stage() -> None:
        async with asyncio.timeout(20), DraftPuppet() as puppet:
            await asyncio.gather(serve(puppet), asyncio.to_thread(use, puppet.address))

    asyncio.run(stage())
