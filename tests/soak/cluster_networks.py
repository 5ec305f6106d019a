"""Halls and PostgreSQL in networks of their own, which are cut off from each other and healed, again and again.

The law: at any time one hall is active, by the history. Each incarnation commits from one hall only. What a
hall hands out comes to an end before the next one hands out anything. Nothing that was acknowledged is lost,
and after each cut a durable job is acknowledged again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import count, cycle
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster_fence import leave_out_fence
from cluster_ledger import QUEUE, SLOTS, Ledger, NativeLink, Refused
from cluster_load import PAUSE_S, Records, Times
from cluster_members import STANDBY
from cluster_stage import DATABASE, NAMES

from hiringhall.core import ids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster_members import Cluster, SoakMember
    from cluster_netns import Networks
    from cluster_stage import Stage

HOSTS: Final = (DATABASE, *NAMES)
ALIVE_S: Final = (0.3, 1.0)
"""How long all see each other between two cuts."""
TOGETHER_S: Final = (0.0, 0.7)
"""How long the next hall is active before the first one sees the database again. Longer ones would find nothing
more: the packets of a commit that was under way are sent again after 6 s, and then not before 10 s are over."""
HELD_S: Final = (4.5, 6.5)
"""How long a cut takes that moves nothing. A hall is suspected after 4 s."""
SERVING_S: Final = 40.0
DRAIN_S: Final = 120.0
WITNESS: Final = """
CREATE TABLE witness (
    number bigint GENERATED ALWAYS AS IDENTITY, who text NOT NULL, incarnation integer NOT NULL
);
CREATE FUNCTION testify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO hiringhall.witness (who, incarnation)
    VALUES (current_setting('application_name'), NEW.incarnation);
    RETURN NULL;
END
$$;
CREATE TRIGGER testify AFTER UPDATE ON writer FOR EACH ROW EXECUTE FUNCTION testify();
"""
"""Whoever commits counts up the row `writer`: from which connection, and who was active then."""


class Cut(NamedTuple):
    """One way to cut networks off from each other."""

    name: str
    make: Callable[[Networks, str, list[str]], None]
    """With the active hall and the standbys."""
    moves: bool
    """Another hall takes over."""


def _from_database(networks: Networks, active: str, standbys: list[str]) -> None:
    networks.cut_off(active, [DATABASE])


def _from_all_halls(networks: Networks, active: str, standbys: list[str]) -> None:
    """Its clients still reach it."""
    networks.cut_off(active, [DATABASE, *standbys])


def _to_database(networks: Networks, active: str, standbys: list[str]) -> None:
    networks.cut(active, DATABASE)


def _by_database(networks: Networks, active: str, standbys: list[str]) -> None:
    """The database gets what the hall sends. Its answers are lost."""
    networks.cut(DATABASE, active)


def _between_halls(networks: Networks, active: str, standbys: list[str]) -> None:
    for name in (active, *standbys):
        networks.cut_off(name, [other for other in (active, *standbys) if other != name])


def _database_from_all(networks: Networks, active: str, standbys: list[str]) -> None:
    networks.cut_off(DATABASE, [active, *standbys])


def _standbys_from_database(networks: Networks, active: str, standbys: list[str]) -> None:
    networks.cut_off(DATABASE, standbys)


CUTS: Final = (
    Cut("the active hall from the database", _from_database, moves=True),
    Cut("all halls from each other", _between_halls, moves=False),
    Cut("the answers of the database to the active hall", _by_database, moves=True),
    Cut("the database from all halls", _database_from_all, moves=False),
    Cut("the active hall from the database and the standbys", _from_all_halls, moves=True),
    Cut("the standbys from the database", _standbys_from_database, moves=False),
    Cut("what the active hall sends to the database", _to_database, moves=True),
)


class HandedOut(NamedTuple):
    """A job that a worker got."""

    at_s: float
    incarnation: int
    """Of the hall that gave it."""
    door: str
    """The member whose door the worker uses."""
    job: int


class PinnedLedger(Ledger):
    """A client and a worker at the door of each member, and of no other. A worker knows which incarnation it
    talks to: that of the job it has submitted on the same connection.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.handed_out: list[HandedOut] = []
        self._pinned = cycle(cluster.members)
        self._tags = count()
        super().__init__(cluster, seed, clients=len(cluster.members), workers=len(cluster.members))

    def serving_since(self, before: int) -> float | None:
        """When an incarnation after this one acknowledged its first job."""
        return min([at_s for epoch, at_s in self.served_s.items() if epoch > before], default=None)

    async def _client(self) -> None:
        await self._stay_at(next(self._pinned), self._submit_often, lambda: self.submitting)

    async def _worker(self) -> None:
        await self._stay_at(next(self._pinned), self._work, lambda: True)

    async def _stay_at(self, member: SoakMember, act: object, goes_on: Callable[[], bool]) -> None:
        assert callable(act)
        while goes_on():
            await asyncio.sleep(self._dice.uniform(0, PAUSE_S))
            with suppress(OSError, TimeoutError):
                link = await NativeLink.open(member.host, member.ports["native"])
                try:
                    await act(link, member)
                finally:
                    link.abort()

    async def _submit_often(self, link: NativeLink, member: SoakMember) -> None:
        while self.submitting:
            await self._submit(link)
            await asyncio.sleep(self._dice.uniform(0, PAUSE_S))

    async def _work(self, link: NativeLink, member: SoakMember) -> None:
        tag = b"pinned-%d" % next(self._tags)
        try:
            (number,) = await link.ask("submit", (0, [(QUEUE, tag, {"losses_max": 0}, b"", 0, [])]))
        except Refused:
            await asyncio.sleep(PAUSE_S)
            return
        self.created[number] = tag
        await link.ask("work", (b"worker", SLOTS, [(QUEUE, 0, 0)], -1, 0))
        async with asyncio.TaskGroup() as slots:
            while given := await link.given.get():
                self._note_given(given[1])
                self.handed_out.append(HandedOut(time.monotonic(), ids.epoch_of(number), member.name, given[1]))
                slots.create_task(self._do(link, *given[:2], payload=given[3]))


