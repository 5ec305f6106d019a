"""What the history is asked about parents that are not in memory.

The law: a name is asked for once while jobs wait for it, and an answer counts only if no job of that name has
come since the question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hiringhall.core.jobs import ParentRef

_WAITING: Final = 0
"""To be asked for with the next look-up."""
_ASKED: Final = 1
"""A look-up for it is under way."""
_UNKNOWN: Final = 2
"""The history does not know it."""


class Inquiries:
    """The parents that jobs wait for and that may stand in the history."""

    __slots__ = ("_states", "_waiting")

    def __init__(self) -> None:
        self._states: dict[ParentRef, int] = {}
        self._waiting: dict[ParentRef, None] = {}
        """Those in `_states` that are _WAITING, in the order in which they came."""

    @property
    def waiting(self) -> bool:
        """There is something to ask."""
        return len(self._waiting) > 0

    def all(self) -> list[ParentRef]:
        """Every name that was asked for, or will be, while jobs wait for it."""
        return list(self._states)

    def add(self, ref: ParentRef) -> None:
        """A job waits for a parent that is not in memory."""
        if ref not in self._states:
            self._states[ref] = _WAITING
            self._waiting[ref] = None

    def drop(self, ref: ParentRef) -> None:
        """A job of that name has come, or no job waits for it any more."""
        if self._states.pop(ref, None) == _WAITING:
            del self._waiting[ref]

    def pending(self, ref: ParentRef) -> bool:
        """The answer is still to come."""
        return self._states.get(ref, _UNKNOWN) != _UNKNOWN

    def take(self, count_max: int) -> list[ParentRef]:
        """What to ask next, oldest first."""
        refs: list[ParentRef] = []
        for ref in self._waiting:
            if len(refs) >= count_max:
                break
            refs.append(ref)
        for ref in refs:
            del self._waiting[ref]
            self._states[ref] = _ASKED
        return refs

    def answered(self, ref: ParentRef, known: bool) -> bool:
        """The history knows it, or does not. False: the answer does not count any more."""
        if self._states.get(ref) != _ASKED:
            return False
        if known:
            # A later job that waits for it, and does not find it in memory, asks again.
            del self._states[ref]
        else:
            self._states[ref] = _UNKNOWN
        return True

    def repeat(self, refs: list[ParentRef]) -> None:
        """These could not be asked: ask again."""
        for ref in refs:
            if self._states.get(ref) == _ASKED:
                self._states[ref] = _WAITING
                self._waiting[ref] = None
