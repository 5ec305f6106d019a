"""A worker of the draft's protocol, in the test's process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from hiringhall.peers.gearman_draft import ServerError, Task, TaskError, blocking

if TYPE_CHECKING:
    from types import TracebackType


class DraftHouse:
    """A worker of the draft in a thread beside; `gate` waits until the test opens it."""

    def __init__(self, *servers: str) -> None:
        self.order: list[bytes] = []
        self.complaints: list[ServerError] = []
        self.gate = threading.Semaphore(0)
        self.worker = blocking.Worker(servers, on_error=self.complaints.append)
        self.worker.can_do("draft-count", self.count)
        self.worker.can_do("draft-fail", self.fail)
        self.worker.can_do("draft-raise", lambda task: b"%d" % (1 // len(task.args)))
        self.worker.can_do("draft-note", self.note)
        self.worker.can_do("draft-gate", self.pass_gate)

    @staticmethod
    def count(task: Task) -> bytes:
        for step in (1, 2, 3):
            task.status(step, 3, 3 - step)
        return task.args[::-1]

    @staticmethod
    def fail(task: Task) -> bytes:
        raise TaskError(int(task.args), b"as you wish")

    def note(self, task: Task) -> bytes:
        self.order.append(task.args)
        return b"noted"

    def pass_gate(self, task: Task) -> bytes:
        task.status(3, 7, 3600)
        assert self.gate.acquire(timeout=60), "nobody opened the gate"
        return b"opened"

    def __enter__(self) -> Self:
        self.worker.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gate.release(1000)
        self.worker.__exit__(kind, error, trace)
