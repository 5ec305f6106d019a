"""Other people's workers stand in the hall; a client of ours hands in the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from foreign import KINDS, PERL, Kind, open_worker
from hall_process import wait_until

from hiringhall.peers.gearman import Data, JobFailed, Progress, Warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foreign import Program
    from hall_process import Server

    from hiringhall.peers.gearman import Client


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest, need: Callable[[str], None]) -> Kind:
    kind: Kind = request.param
    need(kind.missing())
    return kind


@pytest.fixture(scope="module")
def server(server_kind: type[Server], kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for each kind of worker, so that what one leaves undone does not come to the next."""
    with server_kind(tmp_path_factory.mktemp(f"server-{kind.name}")) as server:
        yield server


@pytest.fixture(scope="module")
def worker(kind: Kind, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with open_worker(kind, server.address, tmp_path_factory.mktemp(kind.name)) as worker:
        server.wait_for_workers("gate")
        yield worker


@pytest.fixture
def client(server: Server, worker: Program) -> Iterator[Client]:
    with server.client() as client:
        yield client


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
def test_it_does_a_job(client: Client, priority: str) -> None:
    assert client.run("reverse", b"hello", priority=priority) == b"olleh"  # type: ignore[arg-type]


def test_it_does_many(client: Client) -> None:
    jobs = [client.submit("reverse", b"%d-" % number) for number in range(50)]
    assert [job.result() for job in jobs] == [(b"%d-" % number)[::-1] for number in range(50)]


def test_its_progress_is_heard(client: Client) -> None:
    job = client.submit("count", b"x")
    assert list(job) == [Progress(1, 3), Progress(2, 3), Progress(3, 3)]
    assert job.result() == b"counted"


def test_its_chunks_are_heard(client: Client) -> None:
    job = client.submit("chunks", b"x")
    assert list(job) == [Data(b"one"), Data(b"two")]
    assert job.result() == b"three"


def test_its_warnings_are_heard(client: Client) -> None:
    job = client.submit("warn", b"x")
    assert list(job) == [Warned(b"careful")]
    assert job.result() == b"warned"


def test_its_failure_is_heard(client: Client) -> None:
    with pytest.raises(JobFailed) as caught:
        client.run("fail", b"x")
    assert caught.value.exception == b""


def test_its_exception_is_heard_and_it_goes_on(client: Client) -> None:
    """gearman3's and libgearman's send a failure after the exception: it is no fault."""
    for _ in range(3):
        with pytest.raises(JobFailed) as caught:
            client.run("raise", b"x")
        assert caught.value.exception == b"boom"
    assert client.run("reverse", b"on") == b"no"


def test_perls_handler_may_die(client: Client, kind: Kind) -> None:
    """Its module then sends an exception of its own form and a failure, and takes an ERROR for its death."""
    if kind is PERL:
        for _ in range(3):
            with pytest.raises(JobFailed) as caught:
                client.run("die", b"x")
            assert b"boom" in caught.value.exception
        assert client.run("reverse", b"on") == b"no"


def test_perls_empty_result_is_a_result(client: Client, kind: Kind) -> None:
    """Its module leaves the data out, and the NUL before it, when the result is false to Perl."""
    if kind is PERL:
        assert client.run("reverse", b"0") == b""
        assert client.run("reverse", b"on") == b"no"


def test_it_is_told_the_unique(client: Client, kind: Kind) -> None:
    if kind is not PERL:
        assert client.run("unique", b"x", unique="mine") == b"mine"


def test_it_is_listed_by_its_name(client: Client, kind: Kind, worker: Program) -> None:
    lines = [line for line in client.admin("workers") if "gate" in line.split()]
    assert len(lines) == 1
    assert lines[0].split()[2] == kind.name


def test_status_by_handle_and_by_unique(client: Client, worker: Program, kind: Kind) -> None:
    receipt = client.submit_background("gate", b"x", unique="the-gate")
    assert worker.line() == "gate"
    wait_until(lambda: client.status(receipt).denominator == 7, "progress is known")
    assert client.status(receipt)[:4] == (True, True, 3, 7)
    assert client.status_unique("the-gate")[:5] == (True, True, 3, 7, 0)
    worker.say("open")
    wait_until(lambda: not client.status(receipt).known, "the job has ended")


def test_a_job_that_comes_while_it_sleeps_wakes_it(client: Client, kind: Kind) -> None:
    """Each round waits for the one before, so that the worker has found nothing and sleeps, or is about to."""
    for number in range(20):
        assert client.run("reverse", b"job-%d" % number) == (b"job-%d" % number)[::-1]
