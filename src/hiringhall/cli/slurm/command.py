"""`hall work --slurm` from its options to its exit code."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

import uvloop

from hiringhall.cli.remote import print_json, refusal
from hiringhall.cli.reporting import UNREACHABLE, WRONG_USE, CommandError, print_error, print_result
from hiringhall.cli.slurm.fleet import Bounds, Fleet
from hiringhall.cli.slurm.manager import Manager
from hiringhall.cli.slurm.options import worker_words
from hiringhall.cli.slurm.order import Order, make_order
from hiringhall.cli.slurm.programs import TAG_PREFIX, Slurm, missing_programs
from hiringhall.cli.times import read_span_us
from hiringhall.cli.wording import counted
from hiringhall.config.sources import ConfigError
from hiringhall.core.limits import SECOND_US
from hiringhall.sdk.addresses import DEFAULT_URL, VARIABLE, read_addresses
from hiringhall.sdk.connection import Connection
from hiringhall.sdk.errors import HallRefused, HallUnreachable
from hiringhall.worker.screen import JsonLines, Lines
from hiringhall.worker.stating import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

WORKERS_MAX: Final = 10_000
JOBS_MAX: Final = 1_000_000
POLL_S_LEAST: Final = 1.0
TIMEOUT_S_LEAST: Final = 1.0
LOAD_S: Final = 120.0


class FleetOptions(NamedTuple):
    """The options for the fleet, as they were typed."""

    max_workers: int
    jobs_per_worker: int
    idle: str
    poll: str
    timeout: str
    sbatch: tuple[str, ...]
    end_workers: bool
    dry_run: bool

    @property
    def timeout_s(self) -> float:
        return read_span_us("--slurm-timeout", self.timeout) / SECOND_US

    def bounds(self) -> Bounds:
        """Raises ConfigError and CommandError."""
        problems: list[str] = []
        for option, number, most in (
            ("--max-workers", self.max_workers, WORKERS_MAX),
            ("--jobs-per-worker", self.jobs_per_worker, JOBS_MAX),
        ):
            if not 1 <= number <= most:
                problems.append(f"{option}: {number} is not allowed; it takes 1 to {most}")
        idle_s = read_span_us("--idle", self.idle) / SECOND_US
        poll_s = read_span_us("--poll", self.poll) / SECOND_US
        if poll_s < POLL_S_LEAST:
            problems.append(f'--poll: "{self.poll}" is not allowed; it takes {POLL_S_LEAST:g}s or more')
        if self.timeout_s < TIMEOUT_S_LEAST:
            problems.append(
                f'--slurm-timeout: "{self.timeout}" is not allowed; it takes {TIMEOUT_S_LEAST:g}s or more'
            )
        if problems:
            raise ConfigError(problems)
        return Bounds(self.max_workers, self.jobs_per_worker, idle_s, poll_s)


class Asked(NamedTuple):
    """The workers that are asked for."""

    context: typer.Context
    queues: Sequence[bytes]
    hall: str | None
    name: str | None
    token: str | None
    as_json: bool


def run_slurm(asked: Asked, options: FleetOptions) -> int:
    """The exit code. Raises CommandError and ConfigError."""
    bounds = options.bounds()
    url = asked.hall or os.environ.get(VARIABLE) or DEFAULT_URL
    try:
        addresses = read_addresses(url)
    except ValueError as error:
        raise ConfigError([f"--hall: {error}"]) from error
    if not options.dry_run and (missing := missing_programs()):
        raise CommandError(f"{', '.join(missing)}: not found on this machine; is it a login node of Slurm?")
    if any(_is_loopback(address.host) for address in addresses):
        print_error(f"hall: {url} is this machine only: workers elsewhere need --hall hall://HOST:PORT")
    order = make_order(url, asked.name or "slurm", worker_words(asked.context), options.sbatch)
    try:
        return uvloop.run(_serve(asked, options, bounds, order, url))
    except HallUnreachable as error:
        raise CommandError(str(error), UNREACHABLE) from error
    except HallRefused as error:
        raise CommandError(refusal(error)) from error


def find_queues(target: str, only: Sequence[str]) -> list[bytes]:
    """The queues of a module, or some of them, from a process that imports it. Raises CommandError."""
    words = [sys.executable, "-m", "hiringhall.worker.queues", target]
    try:
        ended = subprocess.run(words, stdout=subprocess.PIPE, timeout=LOAD_S, check=False)  # noqa: S603 (our own)
    except subprocess.TimeoutExpired:
        raise CommandError(f"{target} was not imported within {LOAD_S:.0f} s") from None
    if ended.returncode != 0:
        raise CommandError(f"{target} cannot be imported: its message is above")
    queues = [queue.encode() for queue in json.loads(ended.stdout)]
    found = [queue for queue in queues if not only or any(name in only for name in names_of(queue))]
    if not found:
        raise CommandError(f"{target} has no function of --only {', '.join(only)}", WRONG_USE)
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(asked: Asked, options: FleetOptions, bounds: Bounds, order: Order, url: str) -> int:
    connection = Connection(url, name="hall work --slurm", patience_s=0.0, token=asked.token)
    show = JsonLines() if asked.as_json else Lines()
    fleet = Fleet(bounds)
    manager = Manager(fleet, order, asked.queues, connection, Slurm(options.timeout_s), show)
    try:
        if options.dry_run:
            seen = await manager.look()
            fleet.look(0.0, seen.ready, {})
            _print_plan(order, fleet.wanted, seen.ready, as_json=asked.as_json)
            return 0
        names = [os.fsdecode(queue) for queue in asked.queues]
        text = f"up to {counted(bounds.workers_max, 'worker')} for {', '.join(names[:3])} of {url}"
        show.event("started", text, {"queues": names, "name": order.name, "pid": os.getpid()})
        return await manager.run(end_all=options.end_workers)
    finally:
        await connection.close()
        await asyncio.to_thread(show.close)


def _print_plan(order: Order, workers: int, ready: int, *, as_json: bool) -> None:
    """What would be submitted."""
    words = ["sbatch", *order.options(f"{TAG_PREFIX}ID")]
    if as_json:
        print_json([{"ready": ready, "workers": workers, "sbatch": words, "script": order.script}])
        return
    heading = f"# {counted(ready, 'job')} ready: {counted(workers, 'worker')} wanted, each with"
    print_result(f"{heading}\n{shlex.join(words)} <<'END'\n{order.script}END\n")
