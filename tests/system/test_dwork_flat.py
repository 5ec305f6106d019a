"""A million tasks at the dwork door, in chains of ten: the time for each is the same as with ten thousand."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
import zmq
from dwork_peer import Asker
from hall_process import HallProcess

from hiringhall.core.states import DONE
from hiringhall.dialects.dwork import wire
from hiringhall.storage.contract import HistoryQuery

SIZES: Final = (10_000, 100_000, 1_000_000)
CHAIN: Final = 10
BLOCK: Final = 1_000
BATCH: Final = 16
WORKERS: Final = 8
SPREAD_MAX: Final = 1.5
ANSWER_MS: Final = 60_000
PAGE: Final = 50_000
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def blocks(tasks: int) -> list[bytes]:
    """Creates of a thousand tasks each; each tenth task waits for nothing, the others for the one before."""
    found = []
    for first in range(0, tasks, BLOCK):
        encoded = []
        for number in range(first, first + BLOCK):
            preds = [b"t%d" % (number - 1)] if number % CHAIN else None
            encoded.append(wire.encode_task(b"t%d" % number, b"o", preds))
        found.append(wire.encode(wire.CREATE, encoded))
    return found


def create(asker: Asker, requests: list[bytes]) -> None:
    for request in requests:
        assert asker.ask(request).type == wire.OK


def run(address: str) -> int:
    """Steal and complete with several workers at once until each of them hears Exit; how many were done."""
    done = 0
    with zmq.Context() as context:
        poller = zmq.Poller()
        locations: dict[zmq.Socket[bytes], bytes] = {}
        for number in range(WORKERS):
            worker = context.socket(zmq.DEALER)
            worker.setsockopt(zmq.LINGER, 0)
            worker.connect(f"tcp://{address}")
            locations[worker] = b"w%d" % number
            poller.register(worker, zmq.POLLIN)
            worker.send(wire.encode(wire.STEAL, n=BATCH, location=locations[worker]))
        while locations:
            ready = poller.poll(ANSWER_MS)
            assert ready, "the hall has not answered"
            for worker, _ in ready:
                answer = wire.parse(worker.recv())
                location = locations[worker]
                request = wire.encode(wire.STEAL, n=BATCH, location=location)
                if answer.type == wire.TRANSFER:
                    done += len(answer.tasks)
                    finished = [wire.encode_task(task.name, b"") for task in answer.tasks]
                    request = wire.encode(wire.COMPLETE, finished, location=location)
                elif answer.type == wire.EXIT:
                    poller.unregister(worker)
                    worker.close()
                    del locations[worker]
                    continue
                worker.send(request)
    return done


def cpu_s(hall: HallProcess) -> float:
    """What the hall has used of the processors, for itself and in the system."""
    fields = Path(f"/proc/{hall.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def names_done(hall: HallProcess) -> set[bytes]:
    """The names in the history; each stands there once, as a task that is done."""
    names: set[bytes] = set()
    before_id = None
    while rows := hall.history(HistoryQuery(limit=PAGE, before_id=before_id)):
        assert {row.state for row in rows} == {DONE}
        known = len(names)
        names.update(row.key for row in rows)
        assert len(names) == known + len(rows)
        before_id = rows[-1].id
    return names


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_time_for_a_task_does_not_depend_on_how_many_there_are(tmp_path: Path) -> None:
    """Judged by the hall's own time: how long it takes depends on who else is busy on this machine."""
    create_us: list[float] = []
    run_us: list[float] = []
    for tasks in SIZES:
        folder = tmp_path / str(tasks)
        folder.mkdir()
        requests = blocks(tasks)
        with HallProcess(folder, door={"dialect": "dwork"}) as hall, Asker(hall.address, 60.0) as asker:
            marks = [(time.monotonic(), cpu_s(hall))]
            create(asker, requests)
            marks.append((time.monotonic(), cpu_s(hall)))
            assert asker.status() == (tasks // CHAIN, tasks - tasks // CHAIN, 0)
            assert run(hall.address) == tasks
            marks.append((time.monotonic(), cpu_s(hall)))
            assert asker.status() == (0, 0, 0)
            assert len(names_done(hall)) == tasks
        spent_us = [
            [(later - earlier) * 1e6 / tasks for earlier, later in zip(before, after, strict=True)]
            for before, after in pairwise(marks)
        ]
        (create_clock_us, create_cpu_us), (run_clock_us, run_cpu_us) = spent_us
        create_us.append(create_cpu_us)
        run_us.append(run_cpu_us)
        print(  # noqa: T201
            f"{tasks:>9,} tasks, each: created in {create_clock_us:.1f} us ({create_cpu_us:.1f} of the hall),"
            f" run in {run_clock_us:.1f} us ({run_cpu_us:.1f} of the hall)"
        )
    for spent in (create_us, run_us):
        for at in range(1, len(SIZES)):
            assert spent[at] <= SPREAD_MAX * min(spent[:at]), "with more tasks each one takes longer"
