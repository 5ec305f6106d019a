"""Schedules in a real hall: killed again and again, told of new ones while it runs, and given a broken book.

No job has a key: a due time that fired twice would be two jobs, and is seen.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from hall_process import HallProcess, wait_until

from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import DONE
from hiringhall.peers.gearman import Worker, WorkerJob
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.opening import DATABASE, open_history
from hiringhall.storage.sqlite import find_holder
from stage import forking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hiringhall.core.changes import Firing

KILLS: Final = 20
LONG_AWAY: Final = (6, 13)
"""Kills after which the hall stays away for so long that several due times pass."""
AWAY_S: Final = 4.2
INTERVALS_S: Final = {"all": 1, "latest": 1, "skip": 1, "slow": 2}
"""Schedules by name, which is their policy: those of a name that is none have the default."""
_MISSED: Final = re.compile(
    r'schedule "(\w+)" missed its due times from (\S+) to (\S+): (skipped|fired for \d+ of them, from (\S+) on)'
)


def us(written: str) -> int:
    return round(datetime.fromisoformat(written).timestamp()) * SECOND_US


def schedules(tables: list[Mapping[str, object]]) -> dict[str, str]:
    """Schedules as variables of the environment."""
    return {
        f"HALL_SCHEDULE_{index}_{name.upper()}": str(value)
        for index, table in enumerate(tables)
        for name, value in table.items()
    }


def periodic(name: str, interval_s: int) -> Mapping[str, object]:
    policy = name if name in {"all", "latest", "skip"} else "all"
    return {
        "name": name,
        "queue": name,
        "every": f"{interval_s}s",
        "payload": "{due}",
        "missed": policy,
        "late_s": 0 if policy == name else 60,
    }


def firings(hall: HallProcess) -> dict[str, Firing]:
    """How far each schedule has come, as the store knows it."""
    reader = open_history(hall.place)
    try:
        return reader.firings()
    finally:
        reader.close()


class Fired(NamedTuple):
    """The due times of the jobs of one schedule: each as often as there is a job of it."""

    done: Counter[int]
    live: Counter[int]


def fired(hall: HallProcess, queue: str) -> Fired:
    """What became of a schedule's jobs: their worker answers with the payload, which is the due time."""
    reader = open_history(hall.place)
    try:
        ended = reader.history(HistoryQuery(queue=queue.encode(), limit=100_000))
        assert {row.state for row in ended} <= {DONE}
        live = [row.payload for row in reader.live() if row.queue == queue.encode()]
    finally:
        reader.close()
    return Fired(
        Counter(us(row.result.decode()) for row in ended), Counter(us(payload.decode()) for payload in live)
    )


def told_missed(hall: HallProcess, name: str, interval_us: int) -> set[int]:
    """The due times of which the log says that they were missed, and did not fire."""
    missed: set[int] = set()
    for found in _MISSED.finditer(hall.errors()):
        if found[1] == name:
            end_us = us(found[5]) if found[5] else us(found[3]) + 1
            missed.update(range(us(found[2]), end_us, interval_us))
    return missed


def echo(job: WorkerJob) -> bytes:
    return job.data


