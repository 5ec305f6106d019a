"""The composition root: the one place that names concrete parts and joins them into a running hall.

`opening` makes the store, the scheduler and the doors. `running` serves until the hall is told to stop, and
closes it. Invariant: whatever keeps a hall from opening is a `HallError` of one line.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from typing import TYPE_CHECKING, Final

import uvloop

from hiringhall.doors.dialect import DoorKinds
from hiringhall.endpoints import HallError
from hiringhall.logs.events import Events
from hiringhall.logs.repeats import Repeats
from hiringhall.process import raise_descriptor_limit
from hiringhall.server.opening import OpenDoor, Opened, data_folder, open_driver
from hiringhall.server.running import Hall
from hiringhall.storage.opening import is_url, open_documents

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.config.schema import Config
    from hiringhall.storage.opening import Kind

__all__ = ["DEFAULT_DOORS", "DOOR_SETTINGS", "OpenDoor", "Opened", "run"]

DEFAULT_DOORS: Final = ("gearman=127.0.0.1:4730", "native=127.0.0.1:4731")
"""The doors of a hall whose settings name none."""

DOOR_SETTINGS: Final = DoorKinds(
    {
        "gearman": "gearman:GEARMAN",
        "dwork": "dwork:DWORK",
        "pingpong": "pingpong:PINGPONG",
        "wmp": "wmp:WMP",
        "hire": "hire:HIRE",
        "hire-bus": "hire:HIRE",
        "beanstalkd": "beanstalkd:BEANSTALKD",
        "native": "native:NATIVE",
    }
)
"""Every kind of door, and the dialect in `doors` that opens it. A new one is a line here."""

BROKEN_LAW: Final = 70
"""Exit code if an invariant of the hall itself does not hold."""

_log = logging.getLogger("hiringhall")


def run(
    config: Config,
    announce: Callable[[Opened], None],
    kind: Kind = "hall",
    repeats: Repeats | None = None,
    *,
    accept_loss: bool = False,
    standby: bool = False,
) -> int:
    """Open a hall, serve until it is told to stop, and return the exit code. Raises HallError.

    `kind` is written to the lock file of the data folder and says which program has it open. `repeats` counts
    log events that repeat. With `accept_loss`, the hall opens even if the write-ahead log of the data file is
    damaged. With `standby`, which needs a database, the hall stands by while another is active.
    """
    raise_descriptor_limit()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # `hall schedule` may send it before the hall handles it
    gc.collect()  # now, while there are few objects: what is left later is frozen
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if is_url(config.hall.data) and config.hall.storage != "memory":
                return runner.run(_serve_member(config, announce, repeats, standby=standby))
            if standby:
                raise HallError("a standby needs a database: give --data postgresql://USER@HOST/DATABASE")
            return runner.run(_open_and_serve(config, announce, kind, repeats, accept_loss=accept_loss))
    except (HallError, OSError):
        raise
    except Exception:  # noqa: BLE001 (any other exception is a bug of the hall, and is logged as one)
        _log.critical("a law of the hall is broken, it stops here", exc_info=True)
        return BROKEN_LAW


async def _open_and_serve(
    config: Config,
    announce: Callable[[Opened], None],
    kind: Kind,
    repeats: Repeats | None,
    *,
    accept_loss: bool,
) -> int:
    events = Events(repeats if repeats is not None else Repeats())
    driver = open_driver(config, events, kind, accept_loss=accept_loss)
    folder = data_folder(config)
    documents = None if folder is None else open_documents(folder)
    return await Hall(config, DOOR_SETTINGS.get_dialect, driver, events, documents).serve(announce)


async def _serve_member(
    config: Config, announce: Callable[[Opened], None], repeats: Repeats | None, *, standby: bool
) -> int:
    from hiringhall.server.members import MemberHall  # noqa: PLC0415 (only with a database)

    kept = repeats if repeats is not None else Repeats()
    member = MemberHall(config, DOOR_SETTINGS.get_dialect, lambda: Events(kept), announce)
    return await (member.serve_or_stand_by() if standby else member.serve_alone())
