"""`hall submit` and `hall result`: a job, and what became of it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from pathlib import Path  # noqa: TC003 (Typer reads the annotations)
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hiringhall.cli.escaping import escaped
from hiringhall.cli.help_texts import completing
from hiringhall.cli.remote import (
    HallFlag,
    JsonFlag,
    Remote,
    connected,
    job_id,
    name_of,
    print_json,
    read_needs,
)
from hiringhall.cli.reporting import FAILURE, NOT_ENDED, WRONG_USE, CommandError, print_error, print_result
from hiringhall.cli.times import read_span_us
from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HallRefused
from hiringhall.sdk.failures import decode_failure

if TYPE_CHECKING:
    from hiringhall.sdk.conversation import Ended

PRIORITIES: Final = ("high", "normal", "low")

WaitFlag = Annotated[bool, typer.Option("--wait", help="Wait for the end of the job, and print its result.")]
WaitLimit = Annotated[
    str | None, typer.Option("--wait-for", metavar="TIME", help="Wait at most this long, such as 90s or 15m.")
]


def _span(name: str, text: str) -> Any:
    return typer.Option(name, metavar="TIME", help=text)


def submit(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue (function) of the job.")],
    payload: Annotated[
        str, typer.Argument(metavar="PAYLOAD", show_default=False, help="The payload. Default: empty.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="The payload is in this file.")
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="The payload comes from stdin.")] = False,
    key: Annotated[
        str, typer.Option("--key", metavar="KEY", help="A live job with this queue and key is joined.")
    ] = "",
    priority: Annotated[
        str,
        typer.Option(
            "--priority", metavar="WORD", autocompletion=completing(PRIORITIES), help="high, normal or low."
        ),
    ] = "normal",
    delay: Annotated[str | None, _span("--delay", "It starts not before this time has passed.")] = None,
    retries: Annotated[
        int,
        typer.Option("--retries", metavar="N", min=0, help="How often it is tried again."),
    ] = 0,
    backoff: Annotated[
        str | None, _span("--backoff", "The wait before the first retry. It doubles with each.")
    ] = None,
    timeout: Annotated[str | None, _span("--timeout", "An attempt that takes longer fails.")] = None,
    expire: Annotated[
        str | None, _span("--expire", "It is cancelled if no worker takes it within this time.")
    ] = None,
    skill: Annotated[
        int, typer.Option("--skill", metavar="N", min=0, help="The skill that its worker needs.")
    ] = 0,
    takes: Annotated[
        str | None, _span("--takes", "Only for a worker that has this much time left before it leaves.")
    ] = None,
    parent: Annotated[
        list[str] | None,
        typer.Option("--parent", metavar="ID", help="It waits for this job. Can be given several times."),
    ] = None,
    flow: Annotated[str, typer.Option("--flow", metavar="NAME", help="The flow that it belongs to.")] = "",
    limit_key: Annotated[
        str,
        typer.Option(
            "--limit-key",
            metavar="KEY",
            help="See hall limit --key-running-max: it counts jobs with the same key.",
        ),
    ] = "",
    tenant: Annotated[
        str,
        typer.Option(
            "--tenant", metavar="NAME", help="For whom it is. Tenants can take turns: see hall limit --fair."
        ),
    ] = "",
    debounce: Annotated[
        str | None,
        _span("--debounce", "With --key: it starts after this time without another submit; the last one wins."),
    ] = None,
    debounce_max: Annotated[str | None, _span("--debounce-max", "With --debounce: the longest wait.")] = None,
    throttle: Annotated[
        str | None,
        _span("--throttle", "With --key: for this time, further submits make no job and get this one."),
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(
            "--resource",
            metavar="NAME=AMOUNT",
            help="What it needs of its worker, such as cpus=2 or mem=8G. Can be given several times.",
        ),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep it in memory only: it is lost if the hall stops.")
    ] = False,
    wait: WaitFlag = False,
    wait_for: WaitLimit = None,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Submit a job and print its id; with --wait, its result when it has ended.

    The job is on disk when its id is printed, unless --memory is given. With --wait the exit code is 0 if the
    job is done, 1 if it failed or was cancelled, and 3 if it has not ended in the time of --wait-for. A TIME is
    written as 500ms, 90s, 15m or 6h.
    """
    if priority not in PRIORITIES:
        raise CommandError(
            f'--priority: "{priority}" is not allowed; it takes {", ".join(PRIORITIES)}', WRONG_USE
        )
    spans = {"backoff_us": backoff, "timeout_us": timeout, "expire_us": expire, "takes_us": takes}
    spans |= {"debounce_us": debounce, "debounce_max_us": debounce_max, "throttle_us": throttle}
    terms: dict[str, Any] = {
        name: read_span_us(f"--{name.removesuffix('_us').replace('_', '-')}", written)
        for name, written in spans.items()
        if written is not None
    }
    stated = {"retries": retries, "skill": skill, "flow": name_of(flow)}
    stated |= {"limit_key": name_of(limit_key), "tenant": name_of(tenant)}
    stated |= {"resources": read_needs(resource or [], WRONG_USE)}
    terms |= {name: value for name, value in stated.items() if value}
    if priority != "normal":
        terms["priority"] = priority
    if memory:
        terms["durable"] = False
    delay_us = 0 if delay is None else read_span_us("--delay", delay)
    limit_s = _limit(wait_for)
    parents = [job_id(written) for written in parent or ()]
    job = (name_of(queue), _payload(payload, file, stdin=stdin), terms, name_of(key), delay_us, parents)
    with connected(hall) as remote:
        [number] = remote.ask(wire.SUBMIT, (0, [job]))
        if wait or wait_for is not None:
            return _end_of(remote, number, limit_s, as_json=as_json)
    if as_json:
        print_json([{"ids": [str(number)]}])
    else:
        print_result(f"{number}\n")
    return 0


