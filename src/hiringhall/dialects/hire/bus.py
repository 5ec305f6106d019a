"""A ZeroMQ bus: one session for all participants on it, who differ by their UUIDs.

Everybody receives every line. The hall repeats each valid line. It drops an invalid one without an answer,
since everybody would receive the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.hire import wire
from hiringhall.dialects.session import BAD_INPUT, Session

if TYPE_CHECKING:
    from hiringhall.dialects.hire.context import HireContext
    from hiringhall.dialects.session import Caller


class BusSession(Session):
    """All participants on one bus."""

    def __init__(self, caller: Caller, context: HireContext) -> None:
        super().__init__(caller)
        self._context = context
        self.prompt = True
        context.add_session(self)

    @property
    def dialect(self) -> str:
        return "hire"

    def receive(self, data: bytes) -> None:
        if data.startswith(wire.COMMENT):
            return
        try:
            line = wire.read_line(data)
            hire_bus = self._context.hire_bus
            hire_bus.receive(hire_bus.introduce(line.speaker, self._context, self), line)
        except wire.BadLine as error:
            self._context.dropped += 1
            self.report(BAD_INPUT, str(error))

    def listeners_changed(self, listeners: int) -> None:
        self._context.listeners_changed(listeners)

    def disconnected(self) -> None:
        self._context.remove_session(self)
        for participant in list(self._context.hire_bus.participants.values()):
            if participant.session is self:
                self._context.hire_bus.leave(participant)
