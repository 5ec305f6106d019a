"""Peers of the Worker-Manager Protocol, for asyncio: a `Worker` for any number of managers, a `Manager` for
programs with jobs of their own, and the `Device` between them.

    >>> async def reverse(job: Job) -> bytes:
    ...     return job.payload[::-1]
    >>> async with Manager("127.0.0.1:0", identity="me") as manager:
    ...     async with Worker([manager.address], {"reverse": reverse}):
    ...         await manager.do("reverse", b"hello")
    b'olleh'

What each of them decides is a state machine without sockets or clock (`Crew`, `Desk`, `Relay`), which can be
played in a simulator; the classes here give them both.
"""

from hiringhall.peers.wmp.crew import Crew, CrewTerms
from hiringhall.peers.wmp.desk import Desk, DeskTerms
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
from hiringhall.peers.wmp.relay import Relay
from hiringhall.peers.wmp.security import Curve
from hiringhall.peers.wmp.worker import Handler, Job, Worker

__all__ = [
    "AddressError",
    "Crew",
    "CrewTerms",
    "Curve",
    "Data",
    "Desk",
    "DeskTerms",
    "Device",
    "Handler",
    "Job",
    "JobCancelled",
    "JobDeclined",
    "JobFailed",
    "LinkTerms",
    "Manager",
    "ManagerFull",
    "Progress",
    "Relay",
    "Submitted",
    "WmpError",
    "Worker",
]
