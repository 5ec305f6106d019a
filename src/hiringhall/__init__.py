"""hiringhall: one hall where every job meets a worker, whatever protocol either speaks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hiringhall.sdk.context import CurrentJob, current_job
    from hiringhall.sdk.errors import (
        HallError,
        HallRefused,
        HallUnreachable,
        JobCancelled,
        JobFailed,
        JobTimeout,
    )
    from hiringhall.sdk.flows import Flow
    from hiringhall.sdk.functions import JobFunction
    from hiringhall.sdk.hall import Hall
    from hiringhall.sdk.jobs import Job

__version__ = "0.1.0"

__all__ = [
    "CurrentJob",
    "Flow",
    "Hall",
    "HallError",
    "HallRefused",
    "HallUnreachable",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFunction",
    "JobTimeout",
    "__version__",
    "current_job",
]

_HOMES = {
    "CurrentJob": "context",
    "Flow": "flows",
    "Hall": "hall",
    "HallError": "errors",
    "HallRefused": "errors",
    "HallUnreachable": "errors",
    "Job": "jobs",
    "JobCancelled": "errors",
    "JobFailed": "errors",
    "JobFunction": "functions",
    "JobTimeout": "errors",
    "current_job": "context",
}
"""Names of the SDK and their modules. They are imported at the first use: the server needs none of them."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hiringhall.sdk.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
