"""`make soak`: the hall is killed again and again under a durable load of all dialects.

The law: no durable job that was acknowledged is lost, and each ends once. Several halls are soaked side by
side, each with a data folder of its own. After every SET_ROUNDS kills a hall is drained and its history is held
against what its clients were told; then it begins anew.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))

from every_load import EveryDoor, EveryLoad
from mixed_load import kill_rounds

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

SET_ROUNDS: Final = 25
ALIVE_S: Final = (0.02, 1.0)
"""How long a hall lives before it is killed."""
LOOK_S: Final = 0.2
"""Between two looks at how far the halls have come."""


class Kept(NamedTuple):
    """What came of one set of rounds."""

    seed: int
    rounds: int
    promises: int
    trouble: str = ""
    """What broke, told by its traceback; empty: every promise was kept."""


_done: SimpleQueue[int]
"""In a process that soaks: takes a number for each round that is over."""


def _begin(done: SimpleQueue[int]) -> None:
    global _done  # noqa: PLW0603 (a pool hands a queue to its processes in no other way)
    _done = done
    logging.disable(logging.WARNING)  # that the hall is gone is what this is about


def soak(seed: int, rounds: int) -> Kept:
    """One set of rounds."""
    promises = 0
    try:
        with tempfile.TemporaryDirectory(prefix="hall-soak-") as folder, EveryDoor(Path(folder)) as hall:
            promises = asyncio.run(_story(hall, seed, rounds))
    except Exception:  # noqa: BLE001 (told to whoever started it)
        return Kept(seed, rounds, promises, traceback.format_exc())
    return Kept(seed, rounds, promises)


async def _story(hall: EveryDoor, seed: int, rounds: int) -> int:
    load = EveryLoad(hall, seed)
    promises = await kill_rounds(load, rounds, ALIVE_S, lambda: _done.put(1))
    load.proves_something(rounds)
    return len(promises.created) + len(promises.acknowledged)


def run(rounds: int, seed: int, halls: int, console: Console) -> int:
    """Soak in sets until there were so many rounds; 0: every promise was kept, else 1."""
    most = min(SET_ROUNDS, ceil(rounds / halls))
    sets = [min(most, rounds - at) for at in range(0, rounds, most)]
    context = get_context("spawn")
    done: SimpleQueue[int] = context.SimpleQueue()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    kept: list[Kept] = []
    with (
        ProcessPoolExecutor(halls, context, _begin, (done,)) as pool,
        Progress(*columns, console=console) as progress,
    ):
        bar = progress.add_task("kills, nothing lost", total=rounds)
        pending: set[Future[Kept]] = {pool.submit(soak, seed + at, count) for at, count in enumerate(sets)}
        while pending:
            over, pending = wait(pending, LOOK_S, FIRST_COMPLETED)
            while not done.empty():
                progress.advance(bar, done.get())
            for each in over:
                kept.append(each.result())
                if kept[-1].trouble:
                    progress.update(bar, description="kills, and something broke")
                    progress.console.print(
                        f"seed {kept[-1].seed}: {kept[-1].trouble}", markup=False, soft_wrap=True
                    )
    return _report(kept, console)


def _report(kept: list[Kept], console: Console) -> int:
    broken = [each.seed for each in kept if each.trouble]
    whole = [each for each in kept if not each.trouble]
    where = f"in {len(whole)} of {len(kept)} sets " if broken else ""
    console.print(
        f"{where}{sum(each.rounds for each in whole):,} kills under all dialects at once, "
        f"{sum(each.promises for each in whole):,} acknowledged jobs, each ended once, 0 lost",
        highlight=False,
        soft_wrap=True,
    )
    if broken:
        console.print(f"the other sets broke: seeds {', '.join(map(str, sorted(broken)))}", highlight=False)
    return 1 if broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="how often a hall is killed")
    parser.add_argument("--seed", type=int, default=1, help="that of the first set of rounds")
    parser.add_argument("--halls", type=int, default=os.cpu_count() or 1, help="how many, side by side")
    arguments = parser.parse_args()
    return run(arguments.rounds, arguments.seed, arguments.halls, Console())


if __name__ == "__main__":
    sys.exit(main())
