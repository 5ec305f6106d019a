"""Look-ups in the history of parents that are not in memory.

Invariant: a reference is looked up once while jobs wait for it. The answer is ignored if a job of that name has
come since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hiringhall.core.jobs import ParentRef

_WAITING: Final = 0
"""To be looked up next."""
_ASKED: Final = 1
"""Being looked up."""
_UNKNOWN: Final = 2
"""The history does not know it."""


class ParentLookups:
    """The parents that jobs wait for and that may be in the history."""

    __slots__ = ("_states", "_waiting")

    def __init__(self) -> None:
        self._states: dict[ParentRef, int] = {}
        self._waiting: dict[ParentRef, None] = {}
        """The references that are _WAITING, in the order in which they came."""

    @property
    def waiting(self) -> bool:
        """Something is to be looked up."""
        return len(self._waiting) > 0

    def all(self) -> list[ParentRef]:
        """Every reference that is, was or will be looked up while jobs wait for it."""
        return list(self._states)

    def add(self, ref: ParentRef) -> None:
        """A job waits for a parent that is not in memory."""
        if ref not in self._states:
            self._states[ref] = _WAITING
            self._waiting[ref] = None

    def drop(self, ref: ParentRef) -> None:
        """A job of that name has come, or no job waits for it."""
        if self._states.pop(ref, None) == _WAITING:
            del self._waiting[ref]

    def pending(self, ref: ParentRef) -> bool:
        """The answer is still to come."""
        return self._states.get(ref, _UNKNOWN) != _UNKNOWN

    def is_unknown(self, ref: ParentRef) -> bool:
        """The history was asked while jobs wait for it, and does not know it."""
        return self._states.get(ref) == _UNKNOWN

    def take(self, count_max: int) -> list[ParentRef]:
        """The references to look up next, oldest first."""
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
        """The look-up returned. False: the answer is outdated."""
        if self._states.get(ref) != _ASKED:
            return False
        if known:
            # It can be looked up again, for a later job that does not find it in memory.
            del self._states[ref]
        else:
            self._states[ref] = _UNKNOWN
        return True

    def repeat(self, refs: list[ParentRef]) -> None:
        """The look-up failed: look these up again."""
        for ref in refs:
            if self._states.get(ref) == _ASKED:
                self._states[ref] = _WAITING
                self._waiting[ref] = None
