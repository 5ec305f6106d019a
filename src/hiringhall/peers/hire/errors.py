"""The exceptions of the hire peers. All are subclasses of `HireError`."""

from __future__ import annotations


class HireError(Exception):
    """The base class of all errors here."""


class AddressError(HireError, ValueError):
    """The address is not valid, or does not fit the kind of security."""


class ConnectionLost(HireError):
    """The address could not be reached, or the connection has ended."""


class Left(HireError):
    """The provider has left while one of its jobs was open; the job's worker was dismissed."""
