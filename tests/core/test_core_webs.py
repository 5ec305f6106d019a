"""Random webs of jobs that come, depend on each other and are done, beside a plain model of who waits for whom.

The laws: an edge that would close a circle is refused, and no other is; a job starts only after all its
parents succeeded; a restart changes nothing of it; and when every name has come, everything is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import BACKGROUND, Disk, Hall, name_of, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from hiringhall.core.errors import BAD_REQUEST, CYCLE, WRONG_STATE, Refusal
from hiringhall.core.states import HELD, LEASED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, ParentRef

NAMES = "abcdefgh"

Step = tuple[str, str, str, bool]
"""What happens, to whom, with which others, and whether those are named by id where they have one."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "depend", "depend", "depend", "finish", "take", "restart"]),
        st.sampled_from(NAMES),
        st.text(NAMES, max_size=3),
        st.booleans(),
    ),
    max_size=60,
)


class Web:
    """The hall, its disk, and the model: whom each name still waits for."""

    def __init__(self) -> None:
        self.hall = Hall()
        self.disk = Disk()
        self.waits: dict[str, set[str]] = {name: set() for name in NAMES}
        self.done: dict[str, None] = {}

    def find(self, name: str) -> Job | None:
        return self.hall.core.find_key(b"q", name.encode())

    def refs(self, names: str, by_id: bool) -> tuple[ParentRef, ...]:
        found = [self.find(name) if by_id else None for name in names]
        return tuple(
            job.id if job is not None else (b"q", name.encode()) for job, name in zip(found, names, strict=True)
        )

    def closes_a_circle(self, name: str, parents: str) -> bool:
        stack = [parent for parent in parents if parent not in self.done]
        seen: set[str] = set()
        while stack:
            other = stack.pop()
            if other == name:
                return True
            if other not in seen:
                seen.add(other)
                stack.extend(self.waits[other])
        return False

    def submit(self, name: str, parents: str, by_id: bool) -> None:
        if self.find(name) is not None or name in self.done:
            return
        try:
            self.hall.submit(name, key=name, terms=BACKGROUND, parents=self.refs(parents, by_id))
        except Refusal as refusal:
            self.refused(refusal, name, parents)
            return
        self.accepted(name, parents)

    def depend(self, name: str, parents: str, by_id: bool) -> None:
        job = self.find(name)
        if job is None:
            return
        unmet = [parent for parent in parents if parent not in self.done]
        if job.state == LEASED and unmet and not self.closes_a_circle(name, parents):
            with refused(WRONG_STATE):
                self.hall.core.dependencies.depend(job, self.refs(parents, by_id))
            return
        try:
            self.hall.core.dependencies.depend(job, self.refs(parents, by_id))
        except Refusal as refusal:
            self.refused(refusal, name, parents)
            return
        self.accepted(name, parents)

    def refused(self, refusal: Refusal, name: str, parents: str) -> None:
        assert self.closes_a_circle(name, parents)
        assert refusal.reason in (CYCLE, BAD_REQUEST)
        assert refusal.reason == CYCLE or name in parents, "only who names himself asks for nonsense"

    def accepted(self, name: str, parents: str) -> None:
        assert not self.closes_a_circle(name, parents)
        self.waits[name] |= {parent for parent in parents if parent not in self.done}

    def take(self) -> bool:
        lease = self.hall.core.take(self.hall.core.residents.get(b"q", b"bob"))
        if lease is None:
            return False
        assert not self.waits[name_of(lease.job)], "it started before its parents were done"
        return True

    def finish(self) -> bool:
        worker = self.hall.core.residents.get(b"q", b"bob")
        if not worker.leases and not self.take():
            return False
        lease = next(iter(worker.leases.values()))
        self.hall.core.finish(lease, b"")
        self.done[name_of(lease.job)] = None
        for waits in self.waits.values():
            waits.discard(name_of(lease.job))
        return True

    def restart(self) -> None:
        self.disk.apply(self.hall.commit())
        for row in self.disk.live.values():
            assert set(row.parents) == {(b"q", name.encode()) for name in self.waits[row.payload.decode()]}
        loaded = self.disk.load()
        now_us = self.hall.core.now_us
        self.hall = Hall(epoch=loaded.epoch)
        self.hall.core.table.now_us = now_us
        self.hall.core.restore(loaded)

    def check(self) -> None:
        self.hall.turn()
        for name in NAMES:
            job = self.find(name)
            if job is not None:
                assert (job.state == HELD) == bool(self.waits[name])


@settings(max_examples=3 * settings().max_examples, deadline=None, derandomize=True, database=None)
@given(STEPS)
def test_a_web_of_jobs(steps: list[Step]) -> None:
    web = Web()
    for verb, name, others, by_id in steps:
        if verb == "submit":
            web.submit(name, others, by_id)
        elif verb == "depend":
            web.depend(name, others, by_id)
        elif verb == "take":
            web.take()
        elif verb == "finish":
            web.finish()
        else:
            web.restart()
        web.check()
    for name in NAMES:
        web.submit(name, "", by_id=False)
    web.check()
    while web.finish():
        web.check()
    assert sorted(web.done) == sorted(NAMES)
    assert web.hall.core.jobs == {}
    assert web.hall.core.graph.expected == {}
