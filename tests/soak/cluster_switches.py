"""`hall switch-over`, under load: nothing is lost, and the role moves in less than two seconds."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Final

from cluster_ledger import Ledger
from cluster_load import Records, Times
from cluster_members import ACTIVE, STANDBY
from hall_process import CODE

if TYPE_CHECKING:
    from cluster_stage import Stage

PAUSE_S: Final = (0.2, 1.0)
DRAIN_S: Final = 120.0


async def switches(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """What came of it. Raises AssertionError."""
    cluster = stage.cluster()
    await asyncio.to_thread(cluster.start)
    ledger, records, took = Ledger(cluster, stage.seed), Records(stage.url), Times()
    resident: list[int] = []
    try:
        for number in stage.rounds(rounds):
            await asyncio.sleep(stage.dice.uniform(*PAUSE_S))
            before = cluster.active
            named = stage.dice.choice([member for member in cluster.members if member is not before])
            said = await _switch_over(stage.url, named.name)
            assert said["active"].startswith(f"{named.name}@"), said
            took.add(said["seconds"])
            await asyncio.to_thread(named.wait_for_role, ACTIVE)
            await asyncio.to_thread(before.wait_for_role, STANDBY)
            ledger.check()
            resident.append(before.rss_bytes())
            stage.step(number, rounds, f"{before.name} to {named.name} {took.report()}")
        await ledger.drain(records, DRAIN_S)
    finally:
        ledger.abandon()
    kept = await ledger.settle(records)
    return {"switches": len(took.seconds), **kept, "took_s": took.report(), "standby_bytes_max": max(resident)}


async def _switch_over(url: str, name: str) -> dict[str, object]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hiringhall", "switch-over", "--data", url, "--to", name, "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": CODE},
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    said: dict[str, object] = json.loads(out)
    return said
