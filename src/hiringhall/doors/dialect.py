"""What a dialect gives to the hall: the settings of its doors, and the object that opens them."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from hiringhall.config.schema import DoorSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hiringhall.config.quantities import Address
    from hiringhall.dialects.hall import Access, AuditTrail, DoorState, Schedules
    from hiringhall.endpoints import Endpoint
    from hiringhall.engine.driver import Driver

PACKAGE: Final = "hiringhall.doors"

SettingsType = TypeVar("SettingsType", bound=DoorSettings)


class HallAccess(NamedTuple):
    """What the doors of a dialect can use of their hall."""

    name: str
    driver: Driver
    pid: int
    log_level: str
    """debug, info, warning or error."""
    shut_down: Callable[[bool], None]
    """Stops the hall. True: running jobs can finish first."""
    doors: Callable[[], list[DoorState]]
    """All addresses at which the hall listens."""
    schedules: Schedules | None = None
    """None: the hall keeps no schedules."""
    data: Path | None = None
    """The data folder. None: all jobs are in memory only."""
    measures: Callable[[], dict[str, Any]] | None = None
    """What is counted of the process, the store and the doors. None: nothing."""
    settings: Callable[[], list[tuple[str, str, str, str]]] = list
    """The settings of the hall: name, value, source and description of each."""
    access: Access | None = None
    """Decides who comes in. None: everybody does."""
    audit: AuditTrail | None = None
    """None: no change is noted."""


class Service(Protocol):
    """A background task of the hall."""

    def start(self) -> None: ...

    def stop_taking(self) -> None:
        """The hall drains: start nothing new."""

    async def close(self) -> None: ...


class DialectDoors(ABC, Generic[SettingsType]):
    """The doors of one dialect in one hall. It is made once per hall, and holds what all these doors share."""

    def __init__(self, hall: HallAccess) -> None:
        self.hall = hall

    @abstractmethod
    def endpoints(self, settings: SettingsType) -> list[Endpoint]:
        """What a door with these settings listens on."""

    def services(self, settings: SettingsType) -> list[Service]:  # noqa: ARG002 (for dialects that have some)
        """The background tasks of a door with these settings."""
        return []

    def first_job(self, address: Address) -> str:  # noqa: ARG002 (for dialects that have one)
        """A shell command that runs a first job through a door at this address. Empty: there is none."""
        return ""


class Dialect(NamedTuple):
    """A protocol that a hall can speak."""

    settings: Mapping[str, type[DoorSettings]]
    """The settings of each kind of door, by the value of `dialect` in its table."""
    doors: Callable[[HallAccess], DialectDoors[Any]]
    """Called once per hall: makes the object that opens all these doors."""


class DoorKinds(Mapping[str, type[DoorSettings]]):
    """The settings of each kind of door, by the value of `dialect` in its table.

    Its module is imported when a kind is looked up, so a hall loads only the dialects that it speaks.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        """The module and the name of the `Dialect` of each kind."""

    def get_dialect(self, kind: str) -> Dialect:
        """The dialect that opens this kind of door. Raises KeyError."""
        module, _, name = self._places[kind].partition(":")
        found = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
        assert isinstance(found, Dialect)
        return found

    def __getitem__(self, kind: str) -> type[DoorSettings]:
        return self.get_dialect(kind).settings[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def reachable_host(address: Address) -> str:
    """The host by which a program on this machine reaches a door."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)  # noqa: S104 (only displayed)
