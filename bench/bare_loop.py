"""A lower bound for a Gearman server in Python: it passes packets on and schedules nothing.

It has one queue for all functions, and no priorities, keys, limits, history or storage. A job goes to the next
worker that asks, and its result to the client, with one write per connection and pass of the event loop. This
is plain Python: a compiled hall, which puts more answers into one write, can be faster.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from struct import Struct
from typing import Final, cast

import uvloop

PRE_SLEEP: Final = 4
SUBMIT_JOB: Final = 7
GRAB_JOB: Final = 9
WORK_COMPLETE: Final = 13

HEADER: Final = Struct(">4sII")
NOOP: Final = b"\0RES\0\0\0\x06\0\0\0\0"
NO_JOB: Final = b"\0RES\0\0\0\x0a\0\0\0\0"


class Broker:
    """Jobs, sleeping workers, and connections with output to send."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.count = 0
        self.jobs: deque[tuple[bytes, bytes, bytes]] = deque()
        self.owners: dict[bytes, Connection] = {}
        self.sleepers: deque[Connection] = deque()
        self.with_output: list[Connection] = []

    def flush(self) -> None:
        for connection in self.with_output:
            if connection.transport is not None:
                connection.transport.write(b"".join(connection.out))
            connection.out.clear()
        self.with_output.clear()


class Connection(asyncio.Protocol):
    """One client or worker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.transport: asyncio.Transport | None = None
        self.rest = b""
        self.out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.transport = None
        if self in self.broker.sleepers:
            self.broker.sleepers.remove(self)

    def send(self, data: bytes) -> None:
        if not self.out:
            if not self.broker.with_output:
                self.broker.loop.call_soon(self.broker.flush)
            self.broker.with_output.append(self)
        self.out.append(data)

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        at = 0
        end = len(data)
        if not data.startswith(b"\0"):
            self.send(b".\n")  # a text command: the benchmark only checks that the server answers
            return
        while end - at >= HEADER.size:
            _, packet_type, size = HEADER.unpack_from(data, at)
            after = at + HEADER.size + size
            if after > end:
                break
            self.packet(packet_type, data[at + HEADER.size : after])
            at = after
        self.rest = data[at:]

    def packet(self, packet_type: int, body: bytes) -> None:
        broker = self.broker
        if packet_type == SUBMIT_JOB:
            function, _, payload = body.split(b"\0", 2)
            broker.count += 1
            handle = b"H:bare:%d" % broker.count
            broker.owners[handle] = self
            broker.jobs.append((handle, function, payload))
            self.send(response(8, handle))
            if broker.sleepers:
                broker.sleepers.popleft().send(NOOP)
        elif packet_type == GRAB_JOB:
            if broker.jobs:
                self.send(response(11, b"\0".join(broker.jobs.popleft())))
            else:
                self.send(NO_JOB)
        elif packet_type == WORK_COMPLETE:
            owner = broker.owners.pop(body[: body.index(b"\0")])
            owner.send(response(13, body))
        elif packet_type == PRE_SLEEP:
            if broker.jobs:
                self.send(NOOP)
            else:
                broker.sleepers.append(self)


def response(packet_type: int, body: bytes) -> bytes:
    return HEADER.pack(b"\0RES", packet_type, len(body)) + body


async def main() -> None:
    loop = asyncio.get_running_loop()
    broker = Broker(loop)
    server = await loop.create_server(lambda: Connection(broker), "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"doors": [{"address": f"127.0.0.1:{port}"}]}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
