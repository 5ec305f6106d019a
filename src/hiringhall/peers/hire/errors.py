"""What can go wrong, as a caller sees it. All of it is a `HireError`."""

from __future__ import annotations


class HireError(Exception):
    """The root: whoever catches it catches everything below."""


class AddressError(HireError, ValueError):
    """Nobody can be reached at such an address."""


class ConnectionLost(HireError):
    """Nobody answers there, or not any more."""


class Left(HireError):
    """The provider has left while a job of its was under way; its worker was dismissed."""
