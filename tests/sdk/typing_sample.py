"""Every form of the SDK, for type checkers: `test_sdk_typing.py` compares what they reveal."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import reveal_type

from hiringhall import Hall, Job, JobFailed, JobFunction, current_job

hall = Hall()


@dataclass
class Point:
    x: int


@hall.job
def thumbnail(path: str, width: int = 200) -> str:
    current_job().progress(1, 2)
    return f"{path} {width}"


@hall.job(retries=3, timeout=60, retry_on=OSError, codec="msgpack")
async def move(point: Point) -> Point:
    await asyncio.sleep(0)
    return point


def blocking() -> None:
    reveal_type(thumbnail("cat.jpg"))  # str
    job = thumbnail.submit("cat.jpg", width=100)
    reveal_type(job)  # Job[str]
    reveal_type(job.result(timeout=10))  # str
    reveal_type(job.info().worker)  # str
    reveal_type(thumbnail.options(priority="high", delay=60).submit("cat.jpg").result())  # str
    reveal_type(list(thumbnail.map(["cat.jpg"])))  # list[str]
    reveal_type(list(thumbnail.starmap([("cat.jpg", 3)])))  # list[str]
    reveal_type(thumbnail.submit_many([("cat.jpg",)]))  # list[Job[str]]
    reveal_type(hall.gather(job, thumbnail.submit("dog.jpg")))  # list[str]
    reveal_type(move.submit(Point(1)).result())  # Point
    reveal_type(thumbnail.submit(job.argument()).result())  # str
    reveal_type(hall.job_of(5, int).result())  # int
    reveal_type(hall.job_of(5).result())  # Any
    reveal_type(hall.function("resize", returns=int).submit(1, a=2).result())  # int
    reveal_type(hall.function("resize", raw=True).submit(b"").result())  # bytes
    thumbnail.submit(5)  # an error
    thumbnail.submit("cat.jpg", height=5)  # an error
    thumbnail.map([5])  # an error for pyright
    thumbnail.options(priority="highest")  # an error
    thumbnail.options(name="other")  # an error
    try:
        job.result()
    except JobFailed as error:
        reveal_type(error.type)  # str


async def on_a_loop() -> None:
    reveal_type(await move(Point(1)))  # Point
    job = await move.asubmit(Point(1))
    reveal_type(job)  # Job[Point]
    reveal_type(await job)  # Point
    reveal_type(await hall.agather(job, job))  # list[Point]
    async for path in thumbnail.amap(["cat.jpg"]):
        reveal_type(path)  # str


def takes_any(function: JobFunction[[str], str], job: Job[str]) -> str:
    return function.submit("cat.jpg").result() + job.result()
