"""Our own client and worker, against the hall and against gearmand: they are for any Gearman server."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from foreign import missing_program
from hall_process import Gearmand, HallProcess, Server, wait_until
from house_worker import HouseWorker

from hiringhall.peers import gearman
from hiringhall.peers.gearman import (
    AsyncClient,
    AsyncWorker,
    Client,
    ConnectionLost,
    Data,
    JobFailed,
    Progress,
    ServerError,
    Status,
    Warned,
    Worker,
    WorkerJob,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODULES = [
    gearman.__name__,
    *(f"{gearman.__name__}.{module.name}" for module in pkgutil.iter_modules(gearman.__path__)),
]


@pytest.fixture(scope="module", params=[HallProcess, Gearmand], ids=["hall", "gearmand"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, need: Callable[[str], None]
) -> Iterator[Server]:
    if request.param is Gearmand:
        need("" if Path("/usr/sbin/gearmand").exists() else missing_program("gearmand"))
    with request.param(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server: Server, house: HouseWorker) -> Iterator[Client]:
    with server.client() as client:
        yield client


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_its_words_are_true(name: str, server: Server, house: HouseWorker) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        example.globs["server"] = server.address
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


def test_all_updates_and_the_result(client: Client) -> None:
    assert client.run("reverse", b"a\0b") == b"b\0a"
    assert list(client.submit("count")) == [Progress(1, 3), Progress(2, 3), Progress(3, 3)]
    assert list(client.submit("chunks")) == [Data(b"one"), Data(b"two")]
    assert list(client.submit("warn")) == [Warned(b"careful")]
    assert client.run("unique", unique="mine") == b"mine"


def test_failures(client: Client, server: Server) -> None:
    with pytest.raises(JobFailed) as failed:
        client.run("fail")
    assert failed.value.exception == b""
    with pytest.raises(JobFailed) as raised:
        client.run("raise")
    assert raised.value.exception == b"boom"
    with Client(server.address, exceptions=False, timeout_s=20) as incurious:
        with pytest.raises(JobFailed) as plain:
            incurious.run("raise")
        assert plain.value.exception == b""


def test_a_handler_that_raises_fails_its_job_with_the_text(server: Server, client: Client) -> None:
    async def story() -> None:
        worker = AsyncWorker(server.address)

        @worker.function("careless")
        async def careless(job: WorkerJob) -> bytes:
            return b"%d" % (1 // int(job.data))

        async with asyncio.timeout(20), asyncio.TaskGroup() as group, AsyncClient(server.address) as ours:
            group.create_task(worker.run())
            assert await ours.run("careless", b"1") == b"1"
            with pytest.raises(JobFailed, match="ZeroDivisionError"):
                await ours.run("careless", b"0")
            assert await ours.run("careless", b"-1") == b"-1"
            worker.stop()

    asyncio.run(story())


def test_status_by_handle_and_by_unique(client: Client, house: HouseWorker) -> None:
    job = client.submit("gate", unique="watched")
    wait_until(lambda: client.status(job).denominator == 7, "it shows progress")
    assert client.status(job) == Status(True, True, 3, 7)
    assert client.status(job.handle) == Status(True, True, 3, 7)
    assert client.status_unique("watched") == Status(True, True, 3, 7, clients=1)
    house.gate.release()
    assert job.result() == b"opened"
    assert client.status(job)[:5] == (False, False, 0, 0, 0)
    assert client.status_unique("watched").known is False


def test_joined_submits_of_one_connection_all_hear_everything(client: Client, house: HouseWorker) -> None:
    first = client.submit("gate", unique="shared")
    wait_until(lambda: client.status(first).denominator == 7, "it runs")
    second = client.submit("gate", unique="shared")
    assert second.handle == first.handle
    house.gate.release()
    assert (first.result(), second.result()) == (b"opened", b"opened")


def test_a_reducer_reaches_the_worker(client: Client) -> None:
    assert client.submit("reducer", b"data", reducer="adder").result() == b"adder:data"
    with pytest.raises(ValueError, match="priority"):
        client.submit("reducer", reducer="adder", priority="high")


def test_background_echo_and_admin(client: Client, house: HouseWorker) -> None:
    for priority in ("high", "normal", "low"):
        receipt = client.submit_background("note", priority.encode(), priority=priority)
        assert receipt.handle.startswith(b"H:")
    wait_until(lambda: {b"high", b"normal", b"low"} <= set(house.order), "all are done")
    assert client.echo(b"a\0b") == b"a\0b"
    assert any(line.startswith("reverse\t") for line in client.admin("status"))
    assert client.admin("version")[0].startswith("OK ")
    with pytest.raises(ServerError) as refused:
        client.admin("nonsense")
    assert refused.value.code == "UNKNOWN_COMMAND"


def test_an_unknown_option_is_an_error(client: Client) -> None:
    client.echo(b"connected")
    with pytest.raises(ServerError):
        client.set_option("telepathy")
    assert client.run("reverse", b"on") == b"no"


def test_a_thousand_jobs_in_flight_on_one_connection(server: Server, house: HouseWorker) -> None:
    async def story() -> None:
        async with asyncio.timeout(30), AsyncClient(server.address) as client:
            results = await asyncio.gather(*(client.run("reverse", b"%d-" % number) for number in range(1000)))
            assert results == [(b"%d-" % number)[::-1] for number in range(1000)]

    asyncio.run(story())


def test_a_result_of_many_megabytes(client: Client) -> None:
    data = bytes(range(256)) * 32_768
    assert client.run("reverse", data) == data[::-1]


def test_a_worker_may_learn_and_forget_while_it_works(server: Server, client: Client) -> None:
    with HouseWorker(server.address, client_id="student") as house:
        server.wait_for_workers("gate", 2)
        house.worker.register("shout", lambda job: job.data.upper())
        assert client.run("shout", b"hello") == b"HELLO"
        house.worker.unregister("shout")
        wait_until(lambda: server.counts("shout")[2] == 0, "it has forgotten")


def test_a_call_can_be_given_up(server: Server, house: HouseWorker) -> None:
    with Client(server.address, timeout_s=20) as client:
        job = client.submit("gate")
        client.timeout_s = 0.2
        with pytest.raises(TimeoutError):
            job.result()
        house.gate.release()
        assert job.result(20) == b"opened"


def test_the_hall_goes_and_comes_back(hall: HallProcess) -> None:
    """The worker tries again until it is there; the client says what it lost, and goes on at the next call."""
    with HouseWorker(hall.address) as house, hall.client() as client:
        hall.wait_for_workers("gate")
        job = client.submit("gate")
        wait_until(lambda: client.status(job).running, "it runs")
        hall.kill()
        with pytest.raises(ConnectionLost):
            job.result()
        with pytest.raises(ConnectionLost):
            client.echo(b"anybody there?")
        house.gate.release()
        hall.start()
        assert client.run("reverse", b"hello again") == b"niaga olleh"


def test_two_servers(hall: HallProcess, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A worker serves both with one slot; the client turns to the second when the first is gone."""
    with (
        HallProcess(tmp_path_factory.mktemp("second")) as second,
        Client(hall.address, second.address, timeout_s=20) as client,
        HouseWorker(hall.address, second.address, slots=1) as house,
    ):
        hall.wait_for_workers("note")
        second.wait_for_workers("note")
        assert client.submit_background("note", b"at the first").server == hall.address
        gate = client.submit("gate")
        hall.kill()
        with pytest.raises(ConnectionLost):
            gate.result()
        receipt = client.submit_background("note", b"at the second")
        assert receipt.server == second.address
        house.gate.release()
        wait_until(lambda: not client.status(receipt).known, "it is done")
        assert not client.status_unique("no such job").known


