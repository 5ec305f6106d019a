"""One bound for what all peers together keep in memory: input that is incomplete, and output that is unsent.

The law: when the sum passes the budget, the links that keep the most are dropped first, until there is room
again; whoever keeps little is served. What a link keeps is noted only while it keeps much, so that it costs
nothing where everything is taken in and sent at once.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from hiringhall.dialects.session import Link, Session

BYTES_MAX: Final = 256 << 20
NOTED_BYTES_MIN: Final = 4096
"""A link that keeps less than this is not noted."""
_KEPT_EIGHTHS: Final = 7
"""Links are dropped until so many eighths of the budget are kept: otherwise the next bytes would have all links
looked through again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Holder(Link):
    """A link with its session, as far as the memory that they keep is concerned."""

    def kept_bytes(self) -> int:
        """What is kept for this peer now."""
        raise NotImplementedError

    def drop(self, text: str) -> None:
        """Close the connection at once, and report why."""
        raise NotImplementedError


class Budget:
    """The links that keep much, and how much that is."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.noted: dict[Holder, int] = {}
        """What each of them kept when it was last noted."""
        self.noted_bytes = 0
        """The sum."""

    def note(self, holder: Holder) -> None:
        """What a link keeps has changed."""
        kept_bytes = holder.kept_bytes()
        before = self.noted.get(holder, 0)
        if kept_bytes >= NOTED_BYTES_MIN:
            self.noted[holder] = kept_bytes
        elif before:
            del self.noted[holder]
            kept_bytes = 0
        else:
            return
        self.noted_bytes += kept_bytes - before
        if self.noted_bytes > self.bytes_max:
            self._make_room()

    def forget(self, holder: Holder) -> None:
        """The link is gone."""
        self.noted_bytes -= self.noted.pop(holder, 0)

    def _make_room(self) -> None:
        """Drop the greediest. Peers may have read some of their output since they were noted: look again."""
        self.noted = {holder: holder.kept_bytes() for holder in self.noted}
        self.noted_bytes = sum(self.noted.values())
        if self.noted_bytes <= self.bytes_max:
            return
        limit_bytes = self.bytes_max * _KEPT_EIGHTHS // 8
        for holder in sorted(self.noted, key=self._kept_by, reverse=True):
            if self.noted_bytes <= limit_bytes:
                return
            kept_bytes = self.noted[holder]
            self.forget(holder)
            holder.drop(
                f"{kept_bytes} bytes were kept for it, over {self.bytes_max} for all (buffer_bytes_max)"
            )

    def _kept_by(self, holder: Holder) -> int:
        return self.noted[holder]


def output_bytes(session: Session) -> int:
    """What a session has said that waits for the store or for the end of the turn."""
    sealed = session.sealed
    return session.out_bytes + (sum([len(message) for message in sealed]) if sealed is not None else 0)
