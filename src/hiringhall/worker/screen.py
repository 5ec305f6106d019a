"""What a worker shows: one screen on a terminal, lines elsewhere, or JSON for programs.

Invariant: what functions print is never lost in the screen. On a terminal it is shown above it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hiringhall.worker.board import counted, stamp
from hiringhall.worker.printing import Printer, harmless

if TYPE_CHECKING:
    from hiringhall.worker.board import Board
    from hiringhall.worker.process import Child
    from hiringhall.worker.supervisor import Supervisor
    from hiringhall.worker.tasks import Counts

REFRESH_S: Final = 0.25
SUMMARY_S: Final = 10.0
"""How often lines and JSON tell the counts, if they have changed."""
_STYLES: Final = {
    "broken": "red",
    "failed": "red",
    "lost": "red",
    "memory": "red",
    "refused": "red",
    "stuck": "red",
    "disconnected": "yellow",
    "drained": "yellow",
    "stopped": "yellow",
}


class Show(Protocol):
    """Shows events, and the state from time to time."""

    @property
    def output(self) -> tuple[int, int] | None:
        """Descriptors for the functions' stdout and stderr; None: those of the worker."""

    def event(self, name: str, text: str, fields: dict[str, Any]) -> None: ...

    async def run(self, supervisor: Supervisor) -> None:
        """Show the state until cancelled."""

    def close(self) -> None: ...


class Counting(Protocol):
    """A worker with a board."""

    board: Board


def _totals(supervisor: Counting) -> dict[str, int]:
    counts = supervisor.board.counts.values()
    names = ("running", "done", "failed", "lost", "stopped")
    return {name: sum(getattr(each, name) for each in counts) for name in names}


class Lines:
    """A line for each event."""

    def __init__(self) -> None:
        self.output: tuple[int, int] | None = None
        self._printer = Printer()

    def event(self, name: str, text: str, fields: dict[str, Any]) -> None:  # noqa: ARG002 (a Show)
        self._printer.write(f"{stamp()} {harmless(text)}\n")

    async def run(self, supervisor: Counting) -> None:
        before, last = _totals(supervisor), time.monotonic()
        while True:
            await asyncio.sleep(SUMMARY_S)
            now = time.monotonic()
            totals = _totals(supervisor)
            if totals != before:
                rate = (totals["done"] - before["done"]) / (now - last)
                self.counts(totals, rate)
            before, last = totals, now

    def counts(self, totals: dict[str, int], rate: float) -> None:
        words = ", ".join(f"{name} {count:,}" for name, count in totals.items())
        self._printer.write(f"{stamp()} {words} ({rate:,.1f} a second)\n")

    def close(self) -> None:
        self._printer.close()


class JsonLines(Lines):
    """A JSON object for each event. Functions print to stderr, so that stdout has JSON only."""

    def __init__(self) -> None:
        super().__init__()
        self.output = (sys.stderr.fileno(), sys.stderr.fileno())

    def event(self, name: str, text: str, fields: dict[str, Any]) -> None:
        self._print({"event": name, "at": round(time.time(), 3), "text": text, **fields})

    def counts(self, totals: dict[str, int], rate: float) -> None:
        self._print({"event": "counts", "at": round(time.time(), 3), **totals, "rate": round(rate, 1)})

    def _print(self, told: dict[str, Any]) -> None:
        self._printer.write(json.dumps(told).replace("\x7f", "\\u007f") + "\n")


