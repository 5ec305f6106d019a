"""The options of `hall work --slurm`, and the words of `hall work` that its workers get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hiringhall.config.sources import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

PANEL: Final = "Slurm"

SlurmFlag = Annotated[
    bool,
    typer.Option(
        "--slurm",
        rich_help_panel=PANEL,
        help="Run no job here: submit workers to Slurm with these options, as many as the queues need.",
    ),
]
MaxWorkersFlag = Annotated[
    int,
    typer.Option(
        "--max-workers", metavar="N", rich_help_panel=PANEL, help="Allocations at a time, each with one worker."
    ),
]
JobsPerWorkerFlag = Annotated[
    int,
    typer.Option(
        "--jobs-per-worker",
        metavar="N",
        rich_help_panel=PANEL,
        help="One worker for so many jobs that are ready.",
    ),
]
IdleFlag = Annotated[
    str,
    typer.Option(
        "--idle",
        metavar="TIME",
        rich_help_panel=PANEL,
        help="End an allocation whose worker had no job for so long, such as 90s or 5m.",
    ),
]
PollFlag = Annotated[
    str,
    typer.Option(
        "--poll",
        metavar="TIME",
        rich_help_panel=PANEL,
        help="The least time between two calls of squeue. Also the first pause after a failure.",
    ),
]
TimeoutFlag = Annotated[
    str,
    typer.Option(
        "--slurm-timeout",
        metavar="TIME",
        rich_help_panel=PANEL,
        help="How long sbatch, squeue and scancel may take to answer.",
    ),
]
SbatchFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--sbatch",
        metavar="OPTION",
        rich_help_panel=PANEL,
        help="An option for sbatch, such as --sbatch=--mem=4G. Can be given several times.",
    ),
]
EndWorkersFlag = Annotated[
    bool,
    typer.Option(
        "--end-workers",
        rich_help_panel=PANEL,
        help="End all allocations when this command is stopped. Default: they stay, and it says which.",
    ),
]
DryRunFlag = Annotated[
    bool,
    typer.Option(
        "--dry-run", rich_help_panel=PANEL, help="Print what would be submitted now, and submit nothing."
    ),
]

TYPED: Final = "COMMANDLINE"
"""Where the value of a parameter comes from."""
OPTIONS: Final = (
    *("max_workers", "jobs_per_worker", "idle", "poll"),
    *("slurm_timeout", "sbatch", "end_workers", "dry_run"),
)
NOT_FOR_WORKERS: Final = ("slurm", *OPTIONS, "hall", "name", "as_json")
"""Parameters of this command alone, or that are made anew for each worker."""


def refuse_slurm_options(context: typer.Context) -> None:
    """Raises ConfigError if an option is given that needs --slurm."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in OPTIONS and source is not None and source.name == TYPED:
            raise ConfigError([f"{parameter.opts[0]} is for workers in Slurm: use it with --slurm"])


def worker_words(context: typer.Context) -> list[str]:
    """What was typed for the workers, as `hall work` takes it."""
    return [word for parameter in context.command.params for word in _words(context, parameter)]


def _words(context: typer.Context, parameter: Any) -> Iterator[str]:
    source = context.get_parameter_source(parameter.name)
    if parameter.name in NOT_FOR_WORKERS or source is None or source.name != TYPED:
        return
    value = context.params[parameter.name]
    if parameter.param_type_name == "argument":
        yield str(value)
        return
    name = max(parameter.opts, key=len)
    if parameter.is_flag:
        yield name if value else parameter.secondary_opts[0]
        return
    for each in value if parameter.multiple else (value,):
        # In one word, so that a value with a dash in front is not taken for an option.
        yield f"{name}={each}"
