"""Handles among the arguments of a job: the results of its parents, asked from the hall before it runs.

Invariant: a job begins with all the results that its arguments name, or fails and says which one is missing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.worker import messages, reports
from hiringhall.worker.link import LinkLost, Refused

if TYPE_CHECKING:
    from hiringhall.worker.pool import Pool
    from hiringhall.worker.tasks import Task

MARK: Final = "$job"
DEPTH_MAX: Final = 200


class Parents:
    """Asks for the results."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asking: set[asyncio.Task[None]] = set()

    def fill(self, task: Task, payload: bytes) -> None:
        """Place the job when the results of its parents are known."""
        ids = find_handles(payload)
        if not ids:
            self._pool.place(task)
            return
        asking = asyncio.get_running_loop().create_task(self._fill(task, ids))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)

    async def _fill(self, task: Task, ids: list[int]) -> None:
        asked = [self._pool.link.ask(wire.JOB, (job,)) for job in ids]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        results: dict[int, bytes] = {}
        for job, answer in zip(ids, answers, strict=True):
            if isinstance(answer, LinkLost):
                return
            trouble = str(answer) if isinstance(answer, Refused) else _trouble(answer)
            if trouble:
                text = f"the result of job {job}, which is an argument, is not there: {trouble}"
                self._pool.fail(
                    task, reports.BAD_ARGUMENTS, reports.failure("ParentResultMissing", text), False
                )
                return
            results[job] = _result(answer)
        if not task.revoked:
            task.packet = messages.filled(task.packet, results)
            self._pool.place(task)


def _result(answer: Any) -> bytes:
    result: bytes = answer["result"]
    return result


def _trouble(answer: Any) -> str:
    """Why a job has no result that can be used; empty: it has one."""
    if not isinstance(answer, dict):
        return "the hall did not answer"
    if answer.get("state") != "done":
        return f"it is {answer.get('state')}"
    if answer.get("truncated"):
        return "that job was not durable, or its result is longer than history.result_bytes_max"
    return ""


def find_handles(payload: bytes) -> list[int]:
    """The ids of the jobs whose results are arguments, in JSON or MessagePack."""
    found: dict[int, None] = {}
    try:
        value: object = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        try:
            value = msgspec.msgpack.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return []
    _search(value, found, 0)
    return list(found)


def _search(value: object, found: dict[int, None], depth: int) -> None:
    if depth > DEPTH_MAX:
        return
    if isinstance(value, dict):
        job = value.get(MARK)
        if len(value) == 1 and isinstance(job, int):
            found[job] = None
            return
        for each in value.values():
            _search(each, found, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _search(each, found, depth + 1)
