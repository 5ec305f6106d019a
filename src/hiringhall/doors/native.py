"""A native door: its settings, in people's units and words, and what it opens."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.quantities import Address, Size
from hiringhall.config.schema import TcpDoorSettings
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.context import NativeContext, NativeOptions
from hiringhall.dialects.native.services import HallServices
from hiringhall.dialects.native.session import NativeSession
from hiringhall.doors.dialect import Dialect, DialectDoors, HallAccess
from hiringhall.endpoints import Endpoint, TcpEndpoint


class NativeDoorSettings(TcpDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for the hall's own protocol: jobs with all their options, and workers with slots."""

    dialect: Annotated[Literal["native"], Meta(description="The protocol spoken at this door.")] = "native"
    address: Annotated[Address, Meta(description="Where to listen; port 0 lets the system choose.")] = Address(
        "127.0.0.1:4731"
    )
    frame_bytes_max: Annotated[
        Size, Meta(description="The longest frame; a longer one is refused before it is read.")
    ] = Size(wire.FRAME_BYTES_MAX)
    lookups_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Requests of a connection that may wait for the history at once."),
    ] = 1000


class NativeDoors(DialectDoors[NativeDoorSettings]):
    """The native doors of one hall. They share what they know of the hall."""

    def __init__(self, hall: HallAccess) -> None:
        super().__init__(hall)
        driver = hall.driver
        self._services = HallServices(driver.scheduler, driver.search, hall.doors, hall.schedules)

    def endpoints(self, settings: NativeDoorSettings) -> list[Endpoint]:
        driver = self.hall.driver
        options = NativeOptions(
            self.hall.name, int(settings.frame_bytes_max), settings.lookups_max, log_all=settings.log == "all"
        )
        context = NativeContext(driver.scheduler, options, driver.look_up, driver.look_up_keys, self._services)
        return [TcpEndpoint(settings, lambda caller: NativeSession(caller, context))]


NATIVE: Final = Dialect({"native": NativeDoorSettings}, NativeDoors)
