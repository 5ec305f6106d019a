"""A WMP door: its settings, in people's units and words, and the options that its sessions work with."""

import secrets
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.quantities import Address, Words
from hiringhall.config.schema import ZmqDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.terms import Terms
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.context import SECRET_BYTES, WmpContext, WmpOptions
from hiringhall.dialects.wmp.session import WmpSession
from hiringhall.doors.agency import Agency
from hiringhall.doors.dialect import Dialect, Endpoint, Process
from hiringhall.engine.driver import Driver
from hiringhall.peers.wmp import AddressError
from hiringhall.peers.wmp.links import endpoint

_YEAR_S: Final = 31_536_000


class WmpDoorSettings(ZmqDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for WMP workers and devices, with the hall as their manager. A role is a queue."""

    dialect: Annotated[Literal["wmp"], Meta(description="The protocol spoken at this door.")] = "wmp"
    address: Annotated[Address, Meta(description="Where to listen; port 0 lets the system choose.")] = Address(
        "127.0.0.1:5814"
    )
    manager: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=wire.HOP_BYTES_MAX,
            description="What the hall calls itself; no other manager of the same workers may be called so.",
        ),
    ] = "hall"
    lease_s: Annotated[
        float, Meta(ge=0.001, le=_YEAR_S, description="Silence about a job after which its worker has lost it.")
    ] = 60.0
    expire_s: Annotated[
        float, Meta(ge=0.001, le=_YEAR_S, description="Silence of a worker after which its READY is forgotten.")
    ] = 60.0
    managers: Annotated[
        Words, Meta(description="Other managers, such as 10.0.0.7:5814, whose jobs the hall takes too.")
    ] = Words()
    roles: Annotated[Words, Meta(description="The roles, its queues, for which it takes their jobs.")] = Words()
    slots: Annotated[
        int, Meta(ge=1, le=100_000, description="How many jobs of other managers it holds at once.")
    ] = 100

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        name = self.manager.encode()
        if len(name) > wire.HOP_BYTES_MAX or b"\n" in name:
            yield "manager", f"takes a name of at most {wire.HOP_BYTES_MAX} bytes on one line"
        if self.managers and not self.roles:
            yield "roles", "is needed with managers: name the queues for which their jobs are taken"
        for manager in self.managers:
            try:
                if endpoint(manager).endswith(":0"):
                    yield "managers", f"{manager} has no port to connect to"
            except AddressError as error:
                yield "managers", str(error)

    @property
    def queues(self) -> tuple[tuple[str, str], ...]:
        return tuple(("roles", role) for role in self.roles)

    def options(self) -> WmpOptions:
        return WmpOptions(
            manager=self.manager.encode(),
            lease_us=round(self.lease_s * SECOND_US),
            expire_us=round(self.expire_s * SECOND_US),
        )


def _endpoints(scheduler: Scheduler, settings: WmpDoorSettings, process: Process) -> list[Endpoint]:
    del process
    context = WmpContext(scheduler, settings.options(), secrets.token_bytes(SECRET_BYTES))
    return [Endpoint(settings.address, lambda caller: WmpSession(caller, context), wire.answer_route)]


def _attendant(driver: Driver, settings: WmpDoorSettings) -> Agency | None:
    if not settings.managers:
        return None
    terms = Terms(logged=settings.log == "all")
    return Agency(driver, settings.managers, settings.roles, settings.slots, settings.manager, terms)


WMP: Final = Dialect(WmpDoorSettings, _endpoints, attendant=_attendant)
