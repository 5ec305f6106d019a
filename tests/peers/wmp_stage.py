"""What stories of WMP over sockets share: a deadline, a manager, a worker's handlers, and a raw socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

import zmq

from hiringhall.peers.wmp import (
    Curve,
    Job,
    JobFailed,
    Manager,
    Submitted,
    Worker,
)
from stage.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Coroutine

ANY: Final = "127.0.0.1:0"


def act(story: Coroutine[object, object, None]) -> None:
    async def stage() -> None:
        async with asyncio.timeout(30):
            await story

    asyncio.run(stage())


def manager(address: str = ANY, identity: str = "me", lease_s: float = 2.0, jobs_max: int = 1000) -> Manager:
    return Manager(address, identity=identity, lease_s=lease_s, wake_s=0.2, jobs_max=jobs_max)


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


class Hands:
    """Handlers for a worker, and a gate at which jobs wait until the test opens it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.at_gate = 0
        self.most_at_gate = 0
        self.one_at_gate = asyncio.Event()
        self.three_at_gate = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def reverse(self, job: Job) -> bytes:
        return job.payload[::-1]

    async def tell(self, job: Job) -> bytes:
        await job.progress(1, 2)
        await job.send(b"piece")
        return b"|".join([job.role.encode(), job.key, job.manager, job.payload])

    async def fail(self, job: Job) -> bytes:
        if job.payload == b"known":
            raise JobFailed("out of luck", 7)
        if job.payload == b"text":
            return "text"  # type: ignore[return-value]
        raise KeyError("surprise") if job.payload == b"unknown" else ValueError("\ud800")

    async def wait(self, job: Job) -> bytes:
        await job.progress(0, 1)
        self.at_gate += 1
        self.most_at_gate = max(self.most_at_gate, self.at_gate)
        self.one_at_gate.set()
        if self.at_gate == 3:
            self.three_at_gate.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.at_gate -= 1
        return b"through"

    def worker(
        self,
        *managers: str,
        slots: int = 4,
        costs: dict[str, int] | None = None,
        identity: bytes | None = None,
        curve: Curve | None = None,
    ) -> Worker:
        handlers = {"reverse": self.reverse, "tell": self.tell, "fail": self.fail, "wait": self.wait}
        return Worker(
            managers,
            handlers,
            slots=slots,
            costs=costs,
            lock_timeout_s=1,
            ready_first_s=0.1,
            ready_max_s=0.5,
            beat_s=0.3,
            identity=identity,
            curve=curve,
        )


async def begun(job: Submitted) -> None:
    """It shows progress."""
    async for _ in job:
        return


class Raw:
    """A socket whose every frame the test decides."""

    def __init__(self, kind: int) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(kind)
        self.socket.set(zmq.LINGER, 0)
        self.socket.set(zmq.RCVTIMEO, 10_000)

    async def hear(self) -> list[bytes]:
        return await asyncio.to_thread(self.socket.recv_multipart)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self._context.term()
