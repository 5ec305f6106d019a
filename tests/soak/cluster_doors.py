"""Clients and workers of every dialect at the doors of a standby, while the active hall is killed.

The law: a client and a worker of any dialect can use the address of a standby, and do not notice it. When the
active hall is killed, they come again, at whatever address, and what was acknowledged is done. The web is not
passed on: its address is open only at the active hall.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from cluster_load import EveryClusterLoad, Records, Times
from cluster_members import STANDBY
from cluster_stage import NAMES
from mixed_load import verdict

if TYPE_CHECKING:
    from cluster_stage import Stage

EVERY_DIALECT: Final = frozenset(
    ("gearman", "gearman_draft", "dwork", "pingpong", "wmp", "hire", "native", "beanstalkd")
)
DONE_S: Final = 60.0
DRAIN_S: Final = 120.0
DONE_BY: Final = "SELECT DISTINCT convert_from(dialect, 'UTF8') FROM lines WHERE state = 4 AND id > $1"
"""Whose workers have done jobs."""
LAST: Final = "SELECT COALESCE(max(id), 0) FROM (SELECT id FROM jobs UNION ALL SELECT id FROM lines) AS known"


async def doors(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """What came of it. Raises AssertionError."""
    cluster, records, back = stage.cluster(names=NAMES[:2]), Records(stage.url), Times()
    await asyncio.to_thread(cluster.start)
    cluster.entered = cluster.members[1]
    load = EveryClusterLoad(cluster, stage.seed)
    load.up.set()
    try:
        await _all_have_worked(load, records, 0)
        for number in stage.rounds(rounds):
            victim = cluster.active
            assert cluster.entered is not victim, "the load is at the doors of the active hall"
            killed_s = time.monotonic()
            victim.kill()
            await asyncio.to_thread(victim.launch)
            successor = await asyncio.to_thread(cluster.wait_for_active, victim)
            back.add(successor.roles[-1][0] - killed_s)
            await asyncio.to_thread(victim.wait_for_role, STANDBY)
            ((last,),) = await records.fetch(LAST)
            cluster.entered = victim  # whoever connects anew comes to the one that stands by now
            await _all_have_worked(load, records, int(str(last)))
            stage.step(number, rounds, f"{victim.name}, then {successor.name}: all dialects work again")
        await load.drain(DRAIN_S)
    finally:
        load.abandon()
    verdict(load.promises, await records.ends())
    load.proves_something(rounds)
    return {
        "kills": rounds,
        "dialects": sorted(EVERY_DIALECT),
        "acknowledged": len(load.promises.created) + len(load.promises.acknowledged),
        "lost": 0,
        "of_providers": load.employed,
        "of_other_managers": load.managed,
        "active_again_s": back.report(),
    }


async def _all_have_worked(load: EveryClusterLoad, records: Records, after_id: int) -> None:
    """Wait until workers of every dialect have done jobs that were submitted after one, and jobs were done for
    peers that keep their jobs themselves: a provider and another manager.
    """
    employed, managed = load.employed, load.managed
    missing: set[str] = {"all"}
    try:
        async with asyncio.timeout(DONE_S):
            while missing:
                load.check()
                await asyncio.sleep(0.05)
                missing = EVERY_DIALECT - {str(row[0]) for row in await records.fetch(DONE_BY, after_id)}
                missing |= {"a provider"} if load.employed == employed else set()
                missing |= {"another manager"} if load.managed == managed else set()
    except TimeoutError:
        raise AssertionError(f"not done in time: jobs of {', '.join(sorted(missing))}") from None
