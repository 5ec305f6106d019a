"""Our own client and worker of the draft, against the hall."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import pkgutil
from typing import TYPE_CHECKING

import pytest
from draft_house import DraftHouse
from draft_link import DraftLink
from hall_process import HallProcess, wait_until

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers import gearman_draft
from hiringhall.peers.gearman_draft import (
    Client,
    ConnectionLost,
    Job,
    JobFailed,
    Outcome,
    ServerError,
    Status,
    Task,
    Worker,
    blocking,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from house_worker import HouseWorker

MODULES = [
    gearman_draft.__name__,
    *(f"{gearman_draft.__name__}.{module.name}" for module in pkgutil.iter_modules(gearman_draft.__path__)),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """Always the hall: nobody else speaks the draft."""
    with HallProcess(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def draft_house(server: HallProcess) -> Iterator[DraftHouse]:
    with DraftHouse(server.address) as house:
        server.wait_for_workers("draft-gate")
        yield house


@pytest.fixture
def client(server: HallProcess, draft_house: DraftHouse) -> Iterator[blocking.Client]:
    with blocking.Client(server.address, timeout_s=20) as client:
        yield client


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_its_words_are_true(name: str, server: HallProcess, house: HouseWorker) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        example.globs["server"] = server.address
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


def test_a_job_that_is_waited_for_streams_its_status_and_its_result(client: blocking.Client) -> None:
    heard: list[Status] = []
    assert client.run("draft-count", b"a\0b", on_status=heard.append) == b"b\0a"
    assert heard == [Status(1, 3, 2), Status(2, 3, 1), Status(3, 3, 0)]


@pytest.mark.parametrize("code", [1, 100, 255])
def test_error_codes_come_through_both_ways(client: blocking.Client, code: int) -> None:
    with pytest.raises(JobFailed) as failed:
        client.run("draft-fail", b"%d" % code)
    assert (failed.value.code, failed.value.data) == (code, b"as you wish")
    job = client.submit("draft-fail", b"%d" % code)
    assert client.wait(job)[1:] == (code, b"as you wish")


def test_a_function_that_raises_fails_its_task_with_the_text(client: blocking.Client) -> None:
    with pytest.raises(JobFailed, match="code 1: ZeroDivisionError"):
        client.run("draft-raise")
    assert client.run("draft-raise", b"x") == b"1"


def test_a_handle_tells_status_and_result(client: blocking.Client, draft_house: DraftHouse) -> None:
    job = client.submit("draft-gate")
    assert client.result(job) is None
    wait_until(lambda: client.status(job).denominator == 7, "it shows progress")
    numerator, denominator, remaining_s = client.status(job)
    assert (numerator, denominator) == (3, 7)
    assert 3500 < remaining_s <= 3600
    assert client.result(job) is None
    draft_house.gate.release()
    outcome = client.wait(job)
    assert outcome == Outcome(outcome.elapsed_s, 0, b"opened")
    assert 1 <= outcome.elapsed_s < 60
    assert client.status(job)[2] == 0
    assert client.status(job)[0] == client.status(job)[1] > 0
    assert client.result(job) == outcome, "it may be read again"


def test_throw_away_jobs_are_done_and_priorities_kept(server: HallProcess) -> None:
    with blocking.Client(server.address, timeout_s=20) as client:
        for priority in ("low", "normal", "high"):
            for number in "12":
                words = f"{priority}{number}".encode()
                assert client.throw_away("later", words, priority=priority).handle == b""
        assert client.jobs == []
    house = DraftHouse(server.address)
    house.worker.can_do("later", house.note)
    with house:
        wait_until(lambda: len(house.order) == 6, "all are done")
    assert house.order == [b"high1", b"high2", b"normal1", b"normal2", b"low1", b"low2"]


def test_a_key_joins_a_live_job(client: blocking.Client, draft_house: DraftHouse) -> None:
    one = client.submit("draft-gate", key="same")
    two = client.submit("draft-gate", key="same")
    other = client.submit("draft-note", key="same")
    assert one.handle == two.handle != other.handle
    draft_house.gate.release()
    assert client.wait(one) == client.wait(two)
    client.wait(other)
    assert client.submit("draft-note", key="same").handle != other.handle, "that one has ended"


def test_a_handle_that_nobody_was_given(client: blocking.Client, server: HallProcess) -> None:
    for handle in (b"H:hall:1", b"H:hall:99999999999999999999", b"nonsense"):
        job = Job(b"f", b"", server=server.address, handle=handle)
        for ask in (client.status, client.result):
            with pytest.raises(ServerError) as refused:
                ask(job)
            assert refused.value.code == wire.UNKNOWN_HANDLE


def test_a_job_that_nobody_waits_for_any_more_is_not_done(server: HallProcess) -> None:
    async def story() -> None:
        async with asyncio.timeout(20), Client(server.address) as client:
            run = asyncio.create_task(client.run("nobody-does-this"))
            await asyncio.to_thread(
                wait_until, lambda: server.counts("nobody-does-this")[0] == 1, "it is there"
            )
            run.cancel()
            await asyncio.to_thread(wait_until, lambda: server.counts("nobody-does-this")[0] == 0, "it is gone")

    asyncio.run(story())


def test_a_goodbye_gives_the_task_back_without_blame(server: HallProcess) -> None:
    async def story() -> None:
        async with asyncio.timeout(30), Client(server.address) as client:
            job = await client.submit("handed-back", b"x")
            for _ in range(5):
                async with await DraftLink.open(server.address) as worker:
                    worker.send(wire.pack_worker_connect([b"handed-back"]))
                    assert await worker.ask(wire.JOB_ASSIGN_REQ_PACKET) == ("job_assign_res", b"handed-back\0x")
                    worker.send(wire.WORKER_DISCONNECT_PACKET)
                    # It is no worker any more, but may still ask as an application.
                    assert await worker.ask(wire.pack_job_complete_req(job.handle)) == (
                        "job_complete_res",
                        bytes(5),
                    )
            with DraftHouse(server.address) as house:
                house.worker.can_do("handed-back", house.note)
                assert (await client.wait(job)).data == b"noted"

    asyncio.run(story())


def test_a_thousand_jobs_in_flight(client: blocking.Client, server: HallProcess) -> None:
    async def story() -> None:
        async with asyncio.timeout(60), Client(server.address) as ours:
            jobs = await asyncio.gather(*(ours.submit("draft-note", b"%d" % number) for number in range(1000)))
            assert len({job.handle for job in jobs}) == 1000
            outcomes = await asyncio.gather(*(ours.wait(job, pause_max_s=0.2) for job in jobs))
            assert {outcome.data for outcome in outcomes} == {b"noted"}
            assert ours.jobs == []

    asyncio.run(story())


def test_a_result_of_many_megabytes(client: blocking.Client) -> None:
    data = bytes(range(256)) * 32_768
    assert client.run("draft-count", data) == data[::-1]


def test_the_hall_goes_and_comes_back(hall: HallProcess) -> None:
    """The worker tries again until it is there; the client says what it lost, and goes on at the next call."""
    with DraftHouse(hall.address) as house, blocking.Client(hall.address, timeout_s=30) as client:
        job = client.submit("draft-gate")
        wait_until(lambda: client.status(job).denominator == 7, "it runs")
        hall.kill()
        with pytest.raises(ConnectionLost):
            client.status(job)
        with pytest.raises(ConnectionLost):
            client.run("draft-note")
        assert client.lost() == [job]
        house.gate.release(2)
        hall.start()
        assert client.lost() == [], "it is on the hall's disk"
        assert client.wait(job, away_s=5).data == b"opened"
        assert client.run("draft-count", b"again") == b"niaga"


def test_a_handle_of_a_hall_in_memory_names_nothing_after_a_restart(tmp_path: Path) -> None:
    """Above all no job of somebody else's."""
    with HallProcess(tmp_path, hall={"storage": "memory"}) as hall, blocking.Client(hall.address) as mine:
        job = mine.submit("mail")
        hall.kill()
        hall.start()
        with DraftHouse(hall.address), blocking.Client(hall.address) as other:
            theirs = other.submit("draft-count", b"x")
            assert other.wait(theirs, timeout_s=20).data == b"x"
        assert theirs.handle != job.handle
        assert mine.lost() == [job]
        with pytest.raises(ServerError, match="this handle is not valid"):
            mine.result(job)


