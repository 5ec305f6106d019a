"""Resources on a real hall: native workers, `hall work --shell` with `hall run` and GPUs by index, WMP, kill -9
and the program of docs/resources.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from hall_process import CODE, HallProcess, wait_until
from native_peer import NativeError, NativePeer
from page_blocks import read_blocks

from hiringhall.peers import wmp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WMP: Final = """
[[door]]
dialect = "wmp"
address = "127.0.0.1:0"
"""
STORY_S: Final = 30.0
MACHINE: Final = "cpus=8 gpus=2 mem=32G"


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with HallProcess(tmp_path_factory.mktemp("hall"), door={"dialect": "native"}, more=WMP) as process:
        yield process


def command(hall: HallProcess, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": CODE, "HALL_URL": f"hall://{hall.address}", **more}
    line = [sys.executable, "-W", "error", "-m", "hiringhall", *words]
    return subprocess.run(
        line, cwd=hall.folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def spec(queue: bytes, resources: str, payload: bytes = b"", **terms: Any) -> tuple[object, ...]:
    return (queue, payload, {"resources": resources, **terms}, b"", 0, [])


def works(peer: NativePeer, queue: bytes, resources: str, slots: int = 10, machine: bytes = b"") -> None:
    peer.ask("work", (b"blade", slots, [(queue, 0, 0)], -1, 0, (resources, machine)))


def silent(peer: NativePeer) -> bool:
    """Nothing has come that it was not asked for."""
    peer.ask("beat", None)
    return not peer.unclaimed and not select.select([peer.socket], [], [], 0)[0]


def test_a_native_worker_is_given_what_fits_and_told_its_units(hall: HallProcess) -> None:
    queue = b"native"
    with NativePeer(hall.port) as client, NativePeer(hall.port) as worker:
        assert "resources" in worker.hello["features"]
        works(worker, queue, "cpus=4 gpus=2")
        first, second, third = client.ask(
            "submit", (0, [spec(queue, text) for text in ("gpus=1 cpus=2", "cpus=1,gpus=0.5", "cpus=2")])
        )
        given = {job: told for _, job, _, _, _, _, _, told in (worker.hear("assign") for _ in range(2))}
        assert given == {first: b"cpus=2 gpus=1[0]", second: b"cpus=1 gpus=0.5[1]"}
        assert silent(worker)
        described = client.ask("job", (third,))
        assert described["why"] == "it needs cpus=2; that much is not free on any worker now"
        assert described["terms"]["resources"] == b"cpus=2"
        (shown,) = client.ask("workers", (0, 10, queue))
        assert shown["resources"] == {b"cpus": [3.0, 4.0], b"gpus": [1.5, 2.0]}
        (huge,) = client.ask("submit", (0, [spec(queue, "gpus=4")]))
        assert client.ask("job", (huge,))["why"] == "it needs gpus=4; no worker has more than 2"
        client.ask("cancel", (second, b""))
        assert worker.hear("revoke")
        client.ask("cancel", (first, b""))
        worker.ask("beat", None)
        assert worker.hear("assign")[1] == third
        client.ask("cancel", (huge, b""))
        client.ask("cancel", (third, b""))


@pytest.mark.parametrize("text", ["cpus", "cpus=-1", "gpus=[0]", "cpus=1 cpus=2"])
def test_wrong_needs_are_refused(hall: HallProcess, text: str) -> None:
    with NativePeer(hall.port) as client, pytest.raises(NativeError, match="bad_request"):
        client.ask("submit", (0, [spec(b"wrong", text)]))


def test_connections_of_one_machine_have_its_resources_together(hall: HallProcess) -> None:
    queue = b"shared"
    with NativePeer(hall.port) as client, NativePeer(hall.port) as one, NativePeer(hall.port) as other:
        works(one, queue, "cpus=2", slots=1, machine=b"m")
        works(other, queue, "cpus=2", slots=1, machine=b"m")
        jobs = client.ask("submit", (0, [spec(queue, "cpus=2"), spec(queue, "cpus=2")]))
        ready, _, _ = select.select([one.socket, other.socket], [], [], 20)
        (busy,) = [peer for peer in (one, other) if peer.socket in ready]
        lease, job, *_ = busy.hear("assign")
        assert silent(other if busy is one else one), "the other connection has nothing left"
        with pytest.raises(NativeError, match="only while no job uses them"):
            works(busy, queue, "cpus=8", machine=b"m")
        busy.ask("finish", (lease, b""))
        ready, _, _ = select.select([one.socket, other.socket], [], [], 20)
        (next_one,) = [peer for peer in (one, other) if peer.socket in ready]
        lease, job, *_ = next_one.hear("assign")
        assert job in jobs
        next_one.ask("finish", (lease, b""))


def test_what_a_job_needs_is_there_after_kill_9(tmp_path: Path) -> None:
    with HallProcess(tmp_path, door={"dialect": "native"}) as hall:
        with NativePeer(hall.port) as client, NativePeer(hall.port) as worker:
            works(worker, b"q", "cpus=2")
            running, waiting = client.ask("submit", (0, [spec(b"q", "cpus=2"), spec(b"q", "cpus=1")]))
            assert worker.hear("assign")[1] == running
        hall.kill()
        hall.start()
        with NativePeer(hall.port) as client, NativePeer(hall.port) as small, NativePeer(hall.port) as large:
            works(small, b"q", "cpus=1")
            assert small.hear("assign")[1] == waiting
            assert client.ask("job", (running,))["why"] == "it needs cpus=2; no worker has more than 1"
            works(large, b"q", "cpus=2")
            assert large.hear("assign")[1] == running


def test_hall_run_gives_each_command_a_gpu_of_its_own(hall: HallProcess, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": CODE, "HALL_URL": f"hall://{hall.address}"}
    words = [
        "work",
        "--shell",
        "--queue",
        "gpus",
        "--slots",
        "8",
        "--resource",
        "gpus=[3,5]",
        "--resource",
        "auto",
    ]
    worker = subprocess.Popen(
        [sys.executable, "-m", "hiringhall", *words, "--json"], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        with NativePeer(hall.port) as client:
            wait_until(lambda: client.ask("workers", (0, 10, b"gpus")), "the worker is there", STORY_S)
            (shown,) = client.ask("workers", (0, 10, b"gpus"))
            assert shown["resources"].keys() == {b"gpus", b"cpus", b"mem"}
        # Each waits until the other one runs: so both GPUs are in use at the same time.
        script = (
            f"cd {tmp_path}; touch {{}}; while [ ! -e a ] || [ ! -e b ]; do sleep 0.01; done; "
            "echo $CUDA_VISIBLE_DEVICES $HALL_RESOURCE_GPUS $HALL_RESOURCE_GPUS_UNITS"
        )
        flags = ("--queue", "gpus", "--resource", "gpus=1", "--data", str(tmp_path / "run"))
        done = command(hall, "run", "--hall", f"hall://{hall.address}", *flags[:4], script, ":::", "a", "b")
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == ["3 1 3", "5 1 5"]
        missing = command(hall, "run", "--resource", "unicorns=1", *flags[4:], "true", ":::", "a")
        assert missing.returncode == 255
        assert "a command needs unicorns=1, and this machine has cpus=" in missing.stderr
    finally:
        worker.terminate()
        worker.wait(STORY_S)


def test_a_wmp_worker_states_resources_in_ready(hall: HallProcess) -> None:
    told: list[str] = []

    async def story() -> None:
        done = asyncio.Event()

        async def work(job: wmp.Job) -> bytes:
            told.append(job.resources)
            if len(told) == 4:
                done.set()
            return b""

        stated = "cpus=2 gpus=[a,b]"
        address = f"127.0.0.1:{hall.ports[1]}"
        worker = wmp.Worker([address], {"wmp role": work}, slots=4, name="blade-7", resources=stated)
        task = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(STORY_S):
                await done.wait()
        finally:
            worker.stop()
            await task

    with NativePeer(hall.port) as client:
        needs = ("gpus=2", "cpus=1 gpus=0.5", "cpus=2", "cpus=3", "cpus=1")
        *_, huge, _ = client.ask("submit", (0, [spec(b"wmp role", text) for text in needs]))
        asyncio.run(story())
        assert sorted(told) == sorted(["gpus=2[a,b]", "cpus=1 gpus=0.5[a]", "cpus=2", "cpus=1"])
        assert client.ask("job", (huge,))["state"] == "queued"
        client.ask("cancel", (huge, b""))


def test_the_page_is_true(hall: HallProcess, tmp_path: Path) -> None:
    (program,) = read_blocks("resources.md", "python")
    (tmp_path / "lab.py").write_text(program.text)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{CODE}{os.pathsep}{tmp_path}",
        "HALL_URL": f"hall://{hall.address}",
    }
    more = "import lab\nprint(lab.train.submit('small').result(timeout=30), lab.train_large('two'))"
    words = ["work", "lab", "--processes", "1", "--json"]
    for amount in MACHINE.split():
        words += ["--resource", amount]
    worker = subprocess.Popen(
        [sys.executable, "-m", "hiringhall", *words], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    try:
        run = subprocess.run(
            [sys.executable, "-c", more],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert run.returncode == 0, run.stderr
        result, _, large = run.stdout.strip().rpartition(" ")
        assert result == "small on GPU 0"
    finally:
        worker.terminate()
        worker.wait(STORY_S)
    shown = json.loads(command(hall, "job", large, "--json").stdout)
    assert shown["terms"]["resources"] == "gpus=2"
    submitted = command(
        hall, "submit", "lab.other", "x", "--resource", "cpus=4", "--resource", "mem=1.5G", "--json"
    )
    (job,) = json.loads(submitted.stdout)["ids"]
    assert json.loads(command(hall, "job", job, "--json").stdout)["terms"]["resources"] == "cpus=4 mem=1536M"
    wrong = command(hall, "submit", "lab.other", "x", "--resource", "cpus=many")
    assert wrong.returncode == 2
    assert "--resource: cpus must be a number" in wrong.stderr
