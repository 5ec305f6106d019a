"""Peers of the Worker-Manager Protocol, for asyncio: a `Worker` for any number of managers, a `Manager` for
programs with their own jobs, and the `Device` between them.

    >>> async def reverse(job: Job) -> bytes:
    ...     return job.payload[::-1]
    >>> async with Manager("127.0.0.1:0", identity="me") as manager:
    ...     async with Worker([manager.address], {"reverse": reverse}):
    ...         await manager.do("reverse", b"hello")
    b'olleh'

Each of them uses a state machine without sockets or clock (`WorkerState`, `ManagerState`, `Relay`), which can
run in a simulator.
"""

from hiringhall.peers.wmp.device import Device
from hiringhall.peers.wmp.errors import (
    AddressError,
    JobCancelled,
    JobDeclined,
    JobFailed,
    ManagerFull,
    WmpError,
)
from hiringhall.peers.wmp.links import LinkTerms
from hiringhall.peers.wmp.manager import Data, Manager, Progress, Submitted
from hiringhall.peers.wmp.manager_state import ManagerState, ManagerTerms
from hiringhall.peers.wmp.relay import Relay
from hiringhall.peers.wmp.security import Curve
from hiringhall.peers.wmp.worker import Handler, Job, Worker
from hiringhall.peers.wmp.worker_state import WorkerState, WorkerTerms

__all__ = [
    "AddressError",
    "Curve",
    "Data",
    "Device",
    "Handler",
    "Job",
    "JobCancelled",
    "JobDeclined",
    "JobFailed",
    "LinkTerms",
    "Manager",
    "ManagerFull",
    "ManagerState",
    "ManagerTerms",
    "Progress",
    "Relay",
    "Submitted",
    "WmpError",
    "Worker",
    "WorkerState",
    "WorkerTerms",
]
