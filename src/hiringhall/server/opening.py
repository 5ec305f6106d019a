"""Opening a hall: the store, the scheduler with its driver, and the doors.

Invariant: what was opened before a failure is in `OpenParts`, so that closing those closes everything.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from hiringhall.config.quantities import Address  # noqa: TC001 (a NamedTuple looks its types up)
from hiringhall.core.limits import SECOND_US
from hiringhall.core.ratings import Rating, Ratings
from hiringhall.dialects.hall import DoorState
from hiringhall.endpoints import HallError
from hiringhall.engine.driver import Clock, Driver
from hiringhall.engine.recovery import open_scheduler
from hiringhall.storage.contract import StoreError
from hiringhall.storage.memory import MemoryStore
from hiringhall.storage.opening import files_folder, find_folder, open_store
from hiringhall.transports.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hiringhall.config.needs import WorkerSettings
    from hiringhall.config.schema import Config
    from hiringhall.doors.dialect import Dialect, DialectDoors, HallAccess, Service
    from hiringhall.engine.recovery import Restored
    from hiringhall.logs.events import Events
    from hiringhall.storage.contract import Store
    from hiringhall.storage.opening import Kind
    from hiringhall.transports.tcp import TcpDoor
    from hiringhall.transports.zmtp.bus import BusDoor
    from hiringhall.transports.zmtp.router import RouterDoor

_log = logging.getLogger("hiringhall")


class OpenDoor(NamedTuple):
    """An address that an open door listens on."""

    dialect: str
    role: str
    """Which address of the door it is. Empty if the door has only one."""
    address: Address
    encryption: str
    """TLS or CURVE. Empty: connections are not encrypted."""
    first_job: str
    """A shell command that runs a first job. Empty if the door is encrypted: the command would need keys."""


class Opened(NamedTuple):
    """What is reported about a hall when it has opened."""

    name: str
    pid: int
    data: str
    """The data folder. Empty: all jobs are in memory only."""
    doors: list[OpenDoor]
    recovered: int
    """Live jobs found in the store."""
    web: str = ""
    """The URL of the dashboard. Empty: there is none."""
    standby: bool = False
    """It stands by: its doors lead to the active hall."""


class OpenParts:
    """The doors and background tasks that are open."""

    def __init__(self) -> None:
        self.transports: list[TcpDoor | RouterDoor | BusDoor] = []
        self.doors: list[tuple[OpenDoor, TcpDoor | RouterDoor | BusDoor]] = []
        """Each address that is open, and its transport."""
        self.services: list[Service] = []

    def start(self, service: Service) -> None:
        service.start()
        self.services.append(service)

    def door_states(self) -> list[DoorState]:
        """All addresses, with their open connections."""
        return [
            DoorState(door.dialect, door.role, str(door.address), transport.peers)
            for door, transport in self.doors
        ]

    def close_listeners(self) -> None:
        """Accept no more connections."""
        for transport in self.transports:
            transport.close_listener()

    def stop_taking(self) -> None:
        """The hall drains: accept no more connections, and start nothing new."""
        self.close_listeners()
        for service in self.services:
            service.stop_taking()


def open_driver(config: Config, events: Events, kind: Kind = "hall", *, accept_loss: bool = False) -> Driver:
    """Open the store, recover its jobs, and make the driver of the hall. Raises HallError."""
    try:
        return open_driver_on(_open_store(config, kind, accept_loss=accept_loss), config, events, Clock())
    except StoreError as error:
        raise HallError(str(error)) from error


def open_driver_on(
    store: Store, config: Config, events: Events, clock: Clock, restored: Restored | None = None
) -> Driver:
    """Recover the jobs of a store, and make the driver of the hall. `restored` is what was read ahead. Raises
    StoreError.
    """
    scheduler = open_scheduler(store, config.limits.limits(), clock.now_us(), restored)
    scheduler.ledger.output.keep_up_to(int(config.history.output_bytes_max))
    for queue in config.queue:
        scheduler.needs.need(queue.name.encode(), *queue.needs)
        scheduler.ruled_queues.rule(queue.name.encode(), queue.rules)
    if config.worker:
        scheduler.needs.set_ratings(Ratings([_rating(worker) for worker in config.worker]))
    slow_commit_us = round(config.hall.slow_commit_s * SECOND_US)
    return Driver(scheduler, store, _log_store_trouble, clock, events, slow_commit_us)


def _open_store(config: Config, kind: Kind, *, accept_loss: bool) -> Store:
    retention = config.history.retention()
    folder = data_folder(config)
    if folder is None:
        return MemoryStore(retention)
    place, name = config.hall.data, config.hall.name
    return open_store(place, retention, _log.warning, kind, name=name, files=folder, accept_loss=accept_loss)


def data_folder(config: Config) -> Path | None:
    """The folder for the files of this hall. None: all jobs are in memory only."""
    hall = config.hall
    return None if hall.storage == "memory" else files_folder(hall.data, hall.folder).absolute()


def data_place(config: Config) -> str:
    """Where the jobs are: a folder, or the URL of a database. Empty: in memory only."""
    folder = data_folder(config)
    if folder is None:
        return ""
    return config.hall.data if find_folder(config.hall.data) is None else str(folder)


def _rating(worker: WorkerSettings) -> tuple[bytes, Rating]:
    skills = {queue.encode(): skill for queue, skill in worker.ratings.items()}
    return worker.name.encode(), Rating(skills, int(worker.stays or 0))


def _log_store_trouble(trouble: str) -> None:
    if trouble:
        _log.error("the store is in trouble, durable jobs are refused: %s", trouble)
    else:
        _log.warning("the store works again")


async def open_doors(
    config: Config, get_dialect: Callable[[str], Dialect], hall: HallAccess, parts: OpenParts
) -> list[OpenDoor]:
    """Open all doors of the settings and start their background tasks. Raises HallError."""
    openers: dict[str, DialectDoors[Any]] = {}
    budget = Budget(int(config.hall.buffer_bytes_max))
    opened: list[OpenDoor] = []
    for index, settings in enumerate(config.door):
        if settings.dialect not in openers:
            dialect = get_dialect(settings.dialect)
            openers |= dict.fromkeys(dialect.settings, dialect.doors(hall))
        doors = openers[settings.dialect]
        for endpoint in doors.endpoints(settings):
            listening = await endpoint.open(hall.driver, budget, index)
            parts.transports.append(listening.transport)
            for role, address in listening.bound:
                first_job = "" if settings.encryption else doors.first_job(address)
                door = OpenDoor(settings.dialect, role, address, settings.encryption, first_job)
                opened.append(door)
                parts.doors.append((door, listening.transport))
            if listening.beside is not None:
                door = OpenDoor(settings.dialect, "", listening.beside, "", "")
                parts.doors.append((door, listening.transport))
        for service in doors.services(settings):
            parts.start(service)
    return opened
