"""A native load that keeps a ledger: what was acknowledged, refused and left open, of submits and of ends.

The answer to a submit or to an end tells that it is in the database, or that it is not. So the ledger is held
against the database afterwards: neither kind of answer may be false.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import struct
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cluster_load import PAUSE_S, Records

from hiringhall.core import ids

if TYPE_CHECKING:
    from cluster_members import Cluster, SoakMember

QUEUE: Final = b"ledger"
BATCH_MAX: Final = 8
SLOTS: Final = 8
CONNECT_S: Final = 5.0
ANSWER_S: Final = 90.0


class Refused(Exception):
    """The hall says no: code and text."""


class NativeLink:
    """One connection of the native protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self.given: asyncio.Queue[list[Any]] = asyncio.Queue()
        """Jobs for this worker."""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, host: str, port: int) -> NativeLink:
        async with asyncio.timeout(CONNECT_S):
            link = cls(*await asyncio.open_connection(host, port))
        await link.ask("hello", {"version": 1, "name": "ledger"})
        return link

    async def ask(self, kind: str, body: object) -> Any:
        """The answer. Raises Refused, or OSError if the connection ends before it."""
        if self._listening.done():
            raise ConnectionResetError("the hall has closed the connection")
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        data = msgspec.msgpack.encode((kind, number, body))
        self._writer.write(struct.pack(">I", len(data)) + data)
        async with asyncio.timeout(ANSWER_S):
            return await answer

    def abort(self) -> None:
        self._listening.cancel()
        self._writer.transport.abort()

    async def _listen(self) -> None:
        try:
            while True:
                (length,) = struct.unpack(">I", await self._reader.readexactly(4))
                kind, number, body = msgspec.msgpack.decode(await self._reader.readexactly(length))
                if kind == "assign":
                    self.given.put_nowait(body)
                answer = self._asked.pop(number, None)
                if answer is None or answer.done():
                    continue
                if kind == "error":
                    answer.set_exception(Refused(*body))
                else:
                    answer.set_result(body)
        except (OSError, EOFError):
            pass
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError("the hall has closed the connection"))
            self.given.put_nowait([])


