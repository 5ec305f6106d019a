"""Who may come in by the dwork door: whoever has a key that it knows, and on the loopback everybody."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest
import zmq
import zmq.auth
from dwork_peer import Asker
from hall_process import CODE, HallProcess

from hiringhall.dialects.dwork import wire
from stage import forking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STATUS: Final = wire.encode(wire.OK)
DOOR: Final = ("--door", "dwork=127.0.0.1:0")
REFUSED_S: Final = 1.0
"""Who is not let in hears nothing; so long is waited for it."""


def certificate(folder: Path) -> tuple[str, bytes]:
    """The hall's file, and its public key."""
    public_file, secret_file = zmq.auth.create_certificates(folder, "hall")
    public, _ = zmq.auth.load_certificate(public_file)
    return secret_file, public


@pytest.fixture(scope="module")
def friend() -> tuple[bytes, bytes]:
    return zmq.curve_keypair()


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, friend: tuple[bytes, bytes]
) -> Iterator[tuple[HallProcess, bytes]]:
    """A hall that lets one client in, and the hall's public key."""
    folder = tmp_path_factory.mktemp("guarded")
    file, public = certificate(folder)
    door = {"dialect": "dwork", "curve.certificate": file, "curve.clients": [friend[0].decode()]}
    with HallProcess(folder, door=door) as hall:
        yield hall, public


def test_an_allowed_key_comes_in(guarded: tuple[HallProcess, bytes], friend: tuple[bytes, bytes]) -> None:
    hall, public = guarded
    with Asker(hall.address, keys=(public, *friend)) as asker:
        asker.create([(b"t", ())])
        assert asker.steal(b"w") == (wire.TRANSFER, [b"t"])
        assert asker.complete(b"w", [b"t"]) == []


@pytest.mark.parametrize("mistake", ["another key", "no key", "another hall's key"])
def test_everybody_else_hears_nothing(
    guarded: tuple[HallProcess, bytes], friend: tuple[bytes, bytes], mistake: str
) -> None:
    hall, public = guarded
    keys = {
        "another key": (public, *zmq.curve_keypair()),
        "no key": None,
        "another hall's key": (zmq.curve_keypair()[0], *friend),
    }[mistake]
    with Asker(hall.address, keys=(public, *friend)) as inside:
        assert inside.status() == (0, 0, 0)
        with Asker(hall.address, keys=keys) as outside:
            assert outside.ask_once(wire.encode(wire.CREATE, [wire.encode_task(b"t", b"")]), REFUSED_S) is None
        assert inside.status() == (0, 0, 0)
    assert "Traceback" not in hall.errors()


def refused(folder: Path, *words: str, code: int = 2) -> str:
    """The one line of a hall that does not open."""
    command = [*forking.HALL, "serve", "--storage", "memory", "--json", *words]
    own = {name: value for name, value in os.environ.items() if not name.startswith("HALL_")}
    environment = {**own, "PYTHONPATH": CODE}
    said = forking.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stdout) == (code, ""), said.stderr
    errors: str = said.stderr
    assert errors.count("\n") == 1
    return errors


def test_a_door_with_curve_and_no_clients_stays_closed(tmp_path: Path) -> None:
    file, _ = certificate(tmp_path)
    said = refused(tmp_path, *DOOR, "--set", f"door.0.curve.certificate={file}")
    assert "door[0].curve.clients: is required: without the public key of a client nobody can connect" in said


@pytest.mark.parametrize(
    ("file", "trouble"), [("nowhere.key_secret", "cannot be used"), ("hall.key", "has no secret key")]
)
def test_a_door_whose_own_key_cannot_be_read_stays_closed(tmp_path: Path, file: str, trouble: str) -> None:
    certificate(tmp_path)
    settings = (f"door.0.curve.certificate={tmp_path / file}", f"door.0.curve.clients={'k' * 40}")
    said = refused(tmp_path, *DOOR, "--set", settings[0], "--set", settings[1], code=1)
    assert f"door[0].curve: {tmp_path / file} {trouble}" in said


def test_a_key_that_is_none_is_told(tmp_path: Path) -> None:
    file, _ = certificate(tmp_path)
    settings = (f"door.0.curve.certificate={file}", "door.0.curve.clients=short")
    said = refused(tmp_path, *DOOR, "--set", settings[0], "--set", settings[1])
    assert '"short" is not a public key of 40 characters' in said


def test_a_door_for_other_machines_needs_keys_or_a_clear_wish(tmp_path: Path) -> None:
    said = refused(tmp_path, "--door", "dwork=0.0.0.0:0")
    assert "0.0.0.0:0 can be reached from other machines" in said
    assert "configure curve with the public keys of the clients" in said
    assert "insecure = true" in said
