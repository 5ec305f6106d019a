"""The connection to PostgreSQL is cut in the middle of commits.

The law: whether a commit was kept is found out each time. Nothing is acknowledged that is not there, nothing is
refused that is there, and no job is run again after its end was acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from cluster_ledger import Ledger
from cluster_load import Records
from cluster_members import ACTIVE
from cluster_proxy import WAYS, CuttingProxy
from cluster_stage import shares
from testimony import audit

if TYPE_CHECKING:
    from cluster_stage import Stage

CHANCE: Final = 0.2
STEP_S: Final = 5.0
DRAIN_S: Final = 120.0
HALLS: Final = 4
"""So many at the same time, each on a database of its own: after a cut a hall waits before it tries again."""


async def cuts(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """What came of so many cuts. Raises AssertionError."""
    parts = [
        _cut_often(stage.beside(number), share) for number, share in enumerate(shares(rounds, HALLS)) if share
    ]
    reports = await asyncio.gather(*parts)
    ways = sum([way for _, way in reports], Counter[str]())
    return {"cuts": dict(ways), **{name: sum(report[name] for report, _ in reports) for name in reports[0][0]}}


async def _cut_often(stage: Stage, rounds: int) -> tuple[dict[str, int], Counter[str]]:
    """What is in the ledger, and how often which cut was made."""
    proxy = CuttingProxy(stage.server.port, stage.seed)
    port = await proxy.open()
    url = stage.url.replace(f":{stage.server.port}/", f":{port}/")
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
    found = {
        "found_stored": said.count(" is stored\n") + said.count("is stored changes="),
        "found_not_stored": said.count("is not stored"),
        "take_overs": said.count("silent for too long"),
    }
    counts = {name: count for name, count in kept.items() if isinstance(count, int)}
    return {**counts, **found}, proxy.cuts
