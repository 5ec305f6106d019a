"""Bugs of several halls on one database for the laws to find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.cluster import reign
from hiringhall.cluster.reign import Reign
from hiringhall.cluster.suspicion import SILENCE_US, Suspicion
from hiringhall.engine.turn import Engine
from hiringhall.storage.postgres.outcome import Outcome

from . import clusterstore
from .clusterdatabase import FencedDatabase, Refused
from .clustermember import Member
from .clusterpassing import Relay
from .owndialect import line
from .world import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.storage.postgres.members import Standing
    from hiringhall.storage.postgres.membership import Predecessor

    from .network import Connection


def _check_number(self: FencedDatabase, backend: int, incarnation: int, number: int) -> None:
    """No fence: whoever has the next number may write."""
    del backend, incarnation
    if number != self.batch + 1:
        raise Refused(f"the last batch is {self.batch}")


def _check_incarnation(self: FencedDatabase, backend: int, incarnation: int) -> None:
    """What a connection does that was given up is kept, although somebody has asked for the outcome."""
    del backend
    if incarnation != self.incarnation:
        raise Refused("another hall has taken over", fenced=True)


def _is_active(self: FencedDatabase, seen: Predecessor) -> bool:
    return seen.incarnation == self.incarnation


def _take_for_failed(self: Engine, trouble: str) -> None:
    self.failed(trouble)


def _take_for_kept(self: Engine, trouble: str) -> None:
    del trouble
    self.committed()


def _judge_by_the_wall(self: Member, standing: Standing) -> bool:
    """The beat is a time on the wall of one machine, compared with the wall of another."""
    row = self.cluster.database.halls.get(standing.name)
    if row is None or not standing.open:
        return not standing.open
    return self.clock.wall_us() - row.beat_wall_us >= SILENCE_US


def _acknowledge(self: Relay, connection: Connection, data: bytes) -> None:
    """A standby answers what it should pass on."""
    if data.startswith(b'{"do":"submit"') and data.count(b"\n") == 1 and data.endswith(b"\n"):
        self.outer.write(line(created=1))
    else:
        _ARRIVED(self, connection, data)


def _count_all_silence(self: Suspicion, now_us: int, incarnation: int, beat: int) -> bool:
    """Time counts in which the database did not answer."""
    if self._beat != (incarnation, beat):
        self._beat = incarnation, beat
        self._silent_us = now_us  # since when: `missed` leaves it alone
    return now_us - self._silent_us >= SILENCE_US


def _count_from_the_answer(self: Member, sent_us: int, standing: Standing) -> None:
    del sent_us
    _BEATEN(self, self.clock.now_us() + 2 * SECOND, standing)


def _count_every_beat(
    self: Reign, sent_us: int, incarnation: int, standing: Standing, *, serving: bool
) -> None:
    _REIGN_ANSWERED(self, sent_us, incarnation, standing._replace(counted=True), serving=serving)


def _take_fenced_for_kept(sent: int, noted: int) -> Outcome:
    del sent, noted
    return Outcome(kept=True)


_ARRIVED = Relay.arrived
_BEATEN = Member._beaten
_REIGN_ANSWERED = Reign.answered

BUGS: Final[dict[str, tuple[Any, str, Callable[..., Any] | int]]] = {
    "cluster: no fence": (FencedDatabase, "_check", _check_number),
    "cluster: given up connection writes": (FencedDatabase, "_check_writer", _check_incarnation),
    "cluster: unknown commit taken for failed": (Engine, "unknown", _take_for_failed),
    "cluster: unknown commit taken for kept": (Engine, "unknown", _take_for_kept),
    "cluster: fenced commit taken for kept": (clusterstore, "find_fenced_outcome", _take_fenced_for_kept),
    "cluster: beat by wall clock": (Member, "_is_due", _judge_by_the_wall),
    "cluster: standby acknowledges": (Relay, "arrived", _acknowledge),
    "cluster: database away counts as silence": (Suspicion, "answered", _count_all_silence),
    "cluster: take-over from a hall that beats again": (FencedDatabase, "_is_as_seen", _is_active),
    "cluster: lease too long": (reign, "LEASE_US", 60 * SECOND),
    "cluster: beat counts from its answer on": (Member, "_beaten", _count_from_the_answer),
    "cluster: beat that is not seen counts": (Reign, "answered", _count_every_beat),
}
"""What is planted: where, in which method, and what stands there instead."""
