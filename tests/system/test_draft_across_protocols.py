"""Jobs handed in by the draft's protocol and done by Gearman's, and the other way round; and their results,
read when everybody has gone and the hall has been killed.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from draft_house import DraftHouse
from foreign import Program, missing_program
from hall_process import wait_until
from house_worker import HouseWorker
from testimony import audit, history, job_id

from hiringhall.peers.gearman import JobFailed as GearmanJobFailed
from hiringhall.peers.gearman import Progress, Receipt
from hiringhall.peers.gearman_draft import Job, JobFailed, Outcome, Status, blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hall_process import HallProcess


def asking(hall: HallProcess) -> blocking.Client:
    """Somebody who has never been here before."""
    return blocking.Client(hall.address, timeout_s=20)


def job_of(hall: HallProcess, handle: bytes) -> Job:
    """What an application has written down: which handle, at which server."""
    return Job(b"", b"", server=hall.address, handle=handle)


def check_for_ever(hall: HallProcess, handle: bytes, code: int, data: bytes) -> None:
    """The result is told to somebody new, and again when the hall has been killed."""
    outcomes: set[Outcome | None] = set()
    for killed in (False, True):
        if killed:
            hall.kill()
            hall.start()
        with asking(hall) as client:
            outcomes.add(client.result(job_of(hall, handle)))
            done = client.status(job_of(hall, handle))
    (outcome,) = outcomes
    assert outcome is not None
    assert outcome[1:] == (code, data)
    assert 1 <= outcome.elapsed_s < 60
    assert (done.numerator == done.denominator > 0) == (code == 0)
    assert done.remaining_s == 0
    (line,) = [line for line in history(hall.place) if line.id == job_id(handle)]
    assert (line.state, line.result) == ("failed" if code else "done", data.decode())


def test_a_draft_job_done_by_our_gearman_worker(hall: HallProcess) -> None:
    with asking(hall) as client:
        job = client.submit("gate", b"", key="k")
        assert client.status(job) == Status(0, 0, 0)
        assert client.result(job) is None
    with HouseWorker(hall.address) as house, asking(hall) as client:
        wait_until(lambda: client.status(job) == Status(3, 7, 0), "it shows progress")
        assert client.result(job) is None
        house.gate.release()
        assert client.wait(job).data == b"opened"
    check_for_ever(hall, job.handle, 0, b"opened")
    assert audit(hall) == "clean"


def test_a_draft_job_done_by_the_gearman_tool(
    hall: HallProcess, tmp_path: Path, need: Callable[[str], None]
) -> None:
    """Its worker reverses what it gets, once the test has opened a gate."""
    need(missing_program("gearman", "sh", "rev"))
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    tool = ["gearman", "-h", "127.0.0.1", "-p", str(hall.port), "-w", "-f", "slow-rev", "--"]
    with Program([*tool, "sh", "-c", 'read _ < "$0"; rev', str(gate)], tmp_path):
        with asking(hall) as client:
            job = client.submit("slow-rev", b"hello")
            wait_until(lambda: hall.counts("slow-rev") == (1, 1, 1), "it runs")
            assert client.status(job) == Status(0, 0, 0)
            assert client.result(job) is None
        gate.write_text("open\n")
        with asking(hall) as client:
            assert client.wait(job_of(hall, job.handle)).data == b"olleh"
    check_for_ever(hall, job.handle, 0, b"olleh")


def test_a_draft_job_that_fails_at_the_gearman_tool(
    hall: HallProcess, tmp_path: Path, need: Callable[[str], None]
) -> None:
    need(missing_program("gearman", "false"))
    tool = ["gearman", "-h", "127.0.0.1", "-p", str(hall.port), "-w", "-f", "failing", "--", "false"]
    with Program(tool, tmp_path), asking(hall) as client:
        job = client.submit("failing")
        outcome = client.wait(job)
    assert outcome.code > 0
    check_for_ever(hall, job.handle, outcome.code, outcome.data)


@pytest.mark.parametrize("code", [0, 7])
def test_a_gearman_job_done_by_a_draft_worker(hall: HallProcess, code: int) -> None:
    with hall.client() as client:
        receipt = client.submit_background("draft-fail" if code else "draft-gate", b"%d" % code)
    with DraftHouse(hall.address) as house:
        if not code:
            with hall.client() as client:
                wait_until(lambda: client.status(receipt)[:4] == (True, True, 3, 7), "it shows progress")
            house.gate.release()
        with hall.client() as client:
            wait_until(lambda: not client.status(receipt).known, "it is done")
    check_for_ever(hall, receipt.handle, code, b"as you wish" if code else b"opened")


def test_a_job_of_the_gearman_tool_done_by_a_draft_worker(
    hall: HallProcess, need: Callable[[str], None]
) -> None:
    need(missing_program("gearman"))
    tool = ["gearman", "-h", "127.0.0.1", "-p", str(hall.port), "-b", "-f", "draft-count", "hello"]
    subprocess.run(tool, timeout=20, check=True)
    with hall.client() as client:
        (line,) = [line for line in client.admin("show jobs") if line]
    handle = re.split(r"\s", line)[0].encode()
    with DraftHouse(hall.address), asking(hall) as client:
        assert client.wait(job_of(hall, handle)).data == b"olleh"
    check_for_ever(hall, handle, 0, b"olleh")


def test_whoever_waits_hears_of_it_in_his_own_words(hall: HallProcess) -> None:
    with ExitStack() as stack:
        house = stack.enter_context(HouseWorker(hall.address))
        stack.enter_context(DraftHouse(hall.address))
        gearman = stack.enter_context(hall.client())
        draft = stack.enter_context(asking(hall))

        job = gearman.submit("draft-count", b"abc")
        assert list(job) == [Progress(1, 3), Progress(2, 3), Progress(3, 3)]
        assert job.result() == b"cba"
        with pytest.raises(GearmanJobFailed):
            gearman.run("draft-fail", b"9")

        heard: list[Status] = []
        assert draft.run("count", on_status=heard.append) == b"counted"
        assert heard == [Status(1, 3, 0), Status(2, 3, 0), Status(3, 3, 0)]
        with pytest.raises(JobFailed) as failed:
            draft.run("raise")
        assert (failed.value.code > 0, failed.value.data) == (True, b"boom")

        # The same key is the same job, whichever protocol names it.
        one = draft.submit("gate", key="shared")
        two = gearman.submit_background("gate", unique="shared")
        assert isinstance(two, Receipt)
        assert one.handle == two.handle
        house.gate.release()
        assert draft.wait(one).data == b"opened"
