"""The floor: a Gearman server in Python that schedules nothing.

One queue for all functions, no priorities, keys, limits, history or disk: packets are cut, a job goes to
the next worker that asks, its result to its client, with one write per connection and pass of the event
loop. It is plain Python: a compiled hall, which gathers more answers in a write, can be faster.
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


class Floor:
    """Jobs, sleepers and connections with something to send."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.count = 0
        self.jobs: deque[tuple[bytes, bytes, bytes]] = deque()
        self.owners: dict[bytes, Connection] = {}
        self.sleepers: deque[Connection] = deque()
        self.talkers: list[Connection] = []

    def flush(self) -> None:
        for connection in self.talkers:
            if connection.transport is not None:
                connection.transport.write(b"".join(connection.out))
            connection.out.clear()
        self.talkers.clear()


class Connection(asyncio.Protocol):
    """One client or worker."""

    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self.transport: asyncio.Transport | None = None
        self.rest = b""
        self.out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's does not derive from it

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.transport = None
        if self in self.floor.sleepers:
            self.floor.sleepers.remove(self)

    def send(self, data: bytes) -> None:
        if not self.out:
            if not self.floor.talkers:
                self.floor.loop.call_soon(self.floor.flush)
            self.floor.talkers.append(self)
        self.out.append(data)

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        at = 0
        end = len(data)
        if not data.startswith(b"\0"):
            self.send(b".\n")  # a text command: the bench only wants to hear that we live
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
        floor = self.floor
        if packet_type == SUBMIT_JOB:
            function, _, payload = body.split(b"\0", 2)
            floor.count += 1
            handle = b"H:bare:%d" % floor.count
            floor.owners[handle] = self
            floor.jobs.append((handle, function, payload))
            self.send(response(8, handle))
            if floor.sleepers:
                floor.sleepers.popleft().send(NOOP)
        elif packet_type == GRAB_JOB:
            if floor.jobs:
                self.send(response(11, b"\0".join(floor.jobs.popleft())))
            else:
                self.send(NO_JOB)
        elif packet_type == WORK_COMPLETE:
            owner = floor.owners.pop(body[: body.index(b"\0")])
            owner.send(response(13, body))
        elif packet_type == PRE_SLEEP:
            if floor.jobs:
                self.send(NOOP)
            else:
                floor.sleepers.append(self)


def response(packet_type: int, body: bytes) -> bytes:
    return HEADER.pack(b"\0RES", packet_type, len(body)) + body


async def main() -> None:
    loop = asyncio.get_running_loop()
    floor = Floor(loop)
    server = await loop.create_server(lambda: Connection(floor), "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"doors": [{"address": f"127.0.0.1:{port}"}]}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
