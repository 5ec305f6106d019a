"""Functions that do what functions should not do, and some that behave. A worker of the tests runs them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from hiringhall import Hall, current_job

hall = Hall()


@hall.job
def add(first: int, second: int = 1) -> int:
    return first + second


@hall.job
def pid() -> int:
    return os.getpid()


@hall.job
def say(text: str) -> None:
    print(text)  # noqa: T201 (what is tested)
    print(f"and {text}", file=sys.stderr)  # noqa: T201


@hall.job
def fork() -> int:
    """The function returns twice; only the first return counts."""
    return os.fork()


@hall.job
def close_sockets() -> None:
    """Like a daemon that closes what it has inherited; the thread keeps the process alive."""
    threading.Thread(target=threading.Event().wait).start()
    os.closerange(3, 256)


@hall.job
def leave(code: int) -> NoReturn:
    sys.exit(code)


@hall.job
def vanish(code: int) -> NoReturn:
    os._exit(code)


@hall.job
def abort() -> NoReturn:
    os.abort()


@hall.job
def spin(started: str) -> NoReturn:
    """Runs for ever, and leaves its pid in a file."""
    _tell(started)
    while True:
        pass


@hall.job
def spawn(started: str) -> None:
    """Waits for ever for a program, and leaves its pid in a file."""
    program = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    _tell(started, program.pid)
    program.wait()


def _pause() -> None:
    threading.Event().wait(0.01)


def _tell(file: str, number: int = 0) -> None:
    _write(file, str(number or os.getpid()))


def _write(file: str, text: str) -> None:
    """At once and whole."""
    new = Path(file + ".new")
    new.write_text(text)
    new.rename(file)


@hall.job
def deadlock(started: str) -> None:
    lock = threading.Lock()
    lock.acquire()
    _tell(started)
    lock.acquire()


@hall.job
def eat() -> NoReturn:
    """Ten gigabytes and more, if nobody stops it."""
    hoard: list[bytearray] = []
    while True:
        hoard.append(bytearray(b"x" * (4 << 20)))


@hall.job
def huge() -> str:
    return "x" * 100_000_000


@hall.job
def length(text: str) -> int:
    return len(text)


@hall.job
def repeat(text: str, count: int) -> str:
    return text * count


@hall.job
def no_json() -> Any:
    return {"lock": object()}


@hall.job
def endless_list() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@hall.job
def mute() -> NoReturn:
    raise Mute


@hall.job
def surrogate() -> NoReturn:
    raise ValueError("half a character: \ud800")


@hall.job
def recurse() -> int:
    return recurse() + 1


@hall.job(retries=2, backoff=0.01, retry_on=(KeyError,))
def picky(kind: str) -> int:
    if kind == "key" and current_job().attempt < 3:
        raise KeyError(kind)
    if kind == "value":
        raise ValueError(kind)
    return current_job().attempt


@hall.job
def describe() -> dict[str, Any]:
    job = current_job()
    job.progress(1, 2)
    job.chunk(b"piece")
    job.log("a line")
    job.heartbeat()
    return {
        "id": job.id,
        "queue": job.queue,
        "key": job.key,
        "attempt": job.attempt,
        "time_left": job.time_left(),
        "cancelled": job.cancelled,
    }


@hall.job
async def nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


gathered: list[asyncio.Event] = []


@hall.job
async def gather(count: int) -> int:
    """Returns when so many of these run at the same time, in one process."""
    here = asyncio.Event()
    gathered.append(here)
    if len(gathered) == count:
        for event in gathered:
            event.set()
    await here.wait()
    return count


@hall.job
async def wait_for_cancel(started: str, ended: str) -> None:
    _tell(started)
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        _write(ended, str(current_job().cancelled))
        raise


@hall.job
async def stubborn(started: str) -> None:
    _tell(started)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


@hall.job
def meet(count: int, folder: str) -> int:
    """Returns when so many of these run at the same time."""
    (Path(folder) / f"{current_job().id}").touch()
    while len(list(Path(folder).iterdir())) < count:
        _pause()
    return count


@hall.job
def until(file: str, started: str = "") -> str:
    """Runs until the file is there."""
    if started:
        _tell(started)
    while not Path(file).exists():
        if current_job().cancelled:
            return "stopped"
        _pause()
    return "seen"


@hall.job
def pieces(count: int, file: str) -> int:
    """Tells of each piece; after the first it waits for the file."""
    job = current_job()
    for number in range(count):
        job.progress(number + 1, count)
        job.chunk(f"piece {number}")
        while not Path(file).exists():
            _pause()
    return count
