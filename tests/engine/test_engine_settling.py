"""The outcome of a commit is unknown, on a real loop with a real store thread."""

from __future__ import annotations

import pytest
from engine_stage import Stage, story

from hiringhall.dialects.session import Reporter
from hiringhall.storage.contract import OutcomeUnknown, StoreError

LOST = OutcomeUnknown("the connection was lost")


class Log(Reporter):
    """Keeps what is reported of commits."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def unknown_commit(self, changes: int) -> None:
        self.lines.append(f"{changes} unknown")

    def settled_commit(self, changes: int, *, kept: bool) -> None:
        self.lines.append(f"{changes} kept" if kept else f"{changes} not kept")

    def unsettled_commit(self, job_ids: list[int]) -> None:
        self.lines.append(f"unsettled {job_ids}")


@pytest.mark.parametrize("kept", [True, False])
def test_the_store_is_asked_and_the_peer_hears_the_truth(kept: bool) -> None:
    log = Log()

    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.store.doubt, stage.store.kept = LOST, kept
        stage.submit(ann, "a")
        await wire.hears("accepted a|" if kept else "refused a: the connection was lost|")
        await stage.trouble("the connection was lost", "")
        assert log.lines == ["1 unknown", "1 kept" if kept else "1 not kept"]
        assert stage.store.count() == (int(kept), 0)
        assert stage.driver.measures.commit_failures == int(not kept)

    story(tell, reporter=log)


def test_a_hall_that_closes_settles_its_last_commit_first() -> None:
    log = Log()

    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.store.doubt, stage.store.kept = LOST, True
        stage.submit(ann, "a")
        await stage.trouble("the connection was lost")
        await stage.stop()
        assert wire.text == "accepted a|"
        assert log.lines == ["1 unknown", "1 kept"]

    story(tell, reporter=log)


def test_a_hall_that_closes_and_cannot_settle_names_the_jobs() -> None:
    log = Log()

    async def tell(stage: Stage) -> None:
        ann, wire = stage.peer("ann")
        stage.store.doubt = LOST
        job = stage.submit(ann, "a")
        await stage.trouble("the connection was lost")
        stage.store.trouble = StoreError("no connection")
        await stage.stop()
        assert wire.text == ""
        assert log.lines == ["1 unknown", f"unsettled [{job.id}]"]

    story(tell, reporter=log, settle_us=400_000)
