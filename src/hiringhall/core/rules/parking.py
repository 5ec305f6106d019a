"""Parked jobs: ready jobs whose key has as many jobs running as it may have (`key_running_max`).

Invariant: of the jobs of a key that fit the same workers, as many are in the lanes as may still start, and the
rest is parked. They are the first by priority, then by turn and age. So whatever is in a lane may start, a job
that may not blocks nobody, and a start or an end looks at the jobs of its own key only.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

from hiringhall.core.rules.fair_lanes import Line
from hiringhall.core.terms import NO_REQUIREMENT, PRIORITIES

if TYPE_CHECKING:
    from hiringhall.core.rules.fair_lanes import Entry
    from hiringhall.core.rules.limiter import Limiter
    from hiringhall.core.terms import Requirement

_GROUPS_KEPT: Final = 4
"""With more, those of a key that has no waiting job are dropped."""
_Ranked = tuple[int, int, int, "Entry"]


def _rank(entry: Entry) -> _Ranked:
    return entry.job.terms.priority, entry.place, entry.number, entry


class _Group:
    """The waiting jobs of one key that fit the same workers."""

    __slots__ = ("admitted", "parked", "parked_by_priority")

    def __init__(self) -> None:
        self.admitted: list[_Ranked] = []
        """Those that are in the lanes, sorted."""
        self.parked_by_priority: list[Line | None] = [None] * PRIORITIES
        self.parked = 0

    def park(self, entry: Entry) -> None:
        priority = entry.job.terms.priority
        line = self.parked_by_priority[priority]
        if line is None:
            line = self.parked_by_priority[priority] = Line()
        line.push(entry)
        self.parked += 1

    def unpark(self, entry: Entry) -> None:
        line = self.parked_by_priority[entry.job.terms.priority]
        assert line is not None
        line.discard(entry)
        self.parked -= 1

    def first_parked(self) -> Entry:
        for line in self.parked_by_priority:
            entry = line.first() if line is not None else None
            if entry is not None:
                return entry
        raise AssertionError("a group has as many parked jobs as it counts")

    def leave_lane(self, entry: Entry) -> None:
        del self.admitted[bisect_left(self.admitted, _rank(entry))]


class KeyLimit:
    """One key of a queue: its running jobs, and those that wait."""

    __slots__ = ("groups", "name", "running")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.running = 0
        self.groups: dict[Requirement, _Group] = {}


class Parking:
    """The keys of one queue."""

    __slots__ = ("_limiter", "keys", "most")

    def __init__(self, limiter: Limiter, most: int) -> None:
        self._limiter = limiter
        self.most = most
        """Jobs of a key that may run at the same time."""
        self.keys: dict[bytes, KeyLimit] = {}
        """Keys with a job that runs or waits."""

    def has_room(self, name: bytes) -> bool:
        """Whether a further job of this key may start."""
        key = self.keys.get(name)
        return key is None or key.running < self.most

    def put(self, name: bytes, entry: Entry) -> None:
        """A job of this key is ready: it goes to its lane, or is parked."""
        key = self.keys.get(name)
        if key is None:
            key = self.keys[name] = KeyLimit(name)
        requirement = entry.job.terms.requirement or NO_REQUIREMENT
        group = key.groups.get(requirement)
        if group is None:
            group = key.groups[requirement] = _Group()
        room = self.most - key.running
        if len(group.admitted) < room:
            self._admit(group, entry)
        elif group.admitted and _rank(entry) < group.admitted[-1]:
            self._evict(group)
            self._admit(group, entry)
        else:
            self._park(group, entry)

    def remove(self, name: bytes, entry: Entry) -> None:
        """A job of this key no longer waits. `balance` follows."""
        group = self.keys[name].groups[entry.job.terms.requirement or NO_REQUIREMENT]
        if entry.parked:
            self._unpark(group, entry)
        else:
            group.leave_lane(entry)
            self._limiter.take_out(entry)

    def started(self, name: bytes) -> None:
        """A job of this key runs. `balance` follows."""
        key = self.keys.get(name)
        if key is None:
            key = self.keys[name] = KeyLimit(name)
        key.running += 1

    def ended(self, name: bytes) -> None:
        """A job of this key no longer runs. `balance` follows."""
        self.keys[name].running -= 1

    def balance(self, name: bytes) -> None:
        """Have as many jobs of a key in the lanes as may start. Drops what is empty."""
        key = self.keys.get(name)
        if key is None:
            return
        room = max(self.most - key.running, 0)
        waiting = 0
        for group in key.groups.values():
            while len(group.admitted) > room:
                self._evict(group)
            while group.parked and len(group.admitted) < room:
                entry = group.first_parked()
                self._unpark(group, entry)
                self._admit(group, entry)
            waiting += len(group.admitted) + group.parked
        if not waiting:
            if not key.running:
                del self.keys[name]
            elif len(key.groups) > _GROUPS_KEPT:
                key.groups.clear()

    def _admit(self, group: _Group, entry: Entry) -> None:
        insort(group.admitted, _rank(self._limiter.admit(entry)))

    def _evict(self, group: _Group) -> None:
        """Park the job of a group that would go last of those in the lanes."""
        entry = group.admitted.pop()[3]
        self._limiter.take_out(entry)
        self._park(group, entry)

    def _park(self, group: _Group, entry: Entry) -> None:
        group.park(self._limiter.enter_as(entry, parked=True))

    def _unpark(self, group: _Group, entry: Entry) -> None:
        group.unpark(entry)
        self._limiter.unparked(entry)
