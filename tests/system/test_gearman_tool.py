"""Debian's `gearman`, as a client and as a worker, in the words of its manual page."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from foreign import Program, missing_program
from hall_process import wait_until
from house_worker import HouseWorker

from hiringhall.peers.gearman import Data, JobFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hall_process import Server


@pytest.fixture(autouse=True, scope="module")
def tools(need: Callable[[str], None]) -> None:
    need(missing_program("gearman", "rev"))


def command(server: Server, *arguments: str) -> list[str]:
    return ["gearman", "-h", "127.0.0.1", "-p", str(server.port), *arguments]


def run(server: Server, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """The tool's exit code and what it wrote to stdout and stderr."""
    ended = subprocess.run(
        command(server, *arguments), input=stdin, capture_output=True, timeout=20, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_the_first_job_of_every_tutorial(server: Server, tmp_path: Path) -> None:
    with Program(command(server, "-w", "-f", "rev", "--", "rev"), tmp_path):
        server.wait_for_workers("rev")
        assert run(server, "-f", "rev", "hello") == (0, b"olleh", b"")
        assert run(server, "-f", "rev", stdin=b"from stdin\n") == (0, b"nidts morf\n", b"")
    server.wait_for_workers("rev", 0)


@pytest.mark.parametrize("flags", [(), ("-I",), ("-L",)], ids=["normal", "high", "low"])
def test_foreground(server: Server, house: HouseWorker, flags: tuple[str, ...]) -> None:
    assert run(server, *flags, "-f", "reverse", "hello") == (0, b"olleh", b"")


def test_no_input_is_read_with_s(server: Server, house: HouseWorker) -> None:
    assert run(server, "-s", "-f", "reverse", stdin=b"ignored") == (0, b"", b"")


def test_a_job_for_each_line(server: Server, house: HouseWorker) -> None:
    assert run(server, "-n", "-f", "reverse", stdin=b"one\ntwo\n") == (0, b"\neno\nowt", b"")
    assert run(server, "-N", "-f", "reverse", stdin=b"one\ntwo\n") == (0, b"enoowt", b"")


def test_output_with_the_functions_name(server: Server, house: HouseWorker) -> None:
    assert run(server, "-P", "-f", "reverse", "hello") == (0, b"reverse: olleh", b"")


def test_one_job_for_two_functions(server: Server, house: HouseWorker) -> None:
    code, stdout, _ = run(server, "-f", "reverse", "-f", "chunks", "hello")
    assert (code, sorted(stdout)) == (0, sorted(b"ollehonetwothree"))


def test_progress_chunks_and_warnings(server: Server, house: HouseWorker) -> None:
    code, stdout, _ = run(server, "-f", "count", "x")
    assert code == 0
    assert b"counted" in stdout
    assert b"33% Complete\n66% Complete\n100% Complete\n" in stdout
    assert run(server, "-f", "chunks", "x") == (0, b"onetwothree", b"")
    assert run(server, "-f", "warn", "x") == (0, b"warned", b"careful")


def test_failure_and_exception(server: Server, house: HouseWorker) -> None:
    """The tool asks for no exceptions, so both are the same to it."""
    assert run(server, "-f", "fail", "x") == (1, b"", b"Job failed\n")
    assert run(server, "-f", "raise", "x") == (1, b"", b"Job failed\n")


def test_unique(server: Server, house: HouseWorker) -> None:
    assert run(server, "-u", "mine", "-f", "unique", "x") == (0, b"mine", b"")


def test_a_background_job_with_a_unique_is_not_doubled(server: Server) -> None:
    for _ in range(3):
        assert run(server, "-b", "-u", "once", "-f", "nobody-yet", "x") == (0, b"", b"")
    assert server.counts("nobody-yet") == (1, 0, 0)


def test_high_goes_before_normal_before_low(server: Server) -> None:
    """They wait until a worker comes; it finds the high ones first, each priority in the order of coming."""
    for flag, name in (("-L", "low"), ("-s", "normal"), ("-I", "high")):
        for number in "12":
            assert run(server, "-b", flag, "-f", "ordered", name + number)[0] == 0
    house = HouseWorker(server.address, slots=1)
    house.worker.register("ordered", house.note)
    with house:
        wait_until(lambda: len(house.order) == 6, "all are done")
    assert house.order == [b"high1", b"high2", b"normal1", b"normal2", b"low1", b"low2"]


def test_its_worker_sends_data_for_each_line(server: Server, tmp_path: Path) -> None:
    with Program(command(server, "-w", "-N", "-c", "1", "-f", "lines", "--", "cat"), tmp_path) as worker:
        server.wait_for_workers("lines")
        with server.client() as client:
            job = client.submit("lines", b"a\n")
            assert list(job) == [Data(b"a")]
            assert job.result() == b""
        assert worker.finish() == 0, "it was told to do one job and end"


def test_its_worker_reports_a_command_that_fails(server: Server, tmp_path: Path) -> None:
    with Program(command(server, "-w", "-f", "failing", "--", "false"), tmp_path):
        server.wait_for_workers("failing")
        with server.client() as client, pytest.raises(JobFailed):
            client.run("failing", b"x")
