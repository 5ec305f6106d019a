"""Jobs of a file go in at a Gearman door: of a hall that takes them, of one that refuses, and of nobody."""

from __future__ import annotations

import base64
import json
import signal
import socket
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moving_stage import done_by_worker, live, serve, write
from running import DEADLINE_S, HALL, Running, ask, run
from typer.testing import CliRunner

from hiringhall.cli.gearman_import import UNACKNOWLEDGED_MAX
from hiringhall.cli.main import app
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.session import data_key
from hiringhall.records import History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


def test_jobs_go_in_at_the_door_of_a_running_hall(tmp_path: Path) -> None:
    later_s = int(time.time()) + 3600
    payload = "the data is the key"
    key = base64.b64encode(data_key(payload.encode())).decode()
    write(
        tmp_path / "jobs.jsonl",
        *({"queue": "mail", "key": f"k{number}", "payload": f"p{number}"} for number in range(500)),
        {"queue": "mail", "key": "low", "payload": "last", "terms": {"priority": "low"}},
        {"queue": "mail", "key": "high", "payload": "first", "terms": {"priority": "high"}},
        {"queue": "mail", "key_base64": key, "payload": payload, "due": "2020-01-01T00:00:00Z"},
        {
            "queue": "mail",
            "key": "later",
            "due": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(later_s))}.5Z",
        },
    )
    with serve(tmp_path, "data") as hall:
        address = hall.opened()["doors"][0]["address"]
        for _ in range(2):
            sent = run(HALL, "import", "jobs.jsonl", "--door", address, "--json", cwd=tmp_path)
            assert sent.returncode == 0, sent.stderr
            assert json.loads(sent.stdout) == {"sent": 504, "door": address}
        assert ask(address, "status").split() == ["mail", "504", "0", "0"]
        assert live(tmp_path / "data")[-1].due is not None
        seen = done_by_worker(address, ["mail"], 503)
        expected = [b"first", *(b"p%d" % number for number in range(500)), payload.encode(), b"last"]
        assert [data for _, data in seen] == expected
        with History(tmp_path / "data") as history:
            (later,) = history.find(state="delayed")
        assert later.due is not None
        assert later.due.timestamp() == later_s + 1, "not before its time"


def test_what_a_door_cannot_carry_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    write(
        tmp_path / "jobs.jsonl",
        {"queue": "fine", "id": 1},
        {"queue": "a", "parents": [{"id": 1}], "extras": {"reducer": "sum"}},
        {"queue": "a", "due": "2100-01-01T00:00:00Z", "terms": {"priority": "low"}},
        {"queue": "a\0", "key": "b\0"},
        {"queue": "a", "key": "-"},
        {"queue": "a", "terms": {"skill": 1, "takes_us": 1}},
    )
    with serve(tmp_path, "data") as hall:
        address = hall.opened()["doors"][0]["address"]
        failed = run(HALL, "import", "jobs.jsonl", "--door", address, cwd=tmp_path)
        assert ask(address, "status") == "."
    assert (failed.returncode, failed.stdout) == (1, "")
    dash = 'the key "-", which has another meaning in Gearman'
    remedy = "import the file into a stopped hall"
    assert failed.stderr.splitlines() == [
        f"hall: jobs.jsonl: line 2: a Gearman door cannot take parents; {remedy}",
        f"hall: jobs.jsonl: line 2: a Gearman door cannot take extras; {remedy}",
        f"hall: jobs.jsonl: line 3: a Gearman door cannot take a priority together with a due time; {remedy}",
        f"hall: jobs.jsonl: line 4: a Gearman door cannot take a queue with a NUL in its name; {remedy}",
        f"hall: jobs.jsonl: line 4: a Gearman door cannot take a key with a NUL in it; {remedy}",
        f"hall: jobs.jsonl: line 5: a Gearman door cannot take {dash}; {remedy}",
        f"hall: jobs.jsonl: line 6: a Gearman door cannot take a required skill; {remedy}",
        f"hall: jobs.jsonl: line 6: a Gearman door cannot take an expected duration; {remedy}",
        "hall: jobs.jsonl: nothing was imported",
    ]


