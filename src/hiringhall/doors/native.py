"""A native door: its settings, in people's units and words, and what it opens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.quantities import Size, StreamAddress
from hiringhall.config.schema import TcpDoorSettings
from hiringhall.dialects.hall import TOKENS_REQUIRED
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.context import NativeContext, NativeOptions
from hiringhall.dialects.native.services import HallServices
from hiringhall.dialects.native.session import NativeSession
from hiringhall.doors.dialect import Dialect, DialectDoors, HallAccess
from hiringhall.endpoints import Endpoint, HallError, TcpEndpoint, UnixEndpoint


class NativeDoorSettings(TcpDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for the hall's own protocol: jobs with all their options, and workers with slots."""

    dialect: Annotated[Literal["native"], Meta(description="The protocol spoken at this door.")] = "native"
    address: Annotated[StreamAddress, Meta(description="Where to listen; port 0 lets the system choose.")] = (
        StreamAddress("127.0.0.1:4731")
    )
    frame_bytes_max: Annotated[
        Size, Meta(description="The longest frame; a longer one is refused before it is read.")
    ] = Size(wire.FRAME_BYTES_MAX)
    lookups_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Requests of a connection that may wait for the history at once."),
    ] = 1000

    tokens: Annotated[
        Literal["auto", "required", "off"],
        Meta(
            description="Who needs a token. auto: peers from other machines, as soon as there are tokens; "
            "required: all peers, except at a Unix socket; off: nobody."
        ),
    ] = "auto"

    @property
    def verified(self) -> bool:
        return super().verified or (self.tls is not None and self.tokens == TOKENS_REQUIRED)

    @property
    def remedy(self) -> str:
        return f'{super().remedy} or with tokens = "required"'

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        if self.address.path and self.tls is not None:
            yield "tls", "is not possible at a Unix socket; only this machine reaches it, and only its owner"


SOCKET: Final = "native.sock"
"""The Unix socket in the data folder."""


class NativeDoors(DialectDoors[NativeDoorSettings]):
    """The native doors of one hall, which share what they know of it. The first of them also listens on the
    socket in the data folder.
    """

    def __init__(self, hall: HallAccess) -> None:
        super().__init__(hall)
        driver = hall.driver
        self._services = HallServices(
            driver.scheduler,
            driver.search,
            hall.doors,
            hall.schedules,
            measures=hall.measures,
            settings=hall.settings,
            access=hall.access,
            audit=hall.audit,
        )
        self._socket = str(hall.data / SOCKET) if hall.data is not None else ""
        """To be opened with the first door; empty: there is none, or it is open."""

    def endpoints(self, settings: NativeDoorSettings) -> list[Endpoint]:
        driver = self.hall.driver
        options = NativeOptions(
            self.hall.name,
            int(settings.frame_bytes_max),
            settings.lookups_max,
            log_all=settings.log == "all",
            tokens=settings.tokens,
        )
        if settings.tokens == TOKENS_REQUIRED and self.hall.data is None:
            raise HallError('tokens = "required" at a native door: a hall in memory has no tokens')
        look_ups = (driver.look_up, driver.look_up_keys, driver.look_up_output)
        context = NativeContext(driver.scheduler, options, *look_ups, self._services)
        endpoints: list[Endpoint] = [TcpEndpoint(settings, lambda caller: NativeSession(caller, context))]
        socket, self._socket = self._socket, ""
        if socket and socket != str(Path(settings.address.path).absolute()):
            endpoints.append(UnixEndpoint(settings, socket, lambda caller: NativeSession(caller, context)))
        return endpoints


NATIVE: Final = Dialect({"native": NativeDoorSettings}, NativeDoors)
