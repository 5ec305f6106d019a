"""The two faces at their edges: repeated loops, cancellation, Ctrl-C, fork, the end of the interpreter."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop
from hall_process import CODE, wait_until
from small_worker import SmallWorker

from hiringhall import Hall, HallUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hall_process import HallProcess

HALL = Hall("hall://127.0.0.1:1")


@HALL.job
def echo(n: int) -> int:
    return n


@pytest.fixture(scope="module")
def worker(server: HallProcess) -> Iterator[SmallWorker]:
    with SmallWorker(HALL, f"hall://{server.address}") as worker:
        yield worker


@pytest.fixture(autouse=True)
def connected(url: str, worker: SmallWorker) -> Iterator[None]:
    HALL.url = url
    yield
    HALL.close()


def sockets() -> int:
    """Open sockets of this process."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing
            count += str(entry.readlink()).startswith("socket:")
    return count


def run_program(code: str, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": CODE, "HALL_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_repeated_event_loops_leave_no_connection() -> None:
    async def use() -> int:
        return await (await echo.asubmit(1))

    assert asyncio.run(use()) == 1
    gc.collect()
    before = sockets()
    for _ in range(5):
        assert asyncio.run(use()) == 1
    gc.collect()
    assert sockets() == before
    assert len(HALL._connections) <= 1


def test_aclose_disconnects_and_a_later_call_connects_anew(url: str) -> None:
    async def use() -> None:
        async with Hall(url) as hall:
            function = hall.function("test_sdk_faces.echo")
            assert await (await function.asubmit(2)) == 2
            await hall.aclose()
            assert await (await function.asubmit(3)) == 3

    asyncio.run(use())


def test_close_and_use_again() -> None:
    assert echo.submit(1).result(20) == 1
    HALL.close()
    assert echo.submit(2).result(20) == 2


def test_close_ends_the_waits_of_other_threads() -> None:
    caught: list[Exception] = []
    job = HALL.function("nobody.has.this").submit()

    def wait() -> None:
        try:
            job.result()
        except Exception as error:  # noqa: BLE001 (it is looked at below)
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    # A call that comes after close connects anew, so one close may be too early.
    while thread.is_alive():
        HALL.close()
        thread.join(0.1)
    assert isinstance(caught[0], HallUnreachable)
    assert "closed by this program" in str(caught[0])


def test_a_map_that_is_not_read_to_its_end_ends_quietly(url: str) -> None:
    code = """
        from hiringhall import Hall
        results = Hall().function("test_sdk_faces.echo").map(range(5000))
        print(next(results))
    """
    ended = run_program(code, url, "-W", "error")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0\n", "")


def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    async def use() -> None:
        job = await HALL.function("nobody.has.this").asubmit()
        waiting = asyncio.create_task(job.aresult())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        submitting = asyncio.create_task(echo.asubmit(1))
        await asyncio.sleep(0)
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        assert await (await echo.asubmit(3)) == 3
        await job.acancel()

    asyncio.run(use())


def test_a_blocking_call_in_a_coroutine_works() -> None:
    async def use() -> int:
        return echo.submit(4).result(20)

    assert asyncio.run(use()) == 4


def callers(thread: int) -> list[str]:
    """The functions in which a thread is now; the innermost is the last."""
    return [frame.name for frame in traceback.extract_stack(sys._current_frames()[thread])]


def test_ctrl_c_ends_a_wait() -> None:
    job = HALL.function("nobody.has.this").submit()
    main = threading.get_ident()

    def interrupt() -> None:
        wait_until(lambda: callers(main)[-1] == "wait", "the thread waits")
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        job.result()
    interrupting.join()
    assert job.state() == "queued"
    job.cancel()


def test_a_forked_child_has_a_connection_of_its_own() -> None:
    assert echo.submit(1).result(20) == 1
    before = sockets()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            own = sockets()
            result = echo.submit(5).result(20)
            os.write(writing, f"{result} {own}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        result, own = pipe.read().split()
    assert os.waitpid(child, 0)[1] == 0
    assert result == "5"
    assert int(own) < before  # the child closed its copy of the parent's socket
    assert echo.submit(6).result(20) == 6


def test_keys_of_a_forked_child_are_its_own() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, HALL.next_key())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    assert theirs.split(b"-")[0] != HALL.next_key().split(b"-")[0]


# In development mode asyncio warns of callbacks that took 0.1 s, which a busy machine makes of any: only its
# errors count here.
FORGETFUL = """
    import logging
    from hiringhall import Hall
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    hall = Hall()
    echo = hall.function("test_sdk_faces.echo")
    job = echo.submit(1)
    waiting = hall.function("nobody.has.this").submit()
    print(job.result(20))
"""


@pytest.mark.parametrize("options", [(), ("-X", "dev", "-W", "error")])
def test_a_program_that_forgets_close_ends_quietly(url: str, options: tuple[str, ...]) -> None:
    ended = run_program(FORGETFUL, url, *options)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("1\n", "", 0)


def test_a_forked_child_that_exits_as_usual_ends_quietly(url: str) -> None:
    code = """
        import os, sys
        from hiringhall import Hall
        hall = Hall()
        echo = hall.function("test_sdk_faces.echo")
        print(echo.submit(1).result(20), flush=True)
        child = os.fork()
        print(echo.submit(2).result(20), flush=True)
        if child:
            assert os.waitpid(child, 0)[1] == 0
    """
    ended = run_program(code, url)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("1\n2\n2\n", "", 0)


def test_the_sdk_is_imported_at_its_first_use() -> None:
    code = """
        import sys, hiringhall
        assert "msgspec" not in sys.modules and "hiringhall.sdk" not in sys.modules
        assert "Hall" in dir(hiringhall)
        hiringhall.Hall
        assert "rich" not in sys.modules and "hiringhall.core" not in sys.modules
        try:
            hiringhall.Hal
        except AttributeError as error:
            print(error)
    """
    ended = run_program(code, "")
    assert (ended.stdout, ended.stderr) == ("module 'hiringhall' has no attribute 'Hal'\n", "")


def test_a_hall_on_a_unix_socket(server: HallProcess) -> None:
    with Hall(f"hall+unix://{server.data / 'native.sock'}") as hall:
        assert hall.function("test_sdk_faces.echo").submit(5).result(20) == 5


def test_uvloop() -> None:
    async def use() -> int:
        return await (await echo.asubmit(6))

    assert [uvloop.run(use()) for _ in range(2)] == [6, 6]


def test_a_job_whose_handle_is_gone_is_not_kept() -> None:
    async def use() -> None:
        function = HALL.function("nobody.has.this", expires=600)
        handle = await function.asubmit()
        for _ in range(20):
            await function.asubmit()
        await asyncio.sleep(0)  # the loop holds the future that woke this task
        gc.collect()
        assert HALL.connection().watched == 1
        await handle.acancel()

    asyncio.run(use())
