"""`hall work`: run the functions of a module."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
import uvloop

from hiringhall.amounts import BadAmounts
from hiringhall.cli.shell_work import (
    STAYS_S_MAX,
    CwdFlag,
    EnvFlag,
    KillFlag,
    QueueFlag,
    ShellFlag,
    SlotsFlag,
    read_shell_settings,
    run_shell_worker,
)
from hiringhall.cli.slurm.command import Asked, FleetOptions, find_queues, run_slurm
from hiringhall.cli.slurm.options import (
    DryRunFlag,
    EndWorkersFlag,
    IdleFlag,
    JobsPerWorkerFlag,
    MaxWorkersFlag,
    PollFlag,
    SbatchFlag,
    SlurmFlag,
    TimeoutFlag,
    refuse_slurm_options,
)
from hiringhall.config.quantities import Size
from hiringhall.config.sources import ConfigError
from hiringhall.sdk.addresses import read_token
from hiringhall.worker.machine import resources_of
from hiringhall.worker.screen import JsonLines, Lines, Screen, Show
from hiringhall.worker.supervisor import Settings, Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator

ModuleArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE",
        help="The module with the functions, such as app; if it has several halls: app:hall.",
    ),
]
WorkArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE]",
        help="The module with the functions, such as app; if it has several halls: app:hall.",
        show_default=False,
    ),
]
ProcessesFlag = Annotated[
    int | None,
    typer.Option(
        "--processes", "-p", metavar="N", help="Processes for plain functions. Default: one for each core."
    ),
]
ThreadsFlag = Annotated[
    int, typer.Option("--threads", metavar="N", help="Plain functions at a time in each process, in threads.")
]
ConcurrencyFlag = Annotated[
    int,
    typer.Option("--concurrency", metavar="N", help="Async functions at a time, side by side in one process."),
]
OnlyFlag = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Run only this function. Can be given several times."),
]
GraceFlag = Annotated[
    float,
    typer.Option(
        "--grace", metavar="SECONDS", help="After Ctrl-C or SIGTERM, how long running jobs may take to finish."
    ),
]
RecycleFlag = Annotated[
    int, typer.Option("--recycle", metavar="N", help="Replace a process after so many jobs. 0: never.")
]
MemoryFlag = Annotated[
    str | None,
    typer.Option(
        "--memory-max",
        metavar="SIZE",
        help="A process that uses more memory, such as 2GiB, is ended, and its job fails.",
    ),
]
SkillFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--skill",
        metavar="[NAME=]N",
        help="The skill of this worker in all functions, or in one. Can be given several times. Default: 0.",
    ),
]
StaysFlag = Annotated[
    float | None,
    typer.Option(
        "--stays",
        metavar="SECONDS",
        help="The time it has left: it gets only jobs that it can finish, and later none. Default: no limit.",
    ),
]
ResourceFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--resource",
        metavar="NAME=AMOUNT",
        help="What it has for jobs, such as cpus=8 or gpus=2; auto: what is found. Can be given several times.",
    ),
]
HallFlag = Annotated[
    str | None,
    typer.Option(
        "--hall",
        metavar="URL",
        help="The hall, such as hall://127.0.0.1:4731. Default: as the module says, else HALL_URL.",
    ),
]
TokenFileFlag = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="A file with the token for the hall. Default: HALL_TOKEN."
    ),
]
NameFlag = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="What the hall calls it. Default: host and pid.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each event.")]

TOKEN_FILE_CHARACTERS_MAX: Final = 1000
COUNT_MAX: Final = 1_000_000
_SKILL: Final = re.compile(r"(?:(.+)=)?([0-9]{1,7})")


def work(
    context: typer.Context,
    module: WorkArgument = None,
    processes: ProcessesFlag = None,
    threads: ThreadsFlag = 1,
    concurrency: ConcurrencyFlag = 100,
    only: OnlyFlag = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Load the code again when its files change.")
    ] = False,
    grace: GraceFlag = 30.0,
    recycle: RecycleFlag = 0,
    memory_max: MemoryFlag = None,
    skill: SkillFlag = None,
    stays: StaysFlag = None,
    resource: ResourceFlag = None,
    hall: HallFlag = None,
    name: NameFlag = None,
    token_file: TokenFileFlag = None,
    shell: ShellFlag = False,
    queue: QueueFlag = None,
    slots: SlotsFlag = None,
    cwd_below: CwdFlag = None,
    env: EnvFlag = None,
    kill_after: KillFlag = None,
    slurm: SlurmFlag = False,
    max_workers: MaxWorkersFlag = 10,
    jobs_per_worker: JobsPerWorkerFlag = 1,
    idle: IdleFlag = "5m",
    poll: PollFlag = "30s",
    slurm_timeout: TimeoutFlag = "60s",
    sbatch: SbatchFlag = None,
    end_workers: EndWorkersFlag = False,
    dry_run: DryRunFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Run the job functions of a module, or shell commands with --shell, until it is stopped.

    The first Ctrl-C or SIGTERM takes no more jobs and lets running ones finish; the second ends at once. Jobs
    that were not finished are given back to the hall.
    """
    token = None if token_file is None else read_token_file(token_file)
    fleet = FleetOptions(
        max_workers, jobs_per_worker, idle, poll, slurm_timeout, tuple(sbatch or ()), end_workers, dry_run
    )
    if not slurm:
        refuse_slurm_options(context)
    if shell:
        if module is not None:
            raise ConfigError([f'--shell runs commands, and no module: leave out "{module}"'])
        chosen = read_shell_settings(queue, slots, cwd_below, env, kill_after, grace, skill, stays, hall, name)
        chosen.token = token
        chosen.resources = read_resources(resource or [])
        if slurm:
            return run_slurm(Asked(context, [chosen.queue], hall, name, token, as_json), fleet)
        return run_shell_worker(chosen, as_json=as_json)
    if module is None:
        raise ConfigError(["name the MODULE with the functions, or use --shell to run commands"])
    for option, value in (
        ("--queue", queue),
        ("--slots", slots),
        ("--cwd-below", cwd_below),
        ("--env", env),
        ("--kill-after", kill_after),
    ):
        if value:
            raise ConfigError([f"{option} is for shell commands: use it with --shell"])
    settings = read_settings(
        module,
        processes,
        threads,
        concurrency,
        only,
        reload,
        grace,
        recycle,
        memory_max,
        skill,
        stays,
        hall,
        name,
    )
    settings.resources = read_resources(resource or [])
    if token is not None:
        settings.token = token
    if slurm:
        queues = find_queues(module, settings.only)
        return run_slurm(Asked(context, queues, hall, name, token, as_json), fleet)
    show = make_show(as_json=as_json)
    try:
        return run_worker(settings, show)
    finally:
        show.close()


