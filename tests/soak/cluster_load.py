"""Loads on several halls, which remember what was acknowledged, and what the database says afterwards."""

from __future__ import annotations

import asyncio
import random
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))

from every_load import EveryLoad
from mixed_load import BEANS, WELL, MixedLoad, Promises
from native_peer import NativeError, NativePeer
from raw_link import Closed, RawLink
from testimony import End, job_id

from hiringhall.core.states import STATE_NAMES
from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster_members import Cluster, SoakMember

PARKED: Final = "parked"
"""The function of jobs that nobody does: they stay live."""
PARKED_BYTES: Final = 100
PARK_WINDOW: Final = 2000
NATIVE: Final = b"native"
PEER_S: Final = 2.0
"""A peer that hears nothing for so long connects anew."""
PROBE_S: Final = 0.02
PROBE_ANSWER_S: Final = 1.0
PAUSE_S: Final = 0.02


def _rest() -> None:
    """A peer has something else to do for a moment."""
    threading.Event().wait(PAUSE_S)


class MorePeers:
    """Native and beanstalkd clients and workers, in threads of their own."""

    def __init__(self, cluster: Cluster, promises: Promises) -> None:
        self._cluster = cluster
        self._promises = promises
        self.submitting = True
        self.working = True
        loops = (self._submit_native, self._submit_beans)
        self.clients = [asyncio.create_task(asyncio.to_thread(loop)) for loop in loops]
        loops = (self._work_native, self._work_beans)
        self.workers = [asyncio.create_task(asyncio.to_thread(loop)) for loop in loops]

    @property
    def empty(self) -> bool:
        return not any(self._cluster.counts(queue)[0] for queue in (NATIVE.decode(), BEANS))

    def _tag(self, who: str, number: int) -> str:
        tag = f"{who}-{number}/{WELL}/0"
        self._promises.sent[tag] += 1
        return tag

    def _submit_native(self) -> None:
        number = 0
        while self.submitting:
            _rest()
            with suppress(OSError), NativePeer(self._cluster.native) as peer:
                while self.submitting:
                    number += 1
                    tag = self._tag("native", number)
                    try:
                        self._promises.created[peer.submit(NATIVE, tag.encode())] = tag
                    except NativeError as error:
                        self._promises.refused.append(str(error).encode())
                    _rest()

    def _work_native(self) -> None:
        while self.working:
            _rest()
            with suppress(OSError), NativePeer(self._cluster.native) as peer:
                peer.socket.settimeout(PEER_S)
                peer.work(NATIVE, slots=4)
                while self.working:
                    lease, _, _, payload, *_ = peer.hear("assign")
                    with suppress(NativeError):  # the hall that gave this lease is gone
                        peer.ask("finish", (lease, payload))

    def _submit_beans(self) -> None:
        number = 0
        while self.submitting:
            _rest()
            with suppress(OSError), Beans(self._cluster.beanstalkd) as beans:
                beans.ask(f"use {BEANS}")
                while self.submitting:
                    number += 1
                    tag = self._tag("beans", number)
                    word, *rest = beans.ask(f"put 0 0 60 {len(tag)}", tag)
                    if word == "INSERTED":
                        self._promises.created[int(rest[0])] = tag
                    else:
                        self._promises.refused.append(word.encode())
                    _rest()

    def _work_beans(self) -> None:
        while self.working:
            _rest()
            with suppress(OSError), Beans(self._cluster.beanstalkd) as beans:
                beans.ask(f"watch {BEANS}")
                while self.working:
                    word, *rest = beans.ask("reserve-with-timeout 1")
                    if word == "RESERVED":
                        beans.line()
                        beans.ask(f"delete {rest[0]}")


class ClusterLoad(MixedLoad):
    """Gearman, native and beanstalkd peers at the doors of all members. They may be refused."""

    def __init__(self, cluster: Cluster, seed: int, clients: int = 2, workers: int = 4) -> None:
        super().__init__(cluster, seed, clients, workers)  # type: ignore[arg-type]
        self.cluster = cluster
        self.functions: tuple[bytes, ...] = ()
        """More functions whose jobs must have ended after a drain."""
        self.more = MorePeers(cluster, self.promises)
        self._tries = random.Random(f"{seed} tries")

    async def drain(self, timeout_s: float) -> None:
        self.more.submitting = False
        await asyncio.gather(*self.more.clients)
        try:
            await super().drain(timeout_s)
        finally:
            self.more.working = False
        await asyncio.gather(*self.more.workers)

    def abandon(self) -> None:
        """Leave everything as it is."""
        self.submitting = self.more.submitting = self.more.working = False
        for task in (*self._tasks, *self._workers):
            task.cancel()

    def check(self) -> None:
        """Fail if a part of the load has ended by itself."""
        check(*self._tasks, *self._workers, *self.more.clients, *self.more.workers)

    def proves_something(self, rounds: int) -> None:
        for who in ("native", "beans", ""):
            kept = [tag for tag in self.promises.created.values() if tag.startswith(who)]
            assert len(kept) >= rounds // 2, f"only {len(kept)} jobs of {who} were acknowledged"

    def _empty(self) -> bool:
        more = [self.cluster.counts(function.decode())[0] for function in self.functions]
        return not any(more) and super()._empty() and self.more.empty

    async def _until_up(self) -> None:
        await super()._until_up()
        await asyncio.sleep(self._tries.uniform(0, PAUSE_S))  # a standby may have nobody to pass on to yet


