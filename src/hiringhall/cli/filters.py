"""The flags that choose jobs, for `hall jobs`, `cancel` and `retry`, and the filters of the native protocol."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from hiringhall.cli.help_texts import completing
from hiringhall.cli.remote import name_of
from hiringhall.cli.reporting import WRONG_USE, CommandError
from hiringhall.cli.times import TIMES, read_time

STATES: Final = ("held", "delayed", "queued", "running")
SITUATIONS: Final = (
    "held",
    "delayed",
    "backoff",
    "paused",
    "parked",
    "limited",
    "promised",
    "announced",
    "no_workers",
    "ready",
    "running",
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

QueueFlag = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only jobs of this queue.")]
KeyFlag = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only jobs with this key.")]
TextFlag = Annotated[
    str | None, typer.Option("--text", metavar="TEXT", help="Only jobs with this in the key or the payload.")
]
StateFlag = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="STATE",
        autocompletion=completing((*STATES, *SITUATIONS)),
        help="Only jobs in this state or situation: queued, "
        f"{', '.join(SITUATIONS)}. See hall job for what they mean.",
    ),
]
SinceFlag = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help=f"Only jobs since this time: {TIMES}.")
]
UntilFlag = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", help="Only jobs until this time. A date means the end of that day."
    ),
]


def live_filters(
    queue: str | None,
    key: str | None,
    text: str | None,
    state: str | None,
    since: str | None,
    until: str | None,
) -> dict[str, Any]:
    """The filters of `jobs`. Raises CommandError."""
    filters = _common(queue, key, since, until)
    if text is not None:
        filters["text"] = name_of(text)
    if state in SITUATIONS:
        filters["situation"] = state
    elif state in STATES:
        filters["state"] = state
    elif state is not None:
        known = ", ".join(dict.fromkeys((*STATES, *SITUATIONS)))
        raise CommandError(f'--state: "{state}" is not allowed; it takes one of {known}', WRONG_USE)
    return filters


def dead_filters(queue: str | None, key: str | None, since: str | None, until: str | None) -> dict[str, Any]:
    """The filters of `history` for dead letters. Raises CommandError."""
    return {**_common(queue, key, since, until), "state": "failed"}


def ended_filters(
    queue: str | None, key: str | None, state: str | None, since: datetime | None, until: datetime | None
) -> dict[str, Any]:
    """The filters of `history`."""
    filters: dict[str, Any] = {}
    for name, stated in (("queue", queue), ("key", key)):
        if stated is not None:
            filters[name] = name_of(stated)
    if state is not None:
        filters["state"] = state
    for name, at in (("from_us", since), ("to_us", until)):
        if at is not None:
            filters[name] = max(0, round((at - _EPOCH).total_seconds() * 1_000_000))
    return filters


def _common(queue: str | None, key: str | None, since: str | None, until: str | None) -> dict[str, Any]:
    problems: list[str] = []
    since_at = read_time("--since", since, problems)
    until_at = read_time("--until", until, problems, ends=True)
    if since_at is not None and until_at is not None and since_at > until_at:
        problems.append("--since: is later than --until; swap them")
    if problems:
        raise CommandError("; ".join(problems), WRONG_USE)
    return ended_filters(queue, key, None, since_at, until_at)
