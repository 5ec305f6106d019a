"""The limits of a queue as the hall is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from hiringhall.sdk.functions import JobFunction
from hiringhall.sdk.options import Seconds, microseconds

if TYPE_CHECKING:
    from collections.abc import Mapping


class Limits(TypedDict, total=False):
    """What `Hall.limit` takes: all limits of the queue. What is left out is not limited."""

    running_max: int
    """Its jobs that may run at the same time."""
    key_running_max: int
    """Those with the same `limit_key`."""
    starts_per_second: float
    burst: int
    """With starts_per_second: starts that are saved up while none is used."""
    fair: bool
    """Its tenants take turns."""
    tenant_weights: Mapping[str, int]
    """With fair: starts of a tenant in a turn, if not one."""
    age_max: Seconds
    """A ready job that no worker takes within this time is cancelled."""


def name_of(queue: str | JobFunction[..., Any]) -> bytes:
    """The name of a queue, or of the queue of a function."""
    return (queue.queue if isinstance(queue, JobFunction) else queue).encode()


def body(queue: str | JobFunction[..., Any], limits: Limits) -> dict[str, Any]:
    """The body of `limit`. Raises TypeError or ValueError."""
    stated: dict[str, Any] = dict(limits)
    for name in stated:
        if name not in Limits.__annotations__:
            raise TypeError(f"{name!r} is not a limit of a queue")
    if (weights := stated.pop("tenant_weights", None)) is not None:
        stated["tenant_weights"] = {tenant.encode(): weight for tenant, weight in weights.items()}
    if (age_max := stated.pop("age_max", None)) is not None:
        stated["age_max_us"] = microseconds("age_max", age_max)
    return {"name": name_of(queue), **stated}
