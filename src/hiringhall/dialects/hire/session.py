"""One TCP connection that sends lines.

Invariants: how the bytes are cut makes no difference. The UUID of the first line is that of the connection. A
bad line is answered with a comment, only on this connection. A line that is too long closes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.context import HireContext, HireOptions
from hiringhall.dialects.session import BAD_INPUT, Session

if TYPE_CHECKING:
    from hiringhall.dialects.hire.hire_bus import Participant
    from hiringhall.dialects.session import Caller

__all__ = ["HireContext", "HireOptions", "LineSession"]

_BID: Final = wire.AVAIL + b" "
_BID_BYTES: Final = wire.OPENING_BYTES + len(_BID)
"""Where the fields of an AVAIL begin."""


class LineSession(Session):
    """One peer."""

    def __init__(self, caller: Caller, context: HireContext) -> None:
        super().__init__(caller)
        self._context = context
        self._rest = b""
        """The start of an incomplete line."""
        self.participant: Participant | None = None
        """Set by the first line."""
        self._opening = b""
        """How its lines start: its UUID and a space."""
        self._bid_opening = b""
        """How its bids start."""
        self.prompt = True
        context.add_session(self)

    @property
    def dialect(self) -> str:
        return "hire"

    def receive(self, data: bytes) -> None:
        lines = (self._rest + data if self._rest else data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            text = line[:-1] if line.endswith(b"\r") else line
            if len(text) > wire.LINE_BYTES_MAX:
                self._close_overlong()
                return
            self._receive_line(text)
        # A line of the full length may be followed by a carriage return whose newline has not arrived.
        over = len(self._rest) - wire.LINE_BYTES_MAX
        if over > 1 or (over == 1 and not self._rest.endswith(b"\r")):
            self._close_overlong()

    def _receive_line(self, text: bytes) -> None:
        if text.startswith(wire.COMMENT):
            return
        try:
            participant = self.participant
            hire_bus = self._context.hire_bus
            if participant is not None and text.startswith(self._opening):
                bids = text.startswith(self._bid_opening)
                if not bids or not hire_bus.receive_bid(participant, text[_BID_BYTES:]):
                    rest = wire.read_rest(participant.uuid, text[wire.OPENING_BYTES :])
                    hire_bus.receive(participant, rest)
                return
            line = wire.read_line(text)
            if participant is None:
                participant = hire_bus.introduce(line.speaker, self._context, self)
                self.participant = participant
                self._opening = wire.write_uuid(line.speaker) + b" "
                self._bid_opening = self._opening + _BID
            elif line.speaker != participant.uuid:
                raise wire.BadLine("a connection must use the UUID of its first line")
            hire_bus.receive(participant, line)
        except wire.BadLine as error:
            self._answer_error(str(error))

    def _close_overlong(self) -> None:
        self._rest = b""
        text = f"a line may have {wire.LINE_BYTES_MAX} bytes; this one is longer"
        self._answer_error(text)
        self.finish()

    def _answer_error(self, text: str) -> None:
        self._context.dropped += 1
        self.report(BAD_INPUT, text)
        self.send(wire.COMMENT + b" " + text.encode() + b"\n")

    def disconnected(self) -> None:
        self._context.remove_session(self)
        if self.participant is not None:
            self._context.hire_bus.leave(self.participant)
