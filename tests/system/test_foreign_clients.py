"""Other people's clients hand in jobs at the hall; a worker of ours does them.

What a library cannot express is named in the table of its test, and the opening of its program says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from foreign import GEAR, GEARMAN3, GEARMANODE, KINDS, LIBGEARMAN, PERL, Kind, open_client
from hall_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from foreign import Program
    from hall_process import Server
    from house_worker import HouseWorker

CANNOT: Final = {
    "unique": {PERL, GEAR, GEARMAN3, GEARMANODE},
    "echo": {PERL, GEAR, GEARMAN3},
    "at": {PERL, GEAR, GEARMAN3, GEARMANODE},
    "reduce": {PERL, GEAR, GEARMAN3, GEARMANODE},
    "twins": {GEAR, GEARMAN3, GEARMANODE, LIBGEARMAN},
    "read a status": {GEARMAN3},
    "hear exceptions": {GEARMAN3},
    "hear each progress": {GEARMAN3},
}


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest, need: Callable[[str], None]) -> Kind:
    kind: Kind = request.param
    need(kind.missing())
    return kind


@pytest.fixture(scope="module")
def folder(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where its program is built, once."""
    return tmp_path_factory.mktemp(kind.name)


@pytest.fixture
def client(kind: Kind, server: Server, house: HouseWorker, folder: Path) -> Iterator[Program]:
    with open_client(kind, server.address, folder) as client:
        yield client


def can(kind: Kind, what: str, client: Program) -> bool:
    """Whether this library can say it; where it cannot, its program has to agree."""
    if kind not in CANNOT[what]:
        return True
    if what in {"unique", "echo", "at", "reduce", "twins"}:
        assert client.ask(what, "1", "x", "x", "x") == ["cannot"]
    return False


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
def test_a_foreground_job_comes_back_with_its_result(client: Program, priority: str) -> None:
    assert client.ask("run", priority, "reverse", ".", "hello") == ["complete olleh"]


def test_progress_is_heard(kind: Kind, client: Program) -> None:
    expected = ["progress 1 3", "progress 2 3", "progress 3 3", "complete counted"]
    if not can(kind, "hear each progress", client):
        expected = expected[2:]
    assert client.ask("run", "normal", "count", ".", "x") == expected


def test_chunks_are_heard(client: Program) -> None:
    assert client.ask("run", "normal", "chunks", ".", "x") == ["data one", "data two", "complete three"]


def test_warnings_are_heard(client: Program) -> None:
    assert client.ask("run", "normal", "warn", ".", "x") == ["warning careful", "complete warned"]


def test_a_failure_is_heard(client: Program) -> None:
    assert client.ask("run", "normal", "fail", ".", "x") == ["fail"]
    assert client.ask("run", "normal", "reverse", ".", "on") == ["complete no"]


def test_an_exception_is_heard(kind: Kind, client: Program) -> None:
    heard = ["exception boom"] if can(kind, "hear exceptions", client) else ["fail"]
    assert client.ask("run", "normal", "raise", ".", "x") == heard
    assert client.ask("run", "normal", "reverse", ".", "on") == ["complete no"]


def test_the_worker_is_told_the_unique(client: Program, kind: Kind) -> None:
    assert client.ask("run", "normal", "unique", f"mine-{kind.name}", "x") == [f"complete mine-{kind.name}"]


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
def test_a_background_job_is_done(
    kind: Kind, client: Program, house: HouseWorker, server: Server, priority: str
) -> None:
    data = f"{kind.name}-{priority}"
    (created,) = client.ask("background", priority, "note", f"note-{data}", data)
    assert created.startswith("created H:")
    wait_until(lambda: data.encode() in house.order, "the job is done")


def test_status_by_handle_and_by_unique(
    kind: Kind, client: Program, house: HouseWorker, server: Server
) -> None:
    unique = f"gate-{kind.name}"
    (created,) = client.ask("background", "normal", "gate", unique, "x")
    handle = created.removeprefix("created ")
    with server.client() as ours:
        wait_until(lambda: ours.status_unique(unique).denominator == 7, "the job shows progress")
        seen = "1 1" if can(kind, "read a status", client) else "0 0"
        assert client.ask("status", handle) == [f"status {seen} 3 7"]
        if can(kind, "unique", client):
            assert client.ask("unique", unique) == ["status 1 1 3 7 0"]
            assert client.ask("unique", "never-heard-of") == ["status 0 0 0 0 0"]
        house.gate.release()
        wait_until(lambda: not ours.status(handle.encode()).known, "the job has ended")
    assert client.ask("status", handle) == ["status 0 0 0 0"]


def test_echo(kind: Kind, client: Program) -> None:
    if can(kind, "echo", client):
        assert client.ask("echo", "anybody-there") == ["echo anybody-there"]


def test_a_job_for_later_waits_until_it_is_due(kind: Kind, client: Program, house: HouseWorker) -> None:
    """Due in the past is due now; that a job waits for a time to come is in test_delays.py."""
    if can(kind, "at", client):
        (created,) = client.ask("at", 1_000_000_000, "note", f"at-{kind.name}", f"at-{kind.name}")
        assert created.startswith("created H:")
        wait_until(lambda: f"at-{kind.name}".encode() in house.order, "the job is done")


def test_a_reducer_reaches_the_worker(kind: Kind, client: Program) -> None:
    if can(kind, "reduce", client):
        assert client.ask("reduce", "reducer", "adder", "some-unique", "data") == ["complete adder:data"]


def test_two_submits_of_one_connection_that_are_joined_both_end(
    kind: Kind, client: Program, house: HouseWorker, server: Server
) -> None:
    if not can(kind, "twins", client):
        return
    client.say("twins", "gate", f"twins-{kind.name}", "x")
    with server.client() as ours:
        wait_until(lambda: ours.status_unique(f"twins-{kind.name}").clients == 2, "both are there")
    house.gate.release()
    ends = [line for line in client.answer() if not line.startswith("progress")]
    assert ends == ["complete opened", "complete opened"]
