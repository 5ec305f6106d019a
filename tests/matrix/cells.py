"""Every cell of the matrix, seen on one hall: all pairs at once, the aspects of a pair one after the other."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from traceback import format_exception
from typing import TYPE_CHECKING, Final, NamedTuple

from .aspects import ASPECTS, Pair
from .contract import PATIENCE_S
from .house import SUBMITTERS, WORKERS, House

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

THREADS: Final = 200
"""More than there are peers that block: nobody waits for a thread."""


class Cell(NamedTuple):
    aspect: str
    submitter: str
    worker: str

    def __str__(self) -> str:
        return f"{self.aspect}: {self.submitter} -> {self.worker}"


class Seen(NamedTuple):
    facts: frozenset[str] = frozenset()
    trouble: str = ""
    """Why it was not seen to its end."""
    took_s: float = 0.0


def see_all(folder: Path, only: Collection[str] = ()) -> dict[Cell, Seen]:
    """`only`: some of the aspects, or some of the pairs such as "gearman.wmp"."""
    return asyncio.run(_see_all(folder, only))


async def _see_all(folder: Path, only: Collection[str]) -> dict[Cell, Seen]:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    seen: dict[Cell, Seen] = {}
    async with House(folder) as house:
        pairs = [(submitter, worker) for submitter in SUBMITTERS for worker in WORKERS]
        chosen = [pair for pair in pairs if ".".join(pair) in only] or pairs
        aspects = [aspect for aspect in ASPECTS if aspect in only] or list(ASPECTS)
        await asyncio.gather(*(_see_pair(house, *pair, aspects, seen) for pair in chosen))
    return seen


async def _see_pair(
    house: House, submitter: str, worker: str, aspects: Collection[str], seen: dict[Cell, Seen]
) -> None:
    pair = Pair(house, submitter, worker)
    for aspect in aspects:
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(2 * PATIENCE_S):
                facts = await ASPECTS[aspect](pair)
            found = Seen(frozenset(facts), "", time.monotonic() - started_s)
        except Exception as error:  # noqa: BLE001 (whatever went wrong stands in the report of the cell)
            found = Seen(frozenset(), "".join(format_exception(error)), time.monotonic() - started_s)
        seen[Cell(aspect, submitter, worker)] = found
