"""WMP doors: their settings, the options that follow from these, and what opens the doors."""

import secrets
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.fields import YEAR_S, ListenAddress
from hiringhall.config.quantities import Address, Words
from hiringhall.config.schema import ZmqDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.core.terms import Terms
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.context import SECRET_BYTES, WmpContext, WmpOptions
from hiringhall.dialects.wmp.session import WmpSession
from hiringhall.doors.dialect import Dialect, DialectDoors, Service
from hiringhall.endpoints import Endpoint, ZmqEndpoint
from hiringhall.peers.endpoints import zmq_endpoint


class WmpDoorSettings(ZmqDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for WMP workers and devices, with the hall as their manager. A role is a queue."""

    dialect: Annotated[Literal["wmp"], Meta(description="The protocol spoken at this door.")] = "wmp"
    address: ListenAddress = Address("127.0.0.1:5814")
    manager: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=wire.HOP_BYTES_MAX,
            description="The name of the hall; other managers of the same workers must have other names.",
        ),
    ] = "hall"
    lease_s: Annotated[
        float,
        Meta(ge=0.001, le=YEAR_S, description="A worker that is silent about a job for this long has lost it."),
    ] = 60.0
    expire_s: Annotated[
        float,
        Meta(
            ge=0.001, le=YEAR_S, description="The READY of a worker that is silent for this long is forgotten."
        ),
    ] = 60.0
    managers: Annotated[
        Words, Meta(description="Other managers, such as 10.0.0.7:5814, from which the hall takes jobs.")
    ] = Words()
    roles: Annotated[
        Words, Meta(description="The roles (queues) for which the hall takes jobs from managers.")
    ] = Words()
    slots: Annotated[
        int, Meta(ge=1, le=100_000, description="How many jobs of other managers the hall holds at once.")
    ] = 100

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        name = self.manager.encode()
        if len(name) > wire.HOP_BYTES_MAX or b"\n" in name:
            yield "manager", f"takes a name of at most {wire.HOP_BYTES_MAX} bytes on one line"
        if self.managers and not self.roles:
            yield "roles", "is needed with managers: name the queues for which the hall takes their jobs"
        for manager in self.managers:
            try:
                if zmq_endpoint(manager).endswith(":0"):
                    yield "managers", f"{manager} has no port to connect to"
            except ValueError as error:
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


class WmpDoors(DialectDoors[WmpDoorSettings]):
    """The WMP doors of one hall. They share nothing."""

    def endpoints(self, settings: WmpDoorSettings) -> list[Endpoint]:
        secret = secrets.token_bytes(SECRET_BYTES)
        context = WmpContext(self.hall.driver.scheduler, settings.options(), secret)
        return [
            ZmqEndpoint(
                settings, settings.address, lambda caller: WmpSession(caller, context), wire.answer_route
            )
        ]

    def services(self, settings: WmpDoorSettings) -> list[Service]:
        if not settings.managers:
            return []
        # A hall that works for no other manager does not need pyzmq.
        from hiringhall.doors.agency import Agency  # noqa: PLC0415

        terms = Terms(logged=settings.log == "all")
        driver = self.hall.driver
        return [Agency(driver, settings.managers, settings.roles, settings.slots, settings.manager, terms)]


WMP: Final = Dialect({"wmp": WmpDoorSettings}, WmpDoors)
