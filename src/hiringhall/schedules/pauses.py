"""Paused schedules, in one file of the data folder: those of the settings, and those of the book.

Invariant: the file is complete at every moment. A file that cannot be parsed is never overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from hiringhall import datafiles

if TYPE_CHECKING:
    from pathlib import Path

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
    """The content of the file."""

    version: Literal[1] = 1
    pauses: dict[str, Pause] = {}


class PauseFile:
    """The pauses of one data folder; the file may not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def read(self) -> dict[str, Pause]:
        """The latest pause of each schedule that had one, by name. Raises PauseError."""
        try:
            with self.path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PauseError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(data) > BYTES_MAX:
            raise PauseError(f"{self.path} is longer than {BYTES_MAX} bytes")
        try:
            return msgspec.json.decode(data, type=_Content).pauses
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PauseError(f"{self.path} was not written by `hall schedule`: {error}") from error

    def change(self, name: str, *, paused: bool, at_us: int) -> dict[str, Pause]:
        """Pause a schedule, or resume it; all pauses now. Raises PauseError."""
        try:
            with datafiles.locked(self.path.parent) as folder:
                before = self.read()
                pauses = changed(before, name, paused=paused, at_us=at_us)
                if pauses != before:
                    data = msgspec.json.format(msgspec.json.encode(_Content(pauses=pauses))) + b"\n"
                    datafiles.replace(self.path, data, folder)
        except OSError as error:
            raise PauseError(f"{self.path} cannot be written: {error.strerror}") from error
        return pauses


def changed(pauses: dict[str, Pause], name: str, *, paused: bool, at_us: int) -> dict[str, Pause]:
    """The pauses after a schedule was paused or resumed; the same if it was already. Raises PauseError."""
    known = pauses.get(name)
    if (known is not None and not known.until_us) == paused:
        return pauses
    if known is None and len(pauses) >= PAUSES_MAX:
        raise PauseError(f"{PAUSES_MAX} schedules were paused, as many as are kept")
    since_us = at_us if paused or known is None else known.since_us
    return {**pauses, name: Pause(since_us, 0 if paused else at_us)}
