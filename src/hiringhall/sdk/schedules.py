"""A schedule as the hall is told of it: when, which function, which arguments."""

from __future__ import annotations

from typing import Any

from hiringhall.sdk import codec
from hiringhall.sdk.functions import JobFunction
from hiringhall.sdk.options import Seconds, microseconds


def plan(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The body of `schedule`, from the arguments of `Hall.schedule`. Raises TypeError or ValueError."""
    every: Seconds | None = kwargs.pop("every", None)
    timezone: str | None = kwargs.pop("timezone", None)
    replace: bool = kwargs.pop("replace", True)
    cron = args[0] if args and isinstance(args[0], str) else None
    rest = args[1:] if cron is not None else args
    if not rest or not isinstance(rest[0], JobFunction) or (cron is None) == (every is None):
        raise TypeError(
            'write schedule(name, "0 3 * * *", function, ...) or schedule(name, function, ..., every=60)'
        )
    function: JobFunction[..., Any] = rest[0]
    payload, parents = codec.encode_arguments(function, rest[1:], kwargs)
    if parents:
        raise TypeError(f"{name}: a schedule cannot have the result of a job as an argument")
    settings = function.settings
    if settings.key is not None or not settings.durable or settings.after or settings.flow is not None:
        raise ValueError(f"{name}: the jobs of a schedule are durable, without a key, parents or a flow")
    body: dict[str, Any] = {
        "name": name.encode(),
        "queue": function.queue.encode(),
        "payload": payload,
        "terms": function.settings.terms,
        "replace": replace,
    }
    if every is not None:
        body["every_us"] = microseconds("every", every)
    else:
        body["cron"] = cron
    if timezone is not None:
        body["timezone"] = timezone
    return body
