"""A job of 60 s is never given to a worker with 30 s left, in any dialect that can say so: it waits, the hall
says why, what needs nothing passes it by, and it goes to the first who has the time.

`sign` is a queue that needs nothing: when its job is done by the worker that has too little time, that worker
has been there, has looked for work, and was not given the other.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pytest
from dwork_peer import Asker
from hall_process import HallProcess
from testimony import audit

from hiringhall.dialects.dwork import wire as dwork
from hiringhall.peers import gearman, hire, pingpong, wmp

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

STORY_S: Final = 30.0
SPOT: Final = UUID("30000000-0000-4000-8000-000000000001")
STEADY: Final = UUID("60000000-0000-4000-8000-000000000001")
TOO_LITTLE: Final = "OK it takes 60 s, and none of 1 workers has that much time left"

MORE: Final = """
[[door]]
dialect = "dwork"
address = "127.0.0.1:0"
keep_open = true

[[door]]
dialect = "pingpong"
address = "127.0.0.1:0"
frontend = "127.0.0.1:0"

[[door]]
dialect = "wmp"
address = "127.0.0.1:0"

[[door]]
dialect = "hire"
address = "127.0.0.1:0"
window_s = 0.02
perform_s = 0.02
types = ["film", "sign"]

[[queue]]
name = "film"
time = "60s"

[[queue]]
name = "dwork"
time = "1m"

[[queue]]
name = "pingpong"
time = "1m"

[[queue]]
name = "portrait"
skill = 5

[[worker]]
name = "spot-*"
stays = "30s"

[[worker]]
name = "30000000-*"
stays = "30s"

[[worker]]
name = "painter-?"
skills = ["portrait=5"]
"""


class NeedyHall(HallProcess):
    """`hall serve` with a door of every dialect, and needs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, more=MORE)
        self.doors: dict[str, str] = {}

    def _first_line(self) -> bytes:
        line = super()._first_line()
        self.doors = {door["dialect"] + door["role"]: door["address"] for door in json.loads(line)["doors"]}
        return line

    def why(self, job: gearman.Receipt) -> str:
        (line,) = self.admin(f"why {job.handle.decode()}")
        return line


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[NeedyHall]:
    with NeedyHall(tmp_path) as hall:
        yield hall
        assert audit(hall) == "clean"
        assert "Traceback" not in hall.errors(), hall.errors()


class LeaseHolder:
    """A Gearman worker that notes what it did."""

    def __init__(self, hall: NeedyHall, name: str, *functions: str) -> None:
        self.did: list[bytes] = []
        self.worker = gearman.Worker(hall.address, client_id=name)
        for function in functions or ("film", "sign"):
            self.worker.register(function, self._do)

    def _do(self, job: gearman.WorkerJob) -> bytes:
        self.did.append(job.data)
        return job.data

    def __enter__(self) -> LeaseHolder:
        self.worker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.__exit__(None, None, None)


def act(story: Coroutine[object, object, None]) -> None:
    async def stage() -> None:
        async with asyncio.timeout(STORY_S):
            await story

    asyncio.run(stage())


# --- Gearman


def test_gearman_by_the_file(hall: NeedyHall) -> None:
    with hall.client() as client, LeaseHolder(hall, "spot-1") as spot:
        hall.wait_for_workers("film")
        waiting = [client.submit("film", b"film %d" % number) for number in range(3)]
        for number in range(3):
            assert client.run("sign", b"%d" % number) == b"%d" % number
        late = client.submit_background("film", b"film 3")
        assert hall.why(late) == TOO_LITTLE
        assert spot.did == [b"0", b"1", b"2"]
        assert hall.counts("film") == (4, 0, 1)
        assert hall.admin("prioritystatus")[0].split("\t") == ["film", "0", "4", "0", "1"]
        with LeaseHolder(hall, "steady") as steady:
            assert [job.result(STORY_S) for job in waiting] == [b"film 0", b"film 1", b"film 2"]
            assert steady.did[:3] == [b"film 0", b"film 1", b"film 2"]
        assert spot.did == [b"0", b"1", b"2"]


def test_gearman_by_command(hall: NeedyHall) -> None:
    with hall.client() as client, LeaseHolder(hall, "bob", "carve", "sign") as bob:
        hall.wait_for_workers("carve")
        assert hall.admin("needs carve 0 60") == ["OK"]
        assert hall.admin("time-left bob 30") == ["OK"]
        carving = client.submit_background("carve", b"oak")
        assert client.run("sign", b"1") == b"1"
        assert hall.why(carving) == TOO_LITTLE
        # Jobs of the same queue that need nothing are not held up.
        assert hall.admin("needs carve") == ["OK"]
        assert client.run("carve", b"pine") == b"pine"
        assert bob.did == [b"1", b"pine"]
        # He can stay after all.
        assert hall.admin("time-left bob none") == ["OK"]
        assert client.run("carve", b"ash") == b"ash"
        assert bob.did == [b"1", b"pine", b"oak", b"ash"]
        with pytest.raises(gearman.ServerError) as refused:
            hall.admin("time-left nobody 30")
        assert refused.value.code == "UNKNOWN_WORKER"


