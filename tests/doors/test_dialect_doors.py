"""A dialect in a hall: one object opens all its doors, and what they share is made once per hall."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.config.loading import Flags, load
from hiringhall.config.schema import TcpDoorSettings, ZmqDoorSettings
from hiringhall.core.limits import Limits
from hiringhall.core.scheduler import Scheduler
from hiringhall.dialects.hire.hire_bus import HireBus
from hiringhall.dialects.session import Caller
from hiringhall.doors.dialect import Dialect, DialectDoors, HallAccess, Service
from hiringhall.doors.hire import HIRE, HireBusDoorSettings, HireDoorSettings
from hiringhall.endpoints import BusEndpoint, Endpoint, HallError, TcpEndpoint, ZmqEndpoint
from hiringhall.engine.driver import Driver
from hiringhall.server import DOOR_SETTINGS
from hiringhall.server.opening import OpenDoor, OpenParts, open_doors
from hiringhall.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hiringhall.config.quantities import Address
    from hiringhall.config.schema import DoorSettings

FIRST_ID = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
OTHER_ID = "00000000-0000-4000-8000-000000000001"


def some_hall(name: str = "hall") -> HallAccess:
    driver = Driver(Scheduler(Limits()), MemoryStore(), lambda trouble: None)
    return HallAccess(name, driver, 4711, "info", lambda graceful: None, list)


def bus_of(endpoint: Any) -> HireBus:
    session = endpoint.make_session(Caller("127.0.0.1", 3))
    bus = session._context.hire_bus
    assert isinstance(bus, HireBus)
    return bus


def test_all_hire_doors_of_a_hall_share_one_bus_with_the_id_of_the_first() -> None:
    doors = HIRE.doors(some_hall())
    (lines,) = doors.endpoints(HireDoorSettings(id=FIRST_ID))
    (bus,) = doors.endpoints(HireBusDoorSettings(id=OTHER_ID))
    (more_lines,) = doors.endpoints(HireDoorSettings(id=OTHER_ID))
    assert isinstance(lines, TcpEndpoint)
    assert isinstance(bus, BusEndpoint)
    shared = bus_of(lines)
    assert bus_of(bus) is shared
    assert bus_of(more_lines) is shared
    assert shared.names.hall == bytes.fromhex(FIRST_ID.replace("-", ""))


def test_two_halls_share_nothing() -> None:
    one, other = (HIRE.doors(some_hall(name)).endpoints(HireDoorSettings())[0] for name in ("north", "south"))
    assert bus_of(one) is not bus_of(other)
    assert bus_of(one).names.hall != bus_of(other).names.hall


@pytest.mark.parametrize("kind", DOOR_SETTINGS)
def test_a_door_has_an_endpoint_of_its_transport_for_each_address(kind: str) -> None:
    settings: DoorSettings = DOOR_SETTINGS[kind]()  # type: ignore[call-arg]
    listens: list[Address] = []
    for endpoint in DOOR_SETTINGS.get_dialect(kind).doors(some_hall()).endpoints(settings):
        match endpoint:
            case TcpEndpoint():
                assert isinstance(settings, TcpDoorSettings)
                listens.append(settings.address)
            case ZmqEndpoint():
                assert isinstance(settings, ZmqDoorSettings)
                listens.append(endpoint.address)
            case BusEndpoint():
                assert isinstance(settings, ZmqDoorSettings)
                listens += [endpoint.publish, endpoint.subscribe]
    assert tuple(listens) == settings.addresses


class Recorder(Service):
    """A background task that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self) -> None:
        self.told.append("start")

    def stop_taking(self) -> None:
        self.told.append("stop taking")

    async def close(self) -> None:
        self.told.append("close")


class RecordedDoors(DialectDoors[Any]):
    """The hire doors, and a background task for each."""

    def __init__(self, hall: HallAccess) -> None:
        super().__init__(hall)
        self.opened: list[str] = []
        self.recorders: list[Recorder] = []
        self._hire = HIRE.doors(hall)

    def endpoints(self, settings: Any) -> list[Endpoint]:
        self.opened.append(settings.dialect)
        return self._hire.endpoints(settings)

    def services(self, settings: Any) -> list[Service]:
        self.recorders.append(Recorder())
        return [self.recorders[-1]]


class Opening:
    """Doors that are opened in a hall, of a dialect that records it."""

    def __init__(self, *doors: str) -> None:
        assignments = [f"door[{index}].insecure=true" for index in range(len(doors))]
        assignments += ["door[1].subscribe=127.0.0.1:0"]
        self.config = load(Flags(doors=doors, assignments=assignments), {}, DOOR_SETTINGS, ()).config
        self.hall = some_hall()
        self.parts = OpenParts()
        self.made: list[RecordedDoors] = []

    def _make(self, hall: HallAccess) -> RecordedDoors:
        self.made.append(RecordedDoors(hall))
        return self.made[-1]

    async def open(self) -> list[OpenDoor]:
        dialect = Dialect(HIRE.settings, self._make)
        return await open_doors(self.config, lambda kind: dialect, self.hall, self.parts)

    def run(self, story: Callable[[], Awaitable[None]]) -> None:
        async def play() -> None:
            self.hall.driver.start(asyncio.get_running_loop())
            try:
                await story()
            finally:
                await self.hall.driver.stop()
                for transport in self.parts.transports:
                    await transport.close()

        asyncio.run(play())


def test_one_object_per_hall_opens_all_doors_of_a_dialect_and_starts_their_background_tasks() -> None:
    opening = Opening("hire=127.0.0.1:0", "hire-bus=127.0.0.1:0", "hire=127.0.0.1:0")

    async def story() -> None:
        opened = await opening.open()
        roles = [("hire", ""), ("hire-bus", "publish"), ("hire-bus", "subscribe"), ("hire", "")]
        assert [(door.dialect, door.role) for door in opened] == roles
        assert len({door.address.port for door in opened} - {0}) == 4
        (made,) = opening.made
        assert made.opened == ["hire", "hire-bus", "hire"]
        assert len(opening.parts.transports) == 3
        assert opening.parts.services == made.recorders
        opening.parts.stop_taking()
        assert [recorder.told for recorder in made.recorders] == [["start", "stop taking"]] * 3

    opening.run(story)


def test_what_was_opened_before_a_failure_can_be_closed() -> None:
    opening = Opening("hire=127.0.0.1:0", "hire-bus=127.0.0.1:0", "hire=203.0.113.1:0")

    async def story() -> None:
        with pytest.raises(HallError, match=r"^door\[2\]: 203\.0\.113\.1:0 is not an address of this machine$"):
            await opening.open()
        assert len(opening.parts.transports) == 2
        assert [recorder.told for recorder in opening.made[0].recorders] == [["start"]] * 2
        assert opening.parts.services == opening.made[0].recorders

    opening.run(story)
