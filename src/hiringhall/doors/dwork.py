"""dwork doors: their settings, the options that follow from these, and what opens the doors."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.fields import YEAR_S, ListenAddress, LossesMax, QuitsMax, Retries
from hiringhall.config.quantities import Address
from hiringhall.config.schema import ZmqDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY
from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkContext, DworkOptions
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.doors.dialect import Dialect, DialectDoors
from hiringhall.endpoints import Endpoint, ZmqEndpoint

_POLICIES: Final = {"fail": FAIL_WITH_PARENT, "run": RUN_ANYWAY, "hold": HOLD}


class DworkDoorSettings(ZmqDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for dwork clients: producers and consumers of task graphs."""

    dialect: Annotated[Literal["dwork"], Meta(description="The protocol spoken at this door.")] = "dwork"
    address: ListenAddress = Address("127.0.0.1:6125")
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
            le=YEAR_S,
            description="The tasks of a location silent for this long are ready again; 0: only after Exit.",
        ),
    ] = 0.0
    losses_max: LossesMax = 3
    quits_max: QuitsMax = 0
    retries: Retries = 0
    on_predecessor_failure: Annotated[
        Literal["fail", "run", "hold"],
        Meta(
            description="What a task does when one of its predecessors fails: fail too, run, or keep waiting."
        ),
    ] = "fail"
    complete_by: Annotated[
        Literal["anybody", "holder"],
        Meta(description="Which locations can complete a task: any, or only the one that holds it."),
    ] = "anybody"
    flow: Annotated[
        str,
        Meta(max_length=50, description="The flow that its tasks belong to, if they are durable; empty: none."),
    ] = ""
    keep_open: Annotated[
        bool, Meta(description="When all work is done, answer Steal with NotFound instead of Exit.")
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
            flow=self.flow.encode() if self.tasks == "durable" else b"",
            log_all=self.log == "all",
        )


class DworkDoors(DialectDoors[DworkDoorSettings]):
    """The dwork doors of one hall. They share nothing."""

    def endpoints(self, settings: DworkDoorSettings) -> list[Endpoint]:
        context = DworkContext(self.hall.driver.scheduler, settings.options())
        return [
            ZmqEndpoint(
                settings, settings.address, lambda caller: DworkSession(caller, context), wire.answer_route
            )
        ]


DWORK: Final = Dialect({"dwork": DworkDoorSettings}, DworkDoors)
