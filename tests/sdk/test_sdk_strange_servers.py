"""Servers that are not the hall one hoped for: other protocols, silence, a hall that is closing."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from hall_process import HallProcess

from hiringhall import Hall, HallRefused, HallUnreachable
from hiringhall.dialects.native import wire
from hiringhall.sdk import connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WELCOME = {"version": 1, "hall": "odd", "features": [], "frame_bytes_max": 2000, "payload_bytes_max": 1000}


@contextlib.contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that treats each connection as `answer` does; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer, contextlib.suppress(OSError):
                        answer(peer)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"hall://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def speak_http(peer: socket.socket) -> None:
    peer.recv(1000)
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    peer.recv(1000)


def say_nothing(peer: socket.socket) -> None:
    while peer.recv(1000):
        pass


def refuse_hello(peer: socket.socket) -> None:
    peer.recv(1000)
    peer.sendall(wire.encode("error", 1, ("bad_request", "this hall speaks version 9")))
    peer.recv(1000)


def welcome_and_babble(peer: socket.socket) -> None:
    peer.recv(1000)
    peer.sendall(wire.encode("ok", 1, WELCOME))
    peer.recv(1000)
    peer.sendall(b"\0\0\0\1\xc1")
    peer.recv(1000)


def welcome(peer: socket.socket) -> None:
    peer.recv(1000)
    peer.sendall(wire.encode("ok", 1, WELCOME))
    say_nothing(peer)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (speak_http, "it does not speak the native protocol"),
        (say_nothing, "it did not answer hello within 0.2 s"),
        (refuse_hello, "this hall speaks version 9"),
    ],
)
def test_what_does_not_greet_is_no_hall(
    answer: Callable[[socket.socket], None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if answer is say_nothing:
        monkeypatch.setattr(connection, "HELLO_S", 0.2)
    with serving(answer) as url, Hall(url) as hall, pytest.raises(HallUnreachable, match=reason):
        hall.function("f").submit()


def test_the_next_address_is_tried_after_something_that_is_no_hall(url: str) -> None:
    with serving(speak_http) as strange, Hall(f"{strange},{url}") as hall:
        assert hall.function("nobody.has.this").submit().state() == "queued"


def test_a_hall_that_babbles_is_given_up() -> None:
    with (
        serving(welcome_and_babble) as url,
        Hall(url) as hall,
        pytest.raises(Exception, match="does not speak the native protocol"),
    ):
        hall.function("f").submit()


def test_a_call_that_is_longer_than_a_frame_is_refused_here() -> None:
    with (
        serving(welcome) as url,
        Hall(url) as hall,
        pytest.raises(HallRefused, match="bytes are more than a frame may have"),
    ):
        hall.function("f").submit("x" * 3000)


def test_a_request_that_cannot_be_encoded_fails_alone(url: str) -> None:
    with Hall(url) as hall:
        for _before_and_after_the_welcome in range(2):
            with pytest.raises(HallRefused, match="cannot be encoded"):
                hall.limit("nobody.has.this", running_max=2**70)
        assert hall.function("nobody.has.this").submit().state() == "queued"


def test_a_payload_that_is_too_long_for_the_hall_is_refused(tmp_path: Path) -> None:
    limits = {"payload_bytes_max": 1000}
    with (
        HallProcess(tmp_path, door={"dialect": "native"}, limits=limits) as server,
        Hall(f"hall://{server.address}") as hall,
    ):
        with pytest.raises(HallRefused, match="too_large"):
            hall.function("f").submit("x" * 3000)
        assert hall.function("f").submit("x").state() == "queued"


def test_a_submit_to_a_hall_that_closes_reaches_the_next(tmp_path: Path) -> None:
    with (
        HallProcess(tmp_path, door={"dialect": "native"}) as server,
        Hall(f"hall://{server.address}") as hall,
    ):
        function = hall.function("nobody.has.this")
        assert function.submit(1).state() == "queued"
        server.drain()
        jobs: list[int] = []
        caller = threading.Thread(target=lambda: jobs.append(function.submit(2).id))
        caller.start()
        server.wait()
        server.start()
        caller.join()
        assert hall.job_of(jobs[0]).state() == "queued"
