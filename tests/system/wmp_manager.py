"""A plain WMP manager in a process of its own, with jobs to be done and a record of what became of them.

    wmp_manager.py IDENTITY ADDRESS RECORD COUNT LEASE_S

The record has a line for each job that has ended. A manager that is started again on the same record submits
those that are not in it. It says where it listens on stdout, and when all is done.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from hiringhall.peers.wmp import Manager


def left_to_do(identity: str, record_path: Path, count: int) -> list[str]:
    recorded = record_path.read_text().splitlines() if record_path.exists() else []
    ended = {line.split()[0] for line in recorded}
    return [name for number in range(count) if (name := f"{identity}-{number}") not in ended]


async def main(manager: Manager, record: int, to_do: list[str]) -> None:
    async with manager:
        say({"address": manager.address, "to_do": len(to_do)})

        async def have_done(name: str) -> None:
            result = await manager.do("work", name.encode(), key=name)
            os.write(record, f"{name} {result.decode()}\n".encode())

        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        async with asyncio.TaskGroup() as group:
            for name in to_do:
                group.create_task(have_done(name))
        manager.state.audit()
        say({"all done": not manager.state.jobs})
        await stop.wait()


def say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    own_identity, own_address, path, job_count, lease = sys.argv[1:]
    asyncio.run(
        main(
            Manager(own_address, identity=own_identity, lease_s=float(lease)),
            os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
            left_to_do(own_identity, Path(path), int(job_count)),
        )
    )
