"""The TCP door: a peer that does not read harms only itself, and last words arrive."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest
from echo_door import LOOPS, PATIENCE_S, Guest, House, story, until

from hiringhall.transports.tcp import TcpOptions
from stage.needs import skip_without

if TYPE_CHECKING:
    from pathlib import Path

KIB = 1 << 10
MIB = 1 << 20


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def server_socket(house: House, number: int = 0) -> socket.socket:
    connection = house.connection(house.sessions[number])
    assert connection._transport is not None
    found: socket.socket = connection._transport.get_extra_info("socket")
    return found


def test_what_is_said_is_answered(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"hello", b"world")
        await ann.hears(b"hello", b"world")
        await ann.leaves()
        await until(lambda: house.sessions[0].is_parted)
        assert house.sessions[0].link is None
        assert house.door.connections == {}

    story(loop, tell)


def test_however_it_is_cut_up(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        for byte in b"slowly\nbut surely\n":
            ann.writer.write(bytes([byte]))
            await ann.writer.drain()
            await asyncio.sleep(0)
        await ann.hears(b"slowly", b"but surely")
        await ann.leaves()

    story(loop, tell)


def test_many_guests_at_once(loop: str) -> None:
    async def tell(house: House) -> None:
        guests = [await house.visit() for _ in range(100)]
        for number, guest in enumerate(guests):
            guest.says(b"I am %d" % number)
        for number, guest in enumerate(guests):
            await guest.hears(b"I am %d" % number)
        assert len(house.door.connections) == 100
        for guest in guests:
            await guest.leaves()
        await until(lambda: not house.door.connections)

    story(loop, tell)


def test_the_session_knows_who_calls(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        caller = house.sessions[0].caller
        assert caller.address == "127.0.0.1"
        assert caller.descriptor == server_socket(house).fileno()
        await ann.leaves()

    story(loop, tell)


@pytest.mark.parametrize("keepalive", [True, False])
def test_the_sockets_options(loop: str, keepalive: bool) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        await until(lambda: bool(house.sessions))
        sock = server_socket(house)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) == keepalive
        if keepalive:
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 33
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 7
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 4
        await ann.leaves()

    options = TcpOptions(keepalive=keepalive, keepalive_idle_s=33, keepalive_interval_s=7, keepalive_count=4)
    story(loop, tell, options)


# --- back-pressure


REQUESTS = 300
FLOOD = b"flood %d#" % (64 * KIB) + b"." * (64 * KIB)
"""As large as its answer, so that one read cannot ask for very much."""


def test_a_peer_that_does_not_read_is_not_read_from(loop: str) -> None:
    soft = 256 * KIB

    async def tell(house: House) -> None:
        lazy, busy = await house.visit(), await house.visit()
        busy.says(b"first")
        await busy.hears(b"first")
        await until(lambda: len(house.sessions) == 2)
        for _ in range(REQUESTS):
            lazy.says(FLOOD)
        lazy_session = house.sessions[0]
        connection = house.connection(lazy_session)
        await until(lambda: connection._overfull)
        handled = lazy_session.lines
        assert handled < REQUESTS
        assert connection.has_unsent
        assert not house.connection(house.sessions[1]).has_unsent
        # Others are served, and their coming does not move the lazy one on.
        for number in range(200):
            busy.says(b"%d" % number)
            await busy.hears(b"%d" % number)
        assert lazy_session.lines == handled
        assert connection._transport is not None
        # One pass of the loop may read a few MiB from one peer; no second pass does.
        assert connection._transport.get_write_buffer_size() < soft + 6 * MIB
        # Once it reads, it is served to the end.
        count = 0
        while count < REQUESTS * 64 * KIB:
            count += len(await asyncio.wait_for(lazy.reader.read(MIB), PATIENCE_S))
        assert count == REQUESTS * 64 * KIB
        lazy.says(b"done")
        await lazy.hears(b"done")
        assert not connection.has_unsent
        await lazy.leaves()
        await busy.leaves()

    story(loop, tell, TcpOptions(output_soft_bytes=soft))


def test_a_peer_over_the_hard_limit_is_closed_and_nobody_else(loop: str) -> None:
    async def tell(house: House) -> None:
        greedy, busy = await house.visit(), await house.visit()
        await until(lambda: len(house.sessions) == 2)
        greedy.says(b"flood %d" % (64 * MIB))
        busy.says(b"I am here")
        await busy.hears(b"I am here")
        await until(lambda: house.sessions[0].is_parted)
        assert await greedy.hears_the_end() < 64 * MIB
        busy.says(b"still")
        await busy.hears(b"still")
        assert len(house.door.connections) == 1
        await greedy.leaves()
        await busy.leaves()

    story(loop, tell, TcpOptions(output_soft_bytes=64 * KIB, output_hard_bytes=MIB))


def test_one_answer_below_the_hard_limit_arrives_whole(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"flood %d" % (32 * MIB), b"end")
        count = 0
        while count < 32 * MIB + 4:
            count += len(await asyncio.wait_for(ann.reader.read(MIB), PATIENCE_S))
        assert count == 32 * MIB + 4
        await ann.leaves()

    story(loop, tell, TcpOptions(output_soft_bytes=64 * KIB, output_hard_bytes=33 * MIB))


def test_the_engine_can_stop_the_reading(loop: str) -> None:
    async def tell(house: House) -> None:
        ann, busy = await house.visit(), await house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        link = house.sessions[0].link
        assert link is not None
        link.pause()
        link.pause()
        ann.says(b"anybody?")
        for number in range(50):
            busy.says(b"%d" % number)
            await busy.hears(b"%d" % number)
        assert house.sessions[0].lines == 1
        link.resume()
        await ann.hears(b"anybody?")
        link.resume()
        ann.says(b"thanks")
        await ann.hears(b"thanks")
        await ann.leaves()
        await busy.leaves()

    story(loop, tell)


def test_reading_goes_on_only_when_both_reasons_to_stop_are_gone(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        connection = house.connection(house.sessions[0])
        transport = connection._transport
        assert transport is not None
        ann.says(b"flood %d" % (32 * MIB))
        await until(lambda: connection._overfull)
        connection.pause()
        connection.resume()
        assert not transport.is_reading()
        connection.pause()
        await asyncio.wait_for(ann.reader.readexactly(32 * MIB), PATIENCE_S)
        await until(lambda: not connection._overfull)
        assert not transport.is_reading()
        connection.resume()
        assert transport.is_reading()
        ann.says(b"again")
        await ann.hears(b"again")
        await ann.leaves()

    story(loop, tell)


# --- coming and going


def test_a_full_door_turns_guests_away_and_lets_them_in_later(loop: str) -> None:
    async def tell(house: House) -> None:
        inside = [await house.visit() for _ in range(2)]
        for guest in inside:
            guest.says(b"in")
            await guest.hears(b"in")
        late = await house.visit()
        assert await late.hears_the_end() == 0
        assert house.door.refused == 1
        assert len(house.sessions) == 2
        await late.leaves()
        await inside[0].leaves()
        await until(lambda: len(house.door.connections) == 1)
        later = await house.visit()
        later.says(b"now")
        await later.hears(b"now")
        await later.leaves()
        await inside[1].leaves()

    story(loop, tell, TcpOptions(connections_max=2))


def test_a_session_that_finishes_is_closed_after_its_last_word(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"hello", b"bye")
        await ann.hears(b"hello", b"goodbye")
        assert await ann.hears_the_end() == 0
        await until(lambda: house.sessions[0].is_parted)
        await ann.leaves()

    story(loop, tell)


def test_last_words_arrive_however_long_they_are(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"flood %d" % (8 * MIB), b"bye")
        assert await ann.hears_the_end() == 8 * MIB + len(b"goodbye\n")
        await ann.leaves()

    story(loop, tell)


def test_a_half_closed_peer_hears_the_answer_and_then_the_end(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"flood %d" % MIB, b"a question")
        ann.writer.write_eof()
        assert await ann.hears_the_end() == MIB + len(b"a question\n")
        await until(lambda: house.sessions[0].is_parted)
        await ann.leaves()

    story(loop, tell)


def test_a_peer_that_breaks_off_is_parted(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        # The reset of a process that died with unread data.
        sock = ann.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        ann.writer.transport.abort()
        await until(lambda: house.sessions[0].is_parted)
        await ann.leaves()

    story(loop, tell)


def test_a_closed_listener_lets_nobody_else_in_and_serves_who_is_there(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"hello")
        await ann.hears(b"hello")
        house.door.close_listener()
        house.door.close_listener()
        with pytest.raises(ConnectionError):
            await house.visit()
        ann.says(b"still here")
        await ann.hears(b"still here")
        await ann.leaves()

    story(loop, tell)


def test_closing_the_door_sends_last_words(loop: str) -> None:
    async def tell(house: House) -> None:
        ann = await house.visit()
        ann.says(b"flood %d" % (64 * MIB))
        await until(lambda: bool(house.sessions) and house.sessions[0].lines == 1)
        await until(lambda: house.connection(house.sessions[0])._overfull)
        closing = asyncio.create_task(house.door.close())
        assert await ann.hears_the_end() == 64 * MIB
        await asyncio.wait_for(closing, PATIENCE_S)
        assert house.sessions[0].is_parted
        await ann.leaves()

    story(loop, tell, TcpOptions(close_wait_s=PATIENCE_S))


def test_closing_the_door_does_not_wait_for_one_who_never_reads(loop: str) -> None:
    async def tell(house: House) -> None:
        lazy = await house.visit()
        lazy.says(b"flood %d" % (64 * MIB))
        await until(lambda: bool(house.sessions) and house.sessions[0].lines == 1)
        await until(lambda: house.connection(house.sessions[0])._overfull)
        await asyncio.wait_for(house.door.close(), PATIENCE_S)
        await until(lambda: house.sessions[0].is_parted)
        assert await lazy.hears_the_end() < 64 * MIB
        await lazy.leaves()

    story(loop, tell, TcpOptions(close_wait_s=0.05))


# --- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key in one file, made for this run."""
    skip_without("openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", "req", "-x509", *names, *made], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both


def test_tls(loop: str, certificate: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    client = ssl.create_default_context(cafile=str(certificate))

    async def tell(house: House) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", house.port, ssl=client, server_hostname="localhost"
        )
        ann = Guest(reader, writer)
        ann.says(b"a secret", b"flood %d" % MIB, b"bye")
        await ann.hears(b"a secret")
        assert await ann.hears_the_end() == MIB + len(b"goodbye\n")
        assert house.sessions[0].caller.address == "127.0.0.1"
        await ann.leaves()
        # Plain text at a closed door: that connection ends, and nobody minds.
        plain = await house.visit()
        plain.says(b"hello?")
        await plain.hears_the_end()
        await plain.leaves()

    story(loop, tell, TcpOptions(tls=server))
