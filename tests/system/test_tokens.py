"""Tokens at the native door of a real hall: the SDK, a worker, TLS, revocation, damage."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import msgspec
import pytest
from hall_process import CODE, HallProcess, wait_until

from hiringhall import Hall
from hiringhall.access.tokens import TokenList
from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HallRefused, HallUnreachable
from stage import forking
from stage.authority import make_authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.access.tokens import Role

APP = """
from hiringhall import Hall

hall = Hall()


@hall.job(name="shout")
def shout(text: str) -> str:
    return hall.function("whisper", returns=str).submit(text).result() + "!"


@hall.job(name="whisper")
def whisper(text: str) -> str:
    return text.upper()
"""


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    """A hall that wants a token from everybody who comes by TCP."""
    with HallProcess(tmp_path, door={"dialect": "native", "tokens": "required"}) as hall:
        yield hall


def new_token(hall: HallProcess, name: str, role: Role = "operator", **expires: float) -> str:
    """A token that the hall knows already."""
    now = datetime.now(UTC)
    token = TokenList(hall.documents).add(name, role, now, now + timedelta(**expires) if expires else None)
    wait_until(lambda: comes_in(hall, token), "the hall knows the token")
    return token


def comes_in(hall: HallProcess, token: str) -> bool:
    with Raw(hall.port) as peer:
        return peer.hello(token)[0] == wire.OK


class Raw:
    """A connection that says frames and reads frames."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, kind: str, body: Any, number: int = 1) -> None:
        self.socket.sendall(wire.encode(kind, number, body))

    def hear(self) -> tuple[str, int, Any] | None:
        """The next frame; None: the connection is closed."""
        header = self._read(wire.HEADER_BYTES)
        if len(header) < wire.HEADER_BYTES:
            return None
        frame: tuple[str, int, Any] = tuple(msgspec.msgpack.decode(self._read(int.from_bytes(header, "big"))))
        return frame

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count and (piece := self.socket.recv(count - len(data))):
            data += piece
        return data

    def hello(self, token: str | None) -> tuple[str, Any]:
        self.say(wire.HELLO, {"version": 1} | ({"token": token} if token is not None else {}))
        answer = self.hear()
        assert answer is not None
        return answer[0], answer[2]


@pytest.mark.parametrize("token", [None, "", "hall_wrong", "x" * 5000])
def test_who_has_no_right_token_is_told_so_and_closed(hall: HallProcess, token: str | None) -> None:
    with Raw(hall.port) as peer:
        said, (code, text) = peer.hello(token)
        assert (said, code) == (wire.ERROR, "unauthorized")
        assert "token" in text
        assert peer.hear() is None
    wait_until(lambda: "unauthorized: " in hall.errors(), "the log tells of it")


