"""One memory limit for the buffers of all peers together: incomplete input and unsent output.

Invariant: when the sum exceeds the budget, the links with the largest buffers are dropped first, until there
is room again; peers with small buffers are served. A link is noted only while its buffers are large, so that
links whose data is received and sent at once cost nothing.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from hiringhall.core.errors import BrokenLaw
from hiringhall.dialects.session import Link, Session

BYTES_MAX: Final = 256 << 20
NOTED_BYTES_MIN: Final = 4096
"""A link that buffers less than this is not noted."""
_TARGET_EIGHTHS: Final = 7
"""Links are dropped until this many eighths of the budget are used. Otherwise the next bytes would cause
another pass over all links."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BufferedLink(Link):
    """A link that counts what it and its session buffer. Subclasses give `kept_bytes` and `drop`."""

    def kept_bytes(self) -> int:
        """How much is buffered for this peer now."""
        raise BrokenLaw("a transport's link says how much it buffers")

    def drop(self, text: str) -> None:  # noqa: ARG002
        """Close the connection at once, and report why."""
        raise BrokenLaw("a transport's link says how it is dropped")


class Budget:
    """The links with large buffers, and how large they are."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.noted: dict[BufferedLink, int] = {}
        """What each of them buffered when it was last noted."""
        self.noted_bytes = 0
        """Their sum."""

    def note(self, holder: BufferedLink) -> None:
        """The buffers of a link have changed."""
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

    def forget(self, holder: BufferedLink) -> None:
        """The link is gone."""
        self.noted_bytes -= self.noted.pop(holder, 0)

    def _make_room(self) -> None:
        """Drop the links with the largest buffers. First measure again: peers may have read some output."""
        self.noted = {holder: holder.kept_bytes() for holder in self.noted}
        self.noted_bytes = sum(self.noted.values())
        if self.noted_bytes <= self.bytes_max:
            return
        limit_bytes = self.bytes_max * _TARGET_EIGHTHS // 8
        for holder in sorted(self.noted, key=self._kept_by, reverse=True):
            if self.noted_bytes <= limit_bytes:
                return
            kept_bytes = self.noted[holder]
            self.forget(holder)
            holder.drop(
                f"{kept_bytes} bytes were buffered for it, more than {self.bytes_max} for all peers"
                " (buffer_bytes_max)"
            )

    def _kept_by(self, holder: BufferedLink) -> int:
        return self.noted[holder]


def output_bytes(session: Session) -> int:
    """Output of a session that waits for the store or for the end of the turn."""
    sealed = session.sealed
    return session.out_bytes + (sum([len(message) for message in sealed]) if sealed is not None else 0)