def test_the_status_of_an_ended_background_job_tells_its_end(tmp_path: Path) -> None:
    with HallProcess(tmp_path) as hall, hall.client() as client:
        jobs = {what: client.submit_background("deed", what.encode()) for what in ("good", "bad")}
        jobs["unwanted"] = client.submit_background("undone")
        assert client.status(jobs["good"]) == Status(known=True, running=False, numerator=0, denominator=0)

        def deed(job: WorkerJob) -> bytes:
            return b"done" if job.data == b"good" else b"%d" % (1 // 0)

        worker = Worker(hall.address)
        worker.register("deed", deed)
        with worker:
            wait_until(lambda: hall.counts("deed")[0] == 0, "both have ended")
        client.admin(f"cancel job {jobs['unwanted'].handle.decode()}")
        ends = {what: client.status(job).end for what, job in jobs.items()}
        assert ends == {"good": "done", "bad": "failed", "unwanted": "cancelled"}
        assert client.status(jobs["good"].handle).end == "done", "by its bare handle too"
        assert client.status(b"H:hall:1").end == ""


def test_a_server_that_keeps_no_ends_tells_none(server: Server, house: HouseWorker) -> None:
    with server.client() as client:
        receipt = client.submit_background("reverse", b"hello")
        wait_until(lambda: not client.status(receipt).known, "it has ended")
        assert client.status(receipt).end == ("" if isinstance(server, Gearmand) else "done")
