"""Everything moves from one store to another, and back, unchanged."""

from __future__ import annotations

from contextlib import closing
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from store_house import STORES, ignore
from store_rows import NOW_US, batch, end, job, plain_end, plain_job

from hiringhall.core.changes import LOG, Firing, FlowRow, HistoryQuery, OutputRow
from hiringhall.core.jobs import OUTPUT
from hiringhall.core.states import FAILED, HELD
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.opening import move_all, open_store
from stage.databases import postgres_url

if TYPE_CHECKING:
    from pathlib import Path

    from hiringhall.storage.contract import Store

EVERYTHING = HistoryQuery(limit=10_000)
FLOW = FlowRow(b"nightly", 5, 0, 1, 2, 3)


def place_of(kind: str, folder: Path) -> str:
    return postgres_url(folder) if kind == "postgres" else str(folder / "data")


def fill(store: Store) -> None:
    """Some of everything; more lines than one commit moves."""
    said = [OutputRow(number, NOW_US, LOG, b"hello %d" % n) for number in (1, 9000) for n in range(3)]
    store.commit(
        batch(
            inserts=[
                job(1, extras={OUTPUT: b""}),
                job(2, key=b"k", state=HELD, parents=(1, (b"q", b"k")), flow=b"nightly", all_parents=(1,)),
            ],
            ends=[
                *[end(number, key=b"%d" % number, ended_us=NOW_US + number) for number in range(10, 2010)],
                end(9000, state=FAILED, payload=b"whole" * 2000, extras={OUTPUT: b""}),
                end(9001, payload=b"long" * 5000),
            ],
            output=said,
            fired={"nightly": Firing(7, b"plan")},
            paused={b"q": True},
            flows={b"nightly": FLOW},
        ),
        NOW_US,
    )


def content(store: Store) -> tuple[object, ...]:
    lines = [plain_end(row) for row in store.history(EVERYTHING)]
    jobs = [plain_job(row) for row in store.live()]
    return jobs, lines, store.output(1, 0), store.output(9000, 0), store.count()


@pytest.mark.parametrize(("old", "new"), list(permutations(sorted(STORES.keys() - {"memory"}))))
def test_everything_moves_unchanged(old: str, new: str, tmp_path: Path) -> None:
    source, target = place_of(old, tmp_path / "old"), place_of(new, tmp_path / "new")
    with closing(open_store(source, Retention(), ignore)) as store:
        epoch = store.load(0).epoch
        fill(store)
        before = content(store)
    seen: list[tuple[int, int]] = []
    moved = move_all(source, target, ignore, lambda done, total: seen.append((done, total)))
    assert (moved.jobs, moved.lines) == (2, 2002)
    assert seen[-1] == (2004, 2004)
    with closing(open_store(target, Retention(), ignore)) as store:
        loaded = store.load(0)
        assert loaded.epoch > epoch
        assert (loaded.fired, loaded.paused, loaded.flows) == ({"nightly": Firing(7, b"plan")}, [b"q"], [FLOW])
        assert content(store) == before


def test_a_target_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    source, target = place_of("sqlite", tmp_path / "old"), place_of("sqlite", tmp_path / "new")
    for place in (source, target):
        with closing(open_store(place, Retention(), ignore)) as store:
            store.load(0)
            store.commit(batch(inserts=[job(1)]), NOW_US)
    with pytest.raises(StoreError, match="is not empty: move it away, or give another target"):
        move_all(source, target, ignore, lambda _done, _total: None)


def test_the_data_of_a_running_hall_is_not_moved(tmp_path: Path) -> None:
    source, target = place_of("sqlite", tmp_path / "old"), place_of("sqlite", tmp_path / "new")
    with closing(open_store(source, Retention(), ignore)) as store:
        store.load(0)
        with pytest.raises(StoreError, match="open"):
            move_all(source, target, ignore, lambda _done, _total: None)
