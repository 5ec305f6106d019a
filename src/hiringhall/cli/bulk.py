"""`hall cancel` and `hall retry`: some jobs by their ids, or all that match, after their number was confirmed.

Invariant: jobs that a filter chose are counted first, and exactly these are changed. Without a terminal to ask,
nothing is changed unless --yes is given.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hiringhall.cli.filters import (
    KeyFlag,
    QueueFlag,
    SinceFlag,
    StateFlag,
    TextFlag,
    UntilFlag,
    dead_filters,
    live_filters,
)
from hiringhall.cli.progress import with_progress
from hiringhall.cli.remote import HallFlag, JsonFlag, Remote, connected, job_id, name_of, print_json, refusal
from hiringhall.cli.reporting import FAILURE, WRONG_USE, CommandError, print_error, print_result
from hiringhall.cli.wording import counted
from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HallRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

BULK_MAX: Final = 100_000
"""Jobs that one command may change."""
UNDER_WAY_MAX: Final = 100
REFUSED_SHOWN: Final = 100
ANSWERS: Final = ("y", "yes")

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID...", show_default=False, help="The ids of the jobs.")
]
YesFlag = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for a confirmation.")]


def cancel(
    numbers: Ids = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it becomes the result of the jobs.")
    ] = "",
    queue: QueueFlag = None,
    key: KeyFlag = None,
    text: TextFlag = None,
    state: StateFlag = None,
    since: SinceFlag = None,
    until: UntilFlag = None,
    yes: YesFlag = False,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Cancel live jobs by their ids, or all that match a filter. A worker that has one is told to stop.

    Jobs that a filter chose are counted, and you are asked before they are cancelled. Cancelled jobs are in the
    history, and are not run again.
    """
    filters = live_filters(queue, key, text, state, since, until)
    with connected(hall) as remote:
        chosen = _chosen(numbers, filters)
        if chosen is None:
            chosen = _matching(remote, wire.JOBS, filters, "after")
            _confirm(len(chosen), "cancel", yes=yes)
        bodies = [(number, name_of(reason)) for number in chosen]
        return _report(_change_all(remote, wire.CANCEL, bodies), len(chosen), "cancelled", as_json=as_json)


def retry(
    numbers: Ids = None,
    queue: QueueFlag = None,
    key: KeyFlag = None,
    since: SinceFlag = None,
    until: UntilFlag = None,
    yes: YesFlag = False,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Run failed jobs (dead letters) again, by their ids, or all that match a filter such as --queue.

    Jobs that a filter chose are counted, and you are asked before they run again. --since and --until are about
    the time of the end.
    """
    filters = dead_filters(queue, key, since, until)
    with connected(hall) as remote:
        chosen = _chosen(numbers, {name: value for name, value in filters.items() if name != "state"})
        if chosen is None:
            chosen = _matching(remote, wire.HISTORY, filters, "before")
            _confirm(len(chosen), "retry", yes=yes)
        bodies = [(number,) for number in chosen]
        return _report(_change_all(remote, wire.RETRY, bodies), len(chosen), "retried", as_json=as_json)


def _chosen(numbers: list[str] | None, filters: dict[str, Any]) -> list[int] | None:
    """The jobs that were named; None: a filter chooses."""
    if numbers and filters:
        raise CommandError("give ids or a filter, not both", WRONG_USE)
    if not numbers and not filters:
        raise CommandError("which jobs? Give their ids, or a filter such as --queue NAME", WRONG_USE)
    return list(dict.fromkeys(map(job_id, numbers))) if numbers else None


def _matching(remote: Remote, kind: str, filters: dict[str, Any], place: str) -> list[int]:
    found = remote.pages(kind, filters, place, None)
    chosen = [described["id"] for described in islice(with_progress(found, "found"), BULK_MAX + 1)]
    if len(chosen) > BULK_MAX:
        raise CommandError(f"more than {BULK_MAX:,} jobs match: choose fewer, such as with --until")
    return chosen


def _confirm(count: int, verb: str, *, yes: bool) -> None:
    if not count:
        raise CommandError("no job matches; nothing was changed")
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{counted(count, 'job')} would be changed; add --yes to {verb} them", WRONG_USE)
    sys.stderr.write(f"{verb} {counted(count, 'job')}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ANSWERS:
        raise CommandError("nothing was changed")


def _change_all(remote: Remote, kind: str, bodies: list[tuple[Any, ...]]) -> list[tuple[int, HallRefused]]:
    """Ask for all changes, some at a time. Those that were refused."""
    refused: list[tuple[int, HallRefused]] = []
    waiting = iter(with_progress(bodies, "jobs", len(bodies)))

    async def work() -> None:
        for body in waiting:
            try:
                await remote.connection.request(kind, body)
            except HallRefused as error:
                refused.append((body[0], error))

    async def work_all() -> None:
        await asyncio.gather(*(work() for _ in range(min(UNDER_WAY_MAX, len(bodies)))))

    remote.run(work_all())
    return refused


def _report(refused: list[tuple[int, HallRefused]], count: int, done: str, *, as_json: bool) -> int:
    changed = count - len(refused)
    if as_json:
        shown: Iterable[Any] = [
            {"id": str(number), "code": error.code, "detail": error.text}
            for number, error in refused[:REFUSED_SHOWN]
        ]
        print_json([{"changed": changed, "failed": shown, "failed_count": len(refused)}])
    else:
        for number, error in refused[:REFUSED_SHOWN]:
            print_error(f"hall: job {number} was not {done}: {refusal(error)}")
        if len(refused) > REFUSED_SHOWN:
            print_error(f"hall: and {len(refused) - REFUSED_SHOWN} more were not {done}")
        if changed:
            print_result(f"{counted(changed, 'job')} {done}\n")
    return FAILURE if refused else 0
