"""The queues and the workers of the hall, as lists and one by one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hiringhall.core.errors import Refusal
from hiringhall.dialects.native import describing, wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msgspec import Raw

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.native.session import NativeSession


class Overview:
    """The requests of one connection about queues and workers."""

    __slots__ = ("_scheduler", "_session")

    def __init__(self, session: NativeSession, scheduler: Scheduler) -> None:
        self._session = session
        self._scheduler = scheduler

    def queues(self, number: int, body: Raw) -> None:
        # [0, 1000], or [0, 1000, "res"]: those whose names contain "res"
        position, count, text = wire.decode_list(body)
        queues = self._scheduler.queues
        named = queues.values() if not text else [queue for name, queue in queues.items() if text in name]
        page = islice(named, position, position + count)
        self._session.answer(number, [describing.queue(self._scheduler, queue) for queue in page])

    def queue(self, number: int, body: Raw) -> None:
        # ["resize"]
        (name,) = wire.decode(wire.QUEUE_BODY, body)
        queue = self._scheduler.queues.get(name)
        if queue is None:
            shown = name.decode("utf-8", "backslashreplace")
            raise Refusal(wire.UNKNOWN_QUEUE, f"the hall has no queue {shown!r}")
        self._session.answer(number, describing.queue(self._scheduler, queue))

    def workers(self, number: int, body: Raw) -> None:
        # [0, 1000], or [0, 1000, "resize"]: those that can do this queue
        position, count, name = wire.decode_list(body)
        able: Iterable[Worker] = self._scheduler.workers
        if name is not None:
            queue = self._scheduler.queues.get(name)
            able = queue.workers if queue is not None else ()
        shown = [worker for worker in able if not self._is_stand_in(worker)]
        page = shown[position : position + count]
        held = self._held_for(page)
        self._session.answer(number, [describing.worker(worker, held.get(worker, [])) for worker in page])

    def worker(self, number: int, body: Raw) -> None:
        # [17]
        worker = self.find_worker(wire.decode(wire.ID_BODY, body)[0])
        held = self._held_for([worker])
        self._session.answer(number, describing.worker(worker, held.get(worker, [])))

    def drain(self, number: int, body: Raw) -> None:
        # [17]
        self._scheduler.draining.drain(self.find_worker(wire.decode(wire.ID_BODY, body)[0]))
        self._session.answer(number, None)

    def undrain(self, number: int, body: Raw) -> None:
        # [17]
        self._scheduler.draining.undrain(self.find_worker(wire.decode(wire.ID_BODY, body)[0]))
        self._session.answer(number, None)

    def find_worker(self, worker_number: int) -> Worker:
        """The worker with this number. Raises Refusal."""
        worker = self._scheduler.find_worker(worker_number)
        if worker is None:
            raise Refusal(wire.UNKNOWN_WORKER, f"no worker has the number {worker_number}, or it is gone")
        return worker

    def _is_stand_in(self, worker: Worker) -> bool:
        """It holds a job for another worker, which is there."""
        return worker.stands_for is not None and worker.stands_for in self._scheduler.workers

    def _held_for(self, workers: list[Worker]) -> dict[Worker, list[int]]:
        """The ids of the jobs that stand-ins hold for those of these workers that delegate."""
        held: dict[Worker, list[int]] = {worker: [] for worker in workers if worker.delegates}
        if held:
            for other in self._scheduler.workers:
                if other.stands_for is not None and other.stands_for in held:
                    held[other.stands_for] += [job.id for job in other.leases]
        return held
