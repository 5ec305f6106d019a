"""Our own worker and provider of the hire protocol, against the hall, over TCP and on its bus."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
import zmq
import zmq.auth
from dwork_peer import Asker
from hall_process import HallProcess, free_port, wait_until

from hiringhall.core.states import DONE
from hiringhall.dialects.dwork import wire as dwork
from hiringhall.peers.gearman import AsyncClient, AsyncWorker, WorkerJob
from hiringhall.peers.hire import Curve, Job, Provider, Stage, Worker, best_skill
from hiringhall.peers.wmp import Job as WmpJob
from hiringhall.peers.wmp import Worker as WmpWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

STORY_S: Final = 30.0
MORE: Final = """
[[door]]
dialect = "hire"
address = "127.0.0.1:0"
policy = "best_skill"
window_s = 0.3
perform_s = 0.05

[[door]]
dialect = "hire-bus"
address = "127.0.0.1:0"
subscribe = "127.0.0.1:0"
policy = "best_skill"
window_s = 0.3
perform_s = 0.05
"""


class HireHall(HallProcess):
    """`hall serve` with a Gearman door and both hire doors."""

    def __init__(self, folder: Path, more: str = MORE) -> None:
        # The first hire door is where it was, when the hall is started again.
        super().__init__(folder, more=more.replace("127.0.0.1:0", f"127.0.0.1:{free_port()}", 1))
        self.addresses: dict[str, str] = {}
        """Of the hire doors, as peers write them."""
        self.others: list[str] = []
        """Of the doors behind those."""

    def _first_line(self) -> bytes:
        line = super()._first_line()
        _, lines, publish, subscribe, *others = (door["address"] for door in json.loads(line)["doors"])
        self.addresses = {"tcp": f"tcp://{lines}", "bus": f"bus://{publish},{subscribe}"}
        self.others = others
        return line


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HireHall]:
    with HireHall(tmp_path) as hall:
        yield hall


def act(story: Coroutine[object, object, None]) -> None:
    async def stage() -> None:
        async with asyncio.timeout(STORY_S):
            await story

    asyncio.run(stage())


@pytest.mark.parametrize("way", ["tcp", "bus"])
def test_the_best_of_two_does_a_job_that_came_by_another_door(hall: HireHall, way: str) -> None:
    async def story() -> None:
        address = hall.addresses[way]
        did: list[tuple[str, Stage]] = []
        over = asyncio.Event()

        def note(who: str, job: Job) -> None:
            if job.type == "grind":
                did.append((who, job.stage))
                if job.stage is Stage.DISMISSED:
                    over.set()

        async with (
            Worker(address, {"grind": 3, "try ann": 1}, tell=partial(note, "ann")),
            Worker(address, {"grind": 8, "try ben": 1}, tell=partial(note, "ben")),
            Provider(address, window_s=0.1, pause_s=0.01, pause_max_s=0.1) as provider,
            AsyncClient(hall.address) as client,
        ):
            for trial in ("try ann", "try ben"):  # who has done it has joined the bus
                await provider.employ(trial, 0.01)
            assert await client.run("grind", b"rye") == b""
            await over.wait()
        stages = (Stage.HIRED, Stage.GOING, Stage.WAITING, Stage.PERFORMING, Stage.DISMISSED)
        assert did == [("ben", stage) for stage in stages]

    act(story())


@pytest.mark.parametrize("way", ["tcp", "bus"])
def test_the_hall_is_a_switchboard_for_other_providers(hall: HireHall, way: str) -> None:
    async def story() -> None:
        address = hall.addresses[way]
        async with (
            Worker(hall.addresses["tcp"], {"serve": 3}) as ann,
            Worker(hall.addresses["bus"], {"serve": 9}) as ben,
            Provider(address, policy=best_skill, window_s=0.2, pause_s=0.01, pause_max_s=0.1) as inn,
        ):
            while (await inn.employ("serve", 0.01)).worker != ben.uuid:
                pass  # it has only just joined the bus
            ben.willing = False
            assert (await inn.employ("serve", 0.01)).worker == ann.uuid

    act(story())


def test_a_gearman_worker_does_what_a_building_announces(hall: HireHall) -> None:
    async def story() -> None:
        called = asyncio.Event()

        worker = AsyncWorker(hall.address)

        @worker.function("serve")
        async def serve(job: WorkerJob) -> bytes:
            called.set()
            return b"served"

        async with Provider(hall.addresses["tcp"], window_s=0.1, pause_s=0.01) as inn:
            working = asyncio.create_task(worker.run())
            performance = await inn.employ("serve", 60.0, satisfied=called)
            assert performance.skill == 0
            worker.stop()
            await working

    act(story())


def test_a_wmp_worker_does_what_a_building_announces(tmp_path: Path) -> None:
    async def story(hall: HireHall) -> None:
        called = asyncio.Event()

        async def serve(job: WmpJob) -> bytes:
            called.set()
            return b"served"

        worker = WmpWorker(hall.others, {"serve": serve}, skills={"serve": 7})
        async with Provider(hall.addresses["tcp"], window_s=0.1, pause_s=0.01) as inn:
            working = asyncio.create_task(worker.run())
            performance = await inn.employ("serve", 60.0, satisfied=called)
            assert performance.skill == 7
            worker.stop()
            await working

    with HireHall(tmp_path, MORE + '[[door]]\ndialect = "wmp"\naddress = "127.0.0.1:0"\n') as hall:
        act(story(hall))


def test_a_dwork_location_does_what_a_building_announces(tmp_path: Path) -> None:
    more = '[[door]]\ndialect = "dwork"\naddress = "127.0.0.1:0"\nqueue = "serve"\nkeep_open = true\n'
    rated = '[[worker]]\nname = "node-*"\nskills = ["serve=7"]\n'

    def steal(address: str, completed: Callable[[], object], over: threading.Event) -> None:
        with Asker(address) as node:
            while not over.is_set():
                for task in node.ask(dwork.encode(dwork.STEAL, location=b"node-1")).tasks:
                    done = dwork.encode(dwork.COMPLETE, [dwork.encode_task(task.name, b"")], location=b"node-1")
                    assert node.ask(done).type == dwork.OK
                    completed()

    async def story(hall: HireHall) -> None:
        completed, over = asyncio.Event(), threading.Event()
        complete = partial(asyncio.get_running_loop().call_soon_threadsafe, completed.set)
        stealing = asyncio.create_task(asyncio.to_thread(steal, hall.others[0], complete, over))
        try:
            async with Provider(hall.addresses["tcp"], window_s=0.1, pause_s=0.01) as inn:
                performance = await inn.employ("serve", 60.0, satisfied=completed)
                assert performance.skill == 7
        finally:
            over.set()
            await stealing

    with HireHall(tmp_path, MORE + more + rated) as hall:
        act(story(hall))


def test_who_quits_at_work_is_replaced_and_is_no_loss(hall: HireHall) -> None:
    async def story() -> None:
        async def perform(job: Job) -> None:
            ann.willing = False
            ann.quit(job)

        async with (
            Worker(hall.addresses["tcp"], {"grind": 8}, perform=perform) as ann,
            Worker(hall.addresses["tcp"], {"grind": 1}),
            AsyncClient(hall.address) as client,
        ):
            await client.submit_background("grind")
            await asyncio.to_thread(wait_until, hall.history, "the job is done")
            assert not ann.willing

    act(story())
    (row,) = hall.history()
    assert (row.state, row.attempts, row.losses) == (DONE, 2, 0)


def test_a_bus_with_curve_is_for_those_whose_keys_it_knows(tmp_path: Path) -> None:
    public_file, secret_file = zmq.auth.create_certificates(tmp_path, "hall")
    hall_key, _ = zmq.auth.load_certificate(public_file)
    friend = Curve(hall_key, *zmq.curve_keypair())
    stranger = Curve(hall_key, *zmq.curve_keypair())
    more = f'{MORE}curve = {{ certificate = "{secret_file}", clients = ["{friend.public.decode()}"] }}\n'

    async def story(address: str) -> None:
        async with (
            Worker(address, {"serve": 9}, security=stranger),
            Worker(address, {"serve": 3}, security=friend) as ann,
            Provider(address, policy=best_skill, security=friend, pause_s=0.01, pause_max_s=0.1) as inn,
        ):
            for _ in range(5):  # the stranger has time to knock
                assert (await inn.employ("serve", 0.1)).worker == ann.uuid

    with HireHall(tmp_path, more) as hall:
        act(story(hall.addresses["bus"]))


def test_a_hall_that_is_started_again_finds_its_worker_again(hall: HireHall) -> None:
    async def story() -> None:
        performing = asyncio.Event()

        async def perform(job: Job) -> None:
            performing.set()

        lost = asyncio.Event()

        def tell(job: Job) -> None:
            if job.stage is Stage.LOST:
                lost.set()

        async with (
            Provider(hall.addresses["tcp"], window_s=0.1, pause_s=0.01, pause_max_s=0.1) as inn,
            Worker(hall.addresses["tcp"], {"serve": 1}, perform=perform, tell=tell) as ann,
        ):
            working = asyncio.create_task(inn.employ("serve", 0.5))
            await performing.wait()
            hall.kill()
            await lost.wait()
            await asyncio.to_thread(hall.start)
            performance = await working
            assert (performance.worker, performance.announced > 1) == (ann.uuid, True)

    act(story())
