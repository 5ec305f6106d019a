"""A random graph of 30,000 tasks at the dwork door, run by eight workers, while hall and workers are killed.

The order is respected, each task is done, none is left.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Final, Self

import pytest
from dwork_peer import Asker
from dwork_worker import read_journal
from hall_process import CODE, HallProcess, wait_until
from testimony import audit

from hiringhall.core.states import DONE
from hiringhall.storage.contract import HistoryQuery

TASKS: Final = 30_000
BLOCK: Final = 1_000
WORKERS: Final = 8
HALL_KILLS: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
"""When so much of the work is done."""
WORKER_KILLS: Final = (0.05, 0.15, 0.2, 0.35, 0.4, 0.55, 0.65, 0.8)
LIVE_MAX: Final = 9_000
"""The producer goes on when fewer than so many tasks are left, so that it names many that are done already."""
TIMEOUT_S: Final = 1.5

Graph = dict[bytes, list[bytes]]


def random_graph(seed: int, count: int) -> Graph:
    """Tasks with up to four predecessors, named before or after them; who comes first is left to chance."""
    dice = random.Random(seed)
    preds: Graph = {}
    for number in range(count):
        wanted = dice.choice((0, 1, 1, 2, 4))
        chosen = {dice.randrange(max(0, number - 6_000), number) for _ in range(wanted)} if number else set()
        preds[b"t%d" % number] = [b"t%d" % other for other in sorted(chosen)]
    # Near its place, not in it: a predecessor may come later than the task that waits for it.
    order = sorted(preds, key=lambda name: int(name[1:]) + dice.randrange(1_500))
    return {name: preds[name] for name in order}


class Crew:
    """Workers as processes, each under the name of its location."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self.folder = folder
        folder.mkdir()
        self._environment = {**os.environ, "PYTHONPATH": CODE}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, location: str) -> None:
        program = str(Path(__file__).with_name("dwork_worker.py"))
        command = [sys.executable, program, self._address, location, str(self.folder)]
        self.running[location] = subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL)

    def kill(self, location: str) -> None:
        process = self.running.pop(location)
        process.kill()
        process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for location in list(self.running):
            self.kill(location)


class Producer(threading.Thread):
    """Creates the graph, block by block, while others work on it already."""

    def __init__(self, address: str, graph: Graph) -> None:
        super().__init__(name="producer")
        self._address = address
        self._tasks = list(graph.items())
        self.created = 0
        self.repeated: Counter[bytes] = Counter()
        """Tasks whose Create was sent again: if they were done meanwhile they have come anew."""
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            with Asker(self._address, TIMEOUT_S) as asker:
                for at in range(0, len(self._tasks), BLOCK):
                    block = self._tasks[at : at + BLOCK]
                    wait_until(lambda: sum(asker.status()) < LIVE_MAX, "the workers keep up", 100)
                    resent = asker.resent
                    asker.create(block)
                    for _ in range(asker.resent - resent):
                        self.repeated.update(name for name, _ in block)
                    self.created += len(block)
        except BaseException as fault:  # noqa: BLE001 (the test tells of it)
            self.fault = fault


def supervise(hall: HallProcess, crew: Crew, producer: Producer, dice: random.Random) -> None:
    """Kill the hall and workers as the work goes on, until all of it is done."""
    events = sorted([(at, "hall") for at in HALL_KILLS] + [(at, "worker") for at in WORKER_KILLS])
    replaced = 0
    with Asker(hall.address, TIMEOUT_S) as asker:

        def done() -> float:
            assert producer.fault is None, producer.fault
            assert all(process.poll() is None for process in crew.running.values())
            created = producer.created
            return (created - sum(asker.status())) / TASKS

        for at, victim in events:
            wait_until(lambda at=at: done() >= at, f"{at:.0%} of the tasks are done", 100)  # type: ignore[misc]
            if victim == "hall":
                hall.kill()
                hall.start()
                continue
            location = dice.choice(list(crew.running))
            crew.kill(location)
            if dice.randrange(2):
                crew.start(location)
            else:
                asker.leave(location.encode())
                replaced += 1
                crew.start(f"new{replaced}")
        wait_until(lambda: producer.created == TASKS or producer.fault, "the graph is created", 100)
    producer.join()
    assert producer.fault is None, producer.fault


@pytest.mark.timeout(300)
def test_a_graph_is_done_in_order_whoever_is_killed(tmp_path: Path) -> None:
    seed = 4
    graph = random_graph(seed, TASKS)
    limits = {"ended_max": 2 * TASKS}
    with HallProcess(tmp_path, door={"dialect": "dwork"}, limits=limits) as hall:
        with Crew(hall.address, tmp_path / "crew") as crew:
            for number in range(WORKERS):
                crew.start(f"w{number}")
            producer = Producer(hall.address, graph)
            producer.start()
            supervise(hall, crew, producer, random.Random(seed))
            (crew.folder / "finish").touch()
            for process in crew.running.values():
                assert process.wait(60) == 0, "a worker goes home when all is done"
            crew.running.clear()
        with Asker(hall.address) as asker:
            assert asker.status() == (0, 0, 0)
        assert audit(hall) == "clean"
        rows = hall.history(HistoryQuery(limit=2 * TASKS))
        assert "Traceback" not in hall.errors()

    assert {row.state for row in rows} == {DONE}
    times_done = Counter(row.key for row in rows)
    assert times_done.keys() == graph.keys()
    for name, times in times_done.items():
        assert times <= 1 + producer.repeated[name], f"{name!r} was done {times} times"

    # As the hall wrote it down: the end of each predecessor's first run, and the start of each task's.
    ended_us: dict[bytes, int] = {}
    for row in rows:
        ended_us[row.key] = min(row.ended_us, ended_us.get(row.key, row.ended_us))
    for row in rows:
        for pred in graph[row.key]:
            assert ended_us[pred] <= row.started_us, f"{row.key!r} began before {pred!r} had ended"

    # As the workers wrote it down: nobody was handed a task before all those it waits for were said to be done.
    said_us: dict[bytes, int] = {}
    stolen: list[tuple[int, bytes]] = []
    for path in sorted((tmp_path / "crew").iterdir()):
        for event, time_us, name in read_journal(path):
            if event == "doing":
                said_us[name] = min(time_us, said_us.get(name, time_us))
            elif event == "stole":
                stolen.append((time_us, name))
    assert {name for _, name in stolen} == graph.keys()
    for time_us, name in stolen:
        for pred in graph[name]:
            assert said_us[pred] <= time_us, f"{name!r} was handed out before {pred!r} was done"
