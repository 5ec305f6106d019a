"""Many seeds, on all cores, with a progress bar: `make sim-long`.

A seed that breaks a law is named at once, and the run goes on to its end.
"""

from __future__ import annotations

from contextlib import suppress
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from .runs import run_of, seeds_of
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

CHUNK: Final = 10
"""Seeds that a process plays before it reports."""


class Break(NamedTuple):
    """A seed that breaks a law, or that raises."""

    seed: int
    law: str
    text: str


class Tally(NamedTuple):
    """What some seeds came to."""

    seeds: int = 0
    turns: int = 0
    jobs: int = 0
    breaks: tuple[Break, ...] = ()

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.seeds + other.seeds,
            self.turns + other.turns,
            self.jobs + other.jobs,
            self.breaks + other.breaks,
        )


def play_seeds(seeds: Iterable[int]) -> Tally:
    """Play some seeds, one after the other, to their ends."""
    tally = Tally()
    for seed in seeds:
        breaks: tuple[Break, ...] = ()
        run = run_of(seed)
        try:
            run.play()
        except Exception as error:  # noqa: BLE001 (whatever it raises is a finding)
            law = error.law if isinstance(error, Violation) else type(error).__name__
            breaks = (Break(seed, law, str(error)),)
        tally = tally.plus(Tally(1, run.turns, run.jobs, breaks))
    return tally


def run(first: int, count: int, processes: int, console: Console) -> int:
    """Play seeds from the first one on, and some with several halls; 0: all were played and none broke a law,
    else 1.
    """
    seeds = seeds_of(first, count)
    chunks = [each[at : at + CHUNK] for each in seeds for at in range(0, len(each), CHUNK)]
    count = sum(map(len, seeds))
    total = Tally()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("no law broken", total=count)
        # Whoever interrupts a long run wants to know what it came to so far.
        with suppress(KeyboardInterrupt):
            for tally in _tallies(chunks, processes):
                total = total.plus(tally)
                for broken in tally.breaks:
                    progress.console.print(
                        f"seed {broken.seed} breaks a law: {broken.text}", markup=False, soft_wrap=True
                    )
                if total.breaks:
                    progress.update(bar, description=f"{len(total.breaks)} broke a law")
                progress.advance(bar, tally.seeds)
    _report(total, first, console)
    return 1 if total.breaks or total.seeds < count else 0


def _tallies(chunks: list[range], processes: int) -> Iterator[Tally]:
    """One for each chunk, as they come; one process is this one."""
    if processes == 1:
        yield from map(play_seeds, chunks)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(play_seeds, chunks)


def _report(total: Tally, first: int, console: Console) -> None:
    laws: dict[str, list[int]] = {}
    for broken in sorted(total.breaks):
        laws.setdefault(broken.law, []).append(broken.seed)
    for law, seeds in sorted(laws.items()):
        console.print(f"{law}: {', '.join(map(str, seeds))}", markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{total.seeds:,} seeds from {first} on, {total.turns:,} turns, {total.jobs:,} jobs: "
        f"{len(total.breaks)} broke a law",
        highlight=False,
        soft_wrap=True,
    )
