"""`make soak`, its third part: a large flow, while hall, workers and `hall flow run` are killed by chance.

Invariants that it checks: the flow ends complete, as `hall flow run` says when its file is run again and again;
no task began before each task that it needs had ended; and the flow can be shown at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console

import hiringhall

HERE: Final = Path(__file__).resolve().parent
WORKERS: Final = 2
ALIVE_S: Final = (0.3, 2.0)
"""How long all live before one of them is killed."""
START_S: Final = 60.0
END_S: Final = 1800.0
FAR: Final = 2000
"""A task needs tasks that are at most so many lines above it."""
STEP_S: Final = 0.02
FLOW: Final = "soak"


class Kept(NamedTuple):
    """What came of a soak."""

    tasks: int
    kills: int
    begun: int
    """How often a task began."""
    runs: int
    """How often the file was run."""
    show_s: float
    """How long `hall flow show` took at the end."""


class Trouble(Exception):
    """Something did what it must not do."""


class FlowSoak:
    """A hall, workers, and `hall flow run`: each a process that can be killed and started again."""

    def __init__(self, folder: Path, tasks: int, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.seed = seed
        self.needs = self._graph(tasks)
        self.runs = 0
        self.kills = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        (folder / "port").write_text(str(self._port))
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(Path(hiringhall.__file__).parents[1]), str(HERE.parent / "system")]
            ),
            "HALL_URL": f"hall://127.0.0.1:{self._port}",
            "HALL_WEB_ENABLED": "false",
        }

    def _graph(self, tasks: int) -> dict[str, list[str]]:
        """Each task needs up to three that come before it; the first ones need none."""
        needs: dict[str, list[str]] = {}
        for number in range(tasks):
            count = self.chance.randrange(1, 4) if number > tasks // 100 else 0
            chosen = {self.chance.randrange(max(0, number - FAR), number) for _ in range(count)}
            needs[f"t{number}"] = [f"t{each}" for each in sorted(chosen)]
        lines = [",".join([name, *needed]) for name, needed in needs.items()]
        (self.folder / "flow.txt").write_text("\n".join(lines))
        return needs

    # --- processes

    def start(self, kind: str) -> None:
        if kind == "hall":
            door = f"native=127.0.0.1:{self._port}"
            command = ["-m", "hiringhall", "serve", "--data", str(self.folder / "data"), "--door", door]
        elif kind == "run":
            self.runs += 1
            command = ["-m", "hiringhall", "flow", "run", str(self.folder / "flow.txt")]
            command += ["--name", FLOW, "--queue", "soak", "--retries", "2", "--json"]
        else:
            number = kind.removeprefix("worker ")
            command = [str(HERE / "soak_flow_worker.py"), str(self.folder), number, str(self.seed)]
        with (self.folder / f"{kind}.log").open("ab") as log:
            self._processes[kind] = subprocess.Popen(
                [sys.executable, *command], env=self._environment, stdout=log, stderr=log, cwd=self.folder
            )
        if kind == "hall":
            self._wait_for_hall()

    def _wait_for_hall(self) -> None:
        until_s = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=START_S).close()
            except ConnectionRefusedError:
                if time.monotonic() > until_s or self._processes["hall"].poll() is not None:
                    raise Trouble(f"the hall does not start: {self.log('hall')}") from None
                time.sleep(STEP_S)
            else:
                return

    def log(self, kind: str) -> str:
        return (self.folder / f"{kind}.log").read_text(errors="replace")[-2000:]

    def kill_one(self) -> None:
        kind = self.chance.choice(list(self._processes))
        process = self._processes[kind]
        process.kill()
        process.wait()
        self.kills += 1
        self.start(kind)

    def end(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    # --- the story

    def run(self, kills: int) -> None:
        """Kill so often, then let it end. The file is run again until all of it is done."""
        for kind in ("hall", *(f"worker {number}" for number in range(WORKERS)), "run"):
            self.start(kind)
        until_s = time.monotonic() + END_S
        next_s = time.monotonic() + self.chance.uniform(*ALIVE_S)
        while True:
            code = self._processes["run"].poll()
            if code == 0:
                return
            if code is not None:
                if code not in (1, 2):
                    raise Trouble(f"hall flow run ended with code {code}: {self.log('run')}")
                self.start("run")
            if self.kills < kills and time.monotonic() >= next_s:
                self.kill_one()
                next_s = time.monotonic() + self.chance.uniform(*ALIVE_S)
            if time.monotonic() > until_s:
                raise Trouble(f"the flow has not ended within {END_S:g} s: {self.shown()[0]}")
            time.sleep(STEP_S)

    def shown(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The flow and its jobs, as `hall flow show --json` has them."""
        flow, *nodes = map(json.loads, self._show("--json").splitlines())
        return flow, nodes

    def _show(self, *words: str) -> str:
        command = [sys.executable, "-m", "hiringhall", "flow", "show", FLOW, "--no-pager", *words]
        return subprocess.run(
            command, env=self._environment, stdout=subprocess.PIPE, text=True, timeout=START_S, check=True
        ).stdout

    def check(self) -> Kept:
        flow, nodes = self.shown()
        tasks = len(self.needs)
        if (flow["state"], flow["jobs"], flow["done"]) != ("done", tasks, tasks):
            raise Trouble(f"the flow is not complete: {flow}")
        names = {node["id"]: node["task"] for node in nodes}
        for node in nodes:
            needed = sorted(names[parent] for parent in node["parents"])
            if node["state"] != "done" or needed != sorted(self.needs[node["task"]]):
                raise Trouble(f"a task is not as it was submitted: {node}")
        begun = self._check_order()
        began_s = time.monotonic()
        picture = self._show()
        show_s = time.monotonic() - began_s
        if f"{tasks:,}: {tasks:,} done" not in picture:
            raise Trouble(f"hall flow show says:\n{picture[:500]}")
        return Kept(tasks, self.kills, begun, self.runs, show_s)

    def _check_order(self) -> int:
        """A task began only after each that it needs had ended once; how often tasks began."""
        begun: list[tuple[int, str]] = []
        ended: dict[str, int] = {}
        for log in self.folder.glob("tasks-*"):
            for line in log.read_text().splitlines():
                kind, name, at = line.split()
                if kind == "b":
                    begun.append((int(at), name))
                else:
                    ended[name] = min(int(at), ended.get(name, int(at)))
        for at, name in begun:
            early = [need for need in self.needs[name] if ended.get(need, at) >= at]
            if early:
                raise Trouble(f"task {name} began before {early} had ended")
        if len(ended) != len(self.needs):
            raise Trouble(f"{len(self.needs) - len(ended)} tasks are done, and no worker has done them")
        return len(begun)


def soak(folder: Path, tasks: int, kills: int, seed: int) -> Kept:
    """Run a flow while its parts are killed; then check it. Raises Trouble."""
    story = FlowSoak(folder, tasks, seed)
    try:
        story.run(kills)
        return story.check()
    finally:
        story.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console = Console()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hall-soak-flows-") as folder:
        try:
            kept = soak(Path(folder), options.tasks, options.kills, options.seed)
        except Trouble as trouble:
            console.print(f"[red]{trouble}")
            return 1
    took_s = time.monotonic() - began_s
    console.print(
        f"A flow of {kept.tasks:,} tasks, {kept.kills} kills: complete after {took_s:.0f} s and"
        f" {kept.runs} runs of its file; {kept.begun:,} attempts, each after all that it needs;"
        f" hall flow show took {kept.show_s:.1f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
