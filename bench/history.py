"""A long history: durable jobs in a hall with a million ended ones, and the time to find one of those."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from figures import AT_LEAST, AT_MOST, Figures, Ratio, Section
from scenarios import MODES, Running
from servers import Hall
from slap import Load

from hiringhall.records.history import History

if TYPE_CHECKING:
    from pathlib import Path

    from figures import Row
    from scenarios import Stage

EMPTY = "hall, empty"
LONG = "hall, with a history"
LONG_TO_EMPTY = Ratio(LONG, EMPTY)
ASKED = 200
"""How many jobs are looked up, spread over the whole history."""


class NamedHall(Hall):
    """A hall with a name of its own."""

    def __init__(self, name: str, folder: Path, python: str) -> None:
        super().__init__(folder, python)
        self.name = name

    def history(self) -> History:
        return History(self.folder / "data")


@dataclass(frozen=True)
class LongHistory:
    """Submit and drain jobs in a hall with a million ended jobs, and in one with none."""

    name: str = "history"
    lines: int = 1_000_000
    jobs: int = 100_000
    required: float = 0.8
    answer_ms_max: float = 20.0

    def run(self, stage: Stage) -> list[Row]:
        empty = NamedHall(EMPTY, stage.folder / "empty", stage.python)
        long = NamedHall(LONG, stage.folder / "long", stage.python)
        lines, jobs = stage.jobs(self.lines), stage.jobs(self.jobs)
        figures = Figures(self.name)
        with Running([empty, long]):
            stage.say(f"{lines:,} jobs for the history")
            stage.measure(long, "submit", lines, Load(depth=256, unique=True))
            stage.measure(long, "drain", lines, Load(workers=8))
            for number in range(stage.rounds):
                empty.restart_empty()
                for hall in (empty, long):
                    for mode in ("submit", "drain"):
                        stage.measure(hall, mode, jobs // 10, Load(unique=True))  # warm
                    for mode in ("submit", "drain"):
                        stage.say(f"round {number + 1}: {hall.name}, {mode}")
                        seen = stage.measure(hall, mode, jobs, Load(unique=True))
                        figures.add(hall.name, mode, seen["jobs_per_s"])
            if not stage.halls_only:
                stage.say("asking")
                self._ask(long, lines, figures)
        rows = [
            figures.row(mode, "jobs/s", title=MODES[mode]).must(AT_LEAST, self.required, LONG_TO_EMPTY)
            for mode in ("submit", "drain")
        ]
        if stage.halls_only:
            return rows  # this build may not be able to read the data file of another build
        asked = [figures.row(way, "ms", title=f"asked for {way}") for way in ("by key", "by handle")]
        for row in asked:
            row.must(AT_MOST, self.answer_ms_max, LONG)
        return rows + asked

    def _ask(self, hall: NamedHall, lines: int, figures: Figures) -> None:
        with hall.history() as history:
            latest = next(history.find(limit=1)).id
            for number in range(ASKED):
                started = time.perf_counter()
                record = history.get(handle=f"H:bench:{latest - number * lines // ASKED}")
                figures.add(hall.name, "by handle", 1000 * (time.perf_counter() - started))
                assert record is not None
                started = time.perf_counter()
                found = list(history.find(key=record.key))
                figures.add(hall.name, "by key", 1000 * (time.perf_counter() - started))
                assert record in found


HISTORY = Section("A long history", (LongHistory(),), (EMPTY, LONG), (LONG_TO_EMPTY,))
