"""procrastinate on PostgreSQL: submit some jobs and drain them. Prints the jobs a second of both as JSON.

python bench/peers/procrastinate_jobs.py URL JOBS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import procrastinate

TASKS = 64
"""Submissions and jobs that are under way at once."""
CONNECTIONS = 8


async def measure(url: str, jobs: int) -> dict[str, float]:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    app = procrastinate.App(connector=connector)

    @app.task(name="slap")  # type: ignore[untyped-decorator]
    async def slap(number: int) -> int:
        return number

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        numbers = iter(range(jobs))

        async def submit() -> None:
            for number in numbers:
                await slap.defer_async(number=number)

        begun_s = time.perf_counter()
        await asyncio.gather(*[submit() for _ in range(TASKS)])
        submitted_s = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=TASKS, listen_notify=False)
        drained_s = time.perf_counter()
    return {"submit": jobs / (submitted_s - begun_s), "drain": jobs / (drained_s - submitted_s)}


print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2])))))
