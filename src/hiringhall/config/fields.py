"""Types of settings that several tables have in common."""

from typing import Annotated, Final

from msgspec import Meta

from hiringhall.config.quantities import Address
from hiringhall.schedules.plan import RETRIES_MAX

YEAR_S: Final = 31_536_000
"""The longest time that a setting takes."""

ListenAddress = Annotated[Address, Meta(description="Where to listen; port 0 lets the system choose.")]
LossesMax = Annotated[
    int, Meta(ge=0, le=RETRIES_MAX, description="A job fails when it has lost this many workers; 0: no limit.")
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
