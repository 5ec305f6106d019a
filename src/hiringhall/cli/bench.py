"""`hall bench`: a short measurement of this machine, against a hall in a temporary folder.

Invariant: the hall that is measured is started and ended here, on loopback, and nothing stays behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from hiringhall import __version__
from hiringhall.cli.grid import Column, plain, table
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.paging import show
from hiringhall.cli.progress import bar
from hiringhall.cli.remote import JsonFlag, connected, print_json
from hiringhall.cli.reporting import CommandError
from hiringhall.cli.styling import terminal_colours
from hiringhall.dialects.native import wire
from hiringhall.sdk.conversation import Assigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hiringhall.cli.remote import Remote

SECONDS: Final = 2.0
FSYNC_BYTES: Final = 4096
PART_JOBS: Final = 100
UNDER_WAY: Final = 16
PAYLOAD: Final = b"x" * 100
DEFAULT_TERMS: Final = msgspec.Raw(msgspec.msgpack.encode({}))
QUEUE: Final = b"bench"
START_S: Final = 30.0
STOP_S: Final = 10.0
COLUMNS: Final = (Column("measured"), Column("value", right=True), Column("meaning", least=10))


def bench(
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", min=0.2, max=60, help="Time for each measurement.")
    ] = SECONDS,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="The disk to measure. Default: that of temporary files."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Measure this machine: its disk, and how fast a hall takes and hands out jobs on it.

    A hall is started in a temporary folder and ended again. Other programs that run meanwhile slow it down.
    """
    with tempfile.TemporaryDirectory(prefix="hall-bench-", dir=folder) as made, bar("measuring") as measured:
        place = Path(made)
        found = {"fsync_s": _fsyncs(place, seconds)}
        measured(1, 4)
        with _hall(place) as url, connected(url) as remote:
            found["submits_s"] = _rate(remote, seconds, durable=True)
            measured(2, 4)
            found["memory_submits_s"] = _rate(remote, seconds, durable=False)
            measured(3, 4)
            found["round_trip_ms"] = _round_trip(remote, seconds)
    document = {"hiringhall": __version__, "python": platform.python_version(), "cpus": os.cpu_count(), **found}
    if as_json:
        print_json([document])
        return 0
    rows = [
        plain("fsync", f"{found['fsync_s']:,.0f} /s", "writes of 4 KiB that reach the disk, one after another"),
        plain("submits", f"{found['submits_s']:,.0f} /s", "durable jobs of 100 bytes that are on disk"),
        plain("in memory", f"{found['memory_submits_s']:,.0f} /s", "jobs that are kept in memory only"),
        plain(
            "round trip",
            f"{found['round_trip_ms']:.2f} ms",
            "one durable job: submit, work, result, one after another",
        ),
    ]
    heading = f"hiringhall {__version__}, Python {platform.python_version()}, {os.cpu_count()} CPUs"
    lines = [heading, "", *table(COLUMNS, rows, terminal_width(), terminal_colours())]
    show(lines, paged=False)
    return 0


@contextmanager
def _hall(folder: Path) -> Iterator[str]:
    """A hall of its own, in a process of its own: its URL."""
    options = ("--door", "native=127.0.0.1:0", "--data", str(folder / "data"), "--no-web", "--json")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HALL_")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 (this program)
            [sys.executable, "-m", "hiringhall", "serve", *options],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            said = (folder / "log").read_text(encoding="utf-8", errors="replace").strip()
            raise CommandError(f"the hall that is to be measured did not start: {said[-500:]}")
        yield f"hall://{json.loads(line)['doors'][0]['address']}"
    finally:
        process.kill()
        process.wait(STOP_S)
        process.stdout.close()


def _fsyncs(folder: Path, seconds: float) -> float:
    """Writes a second that reach the disk."""
    data = os.urandom(FSYNC_BYTES)
    with (folder / "fsync").open("wb") as file:

        def write() -> None:
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())

        return _repeated(write, seconds)


def _rate(remote: Remote, seconds: float, *, durable: bool) -> float:
    """Submits a second, in frames of some jobs, several frames under way."""
    terms = {} if durable else {"durable": False}
    job: tuple[Any, ...] = (QUEUE if durable else b"memory", PAYLOAD, terms, b"", 0, [])
    part: tuple[int, list[Any]] = (0, [job] * PART_JOBS)

    async def work(end_s: float) -> int:
        count = 0
        while time.perf_counter() < end_s:
            await remote.connection.request(wire.SUBMIT, part)
            count += PART_JOBS
        return count

    async def measure() -> float:
        await remote.connection.connect()
        start_s = time.perf_counter()
        counts = await asyncio.gather(*(work(start_s + seconds) for _ in range(UNDER_WAY)))
        return sum(counts) / (time.perf_counter() - start_s)

    return remote.run(measure())


def _round_trip(remote: Remote, seconds: float) -> float:
    """Milliseconds from the submit of a durable job to its result, with a worker on the same connection."""
    connection = remote.connection
    name = b"trip"

    async def measure() -> float:
        def assigned(notice: Any) -> None:
            connection.send(wire.FINISH, (notice.lease, b"ok"))

        connection.on_frame[Assigned] = assigned
        await connection.request(wire.WORK, (b"bench", 1, [(name, 0, 0)], -1, 0))
        count = 0
        start_s = time.perf_counter()
        while time.perf_counter() < start_s + seconds:
            watch = await connection.submit((name, PAYLOAD, DEFAULT_TERMS, b"", 0, []))
            while not watch.settled:
                await connection.heard(watch)
            count += 1
        return (time.perf_counter() - start_s) / count * 1000

    return remote.run(measure())


def _repeated(action: Callable[[], None], seconds: float) -> float:
    count = 0
    start_s = time.perf_counter()
    while time.perf_counter() < start_s + seconds:
        action()
        count += 1
    return count / (time.perf_counter() - start_s)