class Screen:
    """One screen that is kept up to date; events and what functions print go by above it."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live: Live | None = None
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._rest = b""
        self._rates: dict[str, float] = {}
        self._before: dict[str, int] = {}
        self._at = time.monotonic()
        self.output: tuple[int, int] | None = (self._writing, self._writing)

    def event(self, name: str, text: str, fields: dict[str, Any]) -> None:  # noqa: ARG002 (a Show)
        self._console.print(Text(f"{stamp()} {harmless(text)}", _STYLES.get(name, "")), soft_wrap=True)

    async def run(self, supervisor: Supervisor) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._reading, self._copy)
        with Live(
            console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        ) as live:
            self._live = live
            try:
                while True:
                    live.update(self._render(supervisor), refresh=True)
                    await asyncio.sleep(REFRESH_S)
            finally:
                loop.remove_reader(self._reading)
                self._copy()
                live.update(self._render(supervisor), refresh=True)

    def close(self) -> None:
        self._copy()
        if self._rest:
            self._print([self._rest])
        os.close(self._reading)
        os.close(self._writing)

    def _copy(self) -> None:
        """Show what functions have printed."""
        while True:
            try:
                data = os.read(self._reading, 65536)
            except BlockingIOError:
                return
            if not data:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            if lines:
                self._print(lines)

    def _print(self, lines: list[bytes]) -> None:
        text = b"\n".join(lines).decode("utf-8", "backslashreplace")
        # Of what is left, `from_ansi` keeps colours and drops the rest.
        shown = "\x1b[".join(map(harmless, text.split("\x1b[")))
        self._console.print(Text.from_ansi(shown), soft_wrap=True)

    def _render(self, supervisor: Supervisor) -> Group:
        board = supervisor.board
        address = next((address for address in board.links.values() if address), "")
        settings = supervisor.settings
        head = Text.assemble((settings.target, "bold"), " · ")
        if board.trouble:
            head.append(board.trouble, "yellow")
        elif address:
            head.append(f"{board.hall or 'hall'} at {address}", "green")
        else:
            head.append("starting")
        if board.drained_modes:
            head.append(" · drained: gets no jobs", "yellow")
        if supervisor.draining:
            head.append(" · ending", "yellow")
        head.truncate(self._console.width, overflow="ellipsis")
        return Group(head, self._functions(supervisor), *self._processes(supervisor))

    def _functions(self, supervisor: Supervisor) -> Table:
        table = Table(box=None, expand=True, padding=(0, 1, 0, 0))
        table.add_column("function", ratio=1, no_wrap=True, overflow="ellipsis")
        for name in ("running", "done", "failed", "lost", "stopped", "rate"):
            table.add_column(name, justify="right", no_wrap=True)
        rows = list(supervisor.board.counts.values())
        rows_max = max(self._console.height // 2, 3)
        if len(rows) > rows_max:
            rows = sorted(rows, key=_activity, reverse=True)[:rows_max]
        self._measure(supervisor)
        for counts in rows:
            numbers = (counts.running, counts.done, counts.failed, counts.lost, counts.stopped)
            rate = self._rates.get(counts.queue, 0.0)
            table.add_row(
                Text(harmless(counts.queue)), *(f"{number:,}" for number in numbers), f"{rate:,.0f}/s"
            )
        return table

    def _measure(self, supervisor: Supervisor) -> None:
        now = time.monotonic()
        elapsed = now - self._at
        if elapsed < 1.0:
            return
        for counts in supervisor.board.counts.values():
            done = counts.done - self._before.get(counts.queue, 0)
            self._rates[counts.queue] = done / elapsed
            self._before[counts.queue] = counts.done
        self._at = now

    def _processes(self, supervisor: Supervisor) -> list[Text]:
        lines: list[Text] = []
        rows_max = max(self._console.height // 4, 2)
        for pool in supervisor.pools.values():
            crew = pool.crew
            now = asyncio.get_running_loop().time()
            starting = f", {len(crew.starting)} starting" if crew.starting else ""
            lines.append(Text(f"{pool.mode}: {counted(len(crew.working), 'process')}{starting}", "dim"))
            busy = [child for child in crew.everyone if child.tasks]
            lines += [self._process(child, now) for child in busy[:rows_max]]
            if len(busy) > rows_max:
                lines.append(Text(f"  and {len(busy) - rows_max} more", "dim"))
        return lines

    def _process(self, child: Child, now: float) -> Text:
        task = next(iter(child.tasks.values()))
        running = min(len(child.tasks), child.capacity)
        more = f" and {running - 1} more" if running > 1 else ""
        since = f" for {now - task.started_at:,.0f} s" if task.started_at and now - task.started_at >= 1 else ""
        line = Text(f"  {child.pid}  {harmless(task.counts.queue)} {task.job}{since}{more}", "dim")
        line.truncate(self._console.width, overflow="ellipsis")
        return line


def _activity(counts: Counts) -> tuple[int, int]:
    return counts.running, counts.done + counts.failed
