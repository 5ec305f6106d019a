"""The queues and the workers of the hall, as lists and one by one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hiringhall.dialects.native import describing, wire

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.session import NativeSession


class Overview:
    """The requests of one connection about queues and workers."""

    __slots__ = ("_scheduler", "_session")

    def __init__(self, session: NativeSession, scheduler: Scheduler) -> None:
        self._session = session
        self._scheduler = scheduler

    def queues(self, number: int, body: Raw) -> None:
        # [0, 1000]
        position, count = _page(body)
        queues = islice(self._scheduler.queues.values(), position, position + count)
        self._session.answer(number, [describing.queue(self._scheduler, queue) for queue in queues])

    def workers(self, number: int, body: Raw) -> None:
        # [0, 1000]
        position, count = _page(body)
        workers = islice(self._scheduler.workers, position, position + count)
        self._session.answer(number, [describing.worker(worker) for worker in workers])


def _page(body: Raw) -> tuple[int, int]:
    position, count = wire.decode(wire.LIST_BODY, body)
    return position, min(count, wire.LIST_MAX)
