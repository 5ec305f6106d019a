"""`hall flow run`: a file of tasks becomes a flow, and its end an exit code."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hiringhall.cli.escaping import escaped
from hiringhall.cli.flow_jobs import NAME_BYTES_MAX, Way, submit_all
from hiringhall.cli.flow_nodes import read_nodes
from hiringhall.cli.help_texts import completing
from hiringhall.cli.remote import HallFlag, JsonFlag, Remote, connected, name_of, print_json
from hiringhall.cli.reporting import (
    FAILURE,
    INTERRUPTED,
    NOT_ENDED,
    WRONG_USE,
    CommandError,
    print_error,
    print_result,
)
from hiringhall.cli.times import read_span_us
from hiringhall.cli.wording import counted, duration, short
from hiringhall.dialects.native import wire
from hiringhall.flows.checking import in_order
from hiringhall.flows.reading import FORMS, STDIN, read_file
from hiringhall.flows.tasks import FileError
from hiringhall.sdk.errors import HallUnreachable
from hiringhall.sdk.failures import decode_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hiringhall.flows.tasks import Task

LOOK_US: Final = 500_000
"""Between two looks at a flow that runs."""
SECOND_US: Final = 1_000_000
FAILURES_SHOWN: Final = 10
FAILURES_LISTED: Final = 100
"""In JSON."""
PARENT_FAILED: Final = 126
STUCK: Final = "stuck"


def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The tasks, as YAML or as lines; - for stdin.")],
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The name of the flow. Default: the name in the file, or that of the file.",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="WORD",
            autocompletion=completing(FORMS),
            help="yaml or lines. Default: yaml for a name that ends with .yaml or .yml.",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            metavar="TEXT",
            help="For lines: the command of each task. {} becomes the name of the task. "
            "Without it, the tasks are for dwork workers.",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            metavar="NAME",
            help="The queue of tasks that name none. Default: shell, or dwork for tasks without a command.",
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option(
            "--retries", metavar="N", min=0, max=1_000_000, help="Retries of tasks that do not say it."
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout", metavar="TIME", help="Timeout of tasks that do not say it, such as 90s or 6h."
        ),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the end of the flow.")] = False,
    wait_for: Annotated[
        str | None, typer.Option("--wait-for", metavar="TIME", help="Wait at most this long.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check the file, and print the tasks in order.")
    ] = False,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Run the tasks of a file as a flow: each when those that it needs are done.

    Run the same file again to resume: what is done is not done again. The exit code is 0 if all tasks are done,
    1 if some failed or were cancelled, 2 if the file is wrong or no hall answers, and 3 if the flow has not
    ended in the time of --wait-for.
    """
    limit_us = None if wait_for is None else read_span_us("--wait-for", wait_for)
    timeout_us = None if timeout is None else read_span_us("--timeout", timeout)
    stated, tasks = _read(file, form)
    way = Way(_flow_name(name or stated or _stem(file)), str(Path.cwd()), command, queue, retries, timeout_us)
    if dry_run:
        return _print_tasks(way, tasks, as_json=as_json)
    if not tasks:
        raise CommandError(f"{file} has no tasks", WRONG_USE)
    with connected(hall) as remote:
        remote.run(remote.connection.connect())
        try:
            with _bar("submitted", len(tasks)) as told:
                count = submit_all(remote, way, tasks, told)
            if no_wait:
                return _print_begun(remote, way, count, as_json=as_json)
            described = _until_ended(remote, way.flow, limit_us)
            return _print_end(remote, way, described, as_json=as_json)
        except KeyboardInterrupt:
            shown = escaped(way.flow)
            print_error(
                f"hall: what was submitted goes on; see hall flow show '{shown}', hall flow cancel '{shown}'"
            )
            return INTERRUPTED
        except HallUnreachable as error:
            text = "the flow goes on with the hall; run the same command again to go on here"
            raise CommandError(f"{error}; {text}", NOT_ENDED) from error


def _read(file: str, form: str | None) -> tuple[str | None, list[Task]]:
    if form is not None and form not in FORMS:
        raise CommandError(f'--format: "{form}" is not allowed; it takes {", ".join(FORMS)}', WRONG_USE)
    try:
        found = read_file(file, form)
        return found.name, in_order(found)
    except FileError as error:
        raise CommandError(str(error), WRONG_USE) from error
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror or error}", WRONG_USE) from error


def _stem(file: str) -> str:
    if file == STDIN:
        raise CommandError("a flow from stdin needs a --name", WRONG_USE)
    return Path(file).stem


