"""A seed becomes a run: with one hall, or with several on one database."""

from __future__ import annotations

from typing import Final

from .clusterworld import CLUSTER_SEEDS_FROM, ClusterRun
from .scenario import Run

LOG_TAIL: Final = 60
CLUSTER_SHARE: Final = 10
"""In a long run, one of so many seeds has several halls."""


def run_of(seed: int, *, audited: bool = True) -> Run | ClusterRun:
    kind = ClusterRun if seed >= CLUSTER_SEEDS_FROM else Run
    return kind(seed, audited=audited)


def seeds_of(first: int, count: int) -> list[range]:
    """The seeds of a long run. After those with one hall come some with several, which are not asked for by
    their numbers.
    """
    asked = range(first, first + count)
    if first >= CLUSTER_SEEDS_FROM:
        return [asked]
    several = CLUSTER_SEEDS_FROM + first
    return [asked, range(several, several + count // CLUSTER_SHARE)]


def play(seed: int, *, audited: bool = True) -> str:
    """Run one seed: the digest of its log. Raises Violation, told with the end of the log."""
    run = run_of(seed, audited=audited)
    try:
        run.play()
    except Exception as error:
        tail = "\n".join(run.world.log[-LOG_TAIL:])
        error.add_note(f"seed {seed}, after {len(run.world.log)} lines:\n{tail}")
        raise
    return run.digest()