def test_the_sdk_shows_its_token(hall: HallProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    token = new_token(hall, "anna")
    with Hall(f"hall://{hall.address}", token=token) as sdk:
        assert sdk.function("q", raw=True).submit(b"").state() == "queued"
    monkeypatch.setenv("HALL_TOKEN", f"{token}\n")
    with Hall(f"hall://{hall.address}") as sdk:
        assert sdk.function("q", raw=True).submit(b"").state() == "queued"
    assert token not in hall.errors()


@pytest.mark.parametrize("token", ["", "hall_wrong"])
def test_the_sdk_raises_at_once_if_it_is_not_let_in(hall: HallProcess, token: str) -> None:
    with Hall(f"hall://{hall.address}", token=token) as sdk, pytest.raises(HallRefused) as raised:
        sdk.function("q", raw=True).submit(b"")
    assert raised.value.code == "unauthorized"


def test_the_sdk_is_told_what_its_role_does_not_allow(hall: HallProcess) -> None:
    token = new_token(hall, "vera", "viewer")
    with Hall(f"hall://{hall.address}", token=token) as sdk, pytest.raises(HallRefused) as raised:
        sdk.function("q", raw=True).submit(b"")
    assert raised.value.code == "forbidden"
    assert "vera has the role viewer; this needs the role operator" in raised.value.text


def test_the_unix_socket_needs_no_token(hall: HallProcess) -> None:
    with Hall(f"hall+unix://{hall.data}/native.sock", token="") as sdk:
        assert sdk.function("q", raw=True).submit(b"").state() == "queued"


def test_an_open_connection_ends_with_its_token(hall: HallProcess) -> None:
    token = new_token(hall, "anna")
    with Raw(hall.port) as peer:
        assert peer.hello(token)[0] == wire.OK
        TokenList(hall.documents).revoke("anna")
        assert peer.hear() == (wire.ERROR, 0, ["unauthorized", "the token was revoked"])
        assert peer.hear() is None


def test_an_open_connection_ends_when_its_token_expires(hall: HallProcess) -> None:
    token = new_token(hall, "anna", seconds=5.0)
    with Raw(hall.port) as peer:
        assert peer.hello(token)[0] == wire.OK
        assert peer.hear() == (wire.ERROR, 0, ["unauthorized", 'the token "anna" has expired'])


@pytest.mark.sqlite  # tokens in a database are in no file
def test_a_damaged_file_stops_no_running_hall_but_the_start_of_the_next(hall: HallProcess) -> None:
    token = new_token(hall, "anna")
    file = hall.data / "tokens.json"
    before = file.read_bytes()
    file.write_text("{")
    wait_until(lambda: "the tokens stay as they were" in hall.errors(), "the log tells of the damage")
    assert comes_in(hall, token)
    hall.drain()
    assert hall.wait() == 0
    assert file.read_text() == "{"
    with pytest.raises(AssertionError, match=r"tokens\.json was not written by `hall token`"):
        hall.start()
    file.write_bytes(before)
    hall.start()
    assert comes_in(hall, token)


def test_the_last_use_is_in_the_list(hall: HallProcess) -> None:
    new_token(hall, "anna")
    file = TokenList(hall.documents)
    wait_until(lambda: (file.read() or {})["anna"].used is not None, "the last use is written")


def environment(hall: HallProcess) -> dict[str, str]:
    """Of a worker that is told where the hall is, and no token."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("HALL_")}
    return {**rest, "PYTHONPATH": CODE, "HALL_URL": f"hall://{hall.address}"}


def test_a_worker_shows_its_token_and_its_functions_have_it_too(hall: HallProcess, tmp_path: Path) -> None:
    token = new_token(hall, "worker")
    (tmp_path / "shouting.py").write_text(APP)
    (tmp_path / "token").write_text(f"{token}\n")
    command = [*forking.HALL, "work", "shouting", "--token-file", "token", "-p", "2", "--json"]
    worker = forking.popen(
        command, cwd=tmp_path, env=environment(hall), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        with Hall(f"hall://{hall.address}", token=token) as sdk:
            assert sdk.function("shout", returns=str).submit("hear").result(timeout=60) == "HEAR!"
    finally:
        worker.terminate()
        worker.communicate(timeout=30)


def test_a_worker_without_a_token_says_why_it_does_not_work(hall: HallProcess, tmp_path: Path) -> None:
    (tmp_path / "shouting.py").write_text(APP)
    command = [*forking.HALL, "work", "shouting", "-p", "1", "--json"]
    worker = forking.popen(command, cwd=tmp_path, env=environment(hall), stdout=subprocess.PIPE)
    try:
        wait_until(lambda: b"a token is needed here" in worker.stdout.readline(), "it says so", 60)
    finally:
        worker.terminate()
        worker.communicate(timeout=30)


def test_over_tls_the_hall_is_verified_with_a_file_of_authorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = make_authority(tmp_path, "ours")
    tls = {"certificate": str(authority.server), "key": str(authority.server_key), "verify_client": False}
    more = "[door.tls]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in tls.items())
    with HallProcess(tmp_path, door={"dialect": "native", "tokens": "required"}, more=more) as hall:
        token = TokenList(hall.documents).add("anna", "operator", datetime.now(UTC), None)
        wait_until(lambda: _submits(hall, token, str(authority.ca)), "the hall knows the token")
        monkeypatch.setenv("HALL_CA", str(authority.ca))
        assert _submits(hall, token, None)
        with pytest.raises(HallUnreachable, match="certificate"):
            _submits(hall, token, "")
        with pytest.raises(HallUnreachable, match="nowhere"):
            _submits(hall, token, str(tmp_path / "nowhere"))


def _submits(hall: HallProcess, token: str, ca: str | None) -> bool:
    """Whether the hall takes a job over TLS with this token."""
    with Hall(f"halls://localhost:{hall.port}", token=token, ca=ca) as sdk:
        try:
            return sdk.function("q", raw=True).submit(b"").state() == "queued"
        except HallRefused:
            return False
