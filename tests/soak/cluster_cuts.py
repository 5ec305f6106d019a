"""The connection to PostgreSQL is cut in the middle of commits.

The law: whether a commit was kept is found out each time. Nothing is acknowledged that is not there, nothing is
refused that is there, and no job is run again after its end was acknowledged.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from cluster_ledger import Ledger
from cluster_load import Records
from cluster_members import ACTIVE
from cluster_proxy import WAYS, CuttingProxy
from cluster_stage import DATABASE
from testimony import audit

if TYPE_CHECKING:
    from cluster_stage import Stage

CHANCE: Final = 0.2
STEP_S: Final = 5.0
DRAIN_S: Final = 120.0


async def cuts(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """What came of so many cuts. Raises AssertionError."""
    proxy = CuttingProxy(stage.server.port, stage.seed)
    port = await proxy.open()
    url = stage.server.url(DATABASE).replace(f":{stage.server.port}/", f":{port}/")
    cluster = stage.cluster(url, names=("ann",))
    (hall,) = cluster.members
    await asyncio.to_thread(hall.launch)
    await asyncio.to_thread(hall.wait_for_role, ACTIVE)
    records, ledger = Records(stage.url), Ledger(cluster, stage.seed)
    try:
        proxy.chance = CHANCE
        for number in stage.rounds(rounds):
            while proxy.cuts.total() <= number:
                await asyncio.sleep(STEP_S / 100)
                ledger.check()
                assert hall.running, hall.errors()[-4000:]
            if number % 50 == 0:
                stage.step(number, rounds, f"{dict(proxy.cuts)}, {len(ledger.created)} acknowledged")
        proxy.chance = 0.0
        await ledger.drain(records, DRAIN_S)
        assert await asyncio.to_thread(audit, hall) == "clean"
    finally:
        ledger.abandon()
        await proxy.close()
    kept = await ledger.settle(records)
    said = hall.errors()
    assert set(proxy.cuts) <= set(WAYS)
    return {
        "cuts": dict(proxy.cuts),
        **kept,
        "found_stored": said.count(" is stored\n") + said.count("is stored changes="),
        "found_not_stored": said.count("is not stored"),
        "take_overs": said.count("silent for too long"),
    }
