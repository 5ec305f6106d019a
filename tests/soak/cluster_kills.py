"""The active hall is killed again and again, with two standbys and many live jobs.

The law: no acknowledged job is lost, none ends twice, and a durable job is acknowledged again soon after.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from cluster_load import EveryClusterLoad, Probe, Records, Times, missing, park
from cluster_members import ACTIVE, STANDBY
from mixed_load import verdict
from testimony import audit

if TYPE_CHECKING:
    from cluster_stage import Stage

BACK_S: Final = 30.0
"""A cluster that does not serve after this time is broken."""
ALIVE_S: Final = (0.3, 1.5)
"""How long a hall is active before it is killed."""
DRAIN_S: Final = 300.0


async def kills(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """What came of it. Raises AssertionError."""
    cluster = stage.cluster()
    await asyncio.to_thread(cluster.start)
    parked = await park(cluster.active, live)
    stage.say(f"{live:,} jobs are live")
    load = EveryClusterLoad(cluster, stage.seed)
    try:
        load.up.set()
        probe, back, told = Probe(load), Times(), Times()
        for number in stage.rounds(rounds):
            await asyncio.sleep(stage.dice.uniform(*ALIVE_S))
            load.check()
            victim = cluster.active
            load.up.clear()
            killed_s = time.monotonic()
            victim.kill()
            await asyncio.to_thread(victim.launch)
            seconds = back.add(await probe.first(killed_s, BACK_S))
            load.up.set()
            successor = await asyncio.to_thread(cluster.wait_for_active, victim)
            told.add(successor.roles[-1][0] - killed_s)
            stage.step(number, rounds, f"{victim.name}, then {successor.name} {seconds:.2f} s {back.report()}")
            await asyncio.to_thread(victim.wait_for_role, STANDBY)
        await load.drain(DRAIN_S)
        assert await asyncio.to_thread(audit, cluster.active) == "clean"
    finally:
        load.abandon()
    records = Records(stage.url)
    ends, left = await records.ends(), await records.live()
    lost = missing(parked, left)
    assert not lost, f"{len(lost)} of {live} live jobs are lost: {lost[:5]}"
    assert left == parked, f"{len(left - parked)} jobs are live that nobody waits for"
    verdict(load.promises, ends)
    load.proves_something(len(back.seconds))
    assert [member.role for member in cluster.members].count(ACTIVE) == 1
    return {
        "kills": len(back.seconds),
        "live": live,
        "acknowledged": len(load.promises.created) + len(load.promises.acknowledged),
        "ended": len(ends),
        "lost": 0,
        "ended_twice": 0,
        "serving_again_s": back.report(),
        "active_again_s": told.report(),
    }
