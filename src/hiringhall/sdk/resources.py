"""Resources in Python: what a job needs as a mapping, and what it was given."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Final, NamedTuple

from hiringhall.amounts import ONE, UNITS_BY_DEFAULT, needs_text, parse_given, parse_needs

ROUNDING: Final = 1e-9
"""What a sum of fractions in binary numbers may differ from the same sum in decimal ones."""


class Given(NamedTuple):
    """What a job was given of one resource."""

    amount: float
    units: tuple[str, ...] = ()
    """Which ones, of a resource whose units have names: the numbers of GPUs."""


def text_of(resources: Mapping[str, float | str]) -> str:
    """The text of what a job needs. Raises ValueError, or TypeError for what is no mapping."""
    if not isinstance(resources, Mapping):
        raise TypeError(f"resources must be a mapping such as {{'cpus': 2, 'mem': '8G'}}, not {resources!r}")
    parts = [f"{name}={_amount(name, amount)}" for name, amount in resources.items()]
    for part in parts:
        if any(mark in part for mark in " ,\t\n[]"):
            raise ValueError(f"resources: {part!r} must be a name and an amount, such as cpus=2")
    return needs_text(parse_needs(" ".join(parts).encode())).decode()


def _amount(name: str, amount: object) -> str:
    if isinstance(amount, str):
        return amount
    number = amount if isinstance(amount, int | float) and not isinstance(amount, bool) else nan
    if not abs(round(number, 3) - number) < ROUNDING:  # 0.1 + 0.2 is 0.30000000000000004
        raise ValueError(f"resources: {name} must be a number with up to 3 decimals, or a size, not {amount!r}")
    return str(amount) if isinstance(amount, int) else f"{amount:.3f}"


def given_of(text: bytes) -> dict[str, Given]:
    """What the hall says that a job was given."""
    given: dict[str, Given] = {}
    for name, amount, units in parse_given(text):
        number = amount // ONE if not amount % ONE else amount / ONE
        given[name.decode()] = Given(number, tuple(unit.decode() for unit in units or ()))
    return given


def environment_of(text: bytes) -> dict[bytes, bytes]:
    """The variables that tell a command what it was given."""
    variables: dict[bytes, bytes] = {}
    for name, given in given_of(text).items():
        word = "".join([letter if letter.isascii() and letter.isalnum() else "_" for letter in name]).upper()
        variables[f"HALL_RESOURCE_{word}".encode()] = str(given.amount).encode()
        if given.units:
            listed = ",".join(given.units).encode()
            variables[f"HALL_RESOURCE_{word}_UNITS".encode()] = listed
            if name.encode() in UNITS_BY_DEFAULT:
                variables[b"CUDA_VISIBLE_DEVICES"] = listed
    return variables
