"""The submitter and the worker of each dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .asked import HttpSubmitter, ScheduleSubmitter
from .beanstalkd import BeanstalkdSubmitter, BeanstalkdWorker
from .draft import DraftSubmitter, DraftWorker
from .dwork import DworkSubmitter, DworkWorker
from .gearman import GearmanSubmitter, GearmanWorker
from .hire import HireSubmitter, HireWorker
from .native import NativeSubmitter, NativeWorker
from .pingpong import PingPongSubmitter, PingPongWorker
from .worker_manager import WmpSubmitter, WmpWorker

if TYPE_CHECKING:
    from .contract import Submitter, Worker

SUBMITTER_OF: Final[dict[str, type[Submitter]]] = {
    "gearman": GearmanSubmitter,
    "draft": DraftSubmitter,
    "dwork": DworkSubmitter,
    "pingpong": PingPongSubmitter,
    "wmp": WmpSubmitter,
    "hire": HireSubmitter,
    "beanstalkd": BeanstalkdSubmitter,
    "native": NativeSubmitter,
    "http": HttpSubmitter,
    "schedule": ScheduleSubmitter,
}
WORKER_OF: Final[dict[str, type[Worker]]] = {
    "gearman": GearmanWorker,
    "draft": DraftWorker,
    "dwork": DworkWorker,
    "pingpong": PingPongWorker,
    "wmp": WmpWorker,
    "hire": HireWorker,
    "beanstalkd": BeanstalkdWorker,
    "native": NativeWorker,
}