class EveryClusterLoad(EveryLoad):
    """Peers of all dialects. None may be refused."""

    window_s = 0.5
    """Two halls are on the way of a bid, which may have other halls and their standbys beside them."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)  # type: ignore[arg-type]
        self.cluster = cluster
        self.more = MorePeers(cluster, self.promises)
        self._tries = random.Random(f"{seed} tries")

    async def drain(self, timeout_s: float) -> None:
        self.more.submitting = False
        await asyncio.gather(*self.more.clients)
        try:
            await super().drain(timeout_s)
        finally:
            self.more.working = False
        await asyncio.gather(*self.more.workers)

    def abandon(self) -> None:
        """Leave everything as it is."""
        self.submitting = self.more.submitting = self.more.working = False
        self._working.clear()
        for task in (*self._tasks, *self._workers):
            task.cancel()

    def check(self) -> None:
        """Fail if a part of the load has ended by itself."""
        check(*self._tasks, *self._workers, *self._threads, *self.more.clients, *self.more.workers)

    def proves_something(self, rounds: int) -> None:
        super().proves_something(rounds)
        for who in ("native", "beans"):
            kept = [tag for tag in self.promises.created.values() if tag.startswith(who)]
            assert len(kept) >= rounds // 2, f"only {len(kept)} jobs of {who} were acknowledged"

    def _empty(self) -> bool:
        return super()._empty() and self.more.empty

    async def _until_up(self) -> None:
        await super()._until_up()
        await asyncio.sleep(self._tries.uniform(0, PAUSE_S))


def check(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
            raise AssertionError(f"{task} has ended")


class Beans:
    """A connection to a beanstalkd door."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PEER_S * 2)
        self._lines = self._socket.makefile("rb")

    def ask(self, *lines: str) -> list[str]:
        self._socket.sendall("".join(f"{line}\r\n" for line in lines).encode())
        return self.line().split()

    def line(self) -> str:
        line = self._lines.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the hall has closed the connection")
        return line.decode().strip()

    def __enter__(self) -> Beans:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()


async def park(member: SoakMember, count: int) -> set[int]:
    """Fill the hall with jobs that nobody does; their ids."""
    link = await RawLink.open(member.port)
    found: set[int] = set()
    sent = 0
    payload = bytes(PARKED_BYTES)
    try:
        while len(found) < count:
            while sent < count and sent - len(found) < PARK_WINDOW:
                unique = b"parked-%d" % sent if sent % 2 else b"-"
                link.send(wire.SUBMIT_JOB_BG, PARKED.encode(), unique, b"%d " % sent + payload)
                sent += 1
            kind, body = await link.receive()
            assert kind == wire.JOB_CREATED, body
            found.add(job_id(body))
    finally:
        await link.close()
    return found


class Probe:
    """Submits at the doors of all members until one of them acknowledges a durable job."""

    def __init__(self, load: ClusterLoad | EveryClusterLoad) -> None:
        self._load = load
        self._number = 0

    async def first(self, since_s: float, timeout_s: float) -> float:
        """How many seconds after `since_s` the first one was acknowledged."""
        tries = [asyncio.create_task(self._at(member)) for member in self._load.cluster.members]
        done, others = await asyncio.wait(tries, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert done, f"no durable job was acknowledged within {timeout_s} s"
        return min(task.result() for task in done) - since_s

    async def _at(self, member: SoakMember) -> float:
        while True:
            with suppress(Closed, TimeoutError):
                link = await RawLink.open(member.port)
                try:
                    return await self._submit(link)
                finally:
                    link.abort()
            await asyncio.sleep(PROBE_S)

    async def _submit(self, link: RawLink) -> float:
        self._number += 1
        tag = f"probe-{self._number}/{WELL}/0"
        promises = self._load.promises
        promises.sent[tag] += 1
        link.send(wire.SUBMIT_JOB_BG, b"mail", tag.encode(), tag.encode())
        kind, body = await link.receive(PROBE_ANSWER_S)
        if kind != wire.JOB_CREATED:
            promises.refused.append(body)
            raise Closed
        at_s = time.monotonic()
        promises.created[job_id(body)] = tag
        return at_s


@dataclass
class Times:
    """How long something took, each time."""

    seconds: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> float:
        self.seconds.append(seconds)
        return seconds

    def report(self) -> dict[str, float]:
        ordered = sorted(self.seconds)
        if not ordered:
            return {}
        places = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
        found = {
            name: ordered[min(len(ordered) - 1, int(part * len(ordered)))] for name, part in places.items()
        }
        return {name: round(value, 3) for name, value in {**found, "max": ordered[-1]}.items()}


class Records:
    """What the database holds, read past the halls."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def fetch(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(self._url, server_settings={"search_path": "hiringhall"})
        try:
            return [tuple(row) for row in await connection.fetch(sql, *values)]
        finally:
            await connection.close()

    async def live(self) -> set[int]:
        return {int(str(row[0])) for row in await self.fetch("SELECT id FROM jobs")}

    async def ends(self) -> list[End]:
        rows = await self.fetch("SELECT id, queue, key, state, code, result, losses FROM lines")
        return [
            End(
                int(str(number)),
                _text(queue),
                _text(key),
                STATE_NAMES[int(str(state))],
                int(str(code)),
                _text(result),
                int(str(losses)),
            )
            for number, queue, key, state, code, result, losses in rows
        ]


def _text(value: object) -> str:
    assert isinstance(value, bytes)
    return value.decode(errors="replace")


def missing(wanted: Iterable[int], found: set[int]) -> list[int]:
    return sorted(set(wanted) - found)