def read_settings(
    module: str,
    processes: int | None,
    threads: int,
    concurrency: int,
    only: list[str] | None,
    reload: bool,
    grace: float,
    recycle: int,
    memory_max: str | None,
    skill: list[str] | None,
    stays: float | None,
    hall: str | None,
    name: str | None,
) -> Settings:
    """The settings of a worker. Raises ConfigError."""
    settings = Settings(
        module,
        threads=threads,
        concurrency=concurrency,
        only=tuple(only or ()),
        reload=reload,
        grace_s=grace,
        recycle=recycle,
        stays_s=stays,
        url=hall or "",
    )
    problems: list[str] = []
    if processes is not None:
        settings.processes = processes
    if name is not None:
        settings.name = name
    for option, number, least in (
        ("--processes", settings.processes, 1),
        ("--threads", threads, 1),
        ("--concurrency", concurrency, 1),
        ("--recycle", recycle, 0),
    ):
        if not least <= number <= COUNT_MAX:
            problems.append(f"{option}: {number} is not allowed; it takes {least} to {COUNT_MAX}")
    if not 0 <= grace <= 86_400:
        problems.append(f"--grace: {grace:g} is not allowed; it takes seconds from 0 to 86400")
    if stays is not None and not 0 <= stays <= STAYS_S_MAX:
        problems.append(f"--stays: {stays:g} is not allowed; it takes seconds from 0 to {STAYS_S_MAX}")
    problems += _read_skills(skill or [], settings)
    if memory_max is not None:
        try:
            settings.memory_max = int(Size.parse(memory_max))
        except ValueError:
            problems.append(f'--memory-max: "{memory_max}" is not allowed; it takes {Size.allowed}')
    if problems:
        raise ConfigError(problems)
    return settings


def _read_skills(words: list[str], settings: Settings) -> Iterator[str]:
    """Set the skills. Yields what is wrong."""
    for word in words:
        found = _SKILL.fullmatch(word)
        if found is None or int(found[2]) > COUNT_MAX:
            allowed = f"a whole number from 0 to {COUNT_MAX}, for one function as in resize=3"
            yield f'--skill: "{word}" is not allowed; it takes {allowed}'
        elif found[1]:
            settings.skills[found[1]] = int(found[2])
        else:
            settings.skill = int(found[2])


def read_resources(words: list[str]) -> str:
    """The resources of a worker. Raises ConfigError."""
    try:
        return resources_of(words)
    except BadAmounts as error:
        raise ConfigError([f"--resource: {str(error).removeprefix('resources: ')}"]) from None


def read_token_file(path: Path) -> str:
    """The token in a file. Raises ConfigError."""
    try:
        with path.open(errors="replace") as file:
            return read_token(file.read(TOKEN_FILE_CHARACTERS_MAX).strip())
    except OSError as error:
        raise ConfigError([f"--token-file: {path} cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError([f"--token-file: {path}: {error}"]) from error


def make_show(*, as_json: bool) -> Show:
    """A screen on a terminal, lines elsewhere, or JSON. Close it at the end."""
    if as_json:
        return JsonLines()
    return Screen() if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else Lines()


def run_worker(settings: Settings, show: Show) -> int:
    """Run a worker in this process; its exit code."""

    async def run() -> int:
        supervisor = Supervisor(settings, show, show.output)
        showing = asyncio.get_running_loop().create_task(show.run(supervisor))
        try:
            return await supervisor.run()
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)

    return uvloop.run(run())
