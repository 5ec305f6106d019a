"""A client of the soak of the SDK: submits, maps and graphs until it is killed.

It writes a line to its journal for each job that the hall has acknowledged: id and the right result. What it
reads as a result, it checks.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from soak_app import hall, node, node_value, square

from hiringhall import HallUnreachable

if TYPE_CHECKING:
    from hiringhall import Job

NODES = 2000
PARENTS_MAX = 3
LAYER = 100
BATCH = 500


class Journal:
    """Acknowledged jobs and what must come of them. A line is whole or, if it is the last one, cut off."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, job: Job[int], result: int) -> None:
        os.write(self._descriptor, f"{job.id} {result}\n".encode())


def submits(journal: Journal, seed: int) -> None:
    """One job after the other."""
    chance = random.Random(seed)
    while True:
        number = chance.randrange(1_000_000)
        job = square.submit(number)
        journal.note(job, number * number)
        result = job.result(timeout=300)
        check(result == number * number, f"job {job.id}: the square of {number} is not {result}")


def maps(journal: Journal, seed: int) -> None:
    """Many at once: through `map`, which tells results, and by `submit_many`, which tells ids."""
    chance = random.Random(seed)
    while True:
        numbers = [chance.randrange(1_000_000) for _ in range(BATCH)]
        results = list(square.map(numbers))
        check(results == [number * number for number in numbers], "a map gave wrong results")
        jobs = square.submit_many([(number,) for number in numbers])
        for job, number in zip(jobs, numbers, strict=True):
            journal.note(job, number * number)
        hall.gather(*jobs)


def graphs(journal: Journal, seed: int) -> None:
    """Graphs of 2,000 nodes that have handles of nodes of earlier layers as arguments."""
    chance = random.Random(seed)
    while True:
        jobs: list[Job[int]] = []
        values: list[int] = []
        while len(jobs) < NODES:
            earlier = len(jobs)
            places = [
                [chance.randrange(earlier) for _ in range(chance.randint(0, PARENTS_MAX))] if earlier else []
                for _ in range(LAYER)
            ]
            calls = [
                (earlier + number, [jobs[place] for place in of_one]) for number, of_one in enumerate(places)
            ]
            jobs += node.submit_many(calls)
            for number, of_one in enumerate(places, earlier):
                values.append(node_value(number, [values[place] for place in of_one]))
                journal.note(jobs[number], values[number])
        check(hall.gather(*jobs) == values, "a graph gave wrong results")


def check(right: bool, text: str) -> None:
    if not right:
        sys.stderr.write(f"{text}\n")
        os._exit(3)


def meet_hall() -> None:
    """A program that has never met a hall does not wait for one; this one begins while halls are killed."""

    async def connect() -> None:
        await hall.connection().connect()

    while True:
        try:
            hall.run(connect())
        except HallUnreachable:
            time.sleep(0.05)
        else:
            return


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    journal = Journal(folder / f"journal-{seed}")
    meet_hall()

    def run(load: object, number: int) -> None:
        try:
            load(journal, seed * 10 + number)  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 (whatever it is, the soak must hear of it)
            sys.stderr.write(f"{load}: {error!r}\n")
            os._exit(4)

    threads = [
        threading.Thread(target=run, args=(load, number)) for number, load in enumerate((submits, maps, graphs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