def test_gearman_by_skill(hall: NeedyHall) -> None:
    with hall.client() as client, LeaseHolder(hall, "carl", "portrait", "sign") as carl:
        hall.wait_for_workers("portrait")
        portrait = client.submit("portrait", b"a queen")
        assert client.run("sign", b"1") == b"1"
        (handle, *_) = hall.admin("jobs")[0].split("\t")
        assert hall.admin(f"why {handle}") == ["OK it needs skill 5, which none of 1 workers has"]
        with LeaseHolder(hall, "painter-1", "portrait") as painter:
            assert portrait.result(STORY_S) == b"a queen"
            assert (carl.did, painter.did) == ([b"1"], [b"a queen"])
        assert hall.admin("skill carl portrait 5") == ["OK"]
        assert client.run("portrait", b"a king") == b"a king"
        assert carl.did == [b"1", b"a king"]


# --- WMP


@pytest.mark.parametrize("by_name", [False, True])
def test_wmp_by_header_and_by_the_file(hall: NeedyHall, by_name: bool) -> None:
    async def story() -> None:
        did: list[tuple[str, bytes]] = []

        def hand(who: str) -> Callable[[wmp.Job], Coroutine[object, object, bytes]]:
            async def do(job: wmp.Job) -> bytes:
                did.append((who, job.payload))
                return job.payload

            return do

        def worker(who: str, name: str, left_s: float | None) -> wmp.Worker:
            handlers = {"film": hand(who), "sign": hand(who)}
            return wmp.Worker([hall.doors["wmp"]], handlers, name=name, time_left_s=left_s)

        spot = worker("spot", "spot-9" if by_name else "", None if by_name else 30.0)
        async with gearman.AsyncClient(hall.address) as client, spot:
            assert await client.run("sign", b"0") == b"0"
            film = await client.submit_background("film", b"film")
            assert await client.run("sign", b"1") == b"1"
            assert await asyncio.to_thread(hall.why, film) == TOO_LITTLE
            # The steady one has said that it stays for an hour.
            async with worker("steady", "", 3600.0):
                await client.run("film", b"again")
            if not by_name:
                spot.stay(None)
                assert await client.run("film", b"last") == b"last"
        films = [(who, payload) for who, payload in did if payload not in (b"0", b"1")]
        assert films == [("steady", b"film"), ("steady", b"again"), *([("spot", b"last")] * (not by_name))]

    act(story())


def test_wmp_by_skill(hall: NeedyHall) -> None:
    async def story() -> None:
        did: list[str] = []

        async def sketch(job: wmp.Job) -> bytes:
            did.append("sketch")
            return job.payload

        async def paint(job: wmp.Job) -> bytes:
            did.append("paint")
            return job.payload

        pupil = wmp.Worker([hall.doors["wmp"]], {"portrait": sketch, "sign": sketch}, skills={"portrait": 4})
        master = wmp.Worker([hall.doors["wmp"]], {"portrait": paint}, skills={"portrait": 5})
        async with gearman.AsyncClient(hall.address) as client, pupil:
            portrait = await client.submit("portrait", b"a queen")
            assert await client.run("sign", b"1") == b"1"
            async with master:
                assert await portrait.result() == b"a queen"
        assert did == ["sketch", "paint"]

    act(story())


# --- workers that are known by their names only


def test_dwork_by_the_file(hall: NeedyHall) -> None:
    asker = Asker(hall.doors["dwork"])
    with hall.client() as client, asker:
        film = client.submit_background("dwork", b"film", unique="film")
        assert asker.ask(dwork.encode(dwork.STEAL, location=b"spot-mill")).type == dwork.NOT_FOUND
        assert hall.why(film) == TOO_LITTLE
        answer = asker.ask(dwork.encode(dwork.STEAL, location=b"mill"))
        assert [task.name for task in answer.tasks] == [b"film"]


def test_pingpong_by_command(hall: NeedyHall) -> None:
    did: list[tuple[str, bytes]] = []

    def hand(who: str) -> Callable[[bytes], bytes]:
        def do(payload: bytes) -> bytes:
            did.append((who, payload))
            return payload

        return do

    spot = pingpong.Worker(hall.doors["pingpongbackend"], hand("spot"), ping_s=0.2, identity=b"spot-pp")
    steady = pingpong.Worker(hall.doors["pingpongbackend"], hand("steady"), ping_s=0.2, identity=b"pp")
    with hall.client() as client, spot:
        hall.wait_for_workers("pingpong")
        film = client.submit("pingpong", b"film")
        waiting = client.submit_background("pingpong", b"next")
        assert hall.admin("needs pingpong") == ["OK"]
        assert client.run("pingpong", b"sign") == b"sign"
        assert hall.why(waiting) == TOO_LITTLE
        assert did == [("spot", b"sign")]
        with steady:
            assert film.result(STORY_S) == b"film"
        assert did[1] == ("steady", b"film")


# --- hire


def test_hire_by_the_file(hall: NeedyHall) -> None:
    async def story() -> None:
        address = f"tcp://{hall.doors['hire']}"
        performs: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

        def teller(who: str) -> Callable[[hire.Job], None]:
            def tell(job: hire.Job) -> None:
                if job.stage is hire.Stage.PERFORMING:
                    performs.put_nowait((who, job.type))

            return tell

        skills = {"film": 9, "sign": 9}
        async with (
            gearman.AsyncClient(hall.address) as client,
            hire.Worker(address, skills, uuid=SPOT, tell=teller("spot")),
        ):
            film = await client.submit_background("film", b"film")
            await client.run("sign", b"1")
            assert await performs.get() == ("spot", "sign")
            reason = await asyncio.to_thread(hall.why, film)
            assert reason.endswith("have too little time left")
            async with hire.Worker(address, skills, uuid=STEADY, tell=teller("steady")):
                assert await performs.get() == ("steady", "film")

    act(story())
