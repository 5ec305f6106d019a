"""A job handed in by any dialect is done by a worker of any other, as docs/matrix.md says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from .aspects import ASPECTS, FACTS
from .cells import Cell, Seen, see_all
from .house import SUBMITTERS, WORKERS
from .judging import complaints
from .losses import LOSSES, expected, reasons
from .page import PAGE, render

if TYPE_CHECKING:
    from pathlib import Path

CELLS = [Cell(*names) for names in ((a, s, w) for a in FACTS for s in SUBMITTERS for w in WORKERS)]


@pytest.mark.timeout(300)  # half a minute, if others leave it a core
def test_every_cell_is_green_or_explained(tmp_path: Path) -> None:
    seen = see_all(tmp_path)
    assert set(seen) == set(CELLS)
    found = complaints(seen)
    assert not found, "\n".join([f"{len(found)} of {len(seen)} cells:", *found])


def test_a_fact_that_is_lost_without_a_reason_is_a_complaint() -> None:
    cell = Cell("progress", "gearman", "native")
    (complaint,) = complaints({cell: Seen()})
    assert complaint == "progress: gearman -> native: does not hold and is not explained: progress"


def test_a_fact_that_holds_against_its_reason_is_a_complaint() -> None:
    cell = Cell("progress", "gearman", "dwork")
    (complaint,) = complaints({cell: Seen(frozenset({"progress"}))})
    assert complaint == "progress: gearman -> dwork: holds, and losses.py says that it is lost: progress"


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == render(), "docs/matrix.md is not what tests/matrix says: run `make matrix`"


def test_every_loss_names_what_exists_says_one_sentence_and_has_an_effect() -> None:
    assert set(ASPECTS) == set(FACTS)
    for loss in LOSSES:
        assert loss.facts, loss
        assert set(loss.facts) <= set(FACTS[loss.aspect]), loss
        assert set(loss.submitters) <= set(SUBMITTERS), loss
        assert set(loss.workers) <= set(WORKERS), loss
        assert re.fullmatch(r"[^.]*(`[^`]*`[^.]*)*\.", loss.reason), loss.reason
        assert any(loss in reasons(cell) for cell in CELLS), f"others cover it: {loss}"
    assert all(reasons(cell) or expected(cell) == frozenset(FACTS[cell.aspect]) for cell in CELLS)
