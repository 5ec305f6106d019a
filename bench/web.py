"""The web of a hall: how long its routes take with much data, and what ten dashboards cost the hall."""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from figures import AT_LEAST, AT_MOST, Figures, Ratio, Row, Section
from scenarios import Running
from servers import HERE, Hall, ServerError
from slap import Load
from web_data import KEPT, Staff, fill

if TYPE_CHECKING:
    from scenarios import Stage

P50, WORST, CPU = "p50", "worst", "CPU"
ALONE, WATCHED = "hall, without web", "hall, watched"
WATCHED_TO_ALONE = Ratio(WATCHED, ALONE)
ROUTE_MS_MAX = 300.0
ASKED_EACH = 5
ANSWER_S_MAX = 60.0
"""How long an answer may take."""
FOUND_OFTEN = "picture-99"
NOWHERE = "no-such-text"
LOAD = Load(clients=4, depth=64, workers=4)
"""Of the foreground jobs, with dashboards and without."""


class WebHall(Hall):
    """`hall serve` with its web, or without it."""

    def __init__(self, name: str, folder: Path, python: str, *, web: bool = True) -> None:
        super().__init__(folder, python)
        self.name = name
        self.web = ""
        self._has_web = web

    def _start(self, log: IO[str]) -> None:
        command = [self.python, "-m", "hiringhall", "serve", "--json", "--data", str(self.folder / "data")]
        command += ["--door", "gearman=127.0.0.1:0", "--door", "native=127.0.0.1:0"]
        command += ["--set", f"history.age={KEPT}", "--set", f"history.dead_age={KEPT}"]
        command += ["--web", "127.0.0.1:0"] if self._has_web else ["--no-web"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ServerError(f"the hall did not start:\n{self._log().read_text(errors='replace')[-2000:]}")
        opened = json.loads(line)
        ports = {door["dialect"]: int(door["address"].rpartition(":")[2]) for door in opened["doors"]}
        self.port = ports["gearman"]
        self.web = opened["web"]

    def web_pid(self) -> int:
        """The process id of its web process."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            children += (thread / "children").read_text().split()
        if not children:
            raise ServerError(f"{self.name} has no web process")
        return int(children[0])

    def cpu_s(self) -> float:
        """The CPU time of the hall and of its web process so far."""
        return sum(_cpu_s(pid) for pid in (self.pid, self.web_pid()))


def _cpu_s(pid: int) -> float:
    """As the scheduler of the kernel counts it, for all threads."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


class Client:
    """One connection to the web."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.partition("//")[2], timeout=ANSWER_S_MAX)

    def get(self, path: str) -> bytes:
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise ServerError(f"GET {path}: {answer.status} {body[:300].decode(errors='replace')}")
        return body

    def list(self, path: str) -> list[dict[str, Any]]:
        """The items of a list of the API."""
        items: list[dict[str, Any]] = json.loads(self.get(f"/api/v1{path}"))["items"]
        return items

    def close(self) -> None:
        self._connection.close()


def paths(client: Client) -> list[str]:
    """Every route that only reads, with the filters that find much, little and nothing."""
    ended = client.list("/history?limit=1&state=done")[0]
    live = client.list("/jobs?limit=1")[0]
    queue, worker = live["queue"], client.list("/workers?limit=1")[0]["number"]
    past = (datetime.now(UTC) - timedelta(days=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = f"""
        - ?limit=1000 ?queue={queue} ?key={ended["key"]} ?queue={queue}&key={ended["key"]} ?state=failed
        ?state=cancelled ?queue={queue}&state=failed ?queue={queue}&state=cancelled ?queue=no-such-queue
        ?key=no-such-key ?text={FOUND_OFTEN} ?text={NOWHERE} ?queue={queue}&text={NOWHERE} ?to={past}
        ?from={past}&state=cancelled ?from={past}&queue={queue}
    """.split()
    jobs = f"""
        - ?limit=1000 ?queue={queue} ?queue={queue}&state=queued ?state=running ?state=held
        ?situation=no_workers ?situation=ready&limit=1000 ?situation=backoff ?key={live["key"]}
        ?queue={queue}&key={live["key"]} ?text={FOUND_OFTEN} ?text={NOWHERE} ?queue={queue}&text={NOWHERE}
        ?worker={worker} ?from={past} ?to={past}
    """.split()
    api = f"""
        /hall /summary /doors /auctions /settings /audit /openapi.json /schedules /flows /queues
        /queues?limit=1000 /queues?text=99 /queues/{queue} /workers /workers?limit=1000
        /workers?text=worker-1999 /workers?dialect=hire /workers?queue={queue} /workers/{worker}
        /jobs/{live["id"]} /jobs/{ended["id"]} /jobs/{live["id"]}/payload /jobs/{ended["id"]}/result
        /jobs/{ended["id"]}/output /graph?job={live["id"]} /history/chart?span=30d /history/chart?span=7d
        /history/chart?span=1d /history/chart?span=6h /history/chart?span=1h
        /history/chart?span=30d&queue={queue}
    """.split()
    for name, filters in (("jobs", jobs), ("history", history)):
        api += [f"/{name}{one.strip('-')}" for one in filters]
        api += [f"/{name}/count{one.strip('-')}" for one in filters if "limit" not in one]
    return ["/", "/metrics", "/healthz", "/readyz", *[f"/api/v1{one}" for one in api]]


@dataclass(frozen=True)
class Routes:
    """Each route of the web, asked again and again, of a hall with much data."""

    name: str = "web-routes"
    lines: int = 1_000_000
    jobs: int = 100_000
    workers: int = 2_000
    queues: int = 1_000

    def run(self, stage: Stage) -> list[Row]:
        hall = WebHall(Hall.name, stage.folder / "web", stage.python)
        stage.say(f"{stage.jobs(self.lines):,} lines of history")
        fill(hall.folder / "data", stage.jobs(self.lines), stage.jobs(self.jobs), self.queues)
        with Running([hall]):
            return self.measure(hall, stage)

    def measure(self, hall: WebHall, stage: Stage) -> list[Row]:
        """Ask for all routes in turn, so that no answer is one that was kept for a second."""
        staff = Staff(hall.port, self.workers, self.queues)
        client = Client(hall.web)
        try:
            asked = [Asked(path) for path in paths(client)]
            for number in range(ASKED_EACH):
                stage.say(f"time {number + 1}: {len(asked)} routes")
                for one in asked:
                    one.ask(hall, client)
            return [one.row(self.name) for one in asked]
        finally:
            client.close()
            staff.close()


class Asked:
    """How long one route took."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._taken_ms: list[float] = []
        self._cpu_ms: list[float] = []

    def ask(self, hall: WebHall, client: Client) -> None:
        cpu_before_s = hall.cpu_s()
        started = time.perf_counter()
        client.get(self._path)
        self._taken_ms.append(1000 * (time.perf_counter() - started))
        self._cpu_ms.append(1000 * (hall.cpu_s() - cpu_before_s))

    def row(self, scenario: str) -> Row:
        taken = self._taken_ms
        row = Row(scenario, self._path.removeprefix("/api/v1"), "ms", len(taken))
        row.values = {P50: statistics.median(taken), WORST: max(taken), CPU: max(self._cpu_ms)}
        row.spread = {P50: (min(taken), max(taken))}
        return row.must(AT_MOST, ROUTE_MS_MAX, WORST)


class Watchers:
    """Open dashboards and a scraper of a hall, within `with`."""

    def __init__(self, url: str, count: int) -> None:
        self._command = [sys.executable, str(HERE / "dashboards.py"), url, str(count)]
        self._process: subprocess.Popen[str] | None = None
        self.counts: dict[str, int] = {}
        """Requests and summaries, at the end."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        said, _ = self._process.communicate(timeout=ANSWER_S_MAX)
        if self._process.returncode:
            raise ServerError("the dashboards have ended with an error")
        self.counts = json.loads(said)


@dataclass(frozen=True)
class Watched:
    """Foreground jobs in a hall that nobody looks at, and in one with open dashboards and a scraper."""

    name: str = "web-watched"
    dashboards: int = 10
    jobs: int = 400_000
    settle_s: float = 2.0
    """The pages are open before the jobs come."""
    rate_required: float = 0.95
    p99_required: float = 1.3

    def run(self, stage: Stage) -> list[Row]:
        alone = WebHall(ALONE, stage.folder / "alone", stage.python, web=False)
        watched = WebHall(WATCHED, stage.folder / "watched", stage.python)
        jobs = stage.jobs(self.jobs)
        figures = Figures(self.name)
        with Running([alone, watched]):
            for hall in (alone, watched):
                stage.measure(hall, "fg", jobs // 10, LOAD)  # warm
            for number in range(stage.rounds):
                stage.say(f"round {number + 1}: {alone.name}")
                self._add(figures, alone, stage.measure(alone, "fg", jobs, LOAD))
                stage.say(f"round {number + 1}: {watched.name}")
                with Watchers(watched.web, self.dashboards):
                    time.sleep(self.settle_s)
                    seen = stage.measure(watched, "fg", jobs, LOAD)
                self._add(figures, watched, seen)
        title = f"{LOAD.clients} clients x {LOAD.depth} deep, {LOAD.workers} workers"
        rate = figures.row("jobs_per_s", "jobs/s", title=title, cpu="cpu_us")
        p99 = figures.row("p99_us", "us", title=f"{title}, p99")
        return [
            rate.must(AT_LEAST, self.rate_required, WATCHED_TO_ALONE),
            p99.must(AT_MOST, self.p99_required, WATCHED_TO_ALONE),
        ]

    def _add(self, figures: Figures, hall: WebHall, seen: dict[str, float]) -> None:
        figures.add(hall.name, "jobs_per_s", seen["jobs_per_s"])
        figures.add(hall.name, "p99_us", seen["p99_us"])
        figures.add(hall.name, "cpu_us", seen["server_cpu_us_per_job"])


WEB_ROUTES = Section("The routes of the web", (Routes(),), (P50, WORST, CPU))
WEB_WATCHED = Section(
    "A hall with ten dashboards", (Watched(),), (ALONE, WATCHED), (WATCHED_TO_ALONE,), (ALONE, WATCHED)
)
