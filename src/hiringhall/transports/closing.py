"""The end of doors over ZeroMQ: whatever is asked until a socket is closed has its answer.

A REQ socket whose request was taken and not answered waits for ever: ZeroMQ tells it nothing when the hall is
gone. So the doors go on answering until nobody has asked anything for a moment, and then their sockets close at
once, with nothing unread. What is asked later waits in the peer's own socket for the next hall.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from hiringhall.transports.zmq import ZmqDoor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.engine.driver import Driver

QUIET_S: Final = 0.15
"""Nobody has asked anything for so long: the sockets can be closed."""
LAST_REQUESTS_S: Final = 2.0
"""Who goes on asking is answered for so long."""


async def answer_the_last(driver: Driver, doors: Sequence[object], *, patient: bool) -> None:
    """Answer what is still asked at doors over ZeroMQ, then receive nothing more. It disconnects
    no peer. Without patience, only requests that have arrived already are answered.
    """
    routers = [door for door in doors if isinstance(door, ZmqDoor) and door.links]
    if not routers:
        return
    driver.stop_handing_out()
    loop = asyncio.get_running_loop()
    until_s = loop.time() + (LAST_REQUESTS_S if patient else 0.0)
    while True:
        heard = sum([router.heard for router in routers])
        await asyncio.sleep(QUIET_S)
        quiet = sum([router.heard for router in routers]) == heard and not driver.engine.busy
        if (quiet and not any(router.busy for router in routers)) or loop.time() >= until_s:
            break
    for router in routers:
        router.shut()
