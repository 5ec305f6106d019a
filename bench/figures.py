"""Figures of several servers side by side, and the value that the hall must reach."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from scenarios import Stage

HALL = "hall"
AT_LEAST = "at least"
AT_MOST = "at most"


class Ratio(NamedTuple):
    """One server's figure divided by another's."""

    of: str
    to: str

    @property
    def title(self) -> str:
        return f"{self.of} : {self.to}"


@dataclass
class Row:
    """One figure of several servers."""

    scenario: str
    figure: str
    unit: str
    rounds: int
    values: dict[str, float] = field(default_factory=dict)
    """The median for each server that has this figure."""
    bound: str = ""
    """AT_LEAST or AT_MOST; empty: nothing is required."""
    required: float = 0.0
    judged_by: Ratio | str = HALL
    """The requirement applies to this ratio, or to the value of this server."""
    cpu_us: dict[str, float] = field(default_factory=dict)
    """The CPU time for each job, of each server where it was measured."""
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The lowest and the highest round of each server."""

    def ratio(self, ratio: Ratio) -> float | None:
        ours, theirs = self.values.get(ratio.of), self.values.get(ratio.to)
        return ours / theirs if ours is not None and theirs else None

    @property
    def judged(self) -> float | None:
        by = self.judged_by
        return self.ratio(by) if isinstance(by, Ratio) else self.values.get(by)

    @property
    def passed(self) -> bool | None:
        """Whether the requirement is met; None: there is none."""
        if not self.bound or self.judged is None:
            return None
        return self.reached_by(self.judged)

    def reached_by(self, figure: float) -> bool:
        return figure >= self.required if self.bound == AT_LEAST else figure <= self.required

    def must(self, bound: str, required: float, judged_by: Ratio | str = HALL) -> Row:
        """Set the requirement; returns the same row."""
        self.bound, self.required, self.judged_by = bound, required, judged_by
        return self


class Figures:
    """Collects named figures round by round, and makes rows of their medians."""

    def __init__(self, scenario: str) -> None:
        self._scenario = scenario
        self._rounds: dict[str, dict[str, list[float]]] = {}

    def add(self, server: str, name: str, value: float) -> None:
        self._rounds.setdefault(name, {}).setdefault(server, []).append(value)

    def add_all(self, server: str, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.add(server, name, value)

    def row(self, name: str, unit: str, *, title: str = "", cpu: str = "", without: str = "") -> Row:
        """The medians of a figure, for all servers that have it but the one that is left out."""
        rounds = {server: values for server, values in self._rounds[name].items() if server != without}
        row = Row(self._scenario, title or name, unit, min(len(values) for values in rounds.values()))
        row.values = {server: statistics.median(values) for server, values in rounds.items()}
        row.spread = {server: (min(values), max(values)) for server, values in rounds.items()}
        if cpu:
            row.cpu_us = {server: statistics.median(values) for server, values in self._rounds[cpu].items()}
        return row


class Scenario(Protocol):
    """One scenario of the benchmark."""

    @property
    def name(self) -> str: ...

    def run(self, stage: Stage) -> list[Row]: ...


@dataclass(frozen=True)
class Section:
    """Scenarios whose rows are in one table."""

    title: str
    scenarios: tuple[Scenario, ...]
    servers: tuple[str, ...]
    """The columns with figures."""
    ratios: tuple[Ratio, ...] = ()
    """The columns with ratios, after the figures."""
    cpu_of: tuple[str, ...] = ()
    """Servers with a column for the CPU time of a job."""
