"""Closing ZeroMQ doors: every request that was received before a socket closes gets its answer.

A REQ socket whose request was received and not answered waits forever: ZeroMQ does not tell it that the hall
has gone. So the doors continue to answer until no request has come for a moment. Then their sockets close at
once, with nothing unread. A later request waits in the peer's own socket for the next hall.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from hiringhall.transports.zmtp.router import RouterDoor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.engine.driver import Driver

QUIET_S: Final = 0.15
"""When no request has come for this long, the sockets can be closed."""
LAST_REQUESTS_S: Final = 2.0
"""Requests that keep coming are answered for this long."""


async def answer_the_last(driver: Driver, doors: Sequence[object], *, patient: bool) -> None:
    """Answer the last requests at ZeroMQ doors, then close their sockets. No session ends by this. If not
    `patient`, only requests that have already come are answered.
    """
    routers = [door for door in doors if isinstance(door, RouterDoor) and door.links]
    if not routers:
        return
    driver.stop_handing_out()
    loop = asyncio.get_running_loop()
    until_s = loop.time() + (LAST_REQUESTS_S if patient else 0.0)
    while True:
        received = sum([router.received for router in routers])
        await asyncio.sleep(QUIET_S)
        quiet = sum([router.received for router in routers]) == received and not driver.engine.busy
        if (quiet and not any(router.busy for router in routers)) or loop.time() >= until_s:
            break
    for router in routers:
        router.close_socket()
