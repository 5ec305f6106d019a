"""The client against a server that says exactly what each story needs."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

import pytest
from puppet_server import PuppetServer

from hiringhall.dialects.gearman import wire
from hiringhall.peers.gearman import (
    AsyncClient,
    Client,
    ConnectionLost,
    Data,
    JobFailed,
    Progress,
    Receipt,
    ServerError,
    Status,
    Warned,
)
from hiringhall.peers.gearman.connection import parse_address
from hiringhall.peers.gearman.jobs import parse_number, parse_status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from puppet_server import Line

    Story = Callable[[AsyncClient, Line], Awaitable[None]]


def play(story: Story) -> None:
    """A client that asks for no exceptions, and its first connection."""

    async def stage() -> None:
        async with (
            asyncio.timeout(20),
            PuppetServer() as server,
            AsyncClient(server.address, exceptions=False) as client,
        ):
            connected = asyncio.create_task(client.echo(b"hello"))
            line = await server.line()
            await line.expect(("ECHO_REQ", b"hello"))
            line.say(wire.ECHO_RES, b"hello")
            await connected
            await story(client, line)

    asyncio.run(stage())


def test_a_server_that_reads_nothing_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hiringhall.peers.stream.CLOSE_S", 0.05)

    async def story(client: AsyncClient, _: Line) -> None:
        said = asyncio.create_task(client.submit_background("f", bytes(16 << 20)))
        await asyncio.sleep(0)
        said.cancel()
        await asyncio.wait([said])
        assert said.cancelled()

    play(story)


@pytest.mark.parametrize("address", ["", ":4730", "host:", "host:port", "host:-1", "[::1]:x"])
def test_what_is_no_address(address: str) -> None:
    if address == "host:":
        assert parse_address(address) == ("host", 4730)
    else:
        with pytest.raises(ValueError, match="host:port"):
            AsyncClient(address)


def test_numbers_of_progress_are_free_text() -> None:
    assert [parse_number(text) for text in (b"7", b"0.9", b"2e3", b"", b"x", b"inf", b"nan")] == [
        7,
        0,
        2000,
        0,
        0,
        0,
        0,
    ]
    assert parse_status(b"H:1\x001\x000\x002\x003") == Status(True, False, 2, 3)
    assert parse_status(b"H:1\x001") is None


def test_exceptions_are_asked_for_before_anything_else() -> None:
    async def stage() -> None:
        async with asyncio.timeout(20), PuppetServer() as server, AsyncClient(server.address) as client:
            echo = asyncio.create_task(client.echo(b"x"))
            line = await server.line()
            await line.expect(("OPTION_REQ", b"exceptions"))
            line.say(wire.OPTION_RES, b"exceptions")
            await line.expect(("ECHO_REQ", b"x"))
            line.say(wire.ECHO_RES, b"x")
            assert await echo == b"x"

    asyncio.run(stage())


@pytest.mark.parametrize(
    ("priority", "foreground", "background"),
    [
        ("high", "SUBMIT_JOB_HIGH", "SUBMIT_JOB_HIGH_BG"),
        ("normal", "SUBMIT_JOB", "SUBMIT_JOB_BG"),
        ("low", "SUBMIT_JOB_LOW", "SUBMIT_JOB_LOW_BG"),
    ],
)
def test_each_priority_has_its_packets(priority: str, foreground: str, background: str) -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        result = asyncio.create_task(client.run("f", b"x\0y", unique="u", priority=priority))  # type: ignore[arg-type]
        await line.expect((foreground, b"f\0u\0x\0y"))
        line.say(wire.JOB_CREATED, b"H:1")
        line.say(wire.WORK_COMPLETE, b"H:1", b"r\0s")
        assert await result == b"r\0s"
        receipt = asyncio.create_task(client.submit_background(b"f", b"x", priority=priority))  # type: ignore[arg-type]
        await line.expect((background, b"f\0\0x"))
        line.say(wire.JOB_CREATED, b"H:2")
        assert await receipt == Receipt(b"H:2", client.servers[0])

    play(story)


def test_jobs_for_later_and_with_a_reducer() -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        calls = [
            (client.submit_at("f", b"x", epoch_s=99, unique="u"), "SUBMIT_JOB_EPOCH", b"f\0u\x0099\0x"),
            (client.submit_schedule("f", b"x", hour="4"), "SUBMIT_JOB_SCHED", b"f\0\0*\x004\0*\0*\0*\0x"),
            (client.submit_background("f", b"x", reducer="r"), "SUBMIT_REDUCE_JOB_BACKGROUND", b"f\0\0r\0\0x"),
        ]
        for call, name, body in calls:
            receipt = asyncio.create_task(call)
            await line.expect((name, body))
            line.say(wire.JOB_CREATED, b"H:1")
            assert (await receipt).handle == b"H:1"

    play(story)


def test_everything_a_job_says_comes_in_order() -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        submitted = asyncio.create_task(client.submit("f"))
        await line.hear()
        line.say(wire.JOB_CREATED, b"H:1")
        job = await submitted
        line.say(wire.WORK_STATUS, b"H:1", b"1", b"2")
        line.say(wire.WORK_DATA, b"H:1", b"some\0data")
        line.say(wire.WORK_WARNING, b"H:1", b"careful")
        line.say(wire.WORK_DATA, b"H:another", b"not ours")
        line.say(wire.WORK_COMPLETE, b"H:1", b"end")
        line.say(wire.WORK_FAIL, b"H:1")
        assert [update async for update in job] == [Progress(1, 2), Data(b"some\0data"), Warned(b"careful")]
        assert (await job.result(), job.ended, job.progress) == (b"end", True, Progress(1, 2))

    play(story)


@pytest.mark.parametrize(("packet", "exception"), [(wire.WORK_FAIL, b""), (wire.WORK_EXCEPTION, b"boom")])
def test_a_failure_ends_the_iteration_and_is_raised_by_the_result(packet: int, exception: bytes) -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        submitted = asyncio.create_task(client.submit("f"))
        await line.hear()
        line.say(wire.JOB_CREATED, b"H:1")
        job = await submitted
        line.say(packet, b"H:1", *([exception] if exception else []))
        assert [update async for update in job] == []
        with pytest.raises(JobFailed) as failed:
            await job.result()
        assert (failed.value.exception, failed.value.handle) == (exception, b"H:1")

    play(story)


def test_joined_jobs_each_get_their_copy_and_one_end_is_enough() -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        jobs = []
        for _ in range(2):
            submitted = asyncio.create_task(client.submit("f", unique="u"))
            await line.hear()
            line.say(wire.JOB_CREATED, b"H:1")
            jobs.append(await submitted)
        for data in (b"1", b"1", b"2", b"2"):
            line.say(wire.WORK_DATA, b"H:1", data)
        line.say(wire.WORK_COMPLETE, b"H:1", b"end")
        for job in jobs:
            assert [update async for update in job] == [Data(b"1"), Data(b"2")]
            assert await job.result() == b"end"
        line.say(wire.WORK_COMPLETE, b"H:1", b"end")

    play(story)


def test_answers_belong_to_questions_in_order() -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        status = asyncio.create_task(client.status(b"H:9"))
        refused = asyncio.create_task(client.submit_background("forbidden"))
        unique = asyncio.create_task(client.status_unique("u"))
        await line.expect(
            ("GET_STATUS", b"H:9"), ("SUBMIT_JOB_BG", b"forbidden\0\0"), ("GET_STATUS_UNIQUE", b"u")
        )
        line.say(wire.STATUS_RES, b"H:9", b"1", b"0", b"0", b"0")
        line.say(wire.ERROR, b"QUEUE_ERROR", b"no more room")
        line.say(wire.STATUS_RES_UNIQUE, b"u", b"1", b"1", b"5", b"6", b"7")
        assert await status == Status(True, False, 0, 0)
        with pytest.raises(ServerError, match="no more room") as error:
            await refused
        assert error.value.code == "QUEUE_ERROR"
        assert await unique == Status(True, True, 5, 6, 7)

    play(story)


def test_the_answer_to_a_call_that_was_given_up_goes_to_nobody() -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        first = asyncio.create_task(client.echo(b"first"))
        await line.expect(("ECHO_REQ", b"first"))
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(client.echo(b"second"))
        await line.expect(("ECHO_REQ", b"second"))
        line.say(wire.ECHO_RES, b"first")
        line.say(wire.ECHO_RES, b"second")
        assert await second == b"second"

    play(story)


def test_an_answer_of_the_wrong_kind_is_an_error() -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        call = asyncio.create_task(client.echo(b"x"))
        await line.hear()
        line.say(wire.JOB_CREATED, b"H:1")
        with pytest.raises(ServerError, match="JOB_CREATED"):
            await call

    play(story)


def test_a_lost_connection_ends_all_that_was_under_way_and_the_next_call_connects_anew() -> None:
    async def stage() -> None:
        async with (
            asyncio.timeout(20),
            PuppetServer() as server,
            AsyncClient(server.address, exceptions=False) as client,
        ):
            submitted = asyncio.create_task(client.submit("f"))
            line = await server.line()
            await line.hear()
            line.say(wire.JOB_CREATED, b"H:1")
            job = await submitted
            waiting = asyncio.create_task(client.echo(b"x"))
            await line.hear()
            line.say(wire.ERROR, b"SHUTDOWN", b"closing time")
            with pytest.raises(ServerError):
                await waiting
            line.say(wire.ERROR, b"SHUTDOWN", b"out, everybody")
            await line.hang_up()
            with pytest.raises(ConnectionLost) as lost:
                await job.result()
            assert isinstance(lost.value.__cause__, ServerError)
            assert lost.value.__cause__.text == "out, everybody"

            again = asyncio.create_task(client.echo(b"back"))
            line = await server.line()
            await line.hear()
            line.say(wire.ECHO_RES, b"back")
            assert await again == b"back"

    asyncio.run(stage())


def test_nonsense_from_the_server_ends_the_connection() -> None:
    async def story(client: AsyncClient, line: Line) -> None:
        call = asyncio.create_task(client.echo(b"x"))
        await line.hear()
        line.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(ConnectionLost, match="packets must start with"):
            await call

    play(story)


def test_a_server_that_cannot_be_reached_is_passed_over() -> None:
    async def stage() -> None:
        async with PuppetServer() as gone:
            closed = gone.address
        async with (
            asyncio.timeout(20),
            PuppetServer() as server,
            AsyncClient(closed, server.address, exceptions=False) as client,
        ):
            call = asyncio.create_task(client.submit_background("f"))
            line = await server.line()
            await line.hear()
            line.say(wire.JOB_CREATED, b"H:1")
            assert (await call).server == server.address
            status = asyncio.create_task(client.status(b"H:1"))
            await line.hear()
            line.say(wire.STATUS_RES, b"H:1", b"0", b"0", b"0", b"0")
            assert not (await status).known
        async with AsyncClient(closed) as client:
            with pytest.raises(ConnectionLost, match=closed):
                await client.echo(b"x")
            with pytest.raises(ConnectionLost, match=closed):
                await client.status(b"H:1")

    asyncio.run(stage())


@pytest.mark.parametrize(
    ("command", "answer", "lines"),
    [
        ("status", b"f\t1\t0\t2\nERRor\t0\t0\t0\n.\n", ["f\t1\t0\t2", "ERRor\t0\t0\t0"]),
        ("workers", b".\n", []),
        ("version", b"OK 1.2\r\n", ["OK 1.2"]),
        ("Show Jobs", b"H:1\t0\t0\t1\n.\n", ["H:1\t0\t0\t1"]),
    ],
)
def test_admin_answers_are_lines(command: str, answer: bytes, lines: list[str]) -> None:
    async def stage() -> None:
        async with asyncio.timeout(20), PuppetServer() as server, AsyncClient(server.address) as client:
            call = asyncio.create_task(client.admin(command))
            line = await server.line()
            assert await line.read_line() == command.encode() + b"\n"
            line.write(answer)
            assert await call == lines

    asyncio.run(stage())


def test_admin_errors() -> None:
    async def stage() -> None:
        async with asyncio.timeout(20), PuppetServer() as server, AsyncClient(server.address) as client:
            call = asyncio.create_task(client.admin("show jobs"))
            line = await server.line()
            line.write(b"ERR UNKNOWN_COMMAND Unknown+server+command\n")
            with pytest.raises(ServerError, match="Unknown server command") as refused:
                await call
            assert refused.value.code == "UNKNOWN_COMMAND"

            call = asyncio.create_task(client.admin("status"))
            line = await server.line()
            await line.read_line()
            line.write(b"f\t1\t0\t2\n")
            await line.hang_up()
            with pytest.raises(ConnectionLost, match="in the middle of an answer"):
                await call
            with pytest.raises(ValueError, match="one line"):
                await client.admin("status\nshutdown")

    asyncio.run(stage())


def test_the_blocking_client_has_every_method_of_the_other() -> None:
    asynchronous = {name for name, _ in inspect.getmembers(AsyncClient, inspect.isfunction) if name[0] != "_"}
    assert asynchronous <= set(dir(Client))
    assert Client.run.__doc__ == AsyncClient.run.__doc__


def test_the_blocking_client_says_that_nobody_is_there() -> None:
    async def closed_port() -> str:
        async with PuppetServer() as server:
            return server.address

    with Client(asyncio.run(closed_port())) as client, pytest.raises(ConnectionLost):
        client.run("f")
