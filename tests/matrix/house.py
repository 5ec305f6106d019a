"""One hall with every door, for all cells, and its operator.

Each pair of dialects has a queue of its own. A PING/PONG or dwork door has one queue, so there is such a door
for each pair that needs one; all other doors are there once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
from hall_process import HallProcess
from testimony import audit

from hiringhall.peers import wmp
from hiringhall.peers.gearman import AsyncClient
from hiringhall.sdk.connection import Connection
from hiringhall.sdk.conversation import Assigned
from hiringhall.sdk.errors import HallRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

SUBMITTERS: Final = (
    "gearman",
    "draft",
    "dwork",
    "pingpong",
    "wmp",
    "hire",
    "beanstalkd",
    "native",
    "http",
    "schedule",
)
WORKERS: Final = ("gearman", "draft", "dwork", "pingpong", "wmp", "hire", "beanstalkd", "native")
ONE_QUEUE: Final = {
    "dwork": {"keep_open": True, "lease_s": 6},
    "pingpong": {"frontend": "127.0.0.1:0", "worker_expire_s": 2, "job_timeout_s": 5, "takeover": True},
}
"""Dialects whose doors have one queue, and the settings of these doors."""
HELD_S: Final = 3600
"""How long a job takes at a hire worker that is to keep it."""
OPERATOR_SKILL: Final = 9
"""Of a worker of the operator's: more than any other worker has."""


def queue_of(submitter: str, worker: str) -> str:
    return f"{submitter}.{worker}"


def queues_with(dialect: str) -> list[str]:
    """The queues of all pairs in which a dialect submits or works."""
    return [
        queue_of(submitter, worker)
        for submitter in SUBMITTERS
        for worker in WORKERS
        if dialect in (submitter, worker)
    ]


class EveryDoor(HallProcess):
    """`hall serve` with all these doors and its web."""

    def __init__(self, folder: Path, manager: str) -> None:
        super().__init__(folder, more=_tables(manager), environment={"HALL_WEB_ENABLED": "true"})
        self.doors: list[dict[str, str]] = []

    def _first_line(self) -> bytes:
        line = super()._first_line()
        self.doors = json.loads(line)["doors"]
        return line

    def addresses(self, dialect: str, role: str = "") -> list[str]:
        """In the order of the settings."""
        return [each["address"] for each in self.doors if (each["dialect"], each["role"]) == (dialect, role)]


