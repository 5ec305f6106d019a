"""The book: the schedules that were added by command, in one file of the data folder.

Invariant: the file is complete at every moment. A book that cannot be parsed is never overwritten.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from hiringhall import datafiles
from hiringhall.schedules.pauses import PauseFile
from hiringhall.schedules.plan import Plan  # noqa: TC001 (msgspec looks its types up)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE: Final = "schedules.json"
BYTES_MAX: Final = 64 << 20
PLANS_MAX: Final = 10_000


class BookError(Exception):
    """A book that cannot be read or written, worded for the operator."""


class NameTaken(BookError):
    """There is already a schedule with this name."""


class BookFull(BookError):
    """The book has as many schedules as it may, or they are too long."""


class _Pages(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The content of the file."""

    version: Literal[1] = 1
    schedules: list[Plan] = []


class Book:
    """The book of one data folder; the file may not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.pauses = PauseFile(folder)
        """Which schedules are paused, also those of the settings."""

    def read(self) -> dict[str, Plan]:
        """All schedules by name. Raises BookError."""
        try:
            with self.path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BookError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(data) > BYTES_MAX:
            raise BookError(f"{self.path} is longer than {BYTES_MAX} bytes")
        try:
            schedules = msgspec.json.decode(data, type=_Pages).schedules
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BookError(f"{self.path} was not written by `hall schedule`: {error}") from error
        plans = {plan.name: plan for plan in schedules}
        if len(plans) < len(schedules):
            raise BookError(f"{self.path} has two schedules with the same name")
        for plan in schedules:
            for field, problem in plan.faults():
                raise BookError(f'{self.path}: schedule "{plan.name}": {field}: {problem}')
        return plans

    def add(self, plan: Plan, *, replace: bool = False) -> dict[str, Plan]:
        """Add a schedule; all schedules now. Raises BookError, also if the name is already used, unless that
        schedule is to be replaced.
        """
        with self._open_to_write() as plans:
            put(plans, plan, replace=replace, where=str(self.path))
        return plans

    def remove(self, name: str) -> bool:
        """Remove a schedule; False: there is none with this name. Raises BookError."""
        return self.discard(name)[1]

    def discard(self, name: str) -> tuple[dict[str, Plan], bool]:
        """Remove a schedule; all schedules now, and whether there was one with this name. Raises BookError."""
        if not self.path.parent.exists():
            return {}, False
        with self._open_to_write() as plans:
            found = plans.pop(name, None) is not None
        return plans, found

    @contextmanager
    def _open_to_write(self) -> Iterator[dict[str, Plan]]:
        """The schedules, to be changed. Holds the lock, and writes the changes back."""
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(datafiles.locked(self.path.parent))
            except OSError as error:
                raise BookError(f"data folder {self.path.parent} cannot be used: {error.strerror}") from error
            plans = self.read()
            before = dict(plans)
            yield plans
            if plans != before:
                self._write(plans, folder)

    def _write(self, plans: dict[str, Plan], folder: int) -> None:
        data = msgspec.json.format(msgspec.json.encode(_Pages(schedules=list(plans.values())))) + b"\n"
        if len(data) > BYTES_MAX:
            raise _too_long(str(self.path))
        try:
            datafiles.replace(self.path, data, folder)
        except OSError as error:
            raise BookError(f"{self.path} cannot be written: {error.strerror}") from error


def put(plans: dict[str, Plan], plan: Plan, *, replace: bool, where: str) -> None:
    """Add a schedule to those that are there. Raises NameTaken and BookFull."""
    if plan.name in plans and not replace:
        raise NameTaken(f'there is already a schedule "{plan.name}"; remove it first, or choose another name')
    if plan.name not in plans and len(plans) >= PLANS_MAX:
        raise BookFull(f"{where} is full: it has {PLANS_MAX} schedules; remove some first")
    plans[plan.name] = plan
    if sum([len(each.payload) for each in plans.values()]) > BYTES_MAX:
        raise _too_long(where)


def _too_long(where: str) -> BookFull:
    return BookFull(f"{where} is full: all schedules together may have {BYTES_MAX} bytes; remove some first")
