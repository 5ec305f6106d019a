"""The routing of a device, without sockets: a message comes in on one side and goes out on the other.

Invariant: READY from a worker goes to all managers; every other message follows its path. A message without a
route is dropped and counted. A device keeps no state, so it can be killed at any time.

    from below, [worker, m1, "", "", body]       ->  to manager m1, ["", worker, "", body]
    from manager m1, [worker, "", "", body]      ->  below, [worker, "", m1, "", body]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.dialects.wmp import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

_READY_START: Final = wire.encode_body(wire.READY, []).removesuffix(b"\n")
"""The start of a READY. The rest of a message is not read: a device forwards unknown commands too."""


class Forward(NamedTuple):
    """A message to forward."""

    hop: int
    """The manager's number, or BELOW."""
    frames: list[bytes]


BELOW: Final = -1


class Relay:
    """Decides where each message goes."""

    def __init__(self, hops: Sequence[bytes]) -> None:
        """`hops` are the names of the managers on the paths through this device."""
        if len(set(hops)) != len(hops) or not all(0 < len(hop) <= wire.HOP_BYTES_MAX for hop in hops):
            raise ValueError("the hops of a device must be different names of 1 to 255 bytes")
        self._hops = list(hops)
        self._numbers = {hop: number for number, hop in enumerate(hops)}
        self.dropped = 0
        """Number of messages without a route."""

    def from_below(self, frames: list[bytes]) -> list[Forward]:
        """A message of a worker (or of a device in between); its first frame is the sender's identity."""
        parts = wire.split_frames(frames[1:])
        if parts is None or len(parts[1]) == wire.HOPS_MAX:
            return self._drop()
        to, come, body = parts
        come = [frames[0], *come]
        if not to:
            if not body.startswith(_READY_START):
                return self._drop()
            ready = wire.join_frames([], come, body)
            return [Forward(number, ready) for number in range(len(self._hops))]
        number = self._numbers.get(to[0])
        if number is None:
            return self._drop()
        return [Forward(number, wire.join_frames(to[1:], come, body))]

    def from_manager(self, number: int, frames: list[bytes]) -> list[Forward]:
        """A message of a manager (or of a device in between)."""
        parts = wire.split_frames(frames)
        if parts is None or not parts[0] or len(parts[1]) == wire.HOPS_MAX:
            return self._drop()
        to, come, body = parts
        return [Forward(BELOW, wire.join_frames(to, [self._hops[number], *come], body))]

    def _drop(self) -> list[Forward]:
        self.dropped += 1
        return []