def result(
    number: Annotated[str, typer.Argument(metavar="ID", help="The id of the job.")],
    wait: WaitFlag = False,
    wait_for: WaitLimit = None,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Print the result of a job; with --wait, when it has ended.

    The exit code is 0 if the job is done, 1 if it failed or was cancelled, and 3 if it has not ended.
    """
    limit_s = _limit(wait_for)
    if not wait and wait_for is None:
        limit_s = 0.0
    with connected(hall) as remote:
        return _end_of(remote, job_id(number), limit_s, as_json=as_json)


def _limit(written: str | None) -> float | None:
    return None if written is None else read_span_us("--wait-for", written) / 1_000_000


def _payload(text: str, file: Path | None, *, stdin: bool) -> bytes:
    if bool(text) + (file is not None) + stdin > 1:
        raise CommandError("give one of PAYLOAD, --file and --stdin", WRONG_USE)
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror or error}") from error
    return sys.stdin.buffer.read() if stdin else name_of(text)


def _end_of(remote: Remote, number: int, limit_s: float | None, *, as_json: bool) -> int:
    """Wait for the end, print it, and return the exit code."""
    described = remote.ask(wire.JOB, (number,))
    ended = bool(described.get("ended_us"))
    if not ended and limit_s != 0:
        end = remote.run(_wait(remote, number, limit_s))
        if end is not None:
            # The result of a job in memory is only in the notice of its end.
            described = {**_ask_again(remote, number, described), **_end_map(end)}
            ended = True
    if as_json:
        from hiringhall.web.describing import job  # noqa: PLC0415 (only with --json)

        print_json([job(described)])
    if not ended:
        print_error(f"hall: job {number} has not ended: {escaped(described.get('why', '') or 'it runs')}")
        return NOT_ENDED
    if described["state"] == "done":
        if not as_json:
            _print_data(described.get("result", b""))
        return 0
    print_error(f"hall: {escaped(_reason(number, described))}")
    return FAILURE


async def _wait(remote: Remote, number: int, limit_s: float | None) -> Ended | None:
    connection = remote.connection
    limit = nullcontext() if limit_s is None else asyncio.timeout(limit_s)
    try:
        async with limit:
            watch = await connection.watch(number)
            while not watch.settled:
                await connection.heard(watch)
    except TimeoutError:
        return None
    if watch.error is not None:
        raise watch.error
    return watch.end


def _ask_again(remote: Remote, number: int, before: dict[str, Any]) -> dict[str, Any]:
    """The job after its end; as it was if nothing of it is kept."""
    try:
        found: dict[str, Any] = remote.ask(wire.JOB, (number,))
    except HallRefused:
        return before
    return found


def _end_map(end: Ended) -> dict[str, Any]:
    return {"state": end.state, "situation": end.state, "code": end.code, "result": end.result}


def _reason(number: int, described: dict[str, Any]) -> str:
    queue = described["queue"].decode(errors="replace")
    return str(decode_failure(number, queue, described.get("code", 0), described.get("result", b"")))


def _print_data(data: bytes) -> None:
    """The bytes as they are; on a terminal, without what could command it."""
    if sys.stdout.isatty():
        print_result(escaped(data.removesuffix(b"\n"), lines=True) + "\n")
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
