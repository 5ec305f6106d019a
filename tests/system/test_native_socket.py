"""The Unix socket of the native door, on a real hall: in the data folder, or at a path of its own."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from hall_process import CODE, HallProcess, wait_until
from native_peer import NativePeer

from stage import forking

if TYPE_CHECKING:
    from pathlib import Path

NATIVE = {"dialect": "native"}


def test_the_socket_in_the_data_folder_lives_as_long_as_the_hall(tmp_path: Path) -> None:
    with HallProcess(tmp_path, door=NATIVE) as hall:
        file = hall.data / "native.sock"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with NativePeer(file) as ann, NativePeer(hall.port) as bob:
            job = ann.submit(b"q", b"1", watch=1)
            bob.work(b"q")
            bob.ask("finish", (bob.hear("assign")[0], b"done"))
            assert ann.hear("ended") == [job, "done", 0, b"done"]
        hall.kill()
        assert file.is_socket()
        hall.start()
        with NativePeer(file) as ann:
            assert ann.ask("job", (job,))["state"] == "done"
            ann.socket.sendall(b"\xff\xff\xff\xff")
            wait_until(lambda: f"door=native@unix:{file} peer=unix" in hall.errors(), "bad input is in the log")
        hall.drain()
        hall.wait()
        assert not file.exists()


def test_a_door_may_be_a_socket_alone_and_the_first_native_door_has_the_other_one(tmp_path: Path) -> None:
    file = tmp_path / "own.sock"
    door = f"native=unix:{file}"
    more = f'[[door]]\ndialect = "native"\naddress = "unix:{file}"\n'
    with HallProcess(tmp_path, door=NATIVE, more=more) as hall:
        with NativePeer(file) as ann:
            job = ann.submit(b"q", b"1")
        other = forking.run(
            [*forking.HALL, "serve", "--storage", "memory", "--door", door],
            cwd=hall.data,
            env={**os.environ, "PYTHONPATH": CODE},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert other.returncode == 1
        assert other.stderr.startswith(f"hall: door[0]: unix:{file} is in use by another program")
        for place in (hall.port, hall.data / "native.sock", file):
            with NativePeer(place) as peer:
                assert peer.ask("job", (job,))["state"] == "queued"
        hall.drain()
        hall.wait()
    assert not file.exists()


@pytest.mark.parametrize(
    ("hall_settings", "text"), [({"storage": "memory"}, ""), ({}, "is too long: the system allows 107 bytes")]
)
def test_a_hall_without_a_folder_or_with_a_long_path_opens_without_it(
    tmp_path: Path, hall_settings: dict[str, str], text: str
) -> None:
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    with HallProcess(folder, hall=hall_settings, door=NATIVE) as hall:
        with NativePeer(hall.port) as ann:
            assert ann.submit(b"q", b"1") > 0
        hall.wait_for_errors(text)
        assert not (hall.data / "native.sock").exists()


def test_a_gearman_door_has_no_socket(tmp_path: Path) -> None:
    with HallProcess(tmp_path) as hall:
        assert not (hall.data / "native.sock").exists()
