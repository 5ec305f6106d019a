"""A worker of our own that does every function of `foreign.py`, in the test's process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from hiringhall.peers.gearman import JobFailed, ServerError, Worker, WorkerJob

if TYPE_CHECKING:
    from types import TracebackType


class HouseWorker:
    """Several jobs at once; `gate` waits until the test opens it."""

    def __init__(self, *addresses: str, client_id: str = "house", slots: int = 4) -> None:
        self.complaints: list[ServerError] = []
        """What the server found wrong."""
        self.gate = threading.Semaphore(0)
        """Each release lets one job through the gate."""
        self.order: list[bytes] = []
        """The data of each job of `note`, in the order in which they came."""
        self.worker = Worker(*addresses, client_id=client_id, slots=slots, on_error=self.complaints.append)
        for function in (self.reverse, self.count, self.chunks, self.warn, self.fail, self.unique, self.note):
            self.worker.register(function.__name__, function)
        self.worker.register("raise", self.raise_boom)
        self.worker.register("reducer", self.reducer)
        self.worker.register("gate", self.pass_gate)

    @staticmethod
    def reverse(job: WorkerJob) -> bytes:
        return job.data[::-1]

    @staticmethod
    def count(job: WorkerJob) -> bytes:
        for step in (1, 2, 3):
            job.progress(step, 3)
        return b"counted"

    @staticmethod
    async def chunks(job: WorkerJob) -> bytes:
        job.send_data(b"one")
        job.send_data(b"two")
        return b"three"

    @staticmethod
    def warn(job: WorkerJob) -> bytes:
        job.warn(b"careful")
        return b"warned"

    @staticmethod
    def fail(job: WorkerJob) -> bytes:
        raise JobFailed

    @staticmethod
    def raise_boom(job: WorkerJob) -> bytes:
        raise JobFailed(b"boom")

    @staticmethod
    def unique(job: WorkerJob) -> bytes:
        return job.unique

    @staticmethod
    def reducer(job: WorkerJob) -> bytes:
        return job.reducer + b":" + job.data

    def note(self, job: WorkerJob) -> bytes:
        self.order.append(job.data)
        return b"noted"

    def pass_gate(self, job: WorkerJob) -> bytes:
        job.progress(3, 7)
        if not self.gate.acquire(timeout=60):
            raise JobFailed(b"nobody opened the gate")
        return b"opened"

    def __enter__(self) -> Self:
        self.worker.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gate.release(1000)
        self.worker.__exit__(kind, error, trace)
