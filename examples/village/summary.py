"""What a village comes to in numbers, with the hall's own log beside it."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from hiringhall.records import History

if TYPE_CHECKING:
    from pathlib import Path

    from village import Village


class Waiting(NamedTuple):
    """From the moment a job is due: how long nobody performed it, in minutes of the village."""

    mean: float
    median: float
    worst: float
    each: list[float]
    """Job by job, the shortest first."""


class Summary(NamedTuple):
    policy: str
    ahead_min: float
    """How long before they are due jobs were announced."""
    jobs: int
    done: int
    open: int
    """Not done by the end of the run."""
    waiting_min: Waiting
    standing_min: float
    """How long a worker stood there until it could begin."""
    skill: float
    """Of those who did it, on average."""
    counts: dict[str, int]
    log: dict[str, int]
    """The jobs that were handed in, by their state, as the hall has them in its history."""

    def as_json(self) -> dict[str, object]:
        return {**self._asdict(), "waiting_min": self.waiting_min._asdict()}


def summarise(village: Village, data: Path) -> Summary:
    book = village.book
    done = [task for task in book.tasks.values() if task.done_h is not None]
    waits_min = [round(60 * wait_h, 1) for wait_h in book.waits_h()]
    return Summary(
        policy=village.policy,
        ahead_min=60 * village.ahead_h,
        jobs=len(book.tasks),
        done=len(done),
        open=len(book.tasks) - len(done),
        waiting_min=waiting(waits_min),
        standing_min=round(60 * book.stood_h / max(len(done), 1), 1),
        skill=round(fmean(task.skill for task in done), 1) if done else 0.0,
        counts=book.counts,
        log=log_of(data),
    )


def waiting(each: list[float]) -> Waiting:
    if not each:
        return Waiting(0.0, 0.0, 0.0, each)
    return Waiting(round(fmean(each), 1), round(median(each), 1), each[-1], each)


def log_of(data: Path) -> dict[str, int]:
    states: dict[str, int] = {}
    with History(data) as history:
        for record in history.find():
            states[record.state] = states.get(record.state, 0) + 1
    return states
