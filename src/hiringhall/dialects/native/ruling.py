"""The rules of a queue: as the native protocol states them, and the requests that set and clear them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.errors import BAD_REQUEST, Refusal
from hiringhall.core.needs import TIME_US_MAX
from hiringhall.core.rules.queue_rules import RATE_MAX, RUNNING_MAX, QueueRules
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.fields import Fields

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.session import NativeSession

RATE_UNIT: Final = 1000
"""A rate is kept as starts in so many seconds."""
WEIGHTS_MAX: Final = 10_000
"""Tenants of a queue that have a weight."""


def described(rules: QueueRules) -> dict[str, Any]:
    """Rules by the names of the settings; what they do not limit is left out."""
    rate = rules.starts_per_1000s / RATE_UNIT
    stated: dict[str, Any] = {
        "running_max": rules.running_max,
        "key_running_max": rules.key_running_max,
        "starts_per_second": rate,
        "burst": rules.burst if rate else 0,
        "fair": rules.fair,
        "tenant_weights": rules.weights,
        "age_max_us": rules.age_max_us,
    }
    return {name: value for name, value in stated.items() if value}


def stated_rules(fields: Fields) -> QueueRules:
    """The rules that a request states; what it leaves out, or says is 0, is not limited. Raises Refusal."""
    running_max = fields.number("running_max", 0, RUNNING_MAX) or 0
    key_running_max = fields.number("key_running_max", 0, RUNNING_MAX) or 0
    rate = fields.decimal("starts_per_second") or 0.0
    burst = fields.number("burst", 0, RUNNING_MAX) or 1
    fair = fields.flag("fair")
    weights = fields.counts("tenant_weights") or {}
    age_max_us = fields.number("age_max_us", 0, TIME_US_MAX) or 0
    if rate and not 1 <= rate * RATE_UNIT <= RATE_MAX:
        raise Refusal(BAD_REQUEST, f"starts_per_second: must be from 0.001 to {RATE_MAX // RATE_UNIT}")
    if burst > 1 and not rate:
        raise Refusal(BAD_REQUEST, "burst: is used only with starts_per_second")
    if weights and not fair:
        raise Refusal(BAD_REQUEST, "tenant_weights: are used only with fair")
    if len(weights) > WEIGHTS_MAX:
        raise Refusal(BAD_REQUEST, f"tenant_weights: at most {WEIGHTS_MAX} tenants can have one")
    return QueueRules(running_max, key_running_max, round(rate * RATE_UNIT), burst, fair, weights, age_max_us)


class RuleRequests:
    """The requests of one connection that change the rules of queues."""

    __slots__ = ("_scheduler", "_session")

    def __init__(self, session: NativeSession, scheduler: Scheduler) -> None:
        self._session = session
        self._scheduler = scheduler

    def limit(self, number: int, body: Raw) -> None:
        # {"name": "resize", "running_max": 5}
        fields = Fields(body)
        queue = _name(fields)
        rules = stated_rules(fields)
        fields.end()
        for tenant in rules.weights:
            self._scheduler.table.check_key(tenant)
        self._scheduler.ruled_queues.set(queue, rules)
        self._confirm(number, queue)

    def unlimit(self, number: int, body: Raw) -> None:
        # {"name": "resize"}
        fields = Fields(body)
        queue = _name(fields)
        fields.end()
        self._scheduler.ruled_queues.clear(queue)
        self._confirm(number, queue)

    def _confirm(self, number: int, queue: bytes) -> None:
        """Answer with the rules that hold, when the change is on disk."""
        if number:
            ruled = self._scheduler.ruled_queues
            body = {"rules": described(ruled.of(queue)), "set": queue in ruled.set_now}
            self._session.pledge(wire.encode(wire.OK, number, body))


def _name(fields: Fields) -> bytes:
    name = fields.data("name")
    if not name:
        raise Refusal(BAD_REQUEST, "name: must be the name of a queue (bin)")
    return name
