"""A real hall with a Gearman door and both hire doors, and bare peers who hide nothing of what they hear."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Final, Self

import zmq
from hall_process import HallProcess, free_port

from hiringhall.dialects.gearman import wire as gearman

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

HALL: Final = "5e1d8c30-0f55-4b0e-9a47-2bc168117d02"
ANSWER_S: Final = 20.0
PROBE: Final = "cccccccc-0000-4000-8000-00000000000c"
_PROBE_PAUSE_MS: Final = 20


class HireHouse(HallProcess):
    """`hall serve` with three doors, which stay where they are over a restart."""

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(folder)
        self._settings = {"id": HALL, **(settings or {})}
        self.lines, self.publish, self.subscribe = (f"127.0.0.1:{free_port()}" for _ in range(3))
        """Where the hire doors are: lines over TCP, and both ends of the bus."""

    def start(self) -> None:
        common = "".join(f"{key} = {json.dumps(value)}\n" for key, value in self._settings.items())
        lines = f'[[door]]\ndialect = "hire"\naddress = "{self.lines}"\n'
        bus = f'[[door]]\ndialect = "hire-bus"\naddress = "{self.publish}"\nsubscribe = "{self.subscribe}"\n'
        self._more = lines + common + bus + common
        super().start()

    def _first_line(self) -> bytes:
        line = super()._first_line()
        doors = json.loads(line)["doors"]
        assert [door["role"] for door in doors] == ["", "", "publish", "subscribe"]
        _, self.lines, self.publish, self.subscribe = (door["address"] for door in doors)
        return line


class LineLink:
    """One connection: lines as they are."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWER_S)
        self._file = self._socket.makefile("rb")

    def say(self, text: bytes) -> None:
        self._socket.sendall(text + b"\n")

    def say_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hear(self) -> bytes:
        """The next line with its end; empty when the connection is over."""
        return self._file.readline()

    def check_silence(self) -> None:
        """Nothing was said that has not been heard: the next line is the answer to this."""
        self.say(b"anybody?")
        assert self.hear() == b"# a line must be UUID VERB field:field, with single spaces\n"

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BusPeer:
    """One who publishes and subscribes; whoever speaks does it through this one."""

    def __init__(self, publish: str, subscribe: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._out = self._context.socket(zmq.PUB)
        self._in = self._context.socket(zmq.SUB)
        for end in (self._out, self._in):
            end.setsockopt(zmq.LINGER, 0)
        self._in.setsockopt(zmq.SUBSCRIBE, b"")
        self._out.connect(f"tcp://{publish}")
        self._in.connect(f"tcp://{subscribe}")
        self._probing = f"{PROBE} QUIT probe-{id(self):x}".encode()
        self._probes = 0
        self._settle()

    def _settle(self) -> None:
        """A bus says nothing about who has come: speak until it is heard."""
        until_s = time.monotonic() + ANSWER_S
        heard = b""
        while not heard.startswith(self._probing):  # others are heard, too
            assert time.monotonic() < until_s, "nobody can be heard on the bus"
            self._probe()
            heard = self.hear() if self._in.poll(_PROBE_PAUSE_MS) else b""
        # Now both ways are open, and nothing is lost: the last probe comes after those before it.
        while heard != self._probe_text():
            assert time.monotonic() < until_s, "the last probe is not heard on the bus"
            heard = self.hear()

    def _probe_text(self) -> bytes:
        return b"%b-%d" % (self._probing, self._probes)

    def _probe(self) -> None:
        self._probes += 1
        self.say(self._probe_text())

    def say(self, text: bytes) -> None:
        self._out.send(text)

    def say_frames(self, *frames: bytes) -> None:
        self._out.send_multipart(frames)

    def hear(self) -> bytes:
        assert self._in.poll(round(ANSWER_S * 1000)), "nothing is heard on the bus"
        frames = self._in.recv_multipart()
        assert len(frames) == 1
        return frames[0]

    def check_silence(self) -> None:
        self._probe()
        assert self.hear() == self._probe_text()

    def close(self) -> None:
        self._out.close()
        self._in.close()
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class GearmanLink:
    """A bare Gearman worker, or client."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWER_S)
        self._packets = gearman.Reader(gearman.RESPONSE)
        self._heard: list[tuple[int, bytes]] = []
        self.handle = b""

    def say(self, packet_type: int, *args: bytes) -> None:
        self._socket.sendall(gearman.pack_request(packet_type, *args))

    def hear(self) -> tuple[int, bytes]:
        while not self._heard:
            data = self._socket.recv(65536)
            assert data, "the hall has closed the connection"
            self._heard += self._packets.feed(data)
        return self._heard.pop(0)

    def submits(self, function: bytes) -> bytes:
        """A background job's handle."""
        self.say(gearman.SUBMIT_JOB_BG, function, b"", b"")
        kind, handle = self.hear()
        assert kind == gearman.JOB_CREATED
        return handle

    def works(self, function: bytes) -> None:
        self.say(gearman.CAN_DO, function)
        self.say(gearman.PRE_SLEEP)

    def takes(self) -> None:
        assert self.hear()[0] == gearman.NOOP
        self.say(gearman.GRAB_JOB)
        kind, body = self.hear()
        assert kind == gearman.JOB_ASSIGN
        self.handle = body.split(b"\0")[0]

    def completes(self) -> None:
        self.say(gearman.WORK_COMPLETE, self.handle, b"flour")

    def fails(self) -> None:
        self.say(gearman.WORK_FAIL, self.handle)

    def close(self) -> None:
        self._socket.close()
