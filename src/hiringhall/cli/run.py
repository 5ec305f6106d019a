"""`hall run`: many shell commands as jobs of a hall, as GNU parallel runs them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
import uvloop

from hiringhall.amounts import needs_text, parse_needs, parse_totals
from hiringhall.cli.connection_log import logging_as_lines
from hiringhall.cli.escaping import escaped
from hiringhall.cli.remote import read_needs, refusal
from hiringhall.cli.reporting import INTERRUPTED, CommandError, print_error
from hiringhall.cli.run_hall import OTHER, RunHall
from hiringhall.cli.times import read_span_us
from hiringhall.dialects.native import wire
from hiringhall.sdk.addresses import VARIABLE, read_addresses
from hiringhall.sdk.connection import Connection
from hiringhall.sdk.errors import HallError, HallRefused, HallUnreachable
from hiringhall.shell import journal
from hiringhall.shell.command import QUEUE
from hiringhall.shell.feeding import Feeder, Plan
from hiringhall.shell.inputs import STDIN, BadInput, Reading, compile_columns, count_of, split_words
from hiringhall.shell.joblog import JobLog
from hiringhall.shell.printing import Printer
from hiringhall.shell.running import Order, Run, hall_time_us
from hiringhall.shell.showing import Bar, Counts, Show
from hiringhall.shell.templates import BadTemplate, Template
from hiringhall.worker.machine import found_resources

if TYPE_CHECKING:
    from hiringhall.shell.inputs import Source
    from hiringhall.shell.running import Job

FOLDER: Final = ".hall-run"
WINDOW: Final = 2000
"""Jobs that are submitted and not ended, unless -j says otherwise."""
LOSSES_MAX: Final = 10
FAILED_MAX: Final = 100
"""More failed jobs than this have the exit code 101."""
KILL_AFTER_S: Final = 5.0
UNREAD_S: Final = 1.0
"""After a second Ctrl-C, output that nobody reads for so long is given up."""


class _UnreadError(Exception):
    """The run was interrupted, and nobody reads the rest of its output."""


class Wanted(NamedTuple):
    """What the command line asks for."""

    template: Template | None
    sources: list[Source]
    reading: Reading
    title: bytes
    """The name of the run, or its command."""
    jobs: int | None
    terms: dict[str, Any]
    env: dict[str, str]
    keep_order: bool
    tag: bool
    results: Path | None
    joblog: Path | None
    resume: bool
    as_json: bool
    halt: int
    queue: str | None
    folder: Path


def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]... [::: ARGUMENT...]...",
            show_default=False,
            help="The command, with {} for its argument. Without a command, each argument or line is one.",
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--arg-file", "-a", metavar="FILE", help="Arguments are the lines of this file; - for stdin."
        ),
    ] = None,
    null: Annotated[
        bool,
        typer.Option("--null", "-0", help="Arguments in the input end with NUL, not with a line end."),
    ] = False,
    colsep: Annotated[
        str | None,
        typer.Option(
            "--colsep",
            "-C",
            metavar="REGEX",
            help="A regular expression that cuts each argument into columns: {1} is the first one.",
        ),
    ] = None,
    each: Annotated[
        int,
        typer.Option(
            "--max-args", "-N", metavar="N", min=1, max=10_000, help="How many arguments each command gets."
        ),
    ] = 1,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            max=10_000,
            help="Commands at a time. Default: one for each core. With a hall that runs elsewhere: jobs "
            f"under way at a time. Default: {WINDOW:,}.",
        ),
    ] = None,
    keep_order: Annotated[
        bool, typer.Option("--keep-order", "-k", help="Show output in the order of the arguments.")
    ] = False,
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", min=0, help="How often a failed command is tried again.")
    ] = 0,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="A command that takes longer fails.")
    ] = None,
    tag: Annotated[bool, typer.Option("--tag", help="Begin each line of output with the arguments.")] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results", metavar="DIR", help="Write stdout, stderr and job.json of each job to this folder."
        ),
    ] = None,
    joblog: Annotated[
        Path | None,
        typer.Option(
            "--joblog", metavar="FILE", help="Write a line for each job that has ended, as GNU parallel does."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last run of this command: what is done stays done.")
    ] = False,
    halt: Annotated[
        int,
        typer.Option(
            "--halt", metavar="N", min=0, help="Start nothing more after N failed jobs; 0: never stop."
        ),
    ] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands, and run none.")] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME", help="Give commands this variable of yours; workers must allow it."
        ),
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(
            "--resource",
            metavar="NAME=AMOUNT",
            help="What each command needs of its worker, such as cpus=2 or gpus=1. Can be given several times.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The name of the run, for --resume. Default: its command."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            metavar="NAME",
            help="The queue of the jobs. Default: shell, or a new one in a hall of the run.",
        ),
    ] = None,
    hall: Annotated[
        str | None,
        typer.Option(
            "--hall",
            metavar="URL",
            help="Where the hall is. Default: $HALL_URL, or the hall on this machine if it has a worker for "
            "the queue; otherwise one is opened for the run.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help=f"Open a hall for this run, in this folder. Default: {FOLDER}."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each job.")] = False,
) -> int:
    """Run a command for each argument, like GNU parallel, as jobs of a hall. Without a hall, it opens one.

    The exit code is the number of failed jobs up to 100, 101 for more, 130 after Ctrl-C, and 255 if the run
    itself could not go on. Options stand before the command.
    """
    try:
        command, sources = split_words(
            [os.fsencode(word) for word in words or ()], [os.fsencode(word) for word in file or ()]
        )
        text = b" ".join(command)
        columns = compile_columns(colsep) if colsep is not None else None
        reading = Reading(b"\0" if null else b"\n", columns, each)
        template = Template(text, None if reading.varies else len(sources)) if text.strip() else None
        if sys.stdin is not None and sys.stdin.isatty() and any(source.file == STDIN for source in sources):
            print_error("hall: type the arguments, one on each line; Ctrl-D ends them")
        if dry_run:
            return _print_commands(Plan(template, sources, reading))
        if hall is not None and data is not None:
            raise CommandError("--data opens a hall for the run: leave it out, or --hall", OTHER)
        _check_url(hall)
        terms: dict[str, Any] = {"losses_max": LOSSES_MAX}
        if retries:
            terms["retries"] = retries
        if timeout is not None:
            terms["timeout_us"] = read_span_us("--timeout", timeout)
        if needs := read_needs(resource or [], OTHER):
            terms["resources"] = needs
        wanted = Wanted(
            template,
            sources,
            reading,
            os.fsencode(name) if name is not None else template.text if template is not None else b"",
            jobs,
            terms,
            {one: os.environ[one] for one in env or () if one in os.environ},
            keep_order,
            tag,
            results,
            joblog,
            resume,
            as_json,
            halt,
            queue,
            data or Path(FOLDER),
        )
        return _run(wanted, hall, own=data is not None)
    except (BadInput, BadTemplate) as error:
        raise CommandError(str(error), OTHER) from error
    except HallUnreachable as error:
        raise CommandError(f"{error}; go on with --resume when it is back", OTHER) from error
    except HallRefused as error:
        raise CommandError(refusal(error), OTHER) from error
    except HallError as error:
        raise CommandError(str(error), OTHER) from error


def _check_url(hall: str | None) -> None:
    try:
        read_addresses(hall)
    except ValueError as error:
        raise CommandError(f"--hall: {error}", OTHER) from error


def _print_commands(plan: Plan) -> int:
    for planned in plan:
        if planned is not None:
            line = planned.command + b"\n"
            sys.stdout.buffer.write(escaped(line, lines=True).encode() if sys.stdout.isatty() else line)
    sys.stdout.buffer.flush()
    return 0


def _run(wanted: Wanted, hall: str | None, *, own: bool) -> int:
    """Choose the hall, and run."""
    # What commands write may be secret.
    wanted.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = journal.file_of(wanted.folder, wanted.title)
    entry = journal.read(file) if wanted.resume else None
    if wanted.resume and entry is None:
        print_error("hall: there is no earlier run of this command: it begins anew")
    url = hall
    if url is None and not own:
        url = entry.hall or None if entry is not None else _find_hall(wanted.queue)
    shared = url is not None or (hall is None and entry is not None and bool(entry.hall))
    queue = wanted.queue or (entry.queue if entry is not None else None)
    if entry is None:
        name = journal.new_run()
        # In a hall of this folder, jobs that another run has left must not run now.
        queue = queue or (QUEUE.decode() if shared else f"shell-{name}")
        entry = journal.Entry(
            name, queue, url or "", os.fsdecode(wanted.title).encode(errors="replace").decode()
        )
        journal.write(file, entry)
    assert queue is not None
    pids: list[int] = []
    with ExitStack() as stack:
        if not shared:
            slots = wanted.jobs or len(os.sched_getaffinity(0))
            has = _found_for(wanted.terms.get("resources", ""))
            own_hall = stack.enter_context(RunHall(wanted.folder, queue, slots, KILL_AFTER_S, has))
            url, pids = own_hall.url, own_hall.pids
        assert url is not None
        spool = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hall-run-")))
        window = WINDOW if not shared or wanted.jobs is None else wanted.jobs
        return uvloop.run(_drive(wanted, entry, url, queue, window, spool, pids))


def _found_for(needs: str) -> str:
    """The resources of this machine, if the commands need some. Raises CommandError if it has too little."""
    if not needs:
        return ""
    found = found_resources()
    has = {name: amount for name, amount, _ in parse_totals(found.encode())}
    for name, amount in parse_needs(needs.encode()):
        if amount > has.get(name, 0):
            wanted = needs_text(((name, amount),)).decode()
            raise CommandError(f"--resource: a command needs {wanted}, and this machine has {found}", OTHER)
    return found


def _find_hall(queue: str | None) -> str | None:
    """The hall that HALL_URL names, or that of this machine if it has a worker for shell commands."""
    if os.environ.get(VARIABLE):
        return os.environ[VARIABLE]

    async def ask() -> int:
        connection = Connection(None, name="hall run", patience_s=0.0)
        try:
            found = await connection.request(wire.QUEUE, (os.fsencode(queue) if queue else QUEUE,))
            return int(found["workers"])
        except HallError:
            return 0
        finally:
            await connection.close()

    return read_addresses(None)[0].url if uvloop.run(ask()) else None


async def _drive(
    wanted: Wanted, entry: journal.Entry, url: str, queue: str, window: int, spool: Path, pids: list[int]
) -> int:
    """`pids`: processes that must not end before the run."""
    connection = Connection(url, name="hall run")
    counts = Counts()
    known = count_of(wanted.sources, wanted.reading.each)
    going: list[Run] = []
    closed: list[OSError] = []
    bar = Bar(
        counts,
        lambda: known if known is not None else going[0].total,
        shown=sys.stderr.isatty() and not wanted.as_json,
    )
    show = Show(
        bar,
        lambda data: escaped(data, lines=True).encode(),
        tag=wanted.tag,
        as_json=wanted.as_json,
        results=wanted.results,
        log=_open_log(wanted.joblog),
    )

    def tell(job: Job) -> None:
        counts.add(job)
        if show.wants(job):
            printer.add(job)
        else:
            going[0].written([job])
        if wanted.halt and counts.failed >= wanted.halt and not going[0].interrupted:
            printer.say(f"hall: {counts.failed} jobs have failed (--halt): no more are started")
            going[0].stop()

    def unwritten(error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            going[0].abort(error)
        elif not going[0].interrupted:
            # Nobody reads any more. The jobs are ended before the command is.
            closed.append(error)
            going[0].cancel()

    def written(jobs: list[Job]) -> None:
        going[0].written(jobs)

    printer = Printer(show, written, unwritten)
    stopped: list[int] = []
    with logging_as_lines(printer.say):
        try:
            started_us = await hall_time_us(connection) if wanted.resume else 0
            order = Order(
                entry.run,
                os.fsencode(queue),
                wanted.terms,
                os.fsencode(Path.cwd()),
                wanted.env,
                window,
                wanted.keep_order,
                wanted.resume,
                started_us,
                with_times=wanted.joblog is not None,
            )
            plan = Plan(wanted.template, wanted.sources, wanted.reading)
            driven = Run(connection, order, lambda wake: Feeder(plan, wake), tell, spool)
            going.append(driven)
            stopped = _listen_for_signals(driven, printer)
            _watch(pids, driven)
            if not pids:
                await _warn_without_workers(connection, queue, printer)
            await driven.drive()
            if driven.interrupted and counts.cancelled and not closed:
                printer.say(
                    f"hall: ended early: {counts.done} done, {counts.failed} failed, and the rest has not run; "
                    "go on with --resume"
                )
        except _UnreadError:
            pass
        finally:
            await printer.finish()
            await connection.close()
    if closed:
        raise BrokenPipeError
    if stopped:
        return INTERRUPTED
    return min(counts.failed, FAILED_MAX + 1)


def _open_log(path: Path | None) -> JobLog | None:
    try:
        return JobLog(path) if path is not None else None
    except OSError as error:
        raise CommandError(f"--joblog: {path} cannot be written: {error.strerror}", OTHER) from error


async def _warn_without_workers(connection: Connection, queue: str, printer: Printer) -> None:
    """Say that nothing will run before a worker comes."""
    try:
        workers = int((await connection.request(wire.QUEUE, (os.fsencode(queue),)))["workers"])
    except HallRefused:
        workers = 0
    if not workers:
        name = escaped(queue)
        printer.say(f"hall: no worker for the queue {name} is connected: start one with hall work --shell")


def _watch(pids: list[int], driven: Run) -> None:
    """End the run if one of these processes ends."""
    loop = asyncio.get_running_loop()

    def ended(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        driven.abort(CommandError("the hall or the worker of this run has ended: go on with --resume", OTHER))

    for pid in pids:
        descriptor = os.pidfd_open(pid)
        loop.add_reader(descriptor, ended, descriptor)


def _listen_for_signals(driven: Run, printer: Printer) -> list[int]:
    """The first Ctrl-C starts nothing more, the second ends what runs. The list has the signals that came."""
    came: list[int] = []
    loop = asyncio.get_running_loop()

    def hear(number: int) -> None:
        came.append(number)
        if len(came) == 1 and number == signal.SIGINT:
            printer.say("hall: no more jobs are started, those that run may finish; Ctrl-C again ends them")
            driven.stop()
        else:
            printer.say("hall: ending the jobs that run")
            driven.cancel()
            loop.call_later(UNREAD_S, give_up)

    def give_up() -> None:
        """Do not wait for who does not read, once every job has ended, or none can be heard of any more."""
        if (driven.failed or printer.waiting == driven.under_way) and printer.stuck_s >= UNREAD_S:
            printer.abandon()
            driven.abort(_UnreadError())
        else:
            loop.call_later(UNREAD_S, give_up)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, hear, number)
    return came
