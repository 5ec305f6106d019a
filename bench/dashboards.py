"""Open dashboards and a scraper, as one process: each asks what a page of the dashboard asks.

    python bench/dashboards.py http://127.0.0.1:4780 10     ten dashboards, until stdin is closed

A page keeps the stream of summaries open, and asks for its lists two seconds after they came. As in a browser,
a connection that the web has closed is opened again: it closes those that are silent for 5 s, as this process
may be on a busy machine. Prints the number of requests, of summaries and of connections that were opened again
at the end, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from http import HTTPStatus

API = "/api/v1"
REFRESH_S = 2.0
SCRAPE_S = 1.0
STREAM_RETRY_S = 1.0
"""As the web tells a browser."""
CHART_EVERY = 5
"""Charts are asked for with every fifth refresh."""
QUEUE = "slap"
PAGES = (
    ("/doors", "/workers?limit=1000", "/history/chart?span=1d"),
    ("/queues?limit=1000",),
    ("/jobs?limit=50", "/jobs/count"),
    (f"/queues/{QUEUE}", f"/jobs?queue={QUEUE}&limit=8", f"/history?queue={QUEUE}&limit=8"),
    ("/workers?limit=1000",),
    ("/history?limit=50", "/history/count"),
    ("/doors", "/workers?limit=1000"),
    ("/jobs?state=running&limit=50", "/jobs/count?state=running"),
    ("/flows?limit=100",),
    ("/auctions",),
)
"""What each page asks for. With more dashboards than pages they begin again."""


class Dashboards:
    """All of them."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.partition("//")[2].rpartition(":")
        self._port = int(port)
        self.counts: Counter[str] = Counter()

    async def open(self, count: int) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(self._watch())
                group.create_task(self._refresh(PAGES[number % len(PAGES)]))
            group.create_task(self._scrape())

    async def _watch(self) -> None:
        while True:
            reader, writer = await self.connect()
            writer.write(self.request(f"{API}/events"))
            while line := await reader.readline():
                if line.startswith(b"event: summary"):
                    self.counts["summaries"] += 1
            writer.close()
            self.counts["streams again"] += 1
            await asyncio.sleep(STREAM_RETRY_S)

    async def _refresh(self, paths: tuple[str, ...]) -> None:
        page = Page(self)
        number = 0
        while True:
            for path in paths:
                if "chart" not in path or number % CHART_EVERY == 0:
                    await page.get(API + path)
            number += 1
            await asyncio.sleep(REFRESH_S)

    async def _scrape(self) -> None:
        page = Page(self)
        while True:
            await page.get("/metrics")
            await asyncio.sleep(SCRAPE_S)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._host, self._port)

    def request(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n\r\n".encode()


class Page:
    """One connection, used again for each request."""

    def __init__(self, dashboards: Dashboards) -> None:
        self._dashboards = dashboards
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> None:
        counts = self._dashboards.counts
        if self._connection is not None:
            try:
                await self._ask(path, *self._connection)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                if isinstance(error, asyncio.IncompleteReadError) and error.partial:
                    raise  # not a connection that was silent for too long
                counts["connections again"] += 1
            else:
                return
            self._connection[1].close()
        self._connection = await self._dashboards.connect()
        await self._ask(path, *self._connection)

    async def _ask(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._dashboards.request(path))
        head = await reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        await reader.readexactly(int(headers["content-length"]))
        if int(status.split()[1]) not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):  # the queue may not exist yet
            raise RuntimeError(f"GET {path}: {status}")
        self._dashboards.counts["requests"] += 1


async def main(url: str, count: int) -> None:
    dashboards = Dashboards(url)
    work = asyncio.ensure_future(dashboards.open(count))
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
    print(json.dumps(dashboards.counts), flush=True)
    work.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
