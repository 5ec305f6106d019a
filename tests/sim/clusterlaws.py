"""What must hold for several halls on one database, seen from outside of them.

Every job of these worlds that is durable has a payload of its own, so that what a client was told can be held
against what the database has.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any

from hiringhall.cluster.suspicion import SILENCE_US
from hiringhall.storage.contract import HistoryQuery

from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, EndRow

    from .clusterdatabase import FencedDatabase
    from .clustermember import Member
    from .world import World


class ClusterLaws:
    """An account of the database, of who is active, and of what clients were told."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.database: FencedDatabase
        self.members: dict[str, Member] = {}
        self.active = 0
        """The incarnation that may write, by the take-overs that happened."""
        self.takeovers = 0
        self.only_away = False
        """Nothing but the database fails in this world."""
        self.opened: set[int] = set()
        """Incarnations that have opened their doors."""
        self.live: dict[int, bytes] = {}
        """The payload of each job that must be in the database."""
        self.history: dict[int, EndRow] = {}
        self.acknowledged: dict[str, int] = {}
        """The id of each durable job that a client was told to be kept."""
        self.refused: set[str] = set()
        """Payloads of which a client was told that they are not kept."""
        self.jobs_seen = 0
        self._beaten_us: dict[int, int] = {}
        """When each incarnation beat last, or became active."""

    # --- the database

    def beaten(self, incarnation: int) -> None:
        self._beaten_us[incarnation] = self.world.now_us

    def taken_over(self, name: str, old: int, new: int, *, closed: bool) -> None:
        self.world.note(f"database: {name} takes over from {old} as {new}")
        self.takeovers += 1
        self.active = new
        silent_us = self.world.now_us - self._beaten_us.get(old, 0)
        self._beaten_us[new] = self.world.now_us
        if self.only_away and old in self.opened:
            raise Violation("moved", f"{name} takes over from {old} because the database was away")
        # A clock may be fast: then less time has passed than its member counted.
        if old and not closed and silent_us * self.members[name].clock.rate < SILENCE_US - 1:
            raise Violation("silence", f"{name} takes over from {old}, which beat {silent_us} us ago")

    def kept(self, incarnation: int, batch: Batch) -> None:
        if incarnation != self.active:
            raise Violation("late write", f"{incarnation} commits, and {self.active} is active")
        for row in batch.inserts:
            if row.id in self.live or row.id in self.history:
                raise Violation("identity", f"id {row.id} is given to a second job")
            self.live[row.id] = row.payload
        for update in batch.updates:
            if update.id not in self.live:
                raise Violation("store", f"job {update.id} is updated and is not there")
        for job_id in batch.deletes:
            if self.live.pop(job_id, None) is None:
                raise Violation("store", f"job {job_id} is deleted and was not there")
        for end in batch.ends:
            if end.id in self.history:
                raise Violation("one end", f"job {end.id} has a second end")
            if end.id in self.live:
                raise Violation("store", f"job {end.id} has ended and is live too")
            self.history[end.id] = end

    # --- what a hall says

    def acknowledges(self, payload: str, job_id: int) -> None:
        """A client is told that a durable job is kept."""
        if job_id not in self.live and job_id not in self.history:
            raise Violation("acknowledged", f"job {job_id} ({payload}) is acknowledged and is not kept")
        self.acknowledged[payload] = job_id

    def hands_out(self, incarnation: int, job_id: int) -> None:
        if incarnation != self.active:
            raise Violation("handed out", f"{incarnation} hands out {job_id}, and {self.active} is active")

    def says_ended(self, job_id: int, state: int, result: str) -> None:
        """A client is told of the end of a durable job."""
        end = self.history.get(job_id)
        if end is None or (end.state, end.result.decode()) != (state, result):
            raise Violation("acknowledged", f"the end of {job_id} is told as {state} {result}, and is not kept")

    # --- when all is calm

    def finish(self) -> None:
        if self.live:
            raise Violation("drain", f"jobs {sorted(self.live)} have not ended")
        for payload, job_id in self.acknowledged.items():
            end = self.history.get(job_id)
            if end is None:
                raise Violation("missing", f"job {job_id} ({payload}) was acknowledged and is nowhere")
            if not end.result.decode().endswith(f" of {payload}"):
                raise Violation("identity", f"job {job_id} ({payload}) ended with {end.result!r}")
        for end in self.history.values():
            made_for = end.result.decode().rpartition(" of ")[2]
            if made_for in self.refused:
                raise Violation("refused", f"job {end.id} ({made_for}) was refused, and has been done")
        stored = {row.id: row for row in self.database.store.history(HistoryQuery(limit=100_000))}
        if stored.keys() != self.history.keys() or list(self.database.store.live()):
            raise Violation("store", "the database does not hold what was committed to it")


class ClusterTap:
    """What crosses one connection of an active hall."""

    def __init__(self, laws: ClusterLaws, incarnation: int) -> None:
        self._laws = laws
        self._incarnation = incarnation
        self._asked: deque[dict[str, Any]] = deque()
        self._rest = b""
        self._durable: set[int] = set()

    def heard(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._asked.extend(map(json.loads, lines))

    def said(self, data: bytes) -> None:
        for text in data.splitlines():
            told = json.loads(text)
            if "notice" in told:
                self._noticed(told)
            else:
                self._answered(self._asked.popleft(), told)

    def _answered(self, asked: dict[str, Any], told: dict[str, Any]) -> None:
        laws = self._laws
        if asked["do"] == "submit" and asked["durable"]:
            if "refused" in told:
                laws.refused.add(asked["payload"])
            else:
                self._durable.add(told["created"])
                laws.acknowledges(asked["payload"], told["created"])
        elif "assigned" in told:
            laws.hands_out(self._incarnation, told["assigned"]["id"])

    def _noticed(self, told: dict[str, Any]) -> None:
        if told["notice"] == "assigned":
            self._laws.hands_out(self._incarnation, told["assigned"]["id"])
        elif told["notice"] == "ended" and told["id"] in self._durable:
            self._laws.says_ended(told["id"], told["state"], told["result"])


class MuteTap:
    """Of a connection that is only passed on."""

    def said(self, data: bytes) -> None:
        """Nothing of it is looked at."""
