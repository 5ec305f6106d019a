"""The rules of a queue: how many of its jobs may run, how fast they may start, and how tenants share it."""

from __future__ import annotations

from typing import Final, NamedTuple

from hiringhall.core.errors import BAD_REQUEST, Refusal

LIMIT_KEY: Final = "limit_key"
"""The extra with the key by which running jobs of a queue are counted (`key_running_max`)."""
TENANT: Final = "tenant"
"""The extra with the name of the tenant that a job counts for."""

RUNNING_MAX: Final = 1_000_000_000
WEIGHT_MAX: Final = 1000
RATE_MAX: Final = 1_000_000_000
"""The highest rate: a million starts a second."""


class QueueRules(NamedTuple):
    """What a queue allows. 0: no limit."""

    running_max: int = 0
    """Jobs of the queue that may run at the same time."""
    key_running_max: int = 0
    """Jobs with the same `limit_key` that may run at the same time."""
    starts_per_1000s: int = 0
    """Jobs that may start in 1000 seconds, so that a rate below one a second is a whole number too."""
    burst: int = 1
    """Starts that may follow each other at once after a pause."""
    fair: bool = False
    """Tenants take turns; otherwise the oldest job goes first, whoever submitted it."""
    weights: dict[bytes, int] = {}  # noqa: RUF012 (a NamedTuple copies no default, and nothing changes this one)
    """By tenant: how many starts it has in a turn, if not one."""
    age_max_us: int = 0
    """A job without an expiry of its own is cancelled if no worker takes it within this time."""

    @property
    def orders(self) -> bool:
        """The order of jobs is not only by priority and age, so the queue needs lanes of another kind."""
        return self.fair or self.key_running_max > 0

    @property
    def empty(self) -> bool:
        """It limits nothing."""
        return self == NO_RULES


NO_RULES: Final = QueueRules()
"""What holds for a queue that has no rules."""


def check_rules(rules: QueueRules) -> None:
    """Refuse rules whose values are out of range."""
    for name, value in (("running_max", rules.running_max), ("key_running_max", rules.key_running_max)):
        if not 0 <= value <= RUNNING_MAX:
            raise Refusal(BAD_REQUEST, f"{name} must be from 1 to {RUNNING_MAX}, or 0 for no limit")
    if not 0 <= rules.starts_per_1000s <= RATE_MAX:
        raise Refusal(BAD_REQUEST, f"the rate must be from 0.001 to {RATE_MAX // 1000} starts a second")
    if not 1 <= rules.burst <= RUNNING_MAX:
        raise Refusal(BAD_REQUEST, f"burst must be from 1 to {RUNNING_MAX}")
    for tenant, weight in rules.weights.items():
        if not 1 <= weight <= WEIGHT_MAX:
            shown = repr(tenant.decode(errors="backslashreplace"))
            raise Refusal(BAD_REQUEST, f"the weight of tenant {shown} must be from 1 to {WEIGHT_MAX}")
