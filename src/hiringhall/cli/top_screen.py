"""The screen of `hall top`: from what the hall said to lines of text. No I/O.

Invariant: a screen has as many lines as the terminal or fewer, and none is wider than it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hiringhall.cli.escaping import escaped
from hiringhall.cli.grid import Cell, Column, Row, fitting, plain
from hiringhall.cli.layout import cut
from hiringhall.cli.styling import BOLD, DIM
from hiringhall.cli.wording import SECOND_US, age, counted, duration, short, situation_of, style_of

if TYPE_CHECKING:
    from rich.color import ColorSystem

RATE_SAMPLES: Final = 6
"""A rate is measured from the oldest of so many looks."""
QUEUES: Final = "queues"
WORKERS: Final = "workers"
JOBS: Final = "jobs"
VIEWS: Final = (QUEUES, WORKERS, JOBS)

COLUMNS: Final = {
    QUEUES: (
        Column("queue", least=7),
        Column("ready", right=True, usual=6),
        Column("run", right=True, usual=4),
        Column("wait", right=True, usual=5, rank=2),
        Column("failed", right=True),
        Column("workers", right=True, rank=3),
        Column("done/s", right=True, usual=7),
        Column("oldest", right=True, usual=6, rank=4),
        Column("takes", right=True, usual=6, rank=5),
        Column("note", usual=10, rank=1),
    ),
    WORKERS: (
        Column("number", right=True),
        Column("name", least=8),
        Column("state", usual=8),
        Column("jobs", right=True),
        Column("slots", right=True, rank=2),
        Column("dialect", rank=3),
        Column("queues", least=8, rank=1),
        Column("address", least=8, rank=5),
        Column("heard", right=True, usual=6, rank=4),
    ),
    JOBS: (
        Column("id"),
        Column("situation", usual=10),
        Column("queue", least=8),
        Column("key", least=6, rank=2),
        Column("age", right=True, usual=6, rank=1),
        Column("tries", right=True, rank=3),
        Column("worker", least=6, rank=4),
    ),
}
SORTS: Final = {
    QUEUES: ("jobs", "name", "ready", "running", "failed", "rate", "oldest"),
    WORKERS: ("number", "name", "jobs", "heard"),
    JOBS: ("id", "queue", "age"),
}
HELP: Final = (
    "Up, Down, j, k   choose a line",
    "Tab              queues, workers, jobs",
    "Enter            the jobs of a queue",
    "Esc              back to the queues",
    "s                sort by something else",
    "p  r             pause, resume a queue",
    "d  u             drain, undrain a worker",
    "c                cancel a job",
    "h, ?             this help",
    "q                quit",
)


class Look(NamedTuple):
    """What the hall said at one moment."""

    at_us: int
    queues: list[dict[str, Any]]
    workers: list[dict[str, Any]]
    jobs: list[dict[str, Any]]


class Rates:
    """How many jobs end in a second, from the counts of several looks."""

    def __init__(self) -> None:
        self._looks: deque[tuple[int, dict[bytes, tuple[int, int]]]] = deque(maxlen=RATE_SAMPLES)

    def add(self, look: Look) -> None:
        counts = {each["name"]: (each["done_total"], each["failed_total"]) for each in look.queues}
        self._looks.append((look.at_us, counts))

    def of(self, name: bytes) -> tuple[float, float]:
        """Done and failed a second; 0 for a queue that was not there at the beginning."""
        (first_us, before), (last_us, after) = self._looks[0], self._looks[-1]
        if last_us <= first_us or name not in before or name not in after:
            return 0.0, 0.0
        seconds = (last_us - first_us) / SECOND_US
        done, failed = (max(0, last - first) for last, first in zip(after[name], before[name], strict=True))
        return done / seconds, failed / seconds

    def total(self) -> tuple[float, float]:
        """Of all queues together."""
        found = [self.of(name) for name in self._looks[-1][1]]
        return sum(done for done, _ in found), sum(failed for _, failed in found)


class Screen:
    """What is shown, and which line is chosen."""

    def __init__(self, url: str, colours: ColorSystem | None) -> None:
        self.view = QUEUES
        self.queue: bytes | None = None
        """The queue whose jobs are shown; None: all."""
        self.message = ""
        self.question = ""
        self.helping = False
        self.rates = Rates()
        self._url = url
        self._colours = colours
        self._chosen = 0
        self._sorts = dict.fromkeys(VIEWS, 0)
        self._look = Look(0, [], [], [])

    def update(self, look: Look) -> None:
        self._look = look
        self.rates.add(look)

    def show(self, view: str, queue: bytes | None = None) -> None:
        self.view, self.queue, self._chosen = view, queue, 0

    def move(self, step: int) -> None:
        self._chosen = max(0, min(self._chosen + step, len(self._things()) - 1))

    def sort_next(self) -> None:
        self._sorts[self.view] = (self._sorts[self.view] + 1) % len(SORTS[self.view])
        self._chosen = 0

    def chosen(self) -> dict[str, Any] | None:
        """The map of the chosen line."""
        things = self._things()
        return things[min(self._chosen, len(things) - 1)] if things else None

    # --- lines

    def lines(self, width: int, height: int) -> list[str]:
        """The whole screen."""
        head = self._head(width)
        foot = self._foot(width)
        room = max(1, height - len(head) - len(foot) - 2)
        body = [cut(line, width) for line in HELP[: room + 1]] if self.helping else self._table(width, room)
        body += [""] * (room + 1 - len(body))
        return [*head, *body, "", *foot][:height]

    def _head(self, width: int) -> list[str]:
        look = self._look
        ready, running, waiting, failed = (
            sum(each[name] for each in look.queues) for name in ("ready", "running", "waiting", "failed")
        )
        busy = sum(1 for worker in look.workers if worker["jobs"])
        done_s, failed_s = self.rates.total() if look.at_us else (0.0, 0.0)
        counts = f"{ready:,} ready  {running:,} running  {waiting:,} waiting  {failed:,} failed"
        rates = f"{done_s:,.1f} done/s  {failed_s:,.1f} failed/s"
        workers = f"{counted(len(look.workers), 'worker')}, {busy:,} busy"
        facts = [counts, workers, rates]
        lines = [self._style(cut(f"hall {self._url}", width), BOLD)]
        line = ""
        for fact in facts:
            if line and len(line) + 3 + len(fact) > width:
                lines.append(cut(line, width))
                line = fact
            else:
                line = f"{line}   {fact}" if line else fact
        return [*lines, cut(line, width), ""]

    def _foot(self, width: int) -> list[str]:
        if self.question:
            return [self._style(cut(f"{self.question} [y/N]", width), BOLD)]
        if self.message:
            return [self._style(cut(self.message, width), style_of("paused"))]
        sort = SORTS[self.view][self._sorts[self.view]]
        hints = {QUEUES: "p pause  r resume", WORKERS: "d drain  u undrain", JOBS: "c cancel"}[self.view]
        return [self._style(cut(f"q quit  h help  s sort: {sort}  {hints}  Tab next", width), DIM)]

    def _table(self, width: int, room: int) -> list[str]:
        things = self._things()
        if not things:
            return [f"There are no {self.view}."]
        self._chosen = min(self._chosen, len(things) - 1)
        first = max(0, min(self._chosen - room // 2, len(things) - room))
        shown = things[first : first + room]
        make = {QUEUES: self._queue_row, WORKERS: self._worker_row, JOBS: self._job_row}[self.view]
        heading, *lines = fitting(
            COLUMNS[self.view], [make(thing) for thing in shown], width - 2, self._colours
        )
        place = self._chosen - first
        marked = [("> " if index == place else "  ") + line for index, line in enumerate(lines)]
        return ["  " + heading, *marked]

    def _style(self, text: str, style: Any) -> str:
        return str(style.render(text, color_system=self._colours))

    # --- rows

    def _things(self) -> list[dict[str, Any]]:
        look = self._look
        sort = SORTS[self.view][self._sorts[self.view]]
        if self.view == QUEUES:
            return sorted(look.queues, key=lambda each: (self._queue_order(each, sort), each["name"]))
        if self.view == WORKERS:
            orders: dict[str, Any] = {
                "number": lambda each: each["number"],
                "name": lambda each: each["name"],
                "jobs": lambda each: -len(each["jobs"]),
                "heard": lambda each: -each["heard_us"],
            }
            return sorted(look.workers, key=orders[sort])
        keys = {"id": "id", "queue": "queue", "age": "created_us"}
        return sorted(look.jobs, key=lambda each: each[keys[sort]])

    def _queue_order(self, each: dict[str, Any], sort: str) -> float:
        if sort == "jobs":
            return -float(each["ready"] + each["running"] + each["waiting"])
        if sort == "rate":
            return -self.rates.of(each["name"])[0]
        if sort == "oldest":
            return float(each.get("oldest_us", 0) or self._look.at_us)
        return 0.0 if sort == "name" else -float(each[sort])

    def _queue_row(self, each: dict[str, Any]) -> Row:
        note = "paused" if each["paused"] else "no workers" if each["ready"] and not each["workers"] else ""
        average_us = each.get("average_run_us", 0)
        name, ready, running, waiting, *rest = plain(
            short(each["name"]),
            each["ready"],
            each["running"],
            each["waiting"],
            each["workers"],
            f"{self.rates.of(each['name'])[0]:.1f}",
            age(each.get("oldest_us", 0), self._look.at_us),
            duration(average_us) if average_us else "",
        )
        failed = Cell(str(each["failed"]), style_of("failed" if each["failed"] else ""))
        return [name, ready, running, waiting, failed, *rest, Cell(note, style_of(note.replace(" ", "_")))]

    def _worker_row(self, each: dict[str, Any]) -> Row:
        state = "draining" if each.get("draining") else str(each.get("state", ""))
        number, name, *rest = plain(
            each["number"],
            short(each["name"]),
            len(each["jobs"]),
            each.get("slots", ""),
            escaped(each.get("dialect", "")),
            ", ".join(short(queue, 20) for queue in each["queues"][:5]),
            escaped(each.get("address", "")),
            age(each["heard_us"], self._look.at_us),
        )
        return [number, name, Cell(state, style_of(state)), *rest]

    def _job_row(self, each: dict[str, Any]) -> Row:
        situation = situation_of(each)
        number, *rest = plain(
            each["id"],
            short(each["queue"]),
            short(each["key"]),
            age(each["created_us"], self._look.at_us),
            each["attempts"],
            short(each["worker"]),
        )
        return [number, Cell(situation.replace("_", " "), style_of(situation)), *rest]
