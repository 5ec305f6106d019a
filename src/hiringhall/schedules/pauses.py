"""Paused schedules, in one document: those of the settings, and those of the book.

Invariant: a document that cannot be parsed is never overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from hiringhall.storage.documents import DocumentError

if TYPE_CHECKING:
    from hiringhall.storage.documents import Documents, Stamp

FILE: Final = "paused-schedules.json"
BYTES_MAX: Final = 8 << 20
PAUSES_MAX: Final = 20_000


class PauseError(Exception):
    """Pauses that cannot be read or written, worded for the operator."""


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The latest pause of one schedule. Due times within it do not fire, also not later."""

    since_us: int
    until_us: int = 0
    """0: it is paused."""


class _Content(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The content of the document."""

    version: Literal[1] = 1
    pauses: dict[str, Pause] = {}


class PauseList:
    """The pauses of one place; there may be none yet."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.where = documents.where(FILE)

    def stamp(self) -> Stamp | None:
        """Differs once a pause was changed. Raises DocumentError."""
        return self._documents.stamp(FILE)

    def read(self) -> dict[str, Pause]:
        """The latest pause of each schedule that had one, by name. Raises PauseError."""
        try:
            return self._decode(self._documents.read(FILE, BYTES_MAX))
        except DocumentError as error:
            raise PauseError(str(error)) from error

    def change(self, name: str, *, paused: bool, at_us: int) -> dict[str, Pause]:
        """Pause a schedule, or resume it; all pauses now. Raises PauseError."""
        pauses: dict[str, Pause] = {}

        def change(content: bytes | None) -> bytes | None:
            nonlocal pauses
            before = self._decode(content)
            pauses = changed(before, name, paused=paused, at_us=at_us)
            if pauses == before:
                return None
            return msgspec.json.format(msgspec.json.encode(_Content(pauses=pauses))) + b"\n"

        try:
            self._documents.change(FILE, BYTES_MAX, change)
        except DocumentError as error:
            raise PauseError(str(error)) from error
        return pauses

    def _decode(self, data: bytes | None) -> dict[str, Pause]:
        if data is None:
            return {}
        try:
            return msgspec.json.decode(data, type=_Content).pauses
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PauseError(f"{self.where} was not written by `hall schedule`: {error}") from error


def changed(pauses: dict[str, Pause], name: str, *, paused: bool, at_us: int) -> dict[str, Pause]:
    """The pauses after a schedule was paused or resumed; the same if it was already. Raises PauseError."""
    known = pauses.get(name)
    if (known is not None and not known.until_us) == paused:
        return pauses
    if known is None and len(pauses) >= PAUSES_MAX:
        raise PauseError(f"{PAUSES_MAX} schedules were paused, as many as are kept")
    since_us = at_us if paused or known is None else known.since_us
    return {**pauses, name: Pause(since_us, 0 if paused else at_us)}
