"""The requests of one native connection for the output of jobs: what workers said while a job ran.

Invariant: they are answered in the order in which they were asked.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hiringhall.core import ids
from hiringhall.core.errors import HALL_FULL, STORE_DOWN, UNKNOWN_JOB, Refusal
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import OutputPage
    from hiringhall.dialects.native.context import NativeContext
    from hiringhall.dialects.native.session import NativeSession


class OutputRequests:
    """Requests that wait for the store. The session is passed to each method, and not kept."""

    __slots__ = ("_context", "_numbers")

    def __init__(self, context: NativeContext) -> None:
        self._context = context
        self._numbers: deque[int] = deque()

    def ask(self, session: NativeSession, number: int, body: Raw) -> None:
        # [68719476737, 0]
        job_id, position = wire.decode(wire.OUTPUT_BODY, body)
        if ids.epoch_of(job_id) > self._context.scheduler.epoch:
            raise Refusal(UNKNOWN_JOB, f"no job has the id {job_id}")
        if len(self._numbers) >= self._context.options.lookups_max:
            raise Refusal(
                HALL_FULL, f"{len(self._numbers)} requests of this connection wait for output (lookups_max)"
            )
        self._numbers.append(number)
        self._context.look_up_output(session, job_id, position)

    def answered(self, session: NativeSession, page: OutputPage, trouble: str) -> None:
        """The store has answered the oldest request."""
        number = self._numbers.popleft()
        if trouble:
            session.refuse(number, STORE_DOWN, trouble)
        elif number:
            lines = [(line.at_us, line.kind, line.data) for line in page.lines]
            session.send(wire.encode(wire.OK, number, (lines, page.end)))
