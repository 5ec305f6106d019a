"""A dwork door: its settings, in people's units and words, and the options that its sessions work with."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.quantities import Address
from hiringhall.config.schema import ZmqDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkContext, DworkOptions
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.doors.dialect import Dialect, Endpoint, Process

_POLICIES: Final = {"fail": FAIL_WITH_PARENT, "run": RUN_ANYWAY, "hold": HOLD}
_YEAR_S: Final = 31_536_000


class DworkDoorSettings(ZmqDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for dwork clients: producers and consumers of task graphs."""

    dialect: Annotated[Literal["dwork"], Meta(description="The protocol spoken at this door.")] = "dwork"
    address: Annotated[Address, Meta(description="Where to listen; port 0 lets the system choose.")] = Address(
        "127.0.0.1:6125"
    )
    queue: Annotated[
        str, Meta(min_length=1, max_length=512, description="The queue whose jobs are the tasks of this door.")
    ] = "dwork"
    tasks: Annotated[
        Literal["durable", "memory"],
        Meta(description="Whether tasks, assignments and completions are on disk before they are answered."),
    ] = "durable"
    lease_s: Annotated[
        float,
        Meta(
            ge=0,
            le=_YEAR_S,
            description="Silence of a location after which its tasks are ready again; 0: only Exit does that.",
        ),
    ] = 0.0
    losses_max: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Lost workers after which a task has failed; 0: no limit.")
    ] = 3
    quits_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Workers that quit while they perform (hire) after which a task has failed; 0: any.",
        ),
    ] = 0
    retries: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="Failures reported by a worker that are followed by another try."),
    ] = 0
    on_predecessor_failure: Annotated[
        Literal["fail", "run", "hold"],
        Meta(
            description="What a task does when one that it waits for failed: fail too, run, or go on waiting."
        ),
    ] = "fail"
    complete_by: Annotated[
        Literal["anybody", "holder"],
        Meta(description="Which locations can complete a task: any, or only the one that holds it."),
    ] = "anybody"
    keep_open: Annotated[
        bool, Meta(description="Answer a Steal with NotFound, and not Exit, when all work is done.")
    ] = False

    @property
    def queues(self) -> tuple[tuple[str, str], ...]:
        return (("queue", self.queue),)

    def options(self) -> DworkOptions:
        return DworkOptions(
            queue=self.queue.encode(),
            durable=self.tasks == "durable",
            lease_us=round(self.lease_s * SECOND_US),
            losses_max=self.losses_max,
            quits_max=self.quits_max,
            failures_max=self.retries,
            on_parent_failure=_POLICIES[self.on_predecessor_failure],
            complete_by_holder=self.complete_by == "holder",
            keep_open=self.keep_open,
            log_all=self.log == "all",
        )


def _endpoints(scheduler: Scheduler, settings: DworkDoorSettings, process: Process) -> list[Endpoint]:
    del process
    context = DworkContext(scheduler, settings.options())
    return [Endpoint(settings.address, lambda caller: DworkSession(caller, context), wire.answer_route)]


DWORK: Final = Dialect(DworkDoorSettings, _endpoints)