def test_a_result_over_the_halls_limit_fails_its_task(tmp_path: Path) -> None:
    """The hall refuses it once, and counts a loss; then the worker knows."""
    runs: list[bytes] = []
    words = (
        b"the result of 2097152 bytes is too large for a packet: the server refused a packet of 2097153 bytes"
    )

    def swell(task: Task) -> bytes:
        runs.append(task.args)
        return bytes(2 << 20)

    with HallProcess(tmp_path, door={"packet_bytes_max": "1 MiB"}) as hall:
        house = DraftHouse(hall.address)
        house.worker.can_do("swell", swell)
        with house, blocking.Client(hall.address) as client:
            for number in (b"1", b"2"):
                outcome = client.wait(client.submit("swell", number), timeout_s=20)
                assert outcome[1:] == (1, words)
            assert client.run("draft-count", b"ab") == b"ba"
    assert runs == [b"1", b"1", b"2"]
    assert [error.code for error in house.complaints] == [wire.PACKET_TOO_LARGE]


def test_a_function_that_is_given_up_under_load_loses_no_task(server: HallProcess) -> None:
    """Whatever the hall was handing out at that moment is next again."""

    async def story() -> None:
        async with asyncio.timeout(30), Client(server.address) as client, asyncio.TaskGroup() as group:
            jobs = [await client.submit("fickle", b"%d" % number) for number in range(20)]
            worker = Worker(server.address)
            done: list[bytes] = []
            given_up = asyncio.Event()

            def give_up() -> None:
                worker.cant_do("fickle")
                given_up.set()

            async def work(task: Task) -> bytes:
                done.append(task.args)
                if len(done) == 5:
                    # A few turns of the loop later the next question is on its way.
                    asyncio.get_running_loop().call_later(0.0, give_up)
                return b"by the first"

            worker.can_do("fickle", work)
            group.create_task(worker.run())
            await given_up.wait()
            with DraftHouse(server.address) as house:
                house.worker.can_do("fickle", house.note)
                outcomes = [await client.wait(job) for job in jobs]
            worker.stop()
        assert {outcome.code for outcome in outcomes} == {0}
        assert sorted(done + house.order) == sorted(job.args for job in jobs)

    asyncio.run(story())
