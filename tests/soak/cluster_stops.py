"""The active hall is stopped at a random moment, another takes over, and the first one goes on.

The law: a hall that was replaced writes nothing, acknowledges nothing that is not in the database, and hands
out nothing. Its own peers, which are connected to it and to no other, note what they are told, and when.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from cluster_fence import leave_out_fence
from cluster_load import ClusterLoad, Records, Times
from cluster_members import STANDBY
from cluster_stage import NAMES, shares
from mixed_load import WELL, Promises, verdict
from raw_link import Closed, RawLink
from testimony import job_id

from hiringhall.core import ids
from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from cluster_members import SoakMember
    from cluster_stage import Stage

ALIVE_S: Final = (0.1, 1.0)
"""How long a hall is active before it is stopped."""
TOGETHER_S: Final = (0.0, 0.5)
"""How long the next one is active before the first one goes on."""
DRAIN_S: Final = 300.0
CLUSTERS: Final = 2
"""So many at the same time, each on a database of its own: a take-over is mostly waiting."""
FUNCTION: Final = b"direct"
WINDOW: Final = 8
HELD_S: Final = 120.0
"""A peer of a hall that is stopped waits for so long."""
EPOCH_IDS: Final = """
SELECT id FROM jobs WHERE id BETWEEN $1 AND $2 UNION SELECT id FROM lines WHERE id BETWEEN $1 AND $2
"""


@dataclass
class Told:
    """What the peers of one hall were told, and when."""

    acknowledged: list[tuple[float, int]] = field(default_factory=list)
    handed_out: list[tuple[float, int]] = field(default_factory=list)


@dataclass
class Late:
    """What a hall did after it had been replaced, over all rounds."""

    writes: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    handed_out: list[int] = field(default_factory=list)


class DirectPeers:
    """Clients and workers of one hall, until it closes their connections."""

    _numbers = count()

    def __init__(self, member: SoakMember, promises: Promises, clients: int = 3, workers: int = 3) -> None:
        self.told = Told()
        self._member = member
        self._promises = promises
        self._tasks = [asyncio.create_task(self._client()) for _ in range(clients)]
        self._tasks += [asyncio.create_task(self._worker()) for _ in range(workers)]

    async def ended(self) -> None:
        """Wait until the hall has closed all connections."""
        await asyncio.gather(*self._tasks)

    def abandon(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _client(self) -> None:
        with suppress(Closed):
            link = await RawLink.open(self._member.port)
            waiting: list[str] = []
            try:
                while True:
                    while len(waiting) < WINDOW:
                        tag = f"direct-{next(self._numbers)}/{WELL}/0"
                        self._promises.sent[tag] += 1
                        link.send(wire.SUBMIT_JOB_BG, FUNCTION, tag.encode(), tag.encode())
                        waiting.append(tag)
                    kind, body = await link.receive(HELD_S)
                    tag = waiting.pop(0)
                    if kind == wire.JOB_CREATED:
                        self.told.acknowledged.append((time.monotonic(), job_id(body)))
                        self._promises.created[job_id(body)] = tag
            finally:
                link.abort()

    async def _worker(self) -> None:
        with suppress(Closed):
            link = await RawLink.open(self._member.port)
            try:
                link.send(wire.CAN_DO, FUNCTION)
                link.send(wire.GRAB_JOB)
                while True:
                    kind, body = await link.receive(HELD_S)
                    if kind == wire.NO_JOB:
                        link.send(wire.PRE_SLEEP)
                        continue
                    if kind == wire.JOB_ASSIGN:
                        handle, _, payload = body.split(b"\0", 2)
                        self.told.handed_out.append((time.monotonic(), job_id(handle)))
                        link.send(wire.WORK_COMPLETE, handle, payload)
                    link.send(wire.GRAB_JOB)
            finally:
                link.abort()


async def stops(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """What came of it. Raises AssertionError."""
    report, late = await _play(stage, rounds, fenced=True)
    assert not late.writes, f"{len(late.writes)} late writes: {late.writes[:5]}"
    assert not late.acknowledged, f"acknowledged late, and not there: {late.acknowledged[:5]}"
    assert not late.handed_out, f"handed out late: {late.handed_out[:5]}"
    return report


async def stops_unfenced(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """The same without the fence: it must be found out."""
    report, late = await _play(stage, rounds, fenced=False)
    assert late.writes, "without the fence no late write was found: this test proves nothing"
    return report


async def _play(stage: Stage, rounds: int, *, fenced: bool) -> tuple[dict[str, object], Late]:
    late, taken_over = Late(), Times()
    parts = [
        _stop_often(stage.beside(number), share, late, taken_over, fenced=fenced)
        for number, share in enumerate(shares(rounds, CLUSTERS))
        if share
    ]
    acknowledged = await asyncio.gather(*parts)
    report: dict[str, object] = {
        "stops": len(taken_over.seconds),
        "acknowledged": sum(acknowledged),
        "late_writes": len(late.writes),
        "late_acknowledgements": len(late.acknowledged),
        "handed_out_late": len(late.handed_out),
        "taken_over_s": taken_over.report(),
    }
    return report, late


async def _stop_often(stage: Stage, rounds: int, late: Late, taken_over: Times, *, fenced: bool) -> int:
    """How many jobs were acknowledged."""
    cluster = stage.cluster(names=NAMES[:2])
    await asyncio.to_thread(cluster.start)
    if not fenced:
        leave_out_fence(stage)
    load = ClusterLoad(cluster, stage.seed, clients=1, workers=2)
    load.up.set()
    peers: DirectPeers | None = None
    try:
        for number in stage.rounds(rounds):
            peers = DirectPeers(cluster.active, load.promises)
            await _stop_once(stage, load, peers, late, taken_over)
            load.check()
            stage.step(number, rounds, f"{len(late.writes)} late writes, {len(late.handed_out)} late jobs")
        if fenced:
            peers = DirectPeers(cluster.active, load.promises, clients=0)
            load.functions = (*load.functions, FUNCTION)
            load.promises.refused.clear()  # by halls that had been replaced
            await load.drain(DRAIN_S)
    finally:
        load.abandon()
        if peers is not None:
            peers.abandon()
    if fenced:
        verdict(load.promises, await Records(stage.url).ends())
    return len(load.promises.created)


async def _stop_once(
    stage: Stage, load: ClusterLoad, peers: DirectPeers, late: Late, taken_over: Times
) -> None:
    cluster, records = load.cluster, Records(stage.url)
    stopped = cluster.active
    ((epoch,),) = await records.fetch("SELECT incarnation FROM writer")
    assert isinstance(epoch, int)
    its_ids = ids.make(epoch, 0), ids.make(epoch + 1, 0) - 1
    await asyncio.sleep(stage.dice.uniform(*ALIVE_S))
    stopped.signal(signal.SIGSTOP)
    begun_s = time.monotonic()
    successor = await asyncio.to_thread(cluster.wait_for_active, stopped)
    taken_over.add(successor.roles[-1][0] - begun_s)
    there = {row[0] for row in await records.fetch(EPOCH_IDS, *its_ids)}
    await asyncio.sleep(stage.dice.uniform(*TOGETHER_S))
    goes_on_s = time.monotonic()
    stopped.signal(signal.SIGCONT)
    await asyncio.to_thread(stopped.wait_for_role, STANDBY)
    await peers.ended()
    told = peers.told
    late.writes += [int(str(row[0])) for row in await records.fetch(EPOCH_IDS, *its_ids) if row[0] not in there]
    late.acknowledged += [job for _, job in told.acknowledged if job not in there]
    late.handed_out += [job for at_s, job in told.handed_out if at_s > goes_on_s]
