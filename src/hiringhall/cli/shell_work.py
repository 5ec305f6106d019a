"""`hall work --shell`: run the commands of shell jobs, as its operator allows."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from hiringhall.config.sources import ConfigError
from hiringhall.sdk.addresses import read_addresses
from hiringhall.shell.guard import Guard
from hiringhall.shell.worker import Settings, ShellWorker
from hiringhall.worker.screen import JsonLines, Lines

ShellFlag = Annotated[
    bool,
    typer.Option("--shell", help="Run shell commands, of hall run and others, in place of functions."),
]
QueueFlag = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="With --shell: the queue. Default: shell.")
]
SlotsFlag = Annotated[
    int | None,
    typer.Option("--slots", metavar="N", help="With --shell: commands at a time. Default: one for each core."),
]
CwdFlag = Annotated[
    Path | None,
    typer.Option(
        "--cwd-below",
        metavar="DIR",
        help="With --shell: commands run in this folder, or below it. Default: where the job says.",
    ),
]
EnvFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME",
        help="With --shell: a variable that commands get from this worker, and that jobs may set; * for all.",
    ),
]
KillFlag = Annotated[
    float | None,
    typer.Option(
        "--kill-after",
        metavar="SECONDS",
        help="With --shell: the time between SIGTERM and SIGKILL for a command that must end. Default: 5.",
    ),
]

SLOTS_MAX: Final = 10_000
SECONDS_MAX: Final = 86_400
STAYS_S_MAX: Final = 36_500 * 86_400
NAME_BYTES_MAX: Final = 512
_NUMBER: Final = re.compile("[0-9]{1,7}")


def read_shell_settings(
    queue: str | None,
    slots: int | None,
    cwd_below: Path | None,
    env: list[str] | None,
    kill_after: float | None,
    grace: float,
    skill: list[str] | None,
    stays: float | None,
    hall: str | None,
    name: str | None,
) -> Settings:
    """The settings of a shell worker. Raises ConfigError."""
    settings = Settings(env=tuple(env or ()), grace_s=grace, stays_s=stays, url=hall)
    problems: list[str] = []
    if queue is not None:
        settings.queue = os.fsencode(queue)
    if slots is not None:
        settings.slots = slots
    if kill_after is not None:
        settings.kill_s = kill_after
    if name is not None:
        settings.name = name
    if not 1 <= len(settings.queue) <= NAME_BYTES_MAX:
        problems.append(f"--queue: it takes a name of 1 to {NAME_BYTES_MAX} bytes")
    if not 1 <= settings.slots <= SLOTS_MAX:
        problems.append(f"--slots: {settings.slots} is not allowed; it takes 1 to {SLOTS_MAX}")
    for option, seconds, most in (
        ("--grace", grace, SECONDS_MAX),
        ("--kill-after", settings.kill_s, SECONDS_MAX),
        ("--stays", stays or 0.0, STAYS_S_MAX),
    ):
        if not 0 <= seconds <= most:
            problems.append(f"{option}: {seconds:g} is not allowed; it takes seconds from 0 to {most}")
    for word in skill or ():
        if _NUMBER.fullmatch(word) is None:
            problems.append(f'--skill: "{word}" is not allowed with --shell; it takes a whole number')
        else:
            settings.skill = int(word)
    problems += [
        f'--env: "{word}" is not the name of a variable' for word in settings.env if "=" in word or not word
    ]
    if cwd_below is not None:
        if not cwd_below.is_dir():
            problems.append(f"--cwd-below: {cwd_below} is not a folder")
        settings.cwd_below = os.fspath(cwd_below)
    try:
        read_addresses(hall)
    except ValueError as error:
        problems.append(f"--hall: {error}")
    if problems:
        raise ConfigError(problems)
    return settings


def run_shell_worker(settings: Settings, *, as_json: bool) -> int:
    """Run a shell worker in this process; its exit code."""
    guard = Guard(settings.slots, settings.kill_s)
    show = JsonLines() if as_json else Lines()

    async def run() -> int:
        worker = ShellWorker(settings, show, guard)
        showing = asyncio.get_running_loop().create_task(show.run(worker))
        try:
            return await worker.run()
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)

    try:
        # Not uvloop: it keeps SIGCHLD to itself.
        return asyncio.run(run())
    finally:
        show.close()
