"""Peers of the hire protocol, for asyncio: a `Worker` that bids, travels and performs, and a `Provider` that
announces jobs of its own and chooses among the bids.

    >>> async with Worker("tcp://127.0.0.1:7430", {"bake": 40}, travel_s=0.5):
    ...     async with Provider("tcp://127.0.0.1:7430", policy=best_skill) as bakery:
    ...         (await bakery.employ("bake", time_s=2.0)).skill
    40

Both connect to a hall by TCP, or to a ZeroMQ bus (`bus://HOST:IN,HOST:OUT`), where no hall is needed. For a
door with TLS or CURVE, pass an `ssl.SSLContext` or a `Curve` as `security`.
"""

from hiringhall.peers.hire.errors import AddressError, ConnectionLost, HireError, Left
from hiringhall.peers.hire.links import Curve, Security
from hiringhall.peers.hire.policies import (
    POLICIES,
    Ask,
    Bid,
    Policy,
    best_skill,
    least_waiting,
    soonest,
    sufficient_skill,
)
from hiringhall.peers.hire.provider import Performance, Provider
from hiringhall.peers.hire.worker import Job, Perform, Stage, Tell, Worker

__all__ = [
    "POLICIES",
    "AddressError",
    "Ask",
    "Bid",
    "ConnectionLost",
    "Curve",
    "HireError",
    "Job",
    "Left",
    "Perform",
    "Performance",
    "Policy",
    "Provider",
    "Security",
    "Stage",
    "Tell",
    "Worker",
    "best_skill",
    "least_waiting",
    "soonest",
    "sufficient_skill",
]
