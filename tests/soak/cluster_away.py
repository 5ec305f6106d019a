"""PostgreSQL crashes and comes back, again and again, and once it is away for a minute.

The law: nobody takes over because of it. Durable submits are refused, what runs goes on, and service resumes by
itself. Ends wait in memory, up to a bound.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from cluster_ledger import Ledger
from cluster_load import Records, Times

if TYPE_CHECKING:
    from cluster_members import Cluster
    from cluster_stage import Stage

AWAY_S: Final = (0.0, 1.5)
ALIVE_S: Final = (0.2, 1.0)
LONG_S: Final = 60.0
LONG_FROM: Final = 5
"""With fewer rounds than this, the database is never away for so long."""
HANDS_OUT_S: Final = 3.0
"""For so long after its last good beat a hall hands out jobs."""
SLACK_S: Final = 2.0
"""A job that was handed out in time may arrive so much later, on a busy machine."""
RESUMED_S: Final = 60.0
DRAIN_S: Final = 120.0
JOB_S: Final = 0.01
ERRORS_SHOWN: Final = 3000
"""Characters of the log of each hall."""


async def away(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """What came of so many crashes. Raises AssertionError."""
    cluster = stage.cluster()
    await asyncio.to_thread(cluster.start)
    ledger, records, resumed = Ledger(cluster, stage.seed, job_s=JOB_S), Records(stage.url), Times()
    active = cluster.active
    try:
        for number in stage.rounds(rounds):
            await asyncio.sleep(stage.dice.uniform(*ALIVE_S))
            last = number == rounds - 1 >= LONG_FROM - 1
            await _crash_once(stage, ledger, resumed, LONG_S if last else stage.dice.uniform(*AWAY_S))
            ledger.check()
            assert cluster.active is active, f"another hall is active: {_last_errors(cluster)}"
            stage.step(number, rounds, f"{len(ledger.created)} acknowledged, {resumed.report()}")
        await ledger.drain(records, DRAIN_S)
    finally:
        ledger.abandon()
    kept = await ledger.settle(records)
    assert ledger.reasons, "no submit was refused"
    _nobody_moved(cluster)
    return {"crashes": len(resumed.seconds), **kept, "resumed_s": resumed.report(), "take_overs": 0}


async def _crash_once(stage: Stage, ledger: Ledger, resumed: Times, away_s: float) -> None:
    await asyncio.to_thread(stage.server.stop, "immediate")
    gone_s = time.monotonic()
    await asyncio.sleep(away_s)
    late = [job for at_s, job in ledger.given if at_s > gone_s + HANDS_OUT_S + SLACK_S]
    assert not late, f"handed out while the database was away: {late[:5]}"
    acknowledged = ledger.created_s
    assert acknowledged < gone_s + SLACK_S, "a job was acknowledged while the database was away"
    await asyncio.to_thread(stage.server.start)
    back_s = time.monotonic()
    async with asyncio.timeout(RESUMED_S):
        while ledger.created_s <= back_s:  # noqa: ASYNC110 (clients note the time)
            await asyncio.sleep(0.01)
    resumed.add(ledger.created_s - back_s)


def _last_errors(cluster: Cluster) -> str:
    return "\n".join(f"{member.name}: {member.errors()[-ERRORS_SHOWN:]}" for member in cluster.members)


def _nobody_moved(cluster: Cluster) -> None:
    for member in cluster.members:
        assert "silent for too long" not in member.errors(), f"{member.name} took over"
        assert len(member.roles) == (2 if member is cluster.members[0] else 1), (member.name, member.roles)
