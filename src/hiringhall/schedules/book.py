"""The book: the schedules that were added by command, in one document of the data folder or the database.

Invariant: a book that cannot be parsed is never overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from hiringhall.schedules.pauses import PauseError, PauseList
from hiringhall.schedules.plan import Plan  # noqa: TC001 (msgspec looks its types up)
from hiringhall.storage.documents import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.schedules.pauses import Pause
    from hiringhall.storage.documents import Documents, Stamp

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
    """The content of the document."""

    version: Literal[1] = 1
    schedules: list[Plan] = []


class Book:
    """The book of one place, which may not exist yet."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.where = documents.where(FILE)
        self.pauses = PauseList(documents)
        """Which schedules are paused, also those of the settings."""

    @property
    def shared(self) -> bool:
        """Whether others may change it without a word to the hall."""
        return self._documents.shared

    @property
    def place(self) -> str:
        return self._documents.place

    def exists(self) -> bool:
        """Whether the place exists."""
        return self._documents.exists()

    def stamps(self) -> tuple[Stamp | None, Stamp | None]:
        """Differ once a schedule or a pause was changed. Raises BookError."""
        try:
            return self._documents.stamp(FILE), self.pauses.stamp()
        except DocumentError as error:
            raise BookError(str(error)) from error

    def read(self) -> dict[str, Plan]:
        """All schedules by name. Raises BookError."""
        try:
            return self._decode(self._documents.read(FILE, BYTES_MAX))
        except DocumentError as error:
            raise BookError(str(error)) from error

    def read_all(self) -> tuple[dict[str, Plan], dict[str, Pause]]:
        """All schedules, and the latest pause of each that had one. Raises BookError."""
        pauses = self._read_pauses()
        return self.read(), pauses

    def add(self, plan: Plan, *, replace: bool = False) -> dict[str, Plan]:
        """Add a schedule; all schedules now. Raises BookError, also if the name is already used, unless that
        schedule is to be replaced.
        """
        return self._change(lambda plans: put(plans, plan, replace=replace, where=self.where))

    def remove(self, name: str) -> bool:
        """Remove a schedule; False: there is none with this name. Raises BookError."""
        return self.discard(name)[1]

    def discard(self, name: str) -> tuple[dict[str, Plan], bool]:
        """Remove a schedule; all schedules now, and whether there was one with this name. Raises BookError."""
        if not self.exists():
            return {}, False
        found = False

        def edit(plans: dict[str, Plan]) -> None:
            nonlocal found
            found = plans.pop(name, None) is not None

        plans = self._change(edit)
        return plans, found

    def _read_pauses(self) -> dict[str, Pause]:
        try:
            return self.pauses.read()
        except PauseError as error:
            raise BookError(str(error)) from error

    def _change(self, edit: Callable[[dict[str, Plan]], None]) -> dict[str, Plan]:
        plans: dict[str, Plan] = {}

        def change(content: bytes | None) -> bytes | None:
            nonlocal plans
            plans = self._decode(content)
            before = dict(plans)
            edit(plans)
            return self._encode(plans) if plans != before else None

        try:
            self._documents.change(FILE, BYTES_MAX, change)
        except DocumentError as error:
            raise BookError(str(error)) from error
        return plans

    def _encode(self, plans: dict[str, Plan]) -> bytes:
        data = msgspec.json.format(msgspec.json.encode(_Pages(schedules=list(plans.values())))) + b"\n"
        if len(data) > BYTES_MAX:
            raise _too_long(self.where)
        return data

    def _decode(self, data: bytes | None) -> dict[str, Plan]:
        if data is None:
            return {}
        try:
            schedules = msgspec.json.decode(data, type=_Pages).schedules
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BookError(f"{self.where} was not written by `hall schedule`: {error}") from error
        plans = {plan.name: plan for plan in schedules}
        if len(plans) < len(schedules):
            raise BookError(f"{self.where} has two schedules with the same name")
        for plan in schedules:
            for field, problem in plan.faults():
                raise BookError(f'{self.where}: schedule "{plan.name}": {field}: {problem}')
        return plans


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