class Ledger:
    """Clients and workers at the doors of any member."""

    def __init__(
        self, cluster: Cluster, seed: int, clients: int = 4, workers: int = 2, job_s: float = 0.0
    ) -> None:
        self.cluster = cluster
        self.created: dict[int, bytes] = {}
        self.created_s = 0.0
        """When a job was acknowledged last."""
        self.served_s: dict[int, float] = {}
        """When each incarnation acknowledged its first job."""
        self.refused: set[bytes] = set()
        self.reasons: Counter[str] = Counter()
        self.open: set[bytes] = set()
        """Submits that were never answered."""
        self.ended: dict[int, float] = {}
        """When the end of a job was acknowledged."""
        self.given: list[tuple[float, int]] = []
        """Each hand-out of a job."""
        self.again: list[int] = []
        """Jobs that were handed out after their end had been acknowledged."""
        self.submitting = True
        self.job_s = job_s
        self._dice = random.Random(f"{seed} ledger")
        self._numbers = itertools.count()
        self._clients = [asyncio.create_task(self._client()) for _ in range(clients)]
        self._workers = [asyncio.create_task(self._worker()) for _ in range(workers)]

    def member(self) -> SoakMember:
        return self.cluster.any()

    def check(self) -> None:
        """Fail if a part of the load has ended by itself."""
        for task in (*self._clients, *self._workers):
            if task.done() and not task.cancelled():
                task.result()
        assert not self.again, f"run again after their end: {self.again[:5]}"

    async def drain(self, records: Records, timeout_s: float) -> None:
        """No more submits; the workers end everything."""
        self.submitting = False
        await asyncio.gather(*self._clients)
        async with asyncio.timeout(timeout_s):
            while await records.fetch(  # noqa: ASYNC110 (the database tells nobody)
                "SELECT 1 FROM jobs WHERE queue = $1 LIMIT 1", QUEUE
            ):
                await asyncio.sleep(10 * PAUSE_S)
        self.check()

    def abandon(self) -> None:
        for task in (*self._clients, *self._workers):
            task.cancel()

    async def settle(self, records: Records, lost_allowed: bool = False) -> dict[str, object]:
        """Hold the ledger against the database. Raises AssertionError."""
        ends = await records.ends()
        lines = Counter(end.id for end in ends)
        twice = [number for number, lines_of_it in lines.items() if lines_of_it > 1]
        assert not twice, f"{len(twice)} jobs ended twice: {twice[:5]}"
        results = {end.id: end.result.encode() for end in ends if end.state == "done"}
        lost = [number for number in self.created if number not in results]
        assert lost_allowed or not lost, (
            f"{len(lost)} of {len(self.created)} acknowledged jobs are lost: {lost[:5]}"
        )
        wrong = [number for number, tag in self.created.items() if results.get(number, tag) != tag]
        assert not wrong, f"{len(wrong)} jobs have the result of another: {wrong[:5]}"
        kept = self.refused & set(results.values())
        assert not kept, f"{len(kept)} jobs were refused, and are there: {sorted(kept)[:5]}"
        unended = [number for number in self.ended if number not in results]
        assert lost_allowed or not unended, f"{len(unended)} acknowledged ends are not there: {unended[:5]}"
        return {
            "acknowledged": len(self.created),
            "refused": len(self.refused),
            "left_open": len(self.open),
            "ends_acknowledged": len(self.ended),
            "lost": len(lost),
            "reasons": dict(self.reasons.most_common(5)),
        }

    async def _client(self) -> None:
        while self.submitting:
            await asyncio.sleep(self._dice.uniform(0, PAUSE_S))
            with suppress(OSError, TimeoutError):
                member = self.member()
                link = await NativeLink.open(member.host, member.ports["native"])
                try:
                    while self.submitting:
                        await self._submit(link)
                        await asyncio.sleep(self._dice.uniform(0, PAUSE_S))
                finally:
                    link.abort()

    async def _submit(self, link: NativeLink) -> None:
        tags = [b"ledger-%d" % next(self._numbers) for _ in range(self._dice.randint(1, BATCH_MAX))]
        jobs = [(QUEUE, tag, {"losses_max": 0}, b"", 0, []) for tag in tags]
        try:
            numbers = await link.ask("submit", (0, jobs))
        except Refused as refusal:
            self.refused.update(tags)
            self.reasons[str(refusal.args[0])] += 1
            await asyncio.sleep(PAUSE_S)
        except (OSError, TimeoutError):
            self.open.update(tags)
            raise
        else:
            self.created.update(zip(numbers, tags, strict=True))
            self.created_s = time.monotonic()
            self.served_s.setdefault(ids.epoch_of(numbers[0]), self.created_s)

    async def _worker(self) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(0, PAUSE_S))
            with suppress(OSError, TimeoutError):
                member = self.member()
                link = await NativeLink.open(member.host, member.ports["native"])
                try:
                    await link.ask("work", (b"worker", SLOTS, [(QUEUE, 0, 0)], -1, 0))
                    async with asyncio.TaskGroup() as slots:
                        while given := await link.given.get():
                            self._note_given(given[1])
                            slots.create_task(self._do(link, *given[:2], payload=given[3]))
                finally:
                    link.abort()

    async def _do(self, link: NativeLink, lease: int, number: int, *, payload: bytes) -> None:
        """One job of several at the same time, as many as the worker has slots."""
        try:
            await asyncio.sleep(self.job_s)
            await self._finish(link, lease, number, payload=payload)
        except (OSError, TimeoutError):
            link.abort()  # the worker connects again

    def _note_given(self, number: int) -> None:
        self.given.append((time.monotonic(), number))
        if number in self.ended:
            self.again.append(number)

    async def _finish(self, link: NativeLink, lease: int, number: int, *, payload: bytes) -> None:
        with suppress(Refused):  # the hall has taken the job back
            await link.ask("finish", (lease, payload))
            self.ended[number] = time.monotonic()
