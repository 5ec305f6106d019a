"""The allocations of one fleet of workers, and what is to be done about them. Pure: no clock, no I/O.

Invariant: an allocation counts from the call of sbatch until squeue, asked after that, does not list it. So one
need is never submitted twice, also where sbatch fails or is killed after Slurm has taken the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PENDING: Final = "PENDING"
LEAVING: Final = frozenset(
    {"COMPLETING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"}
)
"""States of Slurm jobs that are as good as gone."""
SUBMITS_MAX: Final = 10
"""Calls of sbatch in one step."""
BACKOFF_S_MAX: Final = 600.0


class Bounds(NamedTuple):
    """What the operator allows."""

    workers_max: int
    jobs_per_worker: int
    idle_s: float
    poll_s: float
    """The least time between two calls of squeue, and the first pause after a failure."""


class Listed(NamedTuple):
    """A line of squeue."""

    id: str
    state: str
    tag: str


@dataclass(slots=True)
class Allocation:
    """A Slurm job that runs one worker."""

    tag: str
    """Its name before Slurm has given it an id; squeue lists it as the comment."""
    asked_s: float
    """When sbatch was last known to be at work on it."""
    id: str = ""
    """Empty: sbatch has not told it, so Slurm may have the job or not."""
    state: str = PENDING
    jobs: int | None = None
    """Jobs that its worker has; None: the worker is not at the hall."""
    came: bool = False
    """Its worker was at the hall at some time."""
    idle_since_s: float | None = None
    ending: bool = False
    """scancel was called."""


class Gone(NamedTuple):
    """An allocation that has ended. In vain: nobody ended it, and its worker had never come to the hall."""

    allocation: Allocation
    in_vain: bool


class Fleet:
    """What is known, and what follows from it. Times are seconds of any one clock."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.wanted = 0
        self.allocations: dict[str, Allocation] = {}
        """By tag. Those whose end was asked for count no longer as workers."""
        self._known = False
        """squeue has answered once: what an earlier run has left is among the allocations."""
        self._failures = 0
        self._submit_from_s = 0.0
        self._squeue_failures = 0
        self._squeue_from_s = 0.0
        self._surplus_since_s: float | None = None

    @property
    def active(self) -> list[Allocation]:
        """Those that count as workers, or will."""
        return [each for each in self.allocations.values() if not each.ending]

    # --- what is heard

    def look(self, now_s: float, ready: int, jobs: Mapping[str, int]) -> list[Allocation]:
        """`ready` jobs wait; `jobs` tells how many the workers have, by the ids of their allocations. Returns
        the allocations whose workers have come.
        """
        came: list[Allocation] = []
        for each in self.allocations.values():
            each.jobs = jobs.get(each.id) if each.id else None
            if each.jobs is not None and not each.came:
                each.came = True
                self._failures = 0
                came.append(each)
            idle_since_s = now_s if each.idle_since_s is None else each.idle_since_s
            each.idle_since_s = idle_since_s if each.jobs == 0 else None
        need = ready + sum(each.jobs or 0 for each in self.allocations.values())
        self.wanted = min(self.bounds.workers_max, ceil(need / self.bounds.jobs_per_worker))
        if len(self.active) <= self.wanted:
            self._surplus_since_s = None
        elif self._surplus_since_s is None:
            self._surplus_since_s = now_s
        return came

    def listed(self, asked_s: float, lines: Iterable[Listed]) -> tuple[list[Allocation], list[Gone]]:
        """What squeue told when it was asked at that time. Returns those that were not known, and those that
        have ended.
        """
        self._known = True
        self._squeue_failures = 0
        self._squeue_from_s = asked_s + self.bounds.poll_s
        found = {line.tag: line for line in lines if line.state not in LEAVING}
        gone = [
            Gone(each, in_vain=not each.came and not each.ending)
            for each in self.allocations.values()
            if each.tag not in found and each.asked_s < asked_s and each.jobs is None
        ]
        for ended in gone:
            del self.allocations[ended.allocation.tag]
            if ended.in_vain and ended.allocation.id:
                self._back_off(asked_s)
        adopted: list[Allocation] = []
        for tag, line in found.items():
            if tag not in self.allocations:
                self.allocations[tag] = Allocation(tag, asked_s)
                adopted.append(self.allocations[tag])
            each = self.allocations[tag]
            each.id, each.state = line.id, line.state
        return adopted, gone

    def squeue_failed(self, now_s: float) -> float:
        """There was no answer. Returns the pause before squeue is asked again."""
        self._squeue_failures += 1
        pause_s = self._pause_s(self._squeue_failures)
        self._squeue_from_s = now_s + pause_s
        return pause_s

    def submitting(self, tag: str, now_s: float) -> None:
        """A call of sbatch begins."""
        self.allocations[tag] = Allocation(tag, now_s)

    def submitted(self, tag: str, now_s: float, number: str) -> None:
        """The call of sbatch has told the id."""
        each = self.allocations[tag]
        each.id, each.asked_s = number, now_s

    def submit_failed(self, tag: str, now_s: float) -> float:
        """No id was told: squeue will say whether Slurm has the job. Returns the pause before the next."""
        self.allocations[tag].asked_s = now_s
        return self._back_off(now_s)

    def cancelled(self, each: Allocation) -> None:
        """A call of scancel ends it."""
        each.ending = True

    def cancel_failed(self, each: Allocation, now_s: float) -> None:
        """The call of scancel failed: the worker goes on, and counts as idle from now."""
        each.ending = False
        each.idle_since_s = now_s
        self._surplus_since_s = now_s

    # --- what follows

    def squeue_due(self, now_s: float) -> bool:
        """It is asked only while there is something to learn."""
        return now_s >= self._squeue_from_s and (not self._known or bool(self.allocations))

    def to_submit(self, now_s: float) -> int:
        """How many workers to submit now."""
        unsure = any(not each.id for each in self.allocations.values())
        if not self._known or unsure or now_s < self._submit_from_s:
            return 0
        return max(0, min(self.wanted - len(self.active), SUBMITS_MAX))

    def to_end(self, now_s: float) -> list[Allocation]:
        """Which ones to end now: those that wait for Slurm, and then those that have been idle longest."""
        since_s = self._surplus_since_s
        if since_s is None or now_s - since_s < self.bounds.idle_s:
            return []
        waiting = [each for each in self.active if each.id and each.state == PENDING and not each.came]
        idle = [
            (each.idle_since_s, each)
            for each in self.active
            if each.idle_since_s is not None and now_s - each.idle_since_s >= self.bounds.idle_s
        ]
        idle.sort(key=lambda pair: pair[0])
        chosen = [*reversed(waiting), *(each for _, each in idle)]
        return chosen[: len(self.active) - self.wanted]

    def _back_off(self, now_s: float) -> float:
        self._failures += 1
        pause_s = self._pause_s(self._failures)
        self._submit_from_s = now_s + pause_s
        return pause_s

    def _pause_s(self, failures: int) -> float:
        return float(min(BACKOFF_S_MAX, self.bounds.poll_s * 2 ** min(failures - 1, 20)))
