"""WMP at work: three managers, one of them a hall, two devices in a chain, five workers of four slots each.

Whatever is killed on the way, each job ends once, no slot is used twice, and nothing stays locked.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import wait_until
from testimony import history
from wmp_parts import DevicePart, Execution, HallPart, ManagerPart, Part, WorkerPart
from wmp_worker import SLOTS

from hiringhall.peers.gearman import AsyncClient, Client, Data, JobFailed, Progress

if TYPE_CHECKING:
    from pathlib import Path

LEASE_S: Final = 4.0
HALL_JOBS: Final = 2_000
MANAGER_JOBS: Final = 1_500
JOBS: Final = HALL_JOBS + 2 * MANAGER_JOBS
WORKERS: Final = 5


async def submit(gearman: str, count: int) -> None:
    """Durable jobs for the hall, by its Gearman door."""
    async with AsyncClient(gearman) as client:
        for start in range(0, count, 500):
            names = [f"hall-{number}" for number in range(start, min(start + 500, count))]
            await asyncio.gather(
                *(client.submit_background("work", name.encode(), unique=name) for name in names)
            )


@pytest.mark.timeout(300)
def test_a_fleet_survives_the_death_of_its_devices_and_managers(tmp_path: Path) -> None:
    with ExitStack() as stack:
        hall = stack.enter_context(HallPart(tmp_path, LEASE_S))
        asyncio.run(submit(hall.gearman, HALL_JOBS))
        managers = [
            stack.enter_context(ManagerPart(tmp_path, name, MANAGER_JOBS, LEASE_S)) for name in ("one", "two")
        ]
        upper = stack.enter_context(DevicePart(tmp_path, "upper", [hall, *managers]))
        lower = stack.enter_context(DevicePart(tmp_path, "lower", [upper]))
        links: list[list[Part]] = [[lower], [lower], [upper], [lower, hall], [hall, *managers]]
        workers = [
            stack.enter_context(WorkerPart(tmp_path, f"worker-{number}", links[number]))
            for number in range(WORKERS)
        ]

        victims: list[Part] = [lower, managers[0], upper, hall, managers[1], upper, lower, hall]
        for number, victim in enumerate(victims, 1):
            share = JOBS * number // (len(victims) + 1)
            wait_until(partial(_have_begun, workers, share), f"{share} jobs are begun", 60)
            victim.kill()
            victim.start()
        for manager in managers:
            wait_until(manager.has_all, f"{manager.name} has all its results", 90)
        with Client(hall.gearman) as client:
            wait_until(lambda: _live(client) == 0, "the hall has no jobs left", 60)

        for worker in workers:
            wait_until(partial(_at_rest, worker), f"{worker.name} has nothing locked or running", 20)
        for part in (*workers, lower, upper, *managers, hall):
            assert part.end() == 0, part.errors()

    for manager in managers:
        names = [f"{manager.name}-{number}" for number in range(MANAGER_JOBS)]
        assert sorted(manager.outcomes()) == sorted((name, f"done {name}") for name in names)
    ends = history(hall.place)
    assert sorted(end.key for end in ends) == sorted(f"hall-{number}" for number in range(HALL_JOBS))
    assert {(end.state, end.result == f"done {end.key}") for end in ends} == {("done", True)}

    assert max(worker.most_at_once() for worker in workers) == SLOTS, "all slots, and none of them twice"
    _check_repeats(workers, sorted(at_s for part in (hall, lower, upper, *managers) for at_s in part.kills_s))


def _have_begun(workers: list[WorkerPart], count: int) -> bool:
    return sum(what == "begin" for worker in workers for what, *_ in worker.lines()) >= count


def _live(client: Client) -> int:
    return sum(int(line.split("\t")[1]) for line in client.admin("status"))


def _at_rest(worker: WorkerPart) -> bool:
    state = worker.state()
    assert state["malformed"] == 0
    return bool((state["used"], state["locked"], state["free"]) == (0, 0, SLOTS))


def _check_repeats(workers: list[WorkerPart], kills_s: list[float]) -> None:
    """Every job was run, and once, but where somebody was killed before it was known to be done."""
    runs: defaultdict[str, list[Execution]] = defaultdict(list)
    for worker in workers:
        for execution in worker.executions():
            runs[execution.payload].append(execution)
    assert len(runs) == JOBS
    blames: list[list[int]] = []
    for executions in runs.values():
        executions.sort(key=lambda execution: execution.begin_s)
        for first, second in pairwise(executions):
            blame = [
                number
                for number, kill_s in enumerate(kills_s)
                if first.begin_s - LEASE_S <= kill_s <= second.begin_s
            ]
            assert blame, f"nobody was killed, and {first.payload} was run twice: {executions}"
            blames.append(blame)
    # Kills follow each other faster than leases expire. Which one a repeat is due to is not known, but each may
    # be the cause of so many only: they are dealt out, first those with the fewest kills left to choose from.
    repeats = Counter[int]()
    for blame in sorted(blames, key=lambda blame: blame[-1]):
        cause = next((number for number in blame if repeats[number] < 2 * WORKERS * SLOTS), None)
        assert cause is not None, f"too much was repeated: {repeats}, {Counter(map(tuple, blames))}"
        repeats[cause] += 1


def test_progress_reaches_the_submitter_and_cancel_the_worker(tmp_path: Path) -> None:
    with ExitStack() as stack:
        hall = stack.enter_context(HallPart(tmp_path, LEASE_S))
        device = stack.enter_context(DevicePart(tmp_path, "device", [hall]))
        worker = stack.enter_context(WorkerPart(tmp_path, "worker", [device]))
        client = stack.enter_context(Client(hall.gearman, timeout_s=20))

        job = client.submit("linger", b"long")
        updates = iter(job)
        assert [next(updates), next(updates)] == [Progress(1, 4), Data(b"piece")]
        assert worker.state()["used"] == 1
        assert client.admin(f"cancel job {job.handle.decode()}") == ["OK"]
        with pytest.raises(JobFailed):
            job.result()
        wait_until(lambda: worker.state()["used"] == 0, "the worker has stopped")
        assert [what for what, *_ in worker.lines()] == ["begin", "end"]
        assert client.run("work", b"more") == b"done more"