def test_a_door_that_refuses_tells_the_line_and_how_far_it_came(tmp_path: Path) -> None:
    write(tmp_path / "jobs.jsonl", {"queue": "a"}, {"queue": "a", "key": "k" * 600}, {"queue": "a"})
    with serve(tmp_path, "data") as hall:
        address = hall.opened()["doors"][0]["address"]
        failed = run(HALL, "import", "jobs.jsonl", "--door", address, cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr.startswith("hall: line 2: ")
    assert "a unique may have 512 bytes" in failed.stderr
    assert failed.stderr.endswith("; 2 of 3 jobs were imported\n")
    failed = run(HALL, "import", "jobs.jsonl", "--door", address, cwd=tmp_path)
    assert failed.returncode == 1, "nobody is there any more"
    assert failed.stderr == f"hall: {address}: Connection refused; no job was sent\n"
    failed = run(
        HALL, "import", "jobs.jsonl", "--door", address.replace("127.0.0.1", "localhost"), cwd=tmp_path
    )
    assert failed.stderr.endswith(": Connection refused; no job was sent\n"), "of all its addresses one reason"


def test_who_listens_and_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hiringhall.cli.gearman_import.ANSWER_S", 0.2)
    write(tmp_path / "jobs.jsonl", {"queue": "a"})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        failed = CliRunner().invoke(app, ["import", "jobs.jsonl", "--door", address])
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr == (
        f"hall: {address} did not answer within 0.2 s: it is not a Gearman door; no job was sent\n"
    )


def test_an_import_at_a_door_that_is_interrupted_tells_how_far_it_came(tmp_path: Path) -> None:
    total = UNACKNOWLEDGED_MAX + 5
    with stuck_import(tmp_path, total) as (importing, _, _):
        importing.signal(signal.SIGINT)
        assert importing.wait() == 130
        assert importing.errors() == (
            f"hall: interrupted; 2 of {total} jobs were imported, and {UNACKNOWLEDGED_MAX} more may have been\n"
        )


def test_a_door_that_is_lost_leaves_open_what_became_of_the_jobs_on_their_way(tmp_path: Path) -> None:
    total = UNACKNOWLEDGED_MAX + 2
    with stuck_import(tmp_path, total) as (importing, connection, address):
        connection.close()
        assert importing.wait() == 1
        said = importing.errors()
    assert said.startswith(f"hall: line 3: {address}: ")
    assert said.endswith(f"; 2 of {total} jobs were imported, and {UNACKNOWLEDGED_MAX} more may have been\n")


@contextmanager
def stuck_import(folder: Path, total: int) -> Iterator[tuple[Running, socket.socket, str]]:
    """An import of so many jobs, at a door that answers for two of them and then falls silent."""
    write(folder / "jobs.jsonl", *({"queue": "a"} for _ in range(total)))
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(DEADLINE_S)
        address = f"127.0.0.1:{door.getsockname()[1]}"
        with Running(HALL, "import", "jobs.jsonl", "--door", address, cwd=folder) as importing:
            connection, _ = door.accept()
            with connection:
                connection.settimeout(DEADLINE_S)
                take_two_jobs(connection)
                yield importing, connection, address


def take_two_jobs(connection: socket.socket) -> None:
    """A server that acknowledges two jobs, until it has seen from the two that follow that this was noticed."""
    jobs = 0
    with connection.makefile("rb") as words:
        while jobs < UNACKNOWLEDGED_MAX + 2:
            _, kind, size = struct.unpack(">4sII", words.read(wire.HEADER_BYTES))
            body = words.read(size)
            if kind == wire.OPTION_REQ:
                connection.sendall(wire.pack_response(wire.OPTION_RES, body))
            elif kind == wire.ECHO_REQ:
                connection.sendall(wire.pack_response(wire.ECHO_RES, body))
            else:
                jobs += 1
                if jobs <= 2:
                    connection.sendall(wire.pack_response(wire.JOB_CREATED, b"H:x:%d" % jobs))
