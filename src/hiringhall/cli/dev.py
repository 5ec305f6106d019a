"""`hall dev`: a hall, a worker and reloading in one terminal."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path  # noqa: TC003 (typer looks at it)
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hiringhall.cli.work import (
    ConcurrencyFlag,
    GraceFlag,
    JsonFlag,
    MemoryFlag,
    ModuleArgument,
    OnlyFlag,
    ProcessesFlag,
    RecycleFlag,
    ResourceFlag,
    SkillFlag,
    StaysFlag,
    ThreadsFlag,
    make_show,
    read_resources,
    read_settings,
    run_worker,
)
from hiringhall.endpoints import HallError

if TYPE_CHECKING:
    from types import TracebackType

DEFAULT_DATA: Final = ".hall-dev"
DEFAULT_PORT: Final = 4731
START_S: Final = 30.0
STOP_S: Final = 10.0
_PR_SET_PDEATHSIG: Final = 1


def dev(
    module: ModuleArgument,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", help="Where the hall listens; 0: any free port.")
    ] = DEFAULT_PORT,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help=f"Where the hall keeps its jobs. Default: {DEFAULT_DATA}."),
    ] = None,
    web: Annotated[
        str | None,
        typer.Option("--web", metavar="ADDRESS", help="Where the dashboard is. Default: 127.0.0.1:4780."),
    ] = None,
    no_web: Annotated[bool, typer.Option("--no-web", help="Start no dashboard.")] = False,
    processes: ProcessesFlag = None,
    threads: ThreadsFlag = 1,
    concurrency: ConcurrencyFlag = 100,
    only: OnlyFlag = None,
    grace: GraceFlag = 5.0,
    recycle: RecycleFlag = 0,
    memory_max: MemoryFlag = None,
    skill: SkillFlag = None,
    stays: StaysFlag = None,
    resource: ResourceFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Start a hall and a worker for a module, and load the code again when it changes.

    For development: everything is in one terminal, and Ctrl-C ends all of it. The hall listens on this machine
    only, where `Hall()` finds it, and keeps its jobs in a folder of its own.
    """
    settings = read_settings(
        module,
        processes,
        threads,
        concurrency,
        only,
        True,
        grace,
        recycle,
        memory_max,
        skill,
        stays,
        None,
        None,
    )
    settings.resources = read_resources(resource or [])
    show = make_show(as_json=as_json)
    try:
        web_words = ("--no-web",) if no_web else ("--web", web) if web is not None else ()
        with DevHall(data or DEFAULT_DATA, port, show.output, web_words) as hall:
            settings.url = hall.url
            where = f"hall at {hall.url}, jobs in {hall.data}"
            show.event("hall", where, {"url": hall.url, "data": hall.data})
            if hall.web:
                show.event("web", f"dashboard at {hall.web}", {"url": hall.web})
            return run_worker(settings, show)
    finally:
        show.close()


class DevHall:
    """`hall serve` as a process of this command. It ends with it, however that ends."""

    def __init__(
        self, data: Path | str, port: int, output: tuple[int, int] | None, web: tuple[str, ...] = ()
    ) -> None:
        """`web`: flags of `hall serve` for the dashboard."""
        self.data = str(data)
        self.url = ""
        self.web = ""
        """The URL of the dashboard; empty: there is none."""
        self._web = web
        self._door = f"native=127.0.0.1:{port}"
        self._errors = output[1] if output is not None else None

    def __enter__(self) -> DevHall:
        libc = ctypes.CDLL(None)

        def end_with_parent() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

        self._process = subprocess.Popen(  # noqa: S603 (our own command)
            [
                sys.executable,
                *("-m", "hiringhall", "serve", "--json", "--data", self.data, "--door", self._door),
                *self._web,
                # The worker tells of jobs that fail.
                *("--set", "hall.log_level=error"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={name: value for name, value in os.environ.items() if not name.startswith("HALL_")},
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 (there is one thread, and the function is prepared)
        )
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], START_S)
        line = stdout.readline() if ready else b""
        if not line:
            self._stop()
            raise HallError("the hall did not open; its message is above. If one runs already, use `hall work`")
        opened = json.loads(line)
        self.url = f"hall://{opened['doors'][0]['address']}"
        self.web = opened["web"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
