"""A bus: one session for all who speak on it, told apart by their UUIDs.

The law: everybody hears everybody. The hall says again what it heard, if it was right, and drops what was not:
there is no word for a mistake, and all would hear it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.hire import wire
from hiringhall.dialects.session import BAD_INPUT, Session

if TYPE_CHECKING:
    from hiringhall.dialects.hire.context import HireContext
    from hiringhall.dialects.session import Caller


class BusSession(Session):
    """All that is said on one bus."""

    def __init__(self, caller: Caller, context: HireContext) -> None:
        super().__init__(caller)
        self._context = context
        self.prompt = True
        context.enter(self)

    def receive(self, data: bytes) -> None:
        if data.startswith(wire.COMMENT):
            return
        try:
            line = wire.read_line(data)
            hire_bus = self._context.hire_bus
            hire_bus.hear(hire_bus.introduce(line.speaker, self._context, self), line)
        except wire.BadLine as wrong:
            self._context.dropped += 1
            self.report(BAD_INPUT, str(wrong))

    def listeners_changed(self, listeners: int) -> None:
        self._context.listeners_changed(listeners)

    def disconnected(self) -> None:
        self._context.depart(self)
        for participant in list(self._context.hire_bus.speakers.values()):
            if participant.session is self:
                self._context.hire_bus.part(participant)
