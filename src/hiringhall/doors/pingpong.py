"""A PING/PONG door: its settings, in people's units and words, and the options that its sessions work with."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.quantities import Address
from hiringhall.config.schema import ZmqDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.core.scheduler import Scheduler
from hiringhall.dialects.pingpong import wire
from hiringhall.dialects.pingpong.context import PingPongContext, PingPongOptions
from hiringhall.dialects.pingpong.session import ClientSession, WorkerSession
from hiringhall.doors.dialect import Dialect, Endpoint, Process

_YEAR_S: Final = 31_536_000


class PingPongDoorSettings(ZmqDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for PING/PONG: workers at its backend, clients at its frontend."""

    dialect: Annotated[Literal["pingpong"], Meta(description="The protocol spoken at this door.")] = "pingpong"
    address: Annotated[
        Address, Meta(description="Where to listen for workers, the backend; port 0 lets the system choose.")
    ] = Address("127.0.0.1:5556")
    frontend: Annotated[
        Address, Meta(description="Where to listen for clients; port 0 lets the system choose.")
    ] = Address("127.0.0.1:5555")
    queue: Annotated[
        str, Meta(min_length=1, max_length=512, description="The queue whose jobs are done by its workers.")
    ] = "pingpong"
    worker_expire_s: Annotated[
        float,
        Meta(
            ge=0.001,
            le=_YEAR_S,
            description="WORKER_EXPIRE_SECONDS: silence after which a worker is sent no job.",
        ),
    ] = 5.0
    job_timeout_s: Annotated[
        float,
        Meta(
            ge=0.001, le=_YEAR_S, description="Silence of a worker that has a job after which it is sent again."
        ),
    ] = 60.0
    losses_max: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Lost workers after which a job has failed; 0: no limit.")
    ] = 3
    quits_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Workers that quit while they perform (hire) after which a job has failed; 0: any.",
        ),
    ] = 0
    durable: Annotated[
        bool, Meta(description="Keep the jobs of clients on disk, and do them even if their client goes away.")
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


def _endpoints(scheduler: Scheduler, settings: PingPongDoorSettings, process: Process) -> list[Endpoint]:
    del process
    context = PingPongContext(scheduler, settings.options())
    return [
        Endpoint(settings.address, lambda caller: WorkerSession(caller, context), wire.worker_route, "backend"),
        Endpoint(
            settings.frontend, lambda caller: ClientSession(caller, context), wire.client_route, "frontend"
        ),
    ]


PINGPONG: Final = Dialect(PingPongDoorSettings, _endpoints)
