"""The result log: tasks that ran outside the hall, told to it by whoever ran them, and found in one place."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from draft_link import DraftLink
from hall_process import wait_until
from testimony import audit

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman import Worker, WorkerJob
from hiringhall.peers.gearman_draft import Job, ServerError
from hiringhall.peers.gearman_draft.blocking import Client, ResultLog
from hiringhall.records import History
from hiringhall.storage.contract import HistoryQuery
from stage import forking

if TYPE_CHECKING:
    from hall_process import HallProcess


def shown(hall: HallProcess, *words: str) -> list[dict[str, Any]]:
    """What `hall history` says in JSON."""
    command = [*forking.HALL, "history", "--data", hall.place, "--json", *words]
    said = forking.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_what_ran_elsewhere_is_in_the_history(hall: HallProcess) -> None:
    started = datetime.now(UTC) - timedelta(hours=2)
    ended = started + timedelta(minutes=90)
    with ResultLog(hall.address, timeout_s=20) as log:
        handle = log.register_start_task(("backup", "monday"), started)
        assert log.register_task_result(("backup", "monday"), ended, b"81 GB") == handle
        failed = log.register_task_result(("backup", "tuesday"), ended, b"disk full", code=28)
        assert failed != handle
    hall.kill()
    newest, oldest = shown(hall, "--queue", "backup")
    assert [oldest[name] for name in ("key", "state", "code", "result")] == ["monday", "done", 0, "81 GB"]
    assert datetime.fromisoformat(oldest["started"]) == started
    assert datetime.fromisoformat(oldest["ended"]) == ended
    assert [newest[name] for name in ("key", "state", "code", "result")] == [
        "tuesday",
        "failed",
        28,
        "disk full",
    ]
    assert datetime.fromisoformat(newest["started"]) == datetime.fromisoformat(newest["ended"]) == ended
    hall.start()
    with Client(hall.address, timeout_s=20) as client:
        outcome = client.result(Job(b"", b"", server=hall.address, handle=handle))
        assert outcome == (90 * 60, 0, b"81 GB")
        outcome = client.result(Job(b"", b"", server=hall.address, handle=failed))
        assert outcome is not None
        assert outcome[1:] == (28, b"disk full")
    assert audit(hall) == "clean"


def test_what_was_started_and_never_ended_survives_a_kill(hall: HallProcess) -> None:
    """It is not given to a worker of the hall, whatever happens; and may be ended by somebody new."""
    started = datetime.now(UTC) - timedelta(seconds=30)
    with ResultLog(hall.address, timeout_s=20) as log:
        handle = log.register_start_task(("nightly", "sums"), started)
    for act in (hall.kill, hall.start, hall.kill):
        with History(hall.place) as records:
            (record,) = records.find(state="running")
        assert (record.queue, record.key, record.state) == (b"nightly", b"sums", "running")
        assert (record.started, record.ended) == (started, None)
        (line,) = shown(hall, "--state", "running")
        assert (line["key"], line["ended"]) == ("sums", None)
        assert datetime.fromisoformat(line["started"]) == started
        act()
    hall.start()

    taken: list[bytes] = []
    worker = Worker(hall.address)
    worker.register("nightly", lambda job: taken.append(job.data))
    with worker, hall.client() as gearman, ResultLog(hall.address, timeout_s=20) as log:
        gearman.run("nightly")
        assert taken == [b""], "the worker is there, and was given its own job only"
        assert hall.counts("nightly")[:2] == (1, 1)
        with Client(hall.address, timeout_s=20) as client:
            job = Job(b"", b"", server=hall.address, handle=handle)
            assert client.result(job) is None
            with pytest.raises(ServerError) as refused:
                log.register_start_task(("nightly", "sums"))
            assert refused.value.code == wire.BUSY
            assert log.register_task_result(("nightly", "sums"), result=b"at last") == handle
            outcome = client.result(job)
        assert outcome is not None
        assert (outcome.elapsed_s >= 30, outcome.data) == (True, b"at last")
    assert shown(hall, "--state", "running") == []
    assert taken == [b""]
    assert audit(hall) == "clean"


def test_a_worker_of_another_protocol_logs_what_its_job_sets_off(hall: HallProcess) -> None:
    """A Gearman worker does a job in three steps, and logs each of them from its own thread."""
    worker = Worker(hall.address)

    @worker.function("upload")
    def upload(job: WorkerJob) -> bytes:
        with ResultLog(hall.address, timeout_s=20) as log:
            for step in ("fetch", "convert", "store"):
                task = ("upload-step", f"{job.data.decode()}-{step}")
                log.register_start_task(task, time.time())
                log.register_task_result(task, time.time(), step.encode(), code=3 if step == "store" else 0)
        return b"uploaded"

    with worker, hall.client() as client:
        assert client.run("upload", b"7") == b"uploaded"
    lines = shown(hall, "--queue", "upload-step")
    assert [(line["key"], line["state"], line["code"]) for line in lines] == [
        ("7-store", "failed", 3),
        ("7-convert", "done", 0),
        ("7-fetch", "done", 0),
    ]


def test_a_job_of_the_hall_is_not_ended_from_outside(hall: HallProcess) -> None:
    with Client(hall.address, timeout_s=20) as client, ResultLog(hall.address, timeout_s=20) as log:
        job = client.submit("f", key="k")
        for tell in (log.register_start_task, log.register_task_result):
            with pytest.raises(ServerError) as refused:
                tell(("f", "k"))
            assert refused.value.code == wire.BUSY
        assert client.result(job) is None
        # Who hands in a job with the key of a task that runs elsewhere learns how that ends.
        handle = log.register_start_task(("g", "k"))
        joined = client.submit("g", key="k")
        assert joined.handle == handle
        log.register_task_result(("g", "k"), result=b"done elsewhere")
        assert client.wait(joined).data == b"done elsewhere"


def test_a_thousand_tasks_at_once(hall: HallProcess) -> None:
    """They share the hall's commits: a call returns when its own is on disk."""
    with ResultLog(hall.address, timeout_s=60) as log:
        tasks = [("step", str(number)) for number in range(1000)]

        async def story() -> list[bytes]:
            asynchronous = log.asynchronous
            await asyncio.gather(*(asynchronous.register_start_task(task) for task in tasks))
            return await asyncio.gather(*(asynchronous.register_task_result(task) for task in tasks))

        handles = log.wait_for(story())
    hall.kill()
    assert len(set(handles)) == 1000
    with History(hall.place) as records:
        assert {record.key for record in records.find(queue="step", state="done")} == {
            key.encode() for _, key in tasks
        }


def test_two_workers_of_the_draft_on_one_machine_have_different_names(hall: HallProcess) -> None:
    async def story() -> None:
        async with asyncio.timeout(20), AsyncExitStack() as stack:
            application = await stack.enter_async_context(await DraftLink.open(hall.address))
            names = []
            for _ in range(2):
                worker = await stack.enter_async_context(await DraftLink.open(hall.address))
                worker.send(wire.pack_worker_connect([b"named"]))
                await application.ask(wire.pack_job_create_req(b"named", b"", 0, wire.ASYNC_HANDLE, b""))
                assert await worker.ask(wire.JOB_ASSIGN_REQ_PACKET) == ("job_assign_res", b"named\0")
                worker.send(wire.pack_job_complete_announce(0, b""))
                assert await worker.ask(wire.JOB_ASSIGN_REQ_PACKET) == ("job_assign_res", b"")
                names.append(worker.name)
            assert len(set(names)) == 2
            wanted = HistoryQuery(queue=b"named")
            await asyncio.to_thread(wait_until, lambda: len(hall.history(wanted)) == 2, "both are written")
            assert [end.worker.decode() for end in hall.history(wanted)] == names[::-1]

    asyncio.run(story())
