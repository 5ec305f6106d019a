"""PostgreSQL fails over to a streaming replica, again and again.

The law: with a synchronous replica nothing is lost. With an asynchronous one the hall detects what is missing:
it writes recent commits again, and names the jobs of commits that it cannot write again.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Final

from cluster_ledger import Ledger
from cluster_load import Records, Times
from cluster_stage import DATABASE
from hall_process import wait_until

from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from cluster_members import Cluster
    from cluster_stage import Stage

ALIVE_S: Final = (0.5, 2.0)
LAG_S: Final = (0.5, 2.0)
"""For so long an asynchronous replica has got nothing when the primary crashes."""
LONG_LAG_S: Final = 13.0
"""Longer than commits are kept to be written again."""
RESUMED_S: Final = 90.0
DRAIN_S: Final = 120.0
_LOST: Final = re.compile(r"lost (\d+) commits that it had acknowledged")
_NAMED: Final = re.compile(r"lost changes of jobs: ([-\d, ]+)")


class Pair:
    """A primary and its replica. After a fail-over the former primary is made a replica of the other."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.primary = stage.server
        self.replica = PostgresServer(stage.folder / "replica", shared_buffers="256MB")
        self.url = stage.url.replace(
            f":{self.primary.port}/", f":{self.primary.port},127.0.0.1:{self.replica.port}/"
        )
        self.url += "?target_session_attrs=read-write"

    def attach(self, *, synchronous: bool) -> None:
        self.replica.follow(self.primary)
        self.replica.start()
        if synchronous:
            self._set(self.primary, "synchronous_standby_names", "*")

    def detach(self) -> None:
        """From now on the replica gets nothing."""
        self._set(self.replica, "primary_conninfo", "")
        wait_until(self._is_alone, "the replica follows nobody", 20.0)

    def _is_alone(self) -> bool:
        return self.replica.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0"

    def fail_over(self) -> None:
        self.primary.stop("immediate")
        self.replica.promote()
        self.primary, self.replica = self.replica, self.primary
        self._set(self.primary, "synchronous_standby_names", "")

    def remove(self) -> None:
        for server in (self.primary, self.replica):
            if server is not self._stage.server:
                server.remove()

    def _set(self, server: PostgresServer, name: str, value: str) -> None:
        server.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        server.sql("SELECT pg_reload_conf()")


async def failover(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """With a synchronous replica. Raises AssertionError."""
    return await _play(stage, rounds, synchronous=True)


async def failover_async(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """With one that lags behind. The last fail-over loses more than can be written again."""
    return await _play(stage, rounds, synchronous=False)


async def _play(stage: Stage, rounds: int, *, synchronous: bool) -> dict[str, object]:
    pair = Pair(stage)
    cluster = stage.cluster(pair.url, names=("ann", "bob"))
    try:
        await asyncio.to_thread(pair.attach, synchronous=synchronous)
        await asyncio.to_thread(cluster.start)
        return await _fail_over_often(stage, cluster, pair, rounds, synchronous=synchronous)
    finally:
        cluster.stop()
        pair.remove()


async def _fail_over_often(
    stage: Stage, cluster: Cluster, pair: Pair, rounds: int, *, synchronous: bool
) -> dict[str, object]:
    ledger, resumed = Ledger(cluster, stage.seed, clients=2), Times()
    lost_commits = 0
    try:
        for number in stage.rounds(rounds):
            await asyncio.sleep(stage.dice.uniform(*ALIVE_S))
            lag_s = 0.0 if synchronous else stage.dice.uniform(*LAG_S)
            lost_commits += await _fail_over(ledger, pair, resumed, lag_s)
            ledger.check()
            await asyncio.to_thread(pair.attach, synchronous=synchronous)
            stage.step(number, rounds, f"{resumed.report()}, {lost_commits} commits lost")
        await ledger.drain(Records(pair.primary.url(DATABASE)), DRAIN_S)
    finally:
        ledger.abandon()
    kept = await ledger.settle(Records(pair.primary.url(DATABASE)))
    assert synchronous == (lost_commits == 0), f"{lost_commits} commits were lost"
    report: dict[str, object] = {
        "fail_overs": len(resumed.seconds),
        "lost_and_written_again": lost_commits,
        **kept,
    }
    if not synchronous:
        late = Ledger(cluster, stage.seed + 1, clients=2)
        try:
            report["lost_and_named"] = await _fail_over(late, pair, resumed, LONG_LAG_S)
        finally:
            late.abandon()
    return {**report, "resumed_s": resumed.report()}


async def _fail_over(ledger: Ledger, pair: Pair, resumed: Times, lag_s: float) -> int:
    """How many commits the server lost, as the hall says. All jobs that are gone are named."""
    active = ledger.cluster.active
    if lag_s:
        await asyncio.to_thread(pair.detach)
        await asyncio.sleep(lag_s)
    told = len(active.errors())
    await asyncio.to_thread(pair.fail_over)
    before, back_s = set(ledger.created), time.monotonic()
    async with asyncio.timeout(RESUMED_S):
        while ledger.created_s <= back_s:  # noqa: ASYNC110 (clients note the time)
            await asyncio.sleep(0.01)
    resumed.add(ledger.created_s - back_s)
    assert ledger.cluster.active is active, "another hall is active"
    said = active.errors()[told:]
    await _check_named(pair, before, said)
    return sum(map(int, _LOST.findall(said)))


async def _check_named(pair: Pair, acknowledged: set[int], said: str) -> None:
    """What is not in the database any more is named in the log."""
    records = Records(pair.primary.url(DATABASE))
    there = await records.live() | {end.id for end in await records.ends()}
    named: set[int] = set()
    for line in _NAMED.findall(said):
        for each in line.split(", "):
            first, _, last = each.partition("-")
            named.update(range(int(first), int(last or first) + 1))
    unnamed = acknowledged - there - named
    assert not unnamed, f"{len(unnamed)} jobs are gone, and nobody says so: {sorted(unnamed)[:5]}"
