"""Peers that do not read: they are not read from beyond a soft limit and are closed at a hard one, so that
what piles up for them stays bounded, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import select
import socket
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import HallProcess, wait_until
from neighbours import Neighbours
from raw_link import RawLink
from testimony import audit

from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB: Final = 1 << 20
SOFT_BYTES: Final = MIB
HARD_BYTES: Final = 16 * MIB
CHUNK: Final = bytes(MIB)
KERNEL_BYTES_MAX: Final = 16 * MIB
"""What the buffers of two sockets can swallow."""
SLACK_BYTES: Final = 32 * MIB
"""Growth that is the allocator's and not the peer's."""
STALL_MS: Final = 500


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    door = {"output_soft_bytes": SOFT_BYTES, "output_hard_bytes": HARD_BYTES}
    with HallProcess(tmp_path, door=door) as hall, Neighbours(hall) as neighbours:
        neighbours.expect_service()
        yield hall
        neighbours.expect_service()
        assert audit(hall) == "clean"


def send_until_stalled(peer: socket.socket, data: bytes, bytes_max: int) -> int:
    """Send the same bytes again and again until the hall takes no more for a while; how many it took."""
    peer.setblocking(False)
    poll = select.poll()
    poll.register(peer, select.POLLOUT)
    sent = 0
    rest = b""
    while sent < bytes_max and poll.poll(STALL_MS):
        rest = rest or data
        taken = peer.send(rest)
        rest = rest[taken:]
        sent += taken
    return sent


def test_who_asks_and_never_listens_is_not_read_from(hall: HallProcess) -> None:
    before_bytes = hall.rss_bytes()
    with socket.create_connection(("127.0.0.1", hall.port)) as peer:
        sent = send_until_stalled(peer, wire.pack_request(wire.ECHO_REQ, CHUNK), 256 * MIB)
        assert sent < 2 * KERNEL_BYTES_MAX + HARD_BYTES, "the hall goes on reading from a peer that does not"
        assert hall.rss_bytes() - before_bytes < HARD_BYTES + SLACK_BYTES


def test_who_never_takes_its_results_is_closed_at_the_hard_limit(hall: HallProcess) -> None:
    """A worker sends far more chunks than may pile up; the client of the job never reads."""
    chunks = 128
    before_bytes = hall.rss_bytes()

    async def story() -> None:
        async with await RawLink.open(hall.port) as worker:
            worker.send(wire.CAN_DO, b"flood")
            with socket.create_connection(("127.0.0.1", hall.port)) as deaf:
                deaf.sendall(wire.pack_request(wire.SUBMIT_JOB, b"flood", b"", b""))
                kind = wire.NO_JOB
                while kind == wire.NO_JOB:
                    kind, body = await worker.ask(wire.GRAB_JOB)
                handle = body.split(b"\0")[0]
                for _ in range(chunks):
                    worker.send(wire.WORK_DATA, handle, CHUNK)
                    await worker.drained()
                assert await worker.ask(wire.ECHO_REQ, b"all sent") == (wire.ECHO_RES, b"all sent")
                assert hall.rss_bytes() - before_bytes < HARD_BYTES + SLACK_BYTES
                assert heard_to_the_end(deaf) < HARD_BYTES + KERNEL_BYTES_MAX + MIB
            worker.send(wire.WORK_COMPLETE, handle, b"")
            await worker.ask(wire.ECHO_REQ, b"")

    asyncio.run(story())
    wait_until(lambda: hall.counts("flood")[0] == 0, "nothing is left of the job")


def heard_to_the_end(peer: socket.socket) -> int:
    """Bytes that come until the hall has closed the connection, which it has to have done."""
    peer.settimeout(10)
    heard = 0
    try:
        while data := peer.recv(MIB):
            heard += len(data)
    except ConnectionResetError:
        pass
    return heard
