"""Nonsense in the draft's protocol, at a door that speaks two: it is answered where there is an answer, it
costs its sender the connection where nothing else can be done, and nobody else notices, whichever of the two
they speak.

Clients and workers of both protocols do round trips through all of it, the hall's memory stays flat, and its
audit is clean after each test.
"""

from __future__ import annotations

import random
import select
import socket
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, Self

import pytest
from hall_process import HallProcess, wait_until
from neighbours import PAUSE_S, TRIP_S_MAX, Neighbours
from testimony import audit

from hiringhall.dialects.gearman import wire as modern
from hiringhall.dialects.gearman_draft import wire
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

MIB: Final = 1 << 20
CROWD: Final = 300
"""Connections of the tests that need many."""
HARD_BYTES: Final = 16 * MIB
KERNEL_BYTES_MAX: Final = 16 * MIB
"""What the buffers of two sockets can swallow."""
SLACK_BYTES: Final = 32 * MIB
"""Growth that is the allocator's and not the peer's."""
ANSWER_S: Final = 20.0
STALL_MS: Final = 500
ERROR: Final = b"\xff\xff\xff\xff"


class DraftLink:
    """A bare connection: packets exactly as a test wants them. Every wait is bounded."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self._reader = wire.Reader()
        self._heard: list[tuple[int, bytes]] = []

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> tuple[int, bytes]:
        """The next packet."""
        while not self._heard:
            data = self.socket.recv(65536)
            assert data, "the hall closed the connection"
            self._heard += self._reader.feed(data)
            assert self._reader.error is None, f"the hall sent nonsense: {self._reader.error.text}"
        return self._heard.pop(0)

    def ask(self, packet: bytes) -> tuple[int, bytes]:
        """One packet, and the next that comes back."""
        self.write(packet)
        return self.receive()

    def until_end(self) -> list[tuple[int, bytes]]:
        """All packets until the hall closes the connection."""
        with suppress(ConnectionResetError):
            while data := self.socket.recv(65536):
                self._heard += self._reader.feed(data)
        return self._heard

    def refusal(self) -> int:
        """The code of the error that comes next."""
        kind, body = self.receive()
        assert (kind, body[:4]) == (wire.JOB_COMPLETE_RES, ERROR), (kind, body)
        assert body[5:], "an error says in words what was wrong"
        return body[4]

    def still_talks(self) -> None:
        assert self.ask(wire.JOB_ASSIGN_REQ_PACKET) == (wire.JOB_ASSIGN_RES, b"")

    def half_close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()


class DraftNeighbours:
    """An honest application and an honest worker of the draft, in a thread: they notice when they wait."""

    def __init__(self, port: int) -> None:
        self.trips = 0
        """Sync jobs that came back right."""
        self.slowest_s = 0.0
        self._application = DraftLink(port)
        self._worker = DraftLink(port)
        self._trouble: BaseException | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._live, name="draft neighbours", daemon=True)

    def expect_service(self) -> None:
        """They are served now: some more round trips succeed, and none so far took too long."""
        wanted = self.trips + 3
        wait_until(lambda: self._trouble is not None or self.trips >= wanted, "the neighbours are served", 60.0)
        assert self._trouble is None, f"the neighbours were disturbed: {self._trouble!r}"
        assert self.slowest_s < TRIP_S_MAX, f"a neighbour waited {self.slowest_s:.1f} s"

    def _live(self) -> None:
        try:
            self._worker.write(wire.pack_worker_connect([b"neighbourly"]))
            while not self._leaving.wait(PAUSE_S):
                with Stopwatch() as watch:
                    self._trip(b"round trip %d" % self.trips)
                self.slowest_s = max(self.slowest_s, watch.elapsed_s)
                self.trips += 1
        except BaseException as trouble:  # noqa: BLE001 (told to the test's thread)
            self._trouble = trouble

    def _trip(self, args: bytes) -> None:
        self._worker.write(wire.WORKER_SLEEP_PACKET)
        create = wire.pack_job_create_req(b"neighbourly", b"", 0, wire.SYNC_WAIT, args)
        assert self._application.ask(create) == (wire.JOB_CREATE_RES, b"")
        assert self._worker.receive() == (wire.NOOP, b"")
        assert self._worker.ask(wire.JOB_ASSIGN_REQ_PACKET) == (wire.JOB_ASSIGN_RES, b"neighbourly\0" + args)
        self._worker.write(wire.pack_job_complete_announce(0, args[::-1]))
        kind, body = self._application.receive()
        assert (kind, body[4:]) == (wire.JOB_COMPLETE_RES, b"\0" + args[::-1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join()
        self._application.socket.close()
        self._worker.socket.close()


@pytest.fixture(scope="module")
def besieged(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[HallProcess, Neighbours, DraftNeighbours]]:
    door = {"packet_bytes_max": MIB, "output_soft_bytes": MIB, "output_hard_bytes": HARD_BYTES}
    with (
        HallProcess(tmp_path_factory.mktemp("besieged"), door=door) as hall,
        Neighbours(hall) as neighbours,
        DraftNeighbours(hall.port) as draft_neighbours,
    ):
        yield hall, neighbours, draft_neighbours


@pytest.fixture
def hall(besieged: tuple[HallProcess, Neighbours, DraftNeighbours]) -> Iterator[HallProcess]:
    """The hall, checked after each test: the neighbours are served, every cross-reference holds."""
    hall, neighbours, draft_neighbours = besieged
    yield hall
    assert hall.running, f"the hall is gone:\n{hall.errors()}"
    neighbours.expect_service()
    draft_neighbours.expect_service()
    assert audit(hall) == "clean"
    assert "Traceback" not in hall.errors()


MISTAKES: Final[dict[str, tuple[bytes, int]]] = {
    "no such type": (wire.pack(0x10), wire.UNKNOWN_TYPE),
    "the highest type": (wire.pack(0xFF, b"x"), wire.UNKNOWN_TYPE),
    "what only a server says": (wire.pack_job_create_res(b"H:hall:1"), wire.SERVER_ONLY),
    "a bare packet with a body": (wire.pack(wire.WORKER_SLEEP, b"zzz"), wire.BAD_BODY),
    "an empty job": (wire.pack(wire.JOB_CREATE_REQ), wire.BAD_BODY),
    "a job without flags": (wire.pack(wire.JOB_CREATE_REQ, b"rss\0u7\0"), wire.BAD_BODY),
    "a flag that is none": (wire.pack_job_create_req(b"rss", b"", 64, 1, b""), wire.BAD_REQUEST),
    "a type that is none": (wire.pack_job_create_req(b"rss", b"", 0, 3, b""), wire.BAD_REQUEST),
    "a job of no name": (wire.pack_job_create_req(b"", b"", 0, 1, b""), wire.BAD_REQUEST),
    "a name too long": (wire.pack_job_create_req(b"n" * 4096, b"", 0, 1, b""), wire.TOO_LARGE),
    "a key too long": (wire.pack_job_create_req(b"rss", b"k" * 4097, 0, 1, b""), wire.TOO_LARGE),
    "a list of no names": (wire.pack(wire.WORKER_CONNECT, b"\0\0\0"), wire.BAD_BODY),
    "a list of too many names": (wire.pack(wire.WORKER_CONNECT, b"a\0" * 500_000), wire.BAD_BODY),
    "half a status": (wire.pack(wire.JOB_STATUS_ANNOUNCE, bytes(11)), wire.BAD_BODY),
    "a result of nothing": (wire.pack_job_complete_announce(0, b"x"), wire.NO_TASK),
    "no handle": (wire.pack_job_complete_req(b""), wire.UNKNOWN_HANDLE),
    "a handle of nobody": (wire.pack_job_complete_req(b"H:hall:1"), wire.UNKNOWN_HANDLE),
    "a handle of a later age": (
        wire.pack_job_status_req(b"H:hall:99999999999999999999"),
        wire.UNKNOWN_HANDLE,
    ),
    "half a report": (wire.pack(wire.TASK_START, b"nightly\0k\0" + bytes(7)), wire.BAD_BODY),
    "a report of no key": (wire.pack_task_result(b"nightly", b"", 0, 0, b""), wire.BAD_REQUEST),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_and_the_conversation_goes_on(hall: HallProcess, mistake: str) -> None:
    packet, code = MISTAKES[mistake]
    with DraftLink(hall.port) as link:
        link.write(packet)
        assert link.refusal() == code
        link.still_talks()


@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (b"\0BAD\x06\0\0\0\0", wire.BAD_MAGIC),
        (modern.pack_request(modern.ECHO_REQ, b"modern"), wire.BAD_MAGIC),
        (modern.pack_response(modern.NOOP), wire.BAD_MAGIC),
        (b"status\n", wire.BAD_MAGIC),
        (b"\0JOB\x04\xff\xff\xff\xff", wire.PACKET_TOO_LARGE),
        (b"\0JOB\x04\x00\x10\x00\x01", wire.PACKET_TOO_LARGE),
        (b"\0JOB\xff\xff\xff\xff\xff", wire.PACKET_TOO_LARGE),
    ],
)
def test_a_stream_that_cannot_be_read_further_is_told_so_and_closed(
    hall: HallProcess, packet: bytes, code: int
) -> None:
    with DraftLink(hall.port) as link:
        # What came before the bad packet counts.
        link.write(wire.JOB_ASSIGN_REQ_PACKET + packet + b"whatever follows")
        assert link.receive() == (wire.JOB_ASSIGN_RES, b"")
        assert link.refusal() == code
        assert link.until_end() == []


def test_four_gigabytes_as_the_first_words(hall: HallProcess) -> None:
    with DraftLink(hall.port) as link:
        link.write(b"\0JOB\x04\xff\xff\xff\xff")
        assert link.refusal() == wire.PACKET_TOO_LARGE
        assert link.until_end() == []


def test_a_draft_packet_on_a_modern_connection(hall: HallProcess) -> None:
    """A connection speaks one of the two: the one that it begins with."""
    with DraftLink(hall.port) as link:
        link.write(modern.pack_request(modern.ECHO_REQ, b"modern") + wire.JOB_ASSIGN_REQ_PACKET)
        heard = b""
        while data := link.socket.recv(65536):
            heard += data
        reader = modern.Reader(modern.RESPONSE)
        echo, (kind, error) = reader.feed(heard)
        assert echo == (modern.ECHO_RES, b"modern")
        assert (kind, error.split(b"\0")[0]) == (modern.ERROR, b"INVALID_MAGIC")


def test_a_byte_at_a_time_tells_the_two_apart(hall: HallProcess) -> None:
    with DraftLink(hall.port) as draft, DraftLink(hall.port) as other:
        for first, second in zip(
            wire.JOB_ASSIGN_REQ_PACKET, modern.pack_request(modern.ECHO_REQ)[:9], strict=True
        ):
            draft.write(bytes([first]))
            other.write(bytes([second]))
            with DraftLink(hall.port) as witness:
                witness.still_talks()  # the hall has turned meanwhile
        assert draft.receive() == (wire.JOB_ASSIGN_RES, b"")
        other.write(b"\0\0\0")
        assert other.socket.recv(100) == modern.pack_response(modern.ECHO_RES)


def test_announced_bytes_cost_nothing_until_they_come(hall: HallProcess) -> None:
    before_bytes = hall.rss_bytes()
    with ExitStack() as stack:
        for _ in range(CROWD):
            # A megabyte is announced each time, and one byte comes.
            stack.enter_context(DraftLink(hall.port)).write(b"\0JOB\x04\x00\x10\x00\x00x")
        with DraftLink(hall.port) as link:
            link.still_talks()
        assert hall.rss_bytes() - before_bytes < SLACK_BYTES


def test_those_who_say_half_a_magic_and_wait_are_no_burden(hall: HallProcess) -> None:
    before_bytes = hall.rss_bytes()
    with ExitStack() as stack:
        links = [stack.enter_context(DraftLink(hall.port)) for _ in range(CROWD)]
        for byte in (b"\0", b"J", b"O"):
            for link in links:
                link.write(byte)
            with DraftLink(hall.port) as witness:
                witness.still_talks()
        assert hall.rss_bytes() - before_bytes < SLACK_BYTES
        for link in links:
            assert link.ask(wire.JOB_ASSIGN_REQ_PACKET[3:]) == (wire.JOB_ASSIGN_RES, b"")


def test_a_packet_that_breaks_off_was_never_said(hall: HallProcess) -> None:
    packet = wire.pack_job_create_req(b"broken-off", b"", 0, wire.ASYNC_HANDLE, b"payload")
    for cut in range(1, len(packet)):
        with DraftLink(hall.port) as link:
            link.write(packet[:cut])
            link.half_close()
            assert link.until_end() == []
    assert hall.counts("broken-off")[0] == 0


def ended(hall: HallProcess, name: bytes, result: bytes) -> bytes:
    """The handle of a job that has ended and is in the history."""
    with DraftLink(hall.port) as both:
        both.write(wire.pack_worker_connect([name]))
        kind, handle = both.ask(wire.pack_job_create_req(name, b"", 0, wire.ASYNC_HANDLE, b""))
        assert kind == wire.JOB_CREATE_RES
        assert both.ask(wire.JOB_ASSIGN_REQ_PACKET) == (wire.JOB_ASSIGN_RES, name + b"\0")
        both.write(wire.pack_job_complete_announce(0, result))
        assert both.ask(wire.pack_job_complete_req(handle)) == (
            wire.JOB_COMPLETE_RES,
            b"\0\0\0\x01\0" + result,
        )
    return handle


def test_one_who_asks_and_says_no_more_is_answered_in_order(hall: HallProcess) -> None:
    handle = ended(hall, b"asked", b"answer")
    with DraftLink(hall.port) as link:
        link.write(wire.pack_job_complete_req(handle) * 1000 + wire.JOB_ASSIGN_REQ_PACKET)
        link.half_close()
        *answers, last = link.until_end()
    assert answers == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\0answer")] * 1000
    assert last == (wire.JOB_ASSIGN_RES, b"")


def test_who_asks_and_never_listens_is_not_read_from(hall: HallProcess) -> None:
    before_bytes = hall.rss_bytes()
    with DraftLink(hall.port) as deaf:
        sent = send_until_stalled(deaf.socket, wire.pack(0x7F, bytes(100)) * 1000, 256 * MIB)
        assert sent < 2 * KERNEL_BYTES_MAX + HARD_BYTES, "the hall goes on reading from a peer that does not"
        assert hall.rss_bytes() - before_bytes < HARD_BYTES + SLACK_BYTES


def test_who_asks_for_large_results_and_never_listens_is_closed_at_the_hard_limit(hall: HallProcess) -> None:
    handle = ended(hall, b"large", bytes(MIB // 2))
    before_bytes = hall.rss_bytes()
    with DraftLink(hall.port) as deaf:
        deaf.write(wire.pack_worker_connect([b"deaf"]))
        hall.wait_for_workers("deaf")
        deaf.write(wire.pack_job_complete_req(handle) * 2000)
        hall.wait_for_workers("deaf", 0)
        assert hall.rss_bytes() - before_bytes < HARD_BYTES + SLACK_BYTES


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


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_are_survived(hall: HallProcess, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(100):
        with DraftLink(hall.port) as link, suppress(OSError):
            link.write(wire.MAGIC + dice.randbytes(dice.choice((1, 4, 5, 6, 100, 4096, 100_000))))
            link.half_close()
            while link.socket.recv(65536):
                pass


VALID: Final[tuple[tuple[int, bytes], ...]] = tuple(
    (packet[4], packet[9:])
    for packet in (
        wire.NOOP_PACKET,
        wire.pack_worker_connect([b"resize", b"mail"]),
        wire.WORKER_DISCONNECT_PACKET,
        wire.WORKER_SLEEP_PACKET,
        wire.pack_job_create_req(b"resize", b"u7", 0, wire.SYNC_WAIT, b"args"),
        wire.pack_job_create_req(b"mail", b"", 1, wire.SYNC_WAIT, b"\0\0"),
        wire.JOB_ASSIGN_REQ_PACKET,
        wire.pack_job_status_announce(1, 100, 60),
        wire.pack_job_status_req(b"H:hall:68719476737"),
        wire.pack_job_complete_announce(0, b"result"),
        wire.pack_job_complete_announce(9, b"it broke"),
        wire.pack_job_complete_req(b"H:hall:68719476737"),
        wire.pack_task_start(b"nightly", b"k", 1),
        wire.pack_task_result(b"nightly", b"k", 1, 0, b"result"),
    )
)
MUTATED: Final = 60_000
BATCH: Final = 1_000


def mutate(dice: random.Random) -> bytes:
    """A packet that is almost right: most mutations leave the framing alone."""
    kind, body = dice.choice(VALID)
    at = dice.randrange(len(body) + 1)
    byte = dice.randbytes(1)
    way = dice.randrange(6)
    if way < 2:  # one byte is another
        body = body[:at] + byte + body[at + 1 :]
    elif way == 2:  # the end is missing
        body = body[:at]
    elif way == 3:  # something is in between
        body = body[:at] + byte * dice.randrange(20) + body[at:]
    elif way == 4:  # another packet's body, or a type that nobody knows
        kind = dice.choice((dice.randrange(17), dice.randrange(256)))
    else:  # nonsense of a known type
        body = dice.randbytes(dice.randrange(64))
    return wire.pack(kind, body)


def test_mutated_packets_leave_no_trace(hall: HallProcess) -> None:
    """Each batch ends with a magic that is none, so the hall says when it has read all of it: by closing."""
    dice = random.Random(MUTATED)
    before_bytes = hall.rss_bytes()
    refusals = 0
    for _ in range(MUTATED // BATCH):
        with DraftLink(hall.port) as link:
            link.write(b"".join([mutate(dice) for _ in range(BATCH)]) + b"\0END\0\0\0\0\0")
            errors = [body[4] for kind, body in link.until_end() if body.startswith(ERROR)]
            assert errors[-1] == wire.BAD_MAGIC, "it was not read to its end"
            refusals += len(errors)
    assert refusals > MUTATED // 4, "the mutations hardly hurt"
    assert hall.rss_bytes() - before_bytes < 128 * MIB
