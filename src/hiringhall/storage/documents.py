"""The contract of documents: what a hall keeps beside its jobs, such as its tokens and the book of schedules.

Invariant: a document is complete at every moment: it is replaced as a whole or not at all, and no change that
somebody else made meanwhile is overwritten. Lines that are appended are all there or none. All calls may come
from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Stamp = tuple[int, ...]
"""Differs once a document was replaced."""


class DocumentError(Exception):
    """A document that cannot be read or written, worded for the operator: what failed, where, what to do."""


class Documents(Protocol):
    """The documents of one place."""

    @property
    def shared(self) -> bool:
        """Whether other machines may change them, so that a hall must look for changes by itself."""

    @property
    def place(self) -> str:
        """What has them, as it may be printed."""

    def exists(self) -> bool:
        """Whether there is a place, which may have no documents yet. Only a change makes one."""

    def where(self, name: str) -> str:
        """How a message names a document."""

    def stamp(self, name: str) -> Stamp | None:
        """None: there is no such document. Raises DocumentError."""

    def read(self, name: str, bytes_max: int) -> bytes | None:
        """The content; None: there is no such document. Raises DocumentError, also if it is longer."""

    def change(self, name: str, bytes_max: int, edit: Callable[[bytes | None], bytes | None]) -> None:
        """Replace a document by what `edit` makes of it; None: it stays as it is. `edit` is called again if
        somebody else was faster. It is on disk on return. Raises DocumentError, and what `edit` raises.
        """

    def append(self, name: str, lines: Sequence[bytes]) -> None:
        """Add lines to a log. They are on disk on return. The oldest lines are dropped above a limit. Raises
        DocumentError.
        """

    def tail(self, name: str, lines_max: int) -> list[bytes]:
        """The latest lines of a log that are kept, the oldest first. Raises DocumentError."""

    def close(self) -> None:
        """Release what is held open. Later calls open it again."""
