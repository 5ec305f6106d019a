"""A door with TLS tells of those who do not get in, and does not wait for them for ever."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
from typing import TYPE_CHECKING, Any

from running import HALL, Running, ask, connect

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Authority


def serve(folder: Path, authority: Authority, *words: str) -> Running:
    files = {"certificate": authority.server, "key": authority.server_key, "ca": authority.ca}
    settings = [f"door.0.tls.{name}={path}" for name, path in files.items()]
    flags = [word for setting in settings for word in ("--set", setting)]
    door = ("--door", "gearman=127.0.0.1:0", "--storage", "memory")
    return Running(HALL, "serve", "--json", "--log-format", "json", *door, *flags, *words, cwd=folder)


def failure(hall: Running) -> dict[str, Any]:
    """The next line of the log about a handshake."""
    line: dict[str, Any] = json.loads(hall.line_like('"tls_failure"').string)
    return line


def test_a_peer_that_speaks_no_tls_is_told_with_its_address(tmp_path: Path, authority: Authority) -> None:
    with serve(tmp_path, authority) as hall:
        address = hall.opened()["doors"][0]["address"]
        with connect(address) as stranger:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
            line = failure(hall)
            assert line["peer"] == "{}:{}".format(*stranger.getsockname())
        assert line["door"] == f"gearman@{address}"
        assert line["message"] == "tls failure: http request"
        assert ask(address, "version", authority.context(with_certificate=True)).startswith("OK ")


def test_a_client_without_a_certificate_is_told(tmp_path: Path, authority: Authority) -> None:
    with serve(tmp_path, authority) as hall:
        address = hall.opened()["doors"][0]["address"]
        with contextlib.suppress(OSError):  # it hears of it at once, or when it reads
            ask(address, "version", authority.context(with_certificate=False))
        assert failure(hall)["message"] == "tls failure: peer did not return a certificate"


def test_a_client_of_an_unknown_authority_is_told(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    context = authority.context(with_certificate=False)
    context.load_cert_chain(stranger.client, stranger.client_key)
    with serve(tmp_path, authority) as hall:
        address = hall.opened()["doors"][0]["address"]
        with contextlib.suppress(OSError):
            ask(address, "version", context)
        assert failure(hall)["message"].startswith("tls failure: its certificate was rejected: ")


def test_a_handshake_that_is_never_finished_ends_in_time(tmp_path: Path, authority: Authority) -> None:
    # So long that the handshake of the last one is finished within it, also where the machine is busy.
    with serve(tmp_path, authority, "--set", "door.0.tls.handshake_s=2") as hall:
        address = hall.opened()["doors"][0]["address"]
        with connect(address) as silent, connect(address) as halfway:
            # A record of TLS that promises more than it brings.
            halfway.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert silent.recv(1) == b""
            assert halfway.recv(1) == b""
            for _ in range(2):
                message = failure(hall)["message"]
                assert message == "tls failure: its handshake did not finish within 2 s (handshake_s)"
        assert ask(address, "version", authority.context(with_certificate=True)).startswith("OK ")


def test_handshakes_under_way_count_as_connections(tmp_path: Path, authority: Authority) -> None:
    with serve(tmp_path, authority, "--set", "door.0.connections_max=2") as hall:
        address = hall.opened()["doors"][0]["address"]
        with connect(address), connect(address), connect(address) as third:
            assert third.recv(1) == b""
            hall.line_like("door_full.*it has 2 connections")


def test_a_hall_with_a_handshake_under_way_closes(tmp_path: Path, authority: Authority) -> None:
    with serve(tmp_path, authority) as hall:
        address = hall.opened()["doors"][0]["address"]
        with connect(address) as silent, connect(address, authority.context(with_certificate=True)) as client:
            client.sendall(b"version\n")
            assert client.recv(100).startswith(b"OK ")
            hall.signal(signal.SIGTERM)
            assert hall.wait() == 0
            assert silent.recv(1) == b""


def test_a_taken_address_is_named_behind_tls_too(tmp_path: Path, authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with serve(tmp_path, authority, "--set", f"door.0.address={address}") as hall:
            assert hall.wait() == 1
            assert f"{address} is in use by another program" in hall.errors()


def test_early_words_of_a_tls_client_are_heard(tmp_path: Path, authority: Authority) -> None:
    """What a client sends together with the end of its handshake is not lost."""
    with serve(tmp_path, authority) as hall:
        address = hall.opened()["doors"][0]["address"]
        context = authority.context(with_certificate=True)
        host, _, port = address.rpartition(":")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(outgoing.read())
                    incoming.write(connection.recv(65_536))
            client.write(b"version\n")
            connection.sendall(outgoing.read())  # both in one piece
            while True:
                try:
                    assert client.read(100).startswith(b"OK ")
                    break
                except ssl.SSLWantReadError:
                    incoming.write(connection.recv(65_536))
