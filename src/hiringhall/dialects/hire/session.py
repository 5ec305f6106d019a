"""One connection that speaks in lines.

The law: however the bytes are cut, the same things happen. A connection has the UUID of its first line; what is
wrong with a line is told in a comment, to that connection only, and all but a line without end leaves it open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.context import HireContext, HireOptions
from hiringhall.dialects.session import BAD_INPUT, Session

if TYPE_CHECKING:
    from hiringhall.dialects.hire.hire_bus import Participant
    from hiringhall.dialects.session import Caller

__all__ = ["HireContext", "HireOptions", "LineSession"]


class LineSession(Session):
    """One peer's conversation."""

    def __init__(self, caller: Caller, context: HireContext) -> None:
        super().__init__(caller)
        self._context = context
        self._rest = b""
        """The beginning of a line whose end has not come."""
        self.participant: Participant | None = None
        """Who speaks, from the first line on."""
        self._opening = b""
        """How its lines begin."""
        self.prompt = True
        context.enter(self)

    def receive(self, data: bytes) -> None:
        lines = (self._rest + data if self._rest else data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            text = line[:-1] if line.endswith(b"\r") else line
            if len(text) > wire.LINE_BYTES_MAX:
                self._give_up()
                return
            self._take(text)
        # A line may have its full length and a carriage return that waits for the rest of the line's end.
        over = len(self._rest) - wire.LINE_BYTES_MAX
        if over > 1 or (over == 1 and not self._rest.endswith(b"\r")):
            self._give_up()

    def _take(self, text: bytes) -> None:
        if text.startswith(wire.COMMENT):
            return
        try:
            participant = self.participant
            if participant is not None and text.startswith(self._opening):
                self._context.hire_bus.hear(
                    participant, wire.read_rest(participant.uuid, text[wire.OPENING_BYTES :])
                )
                return
            line = wire.read_line(text)
            if participant is None:
                participant = self._context.hire_bus.introduce(line.speaker, self._context, self)
                self.participant = participant
                self._opening = wire.write_uuid(line.speaker) + b" "
            elif line.speaker != participant.uuid:
                raise wire.BadLine("a connection speaks with the UUID of its first line")
            self._context.hire_bus.hear(participant, line)
        except wire.BadLine as wrong:
            self._complain(str(wrong))

    def _give_up(self) -> None:
        self._rest = b""
        self._complain(f"a line may have {wire.LINE_BYTES_MAX} bytes; this was longer, and its end is unknown")
        self.finish()

    def _complain(self, wrong: str) -> None:
        self._context.dropped += 1
        self.report(BAD_INPUT, wrong)
        self.send(wire.COMMENT + b" " + wrong.encode() + b"\n")

    def disconnected(self) -> None:
        self._context.depart(self)
        if self.participant is not None:
            self._context.hire_bus.part(self.participant)