def _flow_name(written: str) -> bytes:
    name = name_of(written)
    if not 0 < len(name) <= NAME_BYTES_MAX:
        raise CommandError(
            f"the name of a flow has 1 to {NAME_BYTES_MAX} bytes; give one with --name", WRONG_USE
        )
    return name


def _print_tasks(way: Way, tasks: Sequence[Task], *, as_json: bool) -> int:
    if as_json:
        print_json(
            {
                "task": escaped(task.name),
                "line": task.line,
                "needs": [escaped(need) for need in task.needs],
                "command": _command(way, task),
            }
            for task in tasks
        )
        return 0
    for task in tasks:
        needs = f"  needs {', '.join(map(escaped, task.needs))}" if task.needs else ""
        print_result(f"{escaped(task.name)}{needs}\n")
    return 0


def _command(way: Way, task: Task) -> str | None:
    command = task.command
    return escaped(command) if command is not None else way.command


def _print_begun(remote: Remote, way: Way, count: int, *, as_json: bool) -> int:
    if as_json:
        print_json([_shape(remote.ask(wire.FLOW, (way.flow,)), [])])
    else:
        print_result(f"flow {escaped(way.flow)}: {counted(count, 'task')} submitted\n")
    return 0


# --- waiting


def _until_ended(remote: Remote, name: bytes, limit_us: int | None) -> dict[str, Any]:
    """The flow when it has ended, or cannot go on, or the time is over."""
    deadline_s = None if limit_us is None else time.monotonic() + limit_us / SECOND_US
    with _bar("", None) as told:
        while True:
            described: dict[str, Any] = remote.ask(wire.WAIT_FLOW, (name, LOOK_US))
            told(described["done"] + described["failed"] + described["cancelled"], described["jobs"])
            if described["ended_us"] or described["state"] == STUCK:
                return described
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return described


@contextmanager
def _bar(words: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with rate and time left, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console  # noqa: PLC0415 (only for a terminal)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(words, total=total)
        yield lambda done, whole: shown.update(task, completed=done, total=whole)


# --- the end


def _print_end(remote: Remote, way: Way, described: dict[str, Any], *, as_json: bool) -> int:
    failures: list[dict[str, Any]] = []
    if described["failed"] or described["cancelled"]:
        failures = _failures(remote, way.flow, FAILURES_LISTED if as_json else FAILURES_SHOWN)
    if as_json:
        print_json([_shape(described, failures)])
    state = described["state"]
    if not as_json:
        print_result(_sentence(way.flow, described) + "\n")
        for failure in failures:
            print_error(f"hall: {failure['task']}: {failure['detail']}")
        more = described["failed"] - len(failures)
        if more > 0:
            print_error(f"hall: and {more:,} more; see hall flow show '{escaped(way.flow)}'")
    if state == "done":
        return 0
    return FAILURE if described["ended_us"] or state == STUCK else NOT_ENDED


def _sentence(name: bytes, described: dict[str, Any]) -> str:
    counts = ", ".join(
        f"{described[word]:,} {word}"
        for word in ("done", "failed", "cancelled", "running", "ready", "delayed", "held")
        if described[word]
    )
    took = ""
    if described["ended_us"]:
        took = f" in {duration(described['ended_us'] - described['created_us'])}"
    return f"flow {short(name)}: {described['state']}{took}; {counts}"


def _failures(remote: Remote, name: bytes, most: int) -> list[dict[str, Any]]:
    """Why tasks failed, the first ones first; those that failed with another are left out."""
    found: list[dict[str, Any]] = []
    nodes = [node for node in read_nodes(remote, name) if node.state in {"failed", "cancelled"}]
    for node in sorted(nodes, key=lambda node: (node.state != "failed", node.id)):
        if len(found) >= most:
            break
        described = remote.ask(wire.JOB, (node.id,))
        code = described.get("code", 0)
        if code == PARENT_FAILED:
            continue
        queue = node.queue.decode(errors="replace")
        reason = str(decode_failure(node.id, queue, code, described.get("result", b"")))
        task = node.name
        found.append(
            {"task": task, "id": str(node.id), "state": node.state, "code": code, "detail": escaped(reason)}
        )
    return found


def _shape(described: dict[str, Any], failures: list[dict[str, Any]]) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415 (only with --json)

    from hiringhall.web.describing import flow  # noqa: PLC0415

    shape: dict[str, Any] = msgspec.to_builtins(flow(described))
    return {**shape, "failures": failures}
