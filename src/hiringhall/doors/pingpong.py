"""PING/PONG doors: their settings, the options that follow from these, and what opens the doors."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.fields import YEAR_S, LossesMax, QuitsMax
from hiringhall.config.quantities import Address
from hiringhall.config.schema import ZmqDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.dialects.pingpong import wire
from hiringhall.dialects.pingpong.context import PingPongContext, PingPongOptions
from hiringhall.dialects.pingpong.session import ClientSession, WorkerSession
from hiringhall.doors.dialect import Dialect, DialectDoors
from hiringhall.endpoints import Endpoint, ZmqEndpoint


class PingPongDoorSettings(ZmqDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for PING/PONG: workers connect to its backend, clients to its frontend."""

    dialect: Annotated[Literal["pingpong"], Meta(description="The protocol spoken at this door.")] = "pingpong"
    address: Annotated[
        Address, Meta(description="Where to listen for workers, the backend; port 0 lets the system choose.")
    ] = Address("127.0.0.1:5556")
    frontend: Annotated[
        Address, Meta(description="Where to listen for clients; port 0 lets the system choose.")
    ] = Address("127.0.0.1:5555")
    queue: Annotated[
        str, Meta(min_length=1, max_length=512, description="The queue whose jobs the workers of this door do.")
    ] = "pingpong"
    worker_expire_s: Annotated[
        float,
        Meta(
            ge=0.001,
            le=YEAR_S,
            description="WORKER_EXPIRE_SECONDS: a worker that is silent for this long is sent no more jobs.",
        ),
    ] = 5.0
    job_timeout_s: Annotated[
        float,
        Meta(
            ge=0.001,
            le=YEAR_S,
            description="If a worker that has a job is silent for this long, the job is sent again.",
        ),
    ] = 60.0
    losses_max: LossesMax = 3
    quits_max: QuitsMax = 0
    durable: Annotated[
        bool,
        Meta(description="Keep the jobs of clients on disk, and do them even if their client disconnects."),
    ] = False

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.address, self.frontend)

    @property
    def queues(self) -> tuple[tuple[str, str], ...]:
        return (("queue", self.queue),)

    def options(self) -> PingPongOptions:
        return PingPongOptions(
            queue=self.queue.encode(),
            expire_us=round(self.worker_expire_s * SECOND_US),
            job_timeout_us=round(self.job_timeout_s * SECOND_US),
            losses_max=self.losses_max,
            quits_max=self.quits_max,
            durable=self.durable,
            log_all=self.log == "all",
        )


class PingPongDoors(DialectDoors[PingPongDoorSettings]):
    """The PING/PONG doors of one hall. They share nothing."""

    def endpoints(self, settings: PingPongDoorSettings) -> list[Endpoint]:
        context = PingPongContext(self.hall.driver.scheduler, settings.options())
        return [
            ZmqEndpoint(
                settings,
                settings.address,
                lambda caller: WorkerSession(caller, context),
                wire.worker_route,
                "backend",
            ),
            ZmqEndpoint(
                settings,
                settings.frontend,
                lambda caller: ClientSession(caller, context),
                wire.client_route,
                "frontend",
            ),
        ]


PINGPONG: Final = Dialect({"pingpong": PingPongDoorSettings}, PingPongDoors)