async def networks(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """What came of so many cuts. Raises AssertionError."""
    report, ledger, commits = await _play(stage, rounds, CUTS, fenced=True)
    late = late_commits(commits)
    assert not late, f"commits of a hall that had been replaced: {late[:5]}"
    overlaps = find_overlaps(ledger.handed_out, commits)
    assert not overlaps, f"two halls handed out at the same time: {overlaps[:5]}"
    return {**report, **await ledger.settle(Records(stage.url)), "late_commits": 0, "overlaps": 0}


async def networks_unfenced(stage: Stage, rounds: int, live: int) -> dict[str, object]:
    """The same without the fence: it must be found out."""
    moving = [cut for cut in CUTS if cut.moves and cut.make is not _by_database]
    report, _, commits = await _play(stage, rounds, moving, fenced=False)
    late = late_commits(commits)
    assert late, "without the fence no late commit was found: this test proves nothing"
    return {**report, "late_commits": len(late)}


async def _play(
    stage: Stage, rounds: int, cuts: Sequence[Cut], *, fenced: bool
) -> tuple[dict[str, object], PinnedLedger, list[tuple[str, int]]]:
    cluster, records = stage.cluster(), Records(stage.url)
    await asyncio.to_thread(cluster.start)
    stage.sql(WITNESS)
    if not fenced:
        leave_out_fence(stage)
    ledger, serving, made = PinnedLedger(cluster, stage.seed), Times(), Counter[str]()
    try:
        for number in stage.rounds(rounds):
            cut = cuts[number % len(cuts)]
            await asyncio.sleep(stage.dice.uniform(*ALIVE_S))
            seconds = await _cut_once(stage, cluster, ledger, cut, fenced=fenced)
            if cut.moves:
                serving.add(seconds)
            made[cut.name] += 1
            if fenced:
                ledger.check()
            stage.step(number, rounds, f"{cut.name}: {seconds:.2f} s, {len(ledger.created)} acknowledged")
        if fenced:
            await ledger.drain(records, DRAIN_S)
    finally:
        ledger.abandon()
    rows = await records.fetch("SELECT who, incarnation FROM witness ORDER BY number")
    commits = [(str(who), int(str(incarnation))) for who, incarnation in rows]
    report: dict[str, object] = {
        "cuts": dict(made),
        "incarnations": len({incarnation for _, incarnation in commits}),
        "commits": len(commits),
        "handed_out": len(ledger.handed_out),
        "serving_again_s": serving.report(),
    }
    return report, ledger, commits


async def _cut_once(stage: Stage, cluster: Cluster, ledger: PinnedLedger, cut: Cut, *, fenced: bool) -> float:
    """How many seconds after the cut another hall served, or after its end the same one."""
    assert stage.networks is not None
    active = cluster.active
    before = max(ledger.served_s, default=0)
    cut.make(stage.networks, active.name, [each.name for each in cluster.members if each is not active])
    since_s = time.monotonic()
    if cut.moves:
        await asyncio.to_thread(cluster.wait_for_active, active)
        await asyncio.sleep(stage.dice.uniform(*TOGETHER_S))
        stage.networks.heal()
        await asyncio.to_thread(active.wait_for_role, STANDBY)
        return await _until(lambda: ledger.serving_since(before)) - since_s
    await asyncio.sleep(stage.dice.uniform(*HELD_S))
    stage.networks.heal()
    since_s = time.monotonic()
    served_s = await _until(lambda: ledger.created_s if ledger.created_s > since_s else None)
    assert cluster.active is active, f"{cluster.active.name} has taken over from {active.name}"
    return served_s - since_s


async def _until(found: Callable[[], float | None]) -> float:
    async with asyncio.timeout(SERVING_S):
        while (at_s := found()) is None:  # noqa: ASYNC110 (clients note the time)
            await asyncio.sleep(0.01)
    return at_s


def late_commits(commits: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Those by another hall than the one that was active."""
    active: dict[int, str] = {}
    return [(who, incarnation) for who, incarnation in commits if active.setdefault(incarnation, who) != who]


def find_overlaps(
    handed_out: list[HandedOut], commits: list[tuple[str, int]]
) -> list[tuple[HandedOut, HandedOut]]:
    """What a hall handed out after a later one had handed out something. Only what came from its own door: what
    a standby passes on may be late because of a cut between the halls.
    """
    halls = {
        incarnation: who.removeprefix("hiringhall ").partition("@")[0] for who, incarnation in reversed(commits)
    }
    direct: dict[int, list[HandedOut]] = defaultdict(list)
    for each in handed_out:
        if halls[each.incarnation] == each.door:
            direct[each.incarnation].append(each)
    assert len(direct) > 1, "no worker was at the doors of two active halls: this proves nothing"
    found: list[tuple[HandedOut, HandedOut]] = []
    earlier: HandedOut | None = None
    for _, given in sorted(direct.items()):
        if earlier is not None and given[0].at_s < earlier.at_s:
            found.append((earlier, given[0]))
        earlier = max([given[-1], *([earlier] if earlier is not None else [])])
    return found
