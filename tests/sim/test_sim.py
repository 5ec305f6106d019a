"""Six hundred seeds and some hundreds of special worlds, or a fifth of all: no law is broken during faults, and
everything drains after them.
"""

from __future__ import annotations

import os

import pytest

from .clusterworld import CLUSTER_SEEDS_FROM
from .disk import OUTCOME_SEEDS_FROM
from .flowplayers import FLOW_SEEDS_FROM
from .limitlaws import LIMITS_SEEDS_FROM
from .overseers import OVERSEEN_SEEDS_FROM
from .pausers import PAUSING_SEEDS_FROM
from .resourcelaws import RESOURCES_SEEDS_FROM
from .runs import play

CHUNK = 3 if os.environ.get("EXAMPLES") == "few" else 15
SEEDS = 40 * CHUNK
REMEMBERED = (
    *(501245, 509257, 510475, 513592, 516098, 519758, 533219, 533799, 540939, 551381),
    *(760278, 814616, 817338, 818966, 821843, 825176, 827053, 827548, 2002361, 2004582, 2005704, 2035601),
    *(3023723, 3033246, 7010208, 30000053, 30002694),
    *(11007171, 11014870, 14055069),
)
"""Seeds in which a law once accused the hall wrongly."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_a_law(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed)


def test_no_law_is_broken_where_queues_are_paused() -> None:
    for seed in range(PAUSING_SEEDS_FROM, PAUSING_SEEDS_FROM + CHUNK):
        play(seed)


def test_no_law_is_broken_where_flows_are_played() -> None:
    for seed in range(FLOW_SEEDS_FROM, FLOW_SEEDS_FROM + 2 * CHUNK):
        play(seed)


@pytest.mark.parametrize("first", range(OUTCOME_SEEDS_FROM, OUTCOME_SEEDS_FROM + 4 * CHUNK, CHUNK))
def test_no_law_is_broken_where_the_outcome_of_commits_is_unknown(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed)


def test_no_law_is_broken_where_workers_drain_and_dead_letters_are_retried() -> None:
    for seed in range(OVERSEEN_SEEDS_FROM, OVERSEEN_SEEDS_FROM + 4 * CHUNK):
        play(seed)


def test_no_law_is_broken_where_a_queue_has_limits() -> None:
    for seed in range(LIMITS_SEEDS_FROM, LIMITS_SEEDS_FROM + 4 * CHUNK):
        play(seed)


def test_no_law_is_broken_where_jobs_need_resources() -> None:
    for seed in range(RESOURCES_SEEDS_FROM, RESOURCES_SEEDS_FROM + 4 * CHUNK):
        play(seed)


@pytest.mark.parametrize("first", range(CLUSTER_SEEDS_FROM, CLUSTER_SEEDS_FROM + 8 * CHUNK, CHUNK))
def test_no_law_is_broken_by_several_halls_on_one_database(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed)


@pytest.mark.parametrize("seed", REMEMBERED)
def test_no_seed_that_was_mended_breaks_a_law(seed: int) -> None:
    play(seed)
