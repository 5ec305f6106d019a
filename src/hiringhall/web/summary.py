"""The numbers of the whole hall, live: one subscription for all who look.

Invariant: the hall is asked for summaries only while somebody looks, or has looked in the last `LINGER_S`.
A summary is computed and encoded once for all streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.sdk import conversation as said
from hiringhall.sdk.connection import Connection
from hiringhall.sdk.errors import HallError, HallRefused, HallUnreachable
from hiringhall.web.hall import AWAY_S
from hiringhall.web.shapes import Attention, JobCounts, QueueLine, Rates, Summary
from hiringhall.web.steps import write_name
from hiringhall.web.values import SECOND_US, shown, text

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from hiringhall.sdk.addresses import Address

INTERVAL_US: Final = 500_000
LINGER_S: Final = 60.0
"""How long the subscription outlives the last who looked: a page that is reloaded finds its rates again."""
WINDOW_S: Final = 60.0
"""Rates are those of this time."""
SAMPLE_S: Final = 1.0
ATTENTION_MAX: Final = 50
INQUIRY_S: Final = 3.0
LOST_WINDOW_S: Final = 600.0


class Totals(msgspec.Struct, frozen=True, gc=False):
    """Ends so far, at one time."""

    at_s: float
    done: int
    failed: int
    queues: dict[bytes, int]
    """Done jobs of each queue."""


class SummaryHub:
    """Keeps the latest summary, and wakes those who wait for the next."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.latest: Summary | None = None
        self.encoded = b""
        """The latest summary as JSON."""
        self.version = 0
        """Counts what has changed: a new summary, the hall came or went."""
        self._addresses = addresses
        self._connection: Connection | None = None
        self._changed = asyncio.Event()
        self._samples: deque[Totals] = deque()
        self._oldest_s = 0.0
        """Since when the oldest ready job is ready; 0: none, or not known."""
        self._unstaffed: set[bytes] = set()
        """Queues without a worker, as far as known."""
        self._said: said.Summary | None = None
        """What the hall said last."""
        self._losses: deque[tuple[float, int]] = deque()
        """Attempts that were lost with their workers so far, at some times of the last minutes."""
        self._trouble = ""
        """What is wrong with the store of the hall; empty: nothing."""
        self._refusal = ""
        """Why the hall does not let this process in."""
        self._lookers = 0
        self._linger: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.connected

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """While somebody looks, summaries come."""
        self._lookers += 1
        self._start()
        try:
            yield
        finally:
            self._lookers -= 1
            if not self._lookers:
                loop = asyncio.get_running_loop()
                if self._linger is not None:
                    self._linger.cancel()
                self._linger = loop.call_later(LINGER_S, self._stop_unless_needed)

    async def wait(self, version: int) -> None:
        """Wait until there is something newer than `version`."""
        while self.version == version:
            await self._changed.wait()

    async def get(self) -> Summary:
        """The latest summary. Raises HallUnreachable."""
        with self.looking():
            try:
                async with asyncio.timeout(AWAY_S):
                    while self.latest is None or not self.connected:
                        await self.wait(self.version)
            except TimeoutError:
                raise HallUnreachable(self._refusal or "the hall does not answer") from None
            return self.latest

    def rate(self, queue: bytes) -> float:
        """Jobs of a queue that were done in a second, over the last minute."""
        if len(self._samples) < 2:
            return 0.0
        first, last = self._samples[0], self._samples[-1]
        count = last.queues.get(queue, 0) - first.queues.get(queue, 0)
        return max(0, count) / (last.at_s - first.at_s)

    async def close(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
        for task in self._tasks:
            task.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # --- the subscription

    def _start(self) -> None:
        if self._connection is None:
            connection = self._connection = Connection(self._addresses, name="web summary", patience_s=None)
            connection.on_frame[said.Summary] = self._heard
            connection.on_connected.append(self._subscribe)
            connection.on_disconnected.append(self._lost)
            connection.on_refused.append(self._turned_away)
            self._run(self._connect(connection))
            self._run(self._inquire(connection))

    def _turned_away(self, refused: HallRefused) -> None:
        self._refusal = f"the hall does not let the web in ({refused.text}): give the web a token in HALL_TOKEN"

    def _stop_unless_needed(self) -> None:
        connection = self._connection
        if not self._lookers and connection is not None:
            self._connection = None
            self.latest = self._said = None
            self._samples.clear()
            self._run(connection.close())

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: Connection) -> None:
        with contextlib.suppress(HallError):
            await connection.connect()

    async def _inquire(self, connection: Connection) -> None:
        """Ask for what summaries do not say, as long as this connection is used."""
        while self._connection is connection:
            with contextlib.suppress(HallError):
                self._note(await connection.request(wire.METRICS, None))
            await asyncio.sleep(INQUIRY_S)

    def _note(self, counted: dict[str, Any]) -> None:
        queues: dict[bytes, dict[str, Any]] = counted["queues"]
        oldest_us = min([queue["oldest_us"] for queue in queues.values() if queue["oldest_us"]], default=0)
        self._oldest_s = oldest_us / SECOND_US
        self._unstaffed = {name for name, queue in queues.items() if not queue["workers"]}
        self._trouble = shown(counted["store_trouble"])
        lost = sum(queue["lost_total"] for queue in queues.values()) + counted["other"].get("lost_total", 0)
        now_s = asyncio.get_running_loop().time()
        self._losses.append((now_s, lost))
        while len(self._losses) > 2 and self._losses[1][0] < now_s - LOST_WINDOW_S:
            self._losses.popleft()
        summary, latest = self._said, self.latest
        if summary is not None and latest is not None:
            # The hall says nothing while nothing changes. The rates of a hall at rest fall all the same.
            self._sample(summary)
            if (self._attention(summary), self._rates()) != (latest.attention, latest.rates):
                self._publish(summary)

    def _subscribe(self) -> None:
        if self._connection is not None:
            self._connection.send(said.SUBSCRIBE, (INTERVAL_US,))
        self.wake()

    def _lost(self, reason: str) -> None:
        del reason
        self._samples.clear()
        self.wake()

    def wake(self) -> None:
        """Something has changed: whoever waits looks."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _heard(self, summary: said.Summary) -> None:
        self._sample(summary)
        self._said = summary
        self._publish(summary)

    def _publish(self, summary: said.Summary) -> None:
        self.latest = self._made(summary)
        self.encoded = msgspec.json.encode(self.latest)
        self.wake()

    # --- what it says

    def _sample(self, summary: said.Summary) -> None:
        now_s = asyncio.get_running_loop().time()
        samples = self._samples
        # Two samples may have the same time, that of one pass of the event loop: a rate is over some time.
        if samples and (
            samples[-1].at_s == now_s or (len(samples) > 1 and now_s - samples[-2].at_s < SAMPLE_S)
        ):
            samples.pop()
        queues = {name: counts.done_total for name, counts in summary.queues.items()}
        failed = sum(counts.failed_total for counts in summary.queues.values())
        samples.append(Totals(now_s, sum(queues.values()), failed, queues))
        while len(samples) > 2 and samples[1].at_s < now_s - WINDOW_S:
            samples.popleft()

    def _made(self, summary: said.Summary) -> Summary:
        lines: list[QueueLine] = []
        ready = running = waiting = failed = 0
        for name, counts in summary.queues.items():
            ready += counts.ready
            running += counts.running
            waiting += counts.waiting
            failed += counts.failed
            shown_name, encoded = text(name)
            lines.append(
                QueueLine(
                    name=shown_name,
                    name_base64=encoded,
                    ready=counts.ready,
                    running=counts.running,
                    waiting=counts.waiting,
                    failed=counts.failed,
                    paused=counts.paused,
                    done_total=counts.done_total,
                    failed_total=counts.failed_total,
                )
            )
        return Summary(
            at=datetime.now(UTC),
            oldest_s=max(0.0, time.time() - self._oldest_s) if ready and self._oldest_s else 0.0,
            queues=lines,
            workers=summary.workers,
            busy=summary.busy,
            jobs=JobCounts(ready, running, waiting, failed),
            rates=self._rates(),
            attention=self._attention(summary),
        )

    def _rates(self) -> Rates:
        if len(self._samples) < 2:
            return Rates(0.0, 0.0)
        first, last = self._samples[0], self._samples[-1]
        passed_s = last.at_s - first.at_s
        return Rates(max(0, last.done - first.done) / passed_s, max(0, last.failed - first.failed) / passed_s)

    def _attention(self, summary: said.Summary) -> list[Attention]:
        """What a person should look at first."""
        found: list[Attention] = []
        if self._trouble:
            found.append(
                Attention("store", f"durable jobs are refused, the store fails: {self._trouble}", "/settings")
            )
        lost = self._losses[-1][1] - self._losses[0][1] if self._losses else 0
        if lost > 0:
            found.append(
                Attention("workers_lost", f"{_many(lost, 'attempt')} lost with their workers", "/workers")
            )
        for name, counts in summary.queues.items():
            if len(found) >= ATTENTION_MAX:
                break
            found += self._queue_attention(name, counts)
        return found

    def _queue_attention(self, name: bytes, counts: said.QueueCounts) -> Iterator[Attention]:
        title = shown(name)
        page, dead = f"/queues/{write_name(name)}", f"/history?state=failed&queue={quote(name, safe='')}"
        if counts.failed:
            letters = _many(counts.failed, "dead letter")
            yield Attention("dead_letters", f"{title}: {letters}", dead)
        if counts.paused:
            ready = f"; {_many(counts.ready, 'job')} ready" if counts.ready else ""
            yield Attention("paused", f"{title} is paused{ready}", page)
        elif counts.ready and not counts.running and name in self._unstaffed:
            ready = f"{_many(counts.ready, 'job')} ready"
            yield Attention("stuck_queue", f"{title}: {ready}, and no worker can do it", page)


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