class House:
    """The hall, its operator, and what submitters share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self.manager = wmp.Manager("127.0.0.1:0", identity="matrix", lease_s=30.0)
        """The WMP submitter: it has jobs, and the hall works for it."""

    def number(self) -> int:
        """Never the same."""
        return next(self._numbers)

    async def __aenter__(self) -> Self:
        await self.manager.open()
        self.hall = hall = EveryDoor(self._folder, self.manager.address)
        await asyncio.to_thread(hall.start)
        self.gearman = hall.address
        self.beanstalkd = ("127.0.0.1", int(hall.addresses("beanstalkd")[0].rpartition(":")[2]))
        self.wmp = hall.addresses("wmp")[0]
        self.hire = f"tcp://{hall.addresses('hire')[0]}"
        self.native = next(each for each in hall.addresses("native") if not each.startswith("unix:"))
        self.dwork = dict(zip(queues_with("dwork"), hall.addresses("dwork"), strict=True))
        queues = queues_with("pingpong")
        self.pingpong_clients = dict(zip(queues, hall.addresses("pingpong", "frontend"), strict=True))
        self.pingpong_workers = dict(zip(queues, hall.addresses("pingpong", "backend"), strict=True))
        self.operator = self.connection()
        self.api = httpx.AsyncClient(
            base_url=f"{hall.web}/api/v1",
            headers={"X-Requested-By": "tests"},
            timeout=60.0,
            # A connection that is idle may be closed by the server at the moment when it is used again.
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.api.aclose()
        await self.operator.close()
        await self.manager.close()
        if error is None:
            assert await asyncio.to_thread(audit, self.hall) == "clean"
            assert "Traceback" not in self.hall.errors(), self.hall.errors()
        await asyncio.to_thread(self.hall.stop)

    def connection(self) -> Connection:
        return Connection(f"hall://{self.native}", name="matrix")

    # --- what an operator does

    async def command(self, line: str) -> None:
        """A command of Gearman's text protocol."""
        async with AsyncClient(self.gearman) as client:
            (answer,) = await client.admin(line)
        assert answer.startswith("OK"), f"{line}: {answer}"

    async def need(self, queue: str, skill: int, takes_s: int = 0) -> None:
        """What jobs of a queue need from now on."""
        await self.command(f"needs {queue} {skill} {takes_s}" if skill or takes_s else f"needs {queue}")

    async def rate(self, queue: str, skill: int, name: str) -> None:
        """Set the skill of a worker."""
        await self.command(f"skill {name} {queue} {skill}")

    async def live(self, queue: str) -> list[dict[str, Any]]:
        """The live jobs of a queue, the oldest first."""
        jobs, _ = await self.operator.request("jobs", {"queue": queue.encode()})
        found: list[dict[str, Any]] = jobs
        return found

    async def live_id(self, queue: str) -> int:
        """The id of its only live job."""
        (job,) = await self.live(queue)
        number: int = job["id"]
        return number

    async def job(self, job_id: int) -> dict[str, Any]:
        found: dict[str, Any] = await self.operator.request("job", (job_id,))
        return found

    async def is_over(self, job_id: int) -> bool:
        try:
            return bool((await self.job(job_id)).get("ended_us"))
        except HallRefused:
            return True  # nothing is kept of a job that was in memory

    async def counts(self, queue: str) -> dict[str, int]:
        """Of a queue; all 0 before it has had a job or a worker."""
        try:
            found: dict[str, int] = await self.operator.request("queue", (queue.encode(),))
        except HallRefused:
            return dict.fromkeys(("done_total", "failed_total", "running"), 0)
        return found

    async def workers(self, queue: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.operator.request("workers", (0, 100, queue.encode()))
        return found

    async def cancel(self, job_id: int) -> None:
        await self.operator.request("cancel", (job_id, b"not wanted"))

    async def limit(self, queue: str, running_max: int) -> None:
        """How many jobs of a queue may run from now on; 0: any number."""
        if running_max:
            await self.operator.request("limit", {"name": queue.encode(), "running_max": running_max})
        else:
            await self.operator.request("unlimit", {"name": queue.encode()})

    @asynccontextmanager
    async def occupied(self, queue: str) -> AsyncIterator[int]:
        """A job of the queue is with a worker of the operator's, which takes no other. Gives its id."""
        given: asyncio.Queue[Assigned] = asyncio.Queue()
        worker = self.connection()
        worker.on_frame[Assigned] = given.put_nowait
        try:
            await worker.request("work", (b"operator", 1, [(queue.encode(), 0, OPERATOR_SKILL)], -1, 0))
            spec = (queue.encode(), b"", {"skill": OPERATOR_SKILL}, b"", 0, [])
            (job_id,) = await self.operator.request("submit", (0, [spec]))
            lease = (await given.get()).lease
            yield job_id
            await worker.request("slots", (0,))
            await worker.request("finish", (lease, b""))
        finally:
            await worker.close()

    async def clear(self, queue: str) -> None:
        """Cancel every job of a queue."""
        await self.operator.request("resume", (queue.encode(),))
        for job in await self.live(queue):
            with suppress(HallRefused):  # it has ended meanwhile
                await self.cancel(job["id"])


def _tables(manager: str) -> str:
    roles = [queue_of("wmp", worker) for worker in WORKERS]
    types = [queue_of(submitter, "hire") for submitter in SUBMITTERS]
    once: dict[str, dict[str, object]] = {
        "beanstalkd": {},
        "native": {},
        "wmp": {"manager": "hall", "lease_s": 4, "expire_s": 4, "managers": [manager], "roles": roles},
        "hire": {"types": types, "window_s": 0.3, "perform_s": 0.2, "pause_s": 0.1, "pause_max_s": 0.5},
    }
    doors = list(once.items())
    for dialect, settings in ONE_QUEUE.items():
        doors += [(dialect, {"queue": queue, **settings}) for queue in queues_with(dialect)]
    return "".join(_door(dialect, settings.items()) for dialect, settings in doors) + (
        '[web]\nenabled = true\naddress = "127.0.0.1:0"\n'
    )


def _door(dialect: str, settings: Iterable[tuple[str, object]]) -> str:
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings]
    return "\n".join(["[[door]]", f'dialect = "{dialect}"', 'address = "127.0.0.1:0"', *lines, "", ""])
