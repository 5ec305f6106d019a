"""Debian's `gearadmin`: what it shows and does at the hall is what it shows and does at gearmand.

This version of it has no flag for `shutdown`; that command is in test_drain.py.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from foreign import missing_program
from hall_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hall_process import Server
    from house_worker import HouseWorker

    from hiringhall.peers.gearman import Client


@pytest.fixture(autouse=True, scope="module")
def tools(need: Callable[[str], None]) -> None:
    need(missing_program("gearadmin"))


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


def gearadmin(server: Server, *arguments: str) -> str:
    """What it writes: the answer, or the server's complaint."""
    command = ["gearadmin", "--host=127.0.0.1", f"--port={server.port}", *arguments]
    ended = subprocess.run(command, capture_output=True, timeout=20, check=False)
    assert ended.returncode == 0, ended
    return (ended.stdout + ended.stderr).decode().replace("\r", "")


def table(text: str) -> list[list[str]]:
    """The rows of an answer that ends with a dot."""
    *lines, dot = text.splitlines()
    assert dot == "."
    return [line.split("\t") for line in lines]


def test_status(server: Server, client: Client, house: HouseWorker) -> None:
    client.submit_background("shown", b"1")
    client.submit_background("shown", b"2")
    gate = client.submit("gate", b"x")
    wait_until(lambda: client.status(gate).running, "the gate job runs")
    rows = table(gearadmin(server, "--status"))
    assert ["shown", "2", "0", "0"] in rows
    assert ["gate", "1", "1", "1"] in rows
    assert ["reverse", "0", "0", "1"] in rows
    house.gate.release()
    assert gate.result() == b"opened"
    assert ["gate", "0", "0", "1"] in table(gearadmin(server, "--status"))


def test_priority_status(server: Server, client: Client) -> None:
    """Queued jobs of high, normal and low priority, then the workers."""
    for priority in ("high", "low", "low", "normal", "normal", "normal"):
        client.submit_background("ranked", b"x", priority=priority)
    assert ["ranked", "1", "3", "2", "0"] in table(gearadmin(server, "--priority-status"))


def test_workers(server: Server, house: HouseWorker) -> None:
    """Descriptor, address, id, a colon, functions."""
    rows = [row for (row,) in table(gearadmin(server, "--workers")) if "gate" in row.split()]
    assert len(rows) == 1
    descriptor, address, name, colon, *functions = rows[0].split()
    assert descriptor.isdecimal()
    assert (address, name, colon) == ("127.0.0.1", "house", ":")
    assert {"reverse", "count", "gate"} <= set(functions)


def test_process_id_version_and_verbosity(server: Server) -> None:
    assert gearadmin(server, "--getpid") == f"{server.pid}\n"
    assert gearadmin(server, "--server-version").startswith("1.1.20")
    assert gearadmin(server, "--server-verbose").strip() in {"ERROR", "WARNING", "NOTICE", "INFO", "DEBUG"}


def test_jobs_and_their_uniques(server: Server, client: Client) -> None:
    receipt = client.submit_background("listed", b"x", unique="listed-unique")
    handles = [row[0] for row in table(gearadmin(server, "--show-jobs"))]
    assert receipt.handle.decode() in handles
    assert ["listed-unique"] in table(gearadmin(server, "--show-unique-jobs"))


def test_cancel_a_waiting_job(server: Server, client: Client) -> None:
    receipt = client.submit_background("cancelled", b"x", unique="no-more")
    assert gearadmin(server, "--cancel-job", receipt.handle.decode()) == "OK\n"
    assert not client.status(receipt).known
    assert server.counts("cancelled")[0] == 0
    assert "UNKNOWN_JOB" in gearadmin(server, "--cancel-job", receipt.handle.decode())
    assert "UNKNOWN_JOB" in gearadmin(server, "--cancel-job", "H:elsewhere:1")


def test_create_and_drop_a_function(server: Server, client: Client) -> None:
    assert gearadmin(server, "--create-function", "planned") == "OK\n"
    assert ["planned", "0", "0", "0"] in table(gearadmin(server, "--status"))
    assert gearadmin(server, "--drop-function", "planned") == "OK\n"
    assert "planned" not in [row[0] for row in table(gearadmin(server, "--status"))]
    assert "function not found" in gearadmin(server, "--drop-function", "planned")


def test_a_function_with_workers_is_not_dropped(server: Server, house: HouseWorker) -> None:
    assert "still connected workers" in gearadmin(server, "--drop-function", "gate")
