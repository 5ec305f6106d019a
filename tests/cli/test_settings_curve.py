"""Somebody sets up CURVE at a ZeroMQ door: keys are taken as they are, and what could not work is named before
anything opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
import zmq.auth
from running import HALL, run
from zmq_settings import KEY, OTHER_KEY, ZMQ_DIALECTS, door, problems, zmq_door

from hiringhall.config.schema import ZmqDoorSettings
from hiringhall.endpoints import HallError, curve_keys
from hiringhall.transports.zmtp.options import Curve

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def curve_toml(dialect: str, clients: str, certificate: str = "hall.key_secret", **settings: str) -> str:
    lines = [f'[[door]]\ndialect = "{dialect}"', *(f"{key} = {value}" for key, value in settings.items())]
    return "\n".join([*lines, "[door.curve]", f'certificate = "{certificate}"', f"clients = {clients}"])


@pytest.mark.parametrize("dialect", ZMQ_DIALECTS)
def test_curve_keys_are_taken_as_they_are_wherever_they_are_written(dialect: str) -> None:
    in_file = door(curve_toml(dialect, f'["{KEY}", "{OTHER_KEY}"]'))
    environ = {"HALL_DOOR_0_CURVE_CERTIFICATE": "c", "HALL_DOOR_0_CURVE_CLIENTS": f"{KEY} {OTHER_KEY}"}
    in_environment = door(f'[[door]]\ndialect = "{dialect}"', environ)
    by_flag = zmq_door(dialect, curve__certificate="c", curve__clients=f"{KEY},{OTHER_KEY}")
    for settings in (in_file, in_environment, by_flag):
        assert isinstance(settings, ZmqDoorSettings)
        assert settings.curve is not None
        assert settings.curve.clients == (KEY, OTHER_KEY)
        assert (settings.encryption, settings.verified) == ("CURVE", True)


@pytest.mark.parametrize("dialect", ZMQ_DIALECTS)
@pytest.mark.parametrize("clients", ["[]", '""', '" , "'])
def test_curve_without_a_client_lets_nobody_in_and_is_refused(dialect: str, clients: str) -> None:
    assert problems(curve_toml(dialect, clients)) == [
        "hall.toml: door[0].curve.clients: is required: without the public key of a client nobody can connect"
    ]
    assert problems(doors=(f"{dialect}=127.0.0.1:0",), assignments=("door[0].curve.certificate=c",)) == [
        "--set: door[0].curve.clients: is required: without the public key of a client nobody can connect"
    ]


@pytest.mark.parametrize("key", [KEY[:-1], KEY + "x", "mine", KEY[:-1] + "é", KEY[:-1] + "'", KEY[:-1] + "_"])
def test_what_is_no_public_key_is_named(key: str) -> None:
    (problem,) = problems(curve_toml("wmp", f'["{KEY}", "{key}"]'))
    assert problem.startswith(f'hall.toml: door[0].curve.clients: "{key}" is not a public key')


def test_curve_needs_the_halls_own_key() -> None:
    (problem,) = problems(f'[[door]]\ndialect = "wmp"\n[door.curve]\nclients = ["{KEY}"]')
    assert problem == "hall.toml: door[0].curve.certificate: is missing; it takes text that is not empty"


def test_the_halls_key_comes_from_the_file_that_pyzmq_makes(folder: Path) -> None:
    public, secret = zmq.auth.create_certificates(folder, "hall")
    settings = door(curve_toml("wmp", f'["{KEY}"]', certificate=str(secret)))
    assert isinstance(settings, ZmqDoorSettings)
    assert settings.curve is not None
    curve = curve_keys(settings.curve, "door[0].curve")
    assert curve == Curve(zmq.auth.load_certificate(secret)[1] or b"", frozenset([KEY.encode()]))
    settings = door(curve_toml("wmp", f'["{KEY}"]', certificate=str(public)))
    assert isinstance(settings, ZmqDoorSettings)
    assert settings.curve is not None
    with pytest.raises(HallError, match=r"^door\[0\]\.curve: .*hall\.key has no secret key; name the .*$"):
        curve_keys(settings.curve, "door[0].curve")


BAD_CERTIFICATES: Final = {
    "missing": None,
    "empty": b"",
    "not text": b"\xff\xfe\x00",
    "something else": b"[hall]\nname = 'x'\n",
    "a secret key of no length": b'curve\n    public-key = "%s"\n    secret-key = ""\n' % KEY.encode(),
    "a secret key that is none": b'curve\n    public-key = "%s"\n    secret-key = "short"\n' % KEY.encode(),
}


@pytest.mark.parametrize("content", BAD_CERTIFICATES.values(), ids=BAD_CERTIFICATES.keys())
@pytest.mark.parametrize("command", ["check-config", "serve"])
def test_a_key_file_that_cannot_be_used_is_named_before_anything_opens(
    folder: Path, command: str, content: bytes | None
) -> None:
    if content is not None:
        (folder / "hall.key_secret").write_bytes(content)
    toml = curve_toml("wmp", f'["{KEY}"]', address='"127.0.0.1:0"')
    (folder / "hall.toml").write_text(toml, encoding="utf-8")
    ended = run(HALL, command, cwd=folder)
    assert ended.returncode != 0
    assert "door[0].curve: hall.key_secret" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
