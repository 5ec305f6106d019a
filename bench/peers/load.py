"""The client of one job system: reads commands from stdin, runs the load, answers with figures on stdout.

    python load.py MODULE     MODULE is one of the peer_*.py modules beside this file

A command is one JSON object on a line: {"load": "map", "function": "add", "jobs": 10000}. The answer is one
JSON object on a line. Every result is read back and checked. The same three loads are run for every system,
through the module's `peer`: a `BlockingPeer` or an `AsyncPeer`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

IN_FLIGHT = 64
Pair = tuple[int, int]


class BlockingPeer(ABC):
    """A job system whose client blocks."""

    in_flight_threads = False
    """Jobs are kept in flight by 64 threads; otherwise by one thread that waits for the oldest job. The second
    is faster unless a submit waits for the disk."""

    @abstractmethod
    def submit(self, function: str, pair: Pair) -> Any:
        """Submit one job; returns its handle."""

    @abstractmethod
    def result(self, handle: Any) -> int:
        """Wait for the result of a job."""

    @abstractmethod
    def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        """Submit many jobs in the way the system has for it; returns their results in order."""


class AsyncPeer(ABC):
    """A job system whose client is made for asyncio."""

    @abstractmethod
    async def start(self) -> None:
        """Connect."""

    @abstractmethod
    async def submit(self, function: str, pair: Pair) -> Any:
        """Submit one job; returns its handle."""

    @abstractmethod
    async def result(self, handle: Any) -> int:
        """Wait for the result of a job."""

    @abstractmethod
    async def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        """Submit many jobs in the way the system has for it; returns their results in order."""


async def side_by_side(jobs: Iterator[Coroutine[Any, Any, Any]], width: int) -> None:
    """Run all of them, `width` at a time."""

    async def runner() -> None:
        for job in jobs:
            await job

    await asyncio.gather(*(runner() for _ in range(width)))


def pairs_of(jobs: int) -> list[Pair]:
    return [(number, number + 1) for number in range(jobs)]


def check(results: Sequence[int], pairs: Sequence[Pair]) -> None:
    if list(results) != [a + b for a, b in pairs]:
        raise SystemExit("a result is wrong, or missing")


def times(seconds: float, each_s: Sequence[float] = ()) -> dict[str, float]:
    figures = {"seconds": seconds}
    if each_s:
        ordered = sorted(each_s)
        figures["p50_us"] = 1e6 * ordered[len(ordered) // 2]
        figures["p99_us"] = 1e6 * ordered[len(ordered) * 99 // 100]
    return figures


def run_blocking(peer: BlockingPeer, load: str, function: str, pairs: list[Pair]) -> dict[str, float]:
    started = time.perf_counter()
    each_s: list[float] = []
    if load == "map":
        results = peer.map(function, pairs)
    elif load == "in flight" and peer.in_flight_threads:
        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            results = list(threads.map(lambda pair: peer.result(peer.submit(function, pair)), pairs))
    elif load == "in flight":
        results = []
        waiting: deque[Any] = deque()
        for pair in pairs:
            if len(waiting) == IN_FLIGHT:
                results.append(peer.result(waiting.popleft()))
            waiting.append(peer.submit(function, pair))
        results += [peer.result(handle) for handle in waiting]
    else:
        results = []
        for pair in pairs:
            begun = time.perf_counter()
            results.append(peer.result(peer.submit(function, pair)))
            each_s.append(time.perf_counter() - begun)
    seconds = time.perf_counter() - started
    check(results, pairs)
    return times(seconds, each_s)


async def run_async(peer: AsyncPeer, load: str, function: str, pairs: list[Pair]) -> dict[str, float]:
    started = time.perf_counter()
    each_s: list[float] = []
    results: list[int]
    if load == "map":
        results = await peer.map(function, pairs)
    elif load == "in flight":
        results = [0] * len(pairs)

        async def one(number: int) -> None:
            results[number] = await peer.result(await peer.submit(function, pairs[number]))

        await side_by_side((one(number) for number in range(len(pairs))), IN_FLIGHT)
    else:
        results = []
        for pair in pairs:
            begun = time.perf_counter()
            results.append(await peer.result(await peer.submit(function, pair)))
            each_s.append(time.perf_counter() - begun)
    seconds = time.perf_counter() - started
    check(results, pairs)
    return times(seconds, each_s)


def serve_blocking(peer: BlockingPeer) -> None:
    for line in sys.stdin:
        command = json.loads(line)
        figures = run_blocking(peer, command["load"], command["function"], pairs_of(command["jobs"]))
        print(json.dumps(figures), flush=True)


async def serve_async(peer: AsyncPeer) -> None:
    await peer.start()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        figures = await run_async(peer, command["load"], command["function"], pairs_of(command["jobs"]))
        print(json.dumps(figures), flush=True)


def main() -> None:
    sys.modules["load"] = sys.modules["__main__"]  # the peer modules import their base class from here
    peer = importlib.import_module(sys.argv[1]).peer
    if isinstance(peer, AsyncPeer):
        import uvloop  # noqa: PLC0415

        uvloop.run(serve_async(peer))
    else:
        serve_blocking(peer)


if __name__ == "__main__":
    main()
