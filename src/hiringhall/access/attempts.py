"""Failed attempts to come in: the more an address makes, the longer each answer takes.

A right token is never slowed down. Invariant: memory is bounded; the address that was quiet for the longest
time is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

FREE: Final = 5
"""Attempts that are answered at once."""
FIRST_S: Final = 0.1
DELAY_S_MAX: Final = 3.0
"""Shorter than a client waits for an answer."""
QUIET_S: Final = 60.0
"""After this time without a failure an address begins anew."""
ADDRESSES_MAX: Final = 10_000


class Attempts:
    """The failures of each address."""

    def __init__(self, addresses_max: int = ADDRESSES_MAX) -> None:
        self._max = addresses_max
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Count and time of the latest, in the order of the latest."""

    def __len__(self) -> int:
        return len(self._failures)

    def failed(self, address: str, now_s: float) -> float:
        """Note a failure. Returns the time in seconds after which to answer it."""
        source = _source(address)
        count, last_s = self._failures.pop(source, (0, now_s))
        if now_s - last_s > QUIET_S:
            count = 0
        count += 1
        self._failures[source] = count, now_s
        if len(self._failures) > self._max:
            self._failures.popitem(last=False)
        if count <= FREE:
            return 0.0
        return min(FIRST_S * 2.0 ** min(count - FREE - 1, 30), DELAY_S_MAX)


def _source(address: str) -> str:
    """One machine has many addresses of IPv6: their first half counts."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return parsed.exploded[:19]
    return address