@pytest.mark.parametrize("seed", [20261116])
def test_across_twenty_kills_every_due_time_fires_once_or_is_told_to_be_missed(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    tables = [periodic(name, interval_s) for name, interval_s in INTERVALS_S.items()]
    started_us = time.time_ns() // 1000
    with HallProcess(tmp_path, environment=schedules(tables)) as hall:
        wait_until(lambda: firings(hall).keys() == INTERVALS_S.keys(), "all schedules have begun")
        begun = firings(hall)
        with Worker(hall.address, slots=4) as worker:
            for name in INTERVALS_S:
                worker.register(name, echo)
            for kill in range(KILLS):
                with pytest.raises(subprocess.TimeoutExpired):
                    hall.process.wait(chance.uniform(0.0, 1.2))
                hall.kill()
                if kill in LONG_AWAY:
                    back_s = time.time() + AWAY_S
                    wait_until(lambda until_s=back_s: time.time() > until_s, "due times pass without a hall")
                hall.start()
            target_us = max(firing.due_us for firing in firings(hall).values()) + 3 * SECOND_US
            wait_until(
                lambda: min(firing.due_us for firing in firings(hall).values()) >= target_us,
                "all schedules go on after the last kill",
            )
            wait_until(
                lambda: all(
                    min(fired(hall, name).live, default=target_us) >= target_us for name in INTERVALS_S
                ),
                "what has fired is done",
            )
            hall.drain()
            assert hall.wait() == 0
        until = firings(hall)
        missed_somewhere: set[str] = set()
        for name, interval_s in INTERVALS_S.items():
            interval_us = interval_s * SECOND_US
            jobs = sum(fired(hall, name), Counter[int]())
            assert set(jobs.values()) == {1}, f"{name}: fired twice"
            missed = told_missed(hall, name, interval_us)
            # It may have fired already when it was seen to have begun.
            first_us = min(set(jobs) | missed)
            assert started_us < first_us <= (begun[name].due_us // interval_us + 1) * interval_us
            expected = set(range(first_us, until[name].due_us + 1, interval_us))
            if name in {"all", "slow"}:
                assert set(jobs) == expected
            else:
                assert set(jobs) | missed == expected, f"{name}: missed in silence"
                assert not set(jobs) & missed, f"{name}: told to be missed, and fired all the same"
            if missed:
                missed_somewhere.add(name)
        assert missed_somewhere == {"latest", "skip"}, "too little was missed to prove anything"


def hall_schedule(hall: HallProcess, *words: str) -> str:
    """`hall schedule` in the folder of a hall; what it said."""
    ended = forking.run(
        [*forking.HALL, "schedule", *words, "--data", str(hall.place)],
        cwd=hall.folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    said: str = ended.stdout
    return said


@pytest.mark.sqlite  # the hall on a data folder gets a signal; for a database see test_shared_documents.py
def test_a_schedule_added_beside_a_running_hall_fires_without_a_restart_and_stops_when_removed(
    hall: HallProcess,
) -> None:
    with Worker(hall.address) as worker:
        worker.register("tick", echo)
        said = hall_schedule(hall, "add", "tick", "--queue", "tick", "--every", "1s", "--payload", "{due}")
        assert said.endswith(f"the hall (process {hall.pid}) was notified\n")
        wait_until(lambda: len(fired(hall, "tick").done) >= 2, "the new schedule fires")
        before_us = max(fired(hall, "tick").done)
        (line,) = map(json.loads, hall_schedule(hall, "list", "--json").splitlines())
        assert (line["name"], line["hall"]) == ("tick", hall.pid)
        assert us(line["last"]) >= before_us
        passed = (us(line["next"][0]) - us(line["last"])) // SECOND_US - 1
        assert line["behind"] == passed, "none, unless the machine is too busy to be on time"
        hall_schedule(hall, "remove", "tick")
        wait_until(lambda: not firings(hall), "the schedule is forgotten")
        wait_until(lambda: not fired(hall, "tick").live, "what it has fired is done")
        assert max(fired(hall, "tick").done.values()) == 1
    hall.wait_for_errors('schedule "tick" was removed')


@pytest.mark.sqlite  # it damages the file of the book
def test_a_broken_book_changes_nothing_and_is_told(hall: HallProcess) -> None:
    hall_schedule(hall, "add", "tick", "--queue", "tick", "--every", "1s", "--payload", "{due}")
    wait_until(lambda: "tick" in firings(hall), "the schedule has begun")
    (hall.data / "schedules.json").write_text('{"version": 1, "schedules": [{')
    hall.signal(signal.SIGHUP)
    wait_until(lambda: "the schedules were not reloaded" in hall.errors(), "the hall complains")
    before = len(fired(hall, "tick").live)
    wait_until(lambda: len(fired(hall, "tick").live) > before + 1, "the schedule goes on")
    hall.drain()
    assert hall.wait() == 0
    with pytest.raises(AssertionError, match="was not written by `hall schedule`"):
        hall.start()


def test_a_hall_that_is_told_while_it_opens_opens_all_the_same(hall: HallProcess) -> None:
    hall.kill()
    opening = threading.Thread(target=hall.start)
    opening.start()
    told = 0
    while opening.is_alive():
        if (holder := find_holder(hall.data / DATABASE)) is not None:
            os.kill(holder.pid, signal.SIGHUP)
            told += 1
        opening.join(0.001)
    assert told > 0, "it was open too soon to be told before"
    holder = find_holder(hall.data / DATABASE)
    assert holder is not None
    assert holder.pid == hall.pid
    hall.drain()
    assert hall.wait() == 0
    assert find_holder(hall.data / DATABASE) is None
