"""`hall limit`: the limits of queues, shown, set and cleared while the hall runs."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from hiringhall.cli.grid import Column, plain, table
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.paging import show
from hiringhall.cli.remote import HallFlag, JsonFlag, Remote, connected, name_of, print_json
from hiringhall.cli.reporting import WRONG_USE, CommandError, print_error
from hiringhall.cli.styling import terminal_colours
from hiringhall.cli.times import read_span_us
from hiringhall.cli.wording import rules_text, short
from hiringhall.dialects.native import wire

COLUMNS: Final = (Column("queue", least=12), Column("limits"), Column("from"))
_COUNT: Final = "0: no limit."


def limit(
    queue: Annotated[
        str,
        typer.Argument(metavar="QUEUE", show_default=False, help="The queue. Default: list all with limits."),
    ] = "",
    running_max: Annotated[
        int | None,
        typer.Option(
            "--running-max", metavar="N", min=0, help=f"How many of its jobs may run at a time. {_COUNT}"
        ),
    ] = None,
    key_running_max: Annotated[
        int | None,
        typer.Option(
            "--key-running-max",
            metavar="N",
            min=0,
            help=f"How many with the same limit key may run at a time. {_COUNT}",
        ),
    ] = None,
    starts_per_second: Annotated[
        float | None,
        typer.Option(
            "--starts-per-second", metavar="X", min=0, help=f"How many may start in a second. {_COUNT}"
        ),
    ] = None,
    burst: Annotated[
        int | None,
        typer.Option(
            "--burst",
            metavar="N",
            min=1,
            help="With --starts-per-second: how many may start at once after a quiet time.",
        ),
    ] = None,
    fair: Annotated[
        bool | None, typer.Option("--fair/--no-fair", help="Whether its tenants take turns.")
    ] = None,
    tenant_weight: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant-weight",
            metavar="NAME=N",
            help="How many jobs a tenant starts in its turn. Can be given several times.",
        ),
    ] = None,
    age_max: Annotated[
        str | None,
        typer.Option(
            "--age-max",
            metavar="TIME",
            help="A job that no worker takes in this time, such as 90s or 1h, is cancelled. 0: never.",
        ),
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Go back to the limits of hall.toml, which may be none.")
    ] = False,
    hall: HallFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Show, set or clear the limits of queues: how many jobs run, and how fast they start.

    Limits that are not given stay as they are. They take effect at once, survive a restart, and are used in
    place of [[queue]] in hall.toml until they are cleared. Submits name their limit key and tenant: see hall
    submit -h.
    """
    stated: dict[str, Any] = {
        "running_max": running_max,
        "key_running_max": key_running_max,
        "starts_per_second": starts_per_second,
        "burst": burst,
        "fair": fair,
        "tenant_weights": None if tenant_weight is None else dict(map(_weight, tenant_weight)),
        "age_max_us": None if age_max is None else read_span_us("--age-max", age_max),
    }
    changes = {name: value for name, value in stated.items() if value is not None}
    if (clear or changes) and not queue:
        raise CommandError("name the queue whose limits are to change", WRONG_USE)
    if clear and changes:
        raise CommandError("--clear goes with no other limit", WRONG_USE)
    with connected(hall) as remote:
        if clear:
            return _show(queue, remote.ask(wire.UNLIMIT, {"name": name_of(queue)}), as_json=as_json)
        if changes:
            body = {"name": name_of(queue), **_merged(remote, queue, changes)}
            return _show(queue, remote.ask(wire.LIMIT, body), as_json=as_json)
        if queue:
            found = remote.ask(wire.QUEUE, (name_of(queue),))
            return _show(queue, {"rules": found["rules"], "set": found["rules_set"]}, as_json=as_json)
        return _list(remote, as_json=as_json)


def _merged(remote: Remote, queue: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The limits that the queue has, with some changed. What belongs to a limit goes with it."""
    name = name_of(queue)
    queues = [found for found in remote.positions(wire.QUEUES, name) if found["name"] == name]
    before: dict[str, Any] = queues[0]["rules"] if queues else {}
    merged = {**before, **changes}
    if not merged.get("starts_per_second") and "burst" not in changes:
        merged.pop("burst", None)
    if not merged.get("fair") and "tenant_weights" not in changes:
        merged.pop("tenant_weights", None)
    return merged


def _weight(written: str) -> tuple[bytes, int]:
    tenant, _, weight = written.rpartition("=")
    if not tenant or not (weight.isascii() and weight.isdigit() and len(weight) <= 4):
        raise CommandError(
            f'--tenant-weight: "{written}" is not a tenant with a weight, such as acme=3', WRONG_USE
        )
    return name_of(tenant), int(weight)


def _list(remote: Remote, *, as_json: bool) -> int:
    found = [each for each in remote.positions(wire.QUEUES) if each["rules"] or each["rules_set"]]
    if as_json:
        print_json(_shape(each["name"], each["rules"], each["rules_set"]) for each in found)
        return 0
    if not found:
        print_error("hall: no queue has limits")
        return 0
    rows = [
        plain(short(each["name"]), rules_text(each["rules"]), "run time" if each["rules_set"] else "hall.toml")
        for each in sorted(found, key=lambda each: each["name"])
    ]
    show(table(COLUMNS, rows, terminal_width(), terminal_colours()), paged=True)
    return 0


def _show(queue: str, answer: dict[str, Any], *, as_json: bool) -> int:
    name = name_of(queue)
    if as_json:
        print_json([_shape(name, answer["rules"], answer["set"])])
        return 0
    source = ", set at run time" if answer["set"] else ""
    show([f"queue {short(name)}: {rules_text(answer['rules'])}{source}"], paged=False)
    return 0


def _shape(name: bytes, rules: dict[str, Any], are_set: bool) -> dict[str, Any]:
    """The limits as the HTTP API answers them, and the name of the queue."""
    from msgspec import to_builtins  # noqa: PLC0415 (only with --json)

    from hiringhall.web.describing import queue_rules  # noqa: PLC0415 (it loads a part of the web)

    return {"queue": short(name), **to_builtins(queue_rules(rules, are_set=are_set))}
