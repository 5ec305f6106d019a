"""For stories of jobs that move: halls, files of jobs, and a worker that does them."""

from __future__ import annotations

import json
from queue import SimpleQueue
from typing import TYPE_CHECKING

from running import DEADLINE_S, HALL, Running

from hiringhall.peers.gearman import Worker
from hiringhall.records import History

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hiringhall.peers.gearman import WorkerJob
    from hiringhall.records import Record

DOOR = ("--door", "gearman=127.0.0.1:0")


def serve(folder: Path, data: str) -> Running:
    return Running(HALL, "serve", "--json", "--data", data, *DOOR, cwd=folder)


def write(path: Path, *lines: object) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def live(data: Path) -> list[Record]:
    with History(data) as history:
        found = [record for state in ("held", "delayed", "queued") for record in history.find(state=state)]
    return sorted(found, key=lambda record: record.id)


def done_by_worker(address: str, queues: Iterable[str], count: int) -> list[tuple[bytes, bytes]]:
    """So many jobs as a Gearman worker sees them, in the order in which it got them: unique and data."""
    seen: SimpleQueue[tuple[bytes, bytes]] = SimpleQueue()

    def do(job: WorkerJob) -> bytes:
        seen.put((job.unique, job.data))
        return b"done"

    worker = Worker(address)
    for queue in queues:
        worker.register(queue, do)
    with worker:
        return [seen.get(timeout=DEADLINE_S) for _ in range(count)]
