"""Settings that several kinds of doors, and schedules, have in common: how often a job can fail and be lost."""

from typing import Annotated, Final

from msgspec import Meta

from hiringhall.schedules.plan import RETRIES_MAX

YEAR_S: Final = 31_536_000
"""The longest time that a setting takes."""

LossesMax = Annotated[
    int,
    Meta(
        ge=0,
        le=RETRIES_MAX,
        description="A job fails when it has lost this many workers; 0: there is no limit.",
    ),
]
QuitsMax = Annotated[
    int,
    Meta(
        ge=0,
        le=RETRIES_MAX,
        description="A job fails when this many hired workers have quit while performing it; 0: no limit.",
    ),
]
Retries = Annotated[
    int,
    Meta(ge=0, le=RETRIES_MAX, description="How often a job is retried after a worker has reported a failure."),
]
