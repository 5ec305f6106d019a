"""One function of an SDK worker, called by every kind of client. The result of each job is found by its id,
also after the hall was killed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from hall_process import wait_until
from many_doors import ManyDoors

import hiringhall
from hiringhall.peers import wmp
from hiringhall.peers.hire import Provider

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "worker"))

from worker_process import WorkerProcess

QUEUE: Final = "house.shout"
CODE: Final = """
from hiringhall import Hall

hall = Hall()

@hall.job
def shout(text: str = "nobody said anything") -> str:
    return text.upper()
"""
CALLERS: Final = ("sdk", "asyncio", "gearman", "pingpong", "wmp", "hire", "schedule")


class EveryDoor(ManyDoors):
    """A hall whose doors keep the ends of all jobs in the history."""

    dialects = ("gearman", "dwork", "pingpong", "wmp", "hire", "native")

    def __init__(self, folder: Path, manager: wmp.Manager) -> None:
        logged = {"log": "all"}
        super().__init__(
            folder,
            gearman=logged,
            pingpong={"queue": QUEUE, **logged},
            wmp={"managers": manager.address, "roles": QUEUE, **logged},
            hire=logged,
            native=logged,
        )

    @property
    def hire(self) -> str:
        return f"tcp://{self._addresses['hire']}"

    @property
    def url(self) -> str:
        return f"hall://{self._addresses['native']}"


def test_the_same_function_is_called_from_everywhere(tmp_path: Path) -> None:
    (tmp_path / "house.py").write_text(CODE)
    asyncio.run(_story(tmp_path))


async def _story(folder: Path) -> None:
    async with wmp.Manager("127.0.0.1:0", identity="north", lease_s=30.0) as manager:
        hall = EveryDoor(folder, manager)
        await asyncio.to_thread(hall.start)
        try:
            words = ("--processes", "1")
            with WorkerProcess(hall.url, *words, target="house", folder=folder) as worker:
                await asyncio.to_thread(worker.wait_for, "connected")
                results = await _call_everywhere(hall, manager)
            assert await asyncio.to_thread(_results_by_id, hall.url) == results
            await asyncio.to_thread(hall.kill)
            await asyncio.to_thread(hall.start)
            assert await asyncio.to_thread(_results_by_id, hall.url) == results
            await asyncio.to_thread(hall.check)
        finally:
            hall.stop()


async def _call_everywhere(hall: EveryDoor, manager: wmp.Manager) -> list[str]:
    """The results that must be in the history, sorted."""
    sdk = hiringhall.Hall(hall.url)
    shout = sdk.function(QUEUE, returns=str)
    assert await asyncio.to_thread(lambda: shout.submit("sdk").result(timeout=20)) == "SDK"
    assert await (await shout.asubmit(text="asyncio")) == "ASYNCIO"

    host, _, port = hall.address.rpartition(":")
    command = ["gearman", "-h", host, "-p", port, "-f", QUEUE, '["gearman"]']
    called = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True, timeout=20)
    assert called.stdout == b'"GEARMAN"'

    with hall.pingpong_client() as client:
        assert await asyncio.to_thread(client.submit, b'["pingpong"]') == b'"PINGPONG"'

    assert await manager.do(QUEUE, b'{"text": "wmp"}') == b'"WMP"'

    # A provider's job has no payload, and its worker's result is for the history only.
    async with Provider(hall.hire, window_s=0.1, pause_s=0.01) as provider:
        await provider.employ(QUEUE, 0.05)

    await sdk.aschedule("often", shout, "schedule", every=1)
    await asyncio.to_thread(_wait_for_results, hall.url, len(CALLERS))
    await sdk.aunschedule("often")
    while (await sdk.connection().request("jobs", {"queue": QUEUE.encode()}))[0]:
        pass  # it may have fired once more
    await sdk.aclose()
    sdk.close()
    results = await asyncio.to_thread(_results_by_id, hall.url)
    said = {"hire": "nobody said anything"}
    assert set(results) == {said.get(caller, caller).upper() for caller in CALLERS}
    return results


def _wait_for_results(url: str, count: int) -> None:
    wait_until(lambda: len(set(_results_by_id(url))) >= count, "all calls are in the history", 20)


def _results_by_id(url: str) -> list[str]:
    """The results of all ended jobs of the function, each asked for by its id."""
    with hiringhall.Hall(url) as hall:

        async def ask() -> list[dict[str, Any]]:
            rows: list[dict[str, Any]]
            rows, _ = await hall.connection().request("history", {"queue": QUEUE.encode()})
            return rows

        ids = [row["id"] for row in hall.run(ask())]
        return sorted(hall.job_of(job_id, str).result(timeout=20) for job_id in ids)
