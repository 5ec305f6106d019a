"""The log of a running hall: what it tells, and that nobody waits for it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import zmq
from hall_process import CODE, HallProcess, wait_until

from hiringhall.dialects.gearman import wire
from stage import forking

if TYPE_CHECKING:
    from pathlib import Path

PIPE_BYTES = 4096
SERVE = [*forking.HALL, "serve", "--json"]
JSON = {"log_format": "json"}


def events(hall: HallProcess, kind: str) -> list[dict[str, Any]]:
    """The lines of one kind that the hall has written so far."""
    complete = hall.errors().rpartition("\n")[0].splitlines()
    return [line for line in map(json.loads, complete) if line["event"] == kind]


def wait_for(hall: HallProcess, kind: str) -> dict[str, Any]:
    wait_until(lambda: events(hall, kind), f"the log tells of {kind}")
    return events(hall, kind)[0]


def connect(hall: HallProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", hall.port), timeout=20)


def port_of(connection: socket.socket) -> int:
    port: int = connection.getsockname()[1]
    return port


def hold_a_job(hall: HallProcess, worker: socket.socket) -> str:
    """Have `worker` hold a background job of the function "rev"; its handle."""
    with connect(hall) as client:
        client.sendall(wire.pack_request(wire.SUBMIT_JOB_BG, b"rev", b"u7", b"payload"))
        created = client.recv(4096)
    worker.sendall(wire.pack_request(wire.CAN_DO, b"rev") + wire.pack_request(wire.GRAB_JOB))
    assert b"payload" in worker.recv(4096)
    return created[wire.HEADER_BYTES :].decode()


def test_a_dead_letter_is_told_with_door_peer_queue_and_handle(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall=JSON) as hall, connect(hall) as worker:
        handle = hold_a_job(hall, worker)
        worker.sendall(wire.pack_request(wire.WORK_FAIL, handle.encode()))
        line = wait_for(hall, "dead_letter")
        assert line["level"] == "warning"
        assert line["door"] == f"gearman@127.0.0.1:{hall.port}"
        assert line["peer"] == f"127.0.0.1:{port_of(worker)}"
        assert (line["queue"], line["handle"], line["key"]) == ("rev", handle, "u7")


def test_a_worker_that_dies_with_a_job_is_told_as_lost(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall=JSON) as hall:
        worker = connect(hall)
        peer = f"127.0.0.1:{port_of(worker)}"
        handle = hold_a_job(hall, worker)
        worker.close()
        line = wait_for(hall, "lost_worker")
        assert (line["peer"], line["queue"], line["handle"]) == (peer, "rev", handle)


def test_workers_that_a_closing_hall_sends_away_are_not_told_as_lost(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall={**JSON, "drain_grace_s": 0}) as hall, connect(hall) as worker:
        hold_a_job(hall, worker)
        hall.drain()
        assert hall.wait() == 0
        assert events(hall, "lost_worker") == []


def test_a_refused_submit_is_told_with_its_queue_and_key(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall=JSON, limits={"jobs_max": 1}) as hall, connect(hall) as client:
        for key in (b"first", b"second"):
            client.sendall(wire.pack_request(wire.SUBMIT_JOB_BG, b"rev", key, b""))
        line = wait_for(hall, "refused_submit")
        assert (line["queue"], line["key"]) == ("rev", "second")
        assert line["peer"] == f"127.0.0.1:{port_of(client)}"
        assert "jobs_max" in line["message"]


@pytest.mark.parametrize(
    ("nonsense", "quoted"),
    [
        (b"\0NONSENSE and more of it", "packets must start with"),
        (b"GET / HTTP/1.1\x1b[31m\r\n", "an unknown text command: GET / HTTP/1.1\\\\x1b[31m"),
        (wire.pack_request(200), "packet type 200"),
    ],
)
def test_who_speaks_nonsense_is_told_and_what_it_said_is_harmless(
    tmp_path: Path, nonsense: bytes, quoted: str
) -> None:
    with HallProcess(tmp_path, hall=JSON) as hall, connect(hall) as stranger:
        stranger.sendall(nonsense)
        line = wait_for(hall, "bad_input")
        assert quoted.replace("\\\\", "\\") in line["message"]
        assert line["message"].isprintable()
        assert line["peer"] == f"127.0.0.1:{port_of(stranger)}"


def test_much_nonsense_is_a_few_lines_and_a_count(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall=JSON) as hall:
        for _ in range(50):
            with connect(hall) as stranger:
                stranger.sendall(b"\0NONSENSE and more of it")
                while stranger.recv(4096):
                    pass
        hall.drain()
        assert hall.wait() == 0
        *lines, summary = events(hall, "bad_input")
        assert len(lines) == 5
        assert summary["repeated"] == "45"
        assert summary["message"].startswith("bad input: 45 more in ")


@pytest.mark.sqlite  # the lock of its file
def test_a_lock_taken_over_from_a_hall_that_was_killed_is_told(tmp_path: Path) -> None:
    with HallProcess(tmp_path) as hall:
        killed = hall.pid
        hall.kill()
        hall.start()
        wait_until(
            lambda: f"is taken over from another hall (process {killed})" in hall.errors(), "the line is there"
        )


def test_a_lock_that_was_released_is_not_told_as_taken_over(tmp_path: Path) -> None:
    with HallProcess(tmp_path) as hall:
        hall.drain()
        assert hall.wait() == 0
        hall.start()
        hall.drain()
        assert hall.wait() == 0
        assert "taken over" not in hall.errors()


def test_a_slow_commit_is_told(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall={**JSON, "slow_commit_s": 0}) as hall, connect(hall) as client:
        client.sendall(wire.pack_request(wire.SUBMIT_JOB_BG, b"rev", b"", b""))
        # The first commit may be one without changes: the hall looks for old lines of the history.
        wait_until(
            lambda: [line for line in events(hall, "slow_commit") if "for 1 change" in line["message"]],
            "it is told",
        )
        line = events(hall, "slow_commit")[-1]
        assert line["message"].startswith("slow commit: the store took ")
        assert float(line["seconds"]) > 0


def test_a_hall_whose_stderr_is_full_goes_on_and_ends(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.write(write_end, b"x" * PIPE_BYTES)
    process = forking.popen(
        [*SERVE, "--storage", "memory", "--door", "gearman=127.0.0.1:0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=write_end,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": CODE},
    )
    try:
        assert process.stdout is not None
        opened = json.loads(process.stdout.readline())
        port = int(opened["doors"][0]["address"].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            process.send_signal(signal.SIGUSR2)  # it tells that its audit is clean
            client.sendall(b"nonsense\n")
            assert client.recv(4096).startswith(b"ERR UNKNOWN_COMMAND")
            client.sendall(b"getpid\n")
            assert client.recv(4096) == b"OK %d\n" % process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        os.close(read_end)
        os.close(write_end)


def test_json_is_chosen_by_a_flag(tmp_path: Path) -> None:
    process = forking.popen(
        [*SERVE, "--storage", "memory", "--door", "gearman=127.0.0.1:0", "--log-format", "json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": CODE},
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=20)
    assert [json.loads(line)["message"] for line in log.splitlines()][-1] == "closed"


@pytest.mark.parametrize("dialect", ["dwork", "wmp"])
def test_nonsense_by_zeromq_is_told_with_the_identity_of_the_peer(tmp_path: Path, dialect: str) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with HallProcess(tmp_path, hall=JSON, door={"dialect": dialect}) as hall:
        stranger = context.socket(zmq.DEALER)
        stranger.setsockopt(zmq.IDENTITY, b"stranger-7")
        stranger.connect(f"tcp://{hall.address}")
        stranger.send_multipart([b"", b"", b"\xffnonsense"] if dialect == "wmp" else [b"\xffnonsense"])
        line = wait_for(hall, "bad_input")
        context.destroy(linger=0)
    assert (line["door"], line["peer"]) == (f"{dialect}@{hall.address}", "127.0.0.1/stranger-7")


def test_a_hire_line_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall=JSON, door={"dialect": "hire"}) as hall, connect(hall) as stranger:
        stranger.sendall(b"\x1b]0;nonsense\x07\n")
        line = wait_for(hall, "bad_input")
        assert (line["door"], line["peer"]) == (f"hire@{hall.address}", f"127.0.0.1:{port_of(stranger)}")
        assert line["message"].isprintable()
