"""Random ends under tight rules: all stores keep the same lines within the bounds, and the oldest go first."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_house import STORES, House
from store_rows import NOW_US, TERMS, batch, end, job

from hiringhall.core.states import CANCELLED, DONE, FAILED
from hiringhall.storage.contract import HistoryQuery, QueueRetention, Retention

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, EndRow

SECOND_US = 1_000_000
KEEP_US = 25 * SECOND_US
"""Longer than the age of any line that is committed."""
COMMON = QueueRetention(age_us=60 * SECOND_US, dead_age_us=200 * SECOND_US, rows_max=20, bytes_max=1 << 40)
RULES = {
    b"few": QueueRetention(age_us=90 * SECOND_US, dead_age_us=200 * SECOND_US, rows_max=5),
    b"small": QueueRetention(age_us=90 * SECOND_US, dead_age_us=200 * SECOND_US, bytes_max=300),
}
RETENTION = Retention(COMMON.age_us, COMMON.dead_age_us, COMMON.rows_max, queues=RULES)
ENDS = st.builds(
    end,
    job_id=st.just(0),
    queue=st.sampled_from([b"few", b"small", b"a", b"b"]),
    key=st.sampled_from([b"", b"key"]),
    state=st.sampled_from([DONE, DONE, FAILED, CANCELLED]),
    result=st.binary(max_size=3).map(lambda drawn: drawn * 20),
    payload=st.sampled_from([b"", b"p" * 30]),
    terms=st.sampled_from([TERMS, TERMS, TERMS.replace(keep_us=KEEP_US)]),
)


class Tale:
    """What happened, and which lines there would be if none went for age or lack of room."""

    def __init__(self) -> None:
        self.now_us = NOW_US
        self.last_id = 0
        self.ends: dict[int, EndRow] = {}

    def draw(self, data: st.DataObject, known: list[EndRow]) -> Batch:
        """Lines that end now or a while ago, and dead letters that run again, some of which end at once."""
        self.now_us += data.draw(st.integers(0, 30), label="seconds") * SECOND_US
        drawn = batch()
        self.ends = {row.id: row for row in known}
        for row in known:
            if row.state == FAILED and data.draw(st.integers(0, 9), label=f"revive {row.id}") == 0:
                if data.draw(st.booleans(), label="and ends at once"):
                    drawn.ends.append(self._end(data, row.id, row.queue))
                else:
                    del self.ends[row.id]
                    drawn.revived.append(row.id)
                    drawn.inserts.append(job(row.id, queue=row.queue))
        for _ in range(data.draw(st.integers(0, 12), label="newcomers")):
            self.last_id += 1
            drawn.ends.append(self._end(data, self.last_id, None))
        return drawn

    def _end(self, data: st.DataObject, job_id: int, queue: bytes | None) -> EndRow:
        row = data.draw(ENDS)
        ended_us = self.now_us - data.draw(st.integers(0, 20), label="ago") * SECOND_US
        row = row._replace(id=job_id, queue=row.queue if queue is None else queue, ended_us=ended_us)
        self.ends[job_id] = row
        return row


def check(tale: Tale, kept: list[EndRow]) -> None:
    ids = {row.id for row in kept}
    assert all(tale.ends[row.id].ended_us == row.ended_us for row in kept)
    here: dict[bytes, list[EndRow]] = defaultdict(list)
    gone: dict[bytes, list[EndRow]] = defaultdict(list)
    for row in tale.ends.values():
        if row.terms.keep_us and row.state != FAILED and row.ended_us + KEEP_US <= tale.now_us:
            assert row.id not in ids, "its job said so"
            continue
        (here if row.id in ids else gone)[row.queue if row.queue in RULES else b""].append(row)
    for queue in (b"", *RULES):
        rules = RULES.get(queue, COMMON)
        assert len(here[queue]) <= rules.rows_max
        assert sum(len(row.key) + len(row.result) + len(row.payload) for row in here[queue]) <= rules.bytes_max
        for dead in (False, True):
            oldest_us = min(
                [row.ended_us for row in here[queue] if (row.state == FAILED) is dead], default=1 << 62
            )
            assert all(row.ended_us <= oldest_us for row in gone[queue] if (row.state == FAILED) is dead)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_stores_keep_the_same_lines_and_no_more_than_they_should(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        houses = [opened.enter_context(House(kind, Path(folder), RETENTION)) for kind in STORES]
        tale = Tale()
        kept: list[EndRow] = []
        for _ in range(data.draw(st.integers(1, 12), label="turns")):
            drawn = tale.draw(data, kept)
            told: list[list[EndRow]] = []
            for house in houses:
                house.store.commit(drawn, tale.now_us)
                told.append(house.store.history(HistoryQuery(limit=1000)))
                assert house.store.count()[1] == len(told[-1])
            kept = told[0]
            assert [[row.id for row in rows] for rows in told] == [[row.id for row in kept]] * len(told)
            check(tale, kept)
            if data.draw(st.booleans(), label="reopen"):
                for house in houses:
                    house.reopen()
