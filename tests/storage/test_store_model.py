"""Random batches against a pair of dicts: whatever comes, every store holds what the dicts hold."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_house import House
from store_rows import NOW_US, batch, plain_end, plain_job, update_of

from hiringhall.core.changes import EndRow, Firing, JobRow, OutputRow, output_bytes
from hiringhall.core.jobs import OUTPUT
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.storage.contract import HistoryQuery, QueueRetention, Retention

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import ParentRef, Try

Row = TypeVar("Row", JobRow, EndRow)
COUNTS = st.integers(0, 2**40)
BYTES = st.binary(max_size=40)
EXTRAS = st.none() | st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=5), BYTES, min_size=1, max_size=3
)
DIALECTS = st.sampled_from(["", "gearman", "native"])
TRIES = st.lists(st.tuples(COUNTS, COUNTS, BYTES, st.integers(0, 255), DIALECTS), max_size=3).map(tuple)
PARENTS = st.lists(st.integers(0, 2**62) | st.tuples(BYTES, BYTES), max_size=3).map(tuple)
FLOWS = st.sampled_from([b"nightly", b"\x00\xff"])
TERMS = st.builds(
    Terms,
    priority=st.integers(0, 2),
    durable=st.just(True),
    detached=st.booleans(),
    lease_us=st.sampled_from([0, 5]),
    on_parent_failure=st.integers(0, 2),
    expire_us=st.sampled_from([0, 7]),
    logged=st.booleans(),
)
LIVE_STATES = st.sampled_from([HELD, DELAYED, QUEUED, LEASED])
END_STATES = st.sampled_from([DONE, FAILED, CANCELLED])


# Most rows of a hall are empty in most columns, and a store may write those in another way.
NO_COUNT = st.just(0)
NO_BYTES = st.just(b"")
NO_PARENTS: st.SearchStrategy[tuple[ParentRef, ...]] = st.just(())
NO_TRIES: st.SearchStrategy[tuple[Try, ...]] = st.just(())
JOBS, JOBS_PLAIN = [
    st.tuples(
        *[NO_COUNT, BYTES, BYTES, BYTES, TERMS, LIVE_STATES, COUNTS, counts, COUNTS, counts, counts],
        *[parents, extras, counts, COUNTS, names, names, tries, flows, all_parents, DIALECTS],
    ).map(JobRow._make)
    for counts, parents, extras, names, tries, flows, all_parents in [
        (COUNTS, PARENTS, EXTRAS, BYTES, TRIES, FLOWS, PARENTS),
        (NO_COUNT, NO_PARENTS, st.none(), NO_BYTES, NO_TRIES, NO_BYTES, NO_PARENTS),
    ]
]
UPDATES, UPDATES_PLAIN = [
    st.tuples(
        *[NO_COUNT, TERMS, LIVE_STATES, counts, COUNTS, counts, counts, parents, extras],
        *[COUNTS, COUNTS, BYTES, BYTES, tries, FLOWS, all_parents, DIALECTS],
    ).map(lambda drawn: update_of(*drawn))
    for counts, parents, extras, tries, all_parents in [
        (COUNTS, PARENTS, EXTRAS, TRIES, PARENTS),
        (NO_COUNT, NO_PARENTS, st.none(), NO_TRIES, NO_PARENTS),
    ]
]
ENDS, ENDS_PLAIN = [
    st.builds(
        EndRow,
        id=NO_COUNT,
        queue=st.sampled_from([b"a", b"b", b"\x00"]),
        key=st.sampled_from([b"", b"k"]),
        state=END_STATES,
        code=counts,
        result=BYTES,
        worker=BYTES,
        created_us=COUNTS,
        started_us=COUNTS,
        ended_us=st.integers(NOW_US, NOW_US + 100),
        attempts=COUNTS,
        losses=counts,
        terms=TERMS,
        payload=payloads,
        extras=extras,
        ready_us=COUNTS,
        tries=tries,
        payload_cut=NO_COUNT,
        flow=flows,
        all_parents=all_parents,
        dialect=DIALECTS,
    )
    for counts, payloads, extras, tries, flows, all_parents in [
        (COUNTS, BYTES, EXTRAS, TRIES, FLOWS, PARENTS),
        (NO_COUNT, NO_BYTES, st.none(), NO_TRIES, NO_BYTES, NO_PARENTS),
    ]
]
FIRED = st.dictionaries(
    st.sampled_from(["a", "b", "ö"]), st.none() | st.builds(Firing, COUNTS, BYTES), max_size=2
)
QUEUES = {b"a": QueueRetention(), b"\x00": QueueRetention()}
RETENTIONS = [Retention(payload_bytes_max=20, output_bytes_max=200), Retention(queues=QUEUES)]
LINES = st.builds(OutputRow, st.just(0), COUNTS, st.integers(0, 2), BYTES)


def talks(job_id: int) -> bool:
    """Whether the workers of a job say something."""
    return job_id % 2 == 0


def marked(row: Row) -> Row:
    """A row as the core makes it for a job that has output."""
    return row._replace(extras={**(row.extras or {}), OUTPUT: b""}) if talks(row.id) else row


class Model:
    """What a store should hold after the batches drawn so far."""

    def __init__(self, retention: Retention) -> None:
        self.retention = retention
        self.output: dict[int, list[OutputRow]] = {}
        self.jobs: dict[int, JobRow] = {}
        self.ends: dict[int, EndRow] = {}
        self.fired: dict[str, Firing] = {}
        self.last_id = 0

    def draw(self, data: st.DataObject) -> Batch:
        drawn = self._draw(data)
        live = {*self.jobs, *[row.id for row in drawn.ends]}
        for job_id in sorted(filter(talks, live)):
            for line in data.draw(st.lists(LINES, max_size=4), label=f"output of {job_id}"):
                drawn.output.append(line._replace(job=job_id))
                self._say(drawn.output[-1])
        return drawn

    def _say(self, line: OutputRow) -> None:
        said = self.output.setdefault(line.job, [])
        start = said[-1].position + output_bytes(said[-1].data) if said else 0
        said.append(line._replace(position=start))
        first = start + output_bytes(line.data) - self.retention.output_bytes_max
        self.output[line.job] = [kept for kept in said if kept.position >= first]

    def _draw(self, data: st.DataObject) -> Batch:
        drawn = batch()
        for job_id in sorted(self.jobs):
            fate = data.draw(st.sampled_from(["stays", "changes", "ends"]), label=f"job {job_id}")
            if fate == "changes":
                drawn.updates.append(self._update(data, job_id))
            elif fate == "ends":
                drawn.deletes.append(job_id)
                drawn.ends.append(self._end(data, job_id))
        for job_id in sorted(self.ends):
            known = any(row.id == job_id for row in drawn.ends)
            if self.ends[job_id].state == FAILED and not known and data.draw(st.booleans(), label="revive"):
                del self.ends[job_id]
                if data.draw(st.booleans(), label="and ends at once"):
                    drawn.revived += [job_id] * data.draw(st.integers(0, 1))
                    drawn.ends.append(self._end(data, job_id))
                else:
                    drawn.revived.append(job_id)
                    drawn.inserts.append(self._job(data, job_id))
        for _ in range(data.draw(st.integers(0, 6), label="newcomers")):
            self.last_id += data.draw(st.integers(1, 20_000))
            if data.draw(st.booleans(), label="ends at once"):
                drawn.ends.append(self._end(data, self.last_id))
            else:
                drawn.inserts.append(self._job(data, self.last_id))
        drawn.fired = data.draw(FIRED)
        self.fired = {name: kept for name, kept in {**self.fired, **drawn.fired}.items() if kept is not None}
        return drawn

    def _job(self, data: st.DataObject, job_id: int) -> JobRow:
        row = marked(data.draw(JOBS | JOBS_PLAIN)._replace(id=job_id))
        self.jobs[job_id] = row
        return row

    def _update(self, data: st.DataObject, job_id: int) -> JobRow:
        changed = marked(data.draw(UPDATES | UPDATES_PLAIN)._replace(id=job_id))
        self.jobs[job_id] = self.jobs[job_id].updated(changed)
        return changed

    def _end(self, data: st.DataObject, job_id: int) -> EndRow:
        self.jobs.pop(job_id, None)
        row = marked(data.draw(ENDS | ENDS_PLAIN)._replace(id=job_id))
        bytes_max = self.retention.payload_bytes_max
        if row.state != FAILED and len(row.payload) > bytes_max:
            self.ends[job_id] = row._replace(payload=row.payload[:bytes_max], payload_cut=len(row.payload))
        else:
            self.ends[job_id] = row
        return row


QUERIES = [
    HistoryQuery(queue=b"a", key=b"k"),
    HistoryQuery(key=b"k"),
    HistoryQuery(queue=b"b"),
    HistoryQuery(state=FAILED),
    HistoryQuery(ended_from_us=NOW_US + 50),
    HistoryQuery(ended_from_us=NOW_US + 50, state=DONE),
]


def check(house: House, model: Model) -> None:
    assert house.store.count() == (len(model.jobs), len(model.ends))
    assert house.jobs() == [plain_job(model.jobs[job_id]) for job_id in sorted(model.jobs)]
    for job_id in (*model.jobs, *model.ends):
        said = model.output.get(job_id, [])
        assert house.store.output(job_id, 0).lines == said
        if said:
            assert house.store.output(job_id, said[-1].position).lines == said[-1:]
    newest_first = [model.ends[job_id] for job_id in sorted(model.ends, reverse=True)]
    assert house.lines() == [plain_end(row) for row in newest_first]
    for query in QUERIES:
        wanted = [
            row.id
            for row in newest_first
            if query.queue in {None, row.queue}
            and query.key in {None, row.key}
            and query.state in {None, row.state}
            and row.ended_us >= (query.ended_from_us or 0)
        ]
        assert house.ids(query) == wanted


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_store_holds_what_the_model_holds(kind: str, data: st.DataObject) -> None:
    model = Model(data.draw(st.sampled_from(RETENTIONS), label="retention"))
    with tempfile.TemporaryDirectory() as folder, House(kind, Path(folder), model.retention) as house:
        for turn in range(data.draw(st.integers(1, 6), label="turns")):
            house.store.commit(model.draw(data), NOW_US + turn)
            check(house, model)
            if data.draw(st.booleans(), label="reopen"):
                ended_max = data.draw(st.integers(0, 10))
                loaded = house.reopen(ended_max)
                assert loaded.fired == model.fired
                kept_jobs = [plain_job(model.jobs[job_id]) for job_id in sorted(model.jobs)]
                assert [plain_job(row) for row in loaded.jobs] == kept_jobs
                latest = sorted(model.ends.values(), key=lambda row: (row.ended_us, row.id))
                kept = latest[max(0, len(latest) - ended_max) :]
                assert [plain_end(row) for row in loaded.ended] == [
                    plain_end(row._replace(result=b"", payload=row.payload if row.state == FAILED else b""))
                    for row in kept
                ]
