"""Amounts of resources: as text for people and protocols, as whole thousandths for the core.

    cpus=8 mem=32G          what a job needs, or a worker has: amounts with up to 3 decimals, K M G T P by 1024
    gpus=2 disks=[sda,sdb]  what a worker has: `gpus` has the units 0 and 1, `disks` the units sda and sdb
    gpus=2[0,1]             what a job was given: an amount, and of which units

Invariant: there is one text for the same amounts (`needs_text`), so jobs with the same needs say the same.
"""

from __future__ import annotations

import re
from typing import Final

ONE: Final = 1000
"""The thousandths of one."""
UNITS_BY_DEFAULT: Final = (b"gpus",)
"""Resources with units, 0 and so on, even if a worker states only how many it has."""
NAMES_MAX: Final = 16
"""Resources of one job or worker."""
NAME_BYTES_MAX: Final = 40
TEXT_BYTES_MAX: Final = 4096
UNITS_MAX: Final = 256
AMOUNT_MAX: Final = 9 * 10**18
"""In thousandths: it fits into 63 bits."""

_SUFFIXES: Final = {b"": 0, b"K": 10, b"M": 20, b"G": 30, b"T": 40, b"P": 50}
_SUFFIXES_SHOWN: Final = ((50, b"P"), (40, b"T"), (30, b"G"), (20, b"M"))
_ENTRY: Final = re.compile(rb"([^\s=,\[\]]+)=([^\s=,\[\]]*)(?:\[([^\s=\[\]]*)\])?(?:[\s,]+|$)")
_AMOUNT: Final = re.compile(rb"([0-9]{1,18})(?:\.([0-9]{1,3}))?([KMGTP]?)")

Amounts = tuple[tuple[bytes, int], ...]
"""Amounts by name, sorted, in thousandths."""
Stated = list[tuple[bytes, int, list[bytes] | None]]
"""Resources as a text states them: name, amount (-1: none was written), units."""


class BadAmounts(ValueError):
    """A text that states no amounts, with words for people."""


def parse_needs(text: bytes) -> Amounts:
    """What a job needs, sorted by name. Raises BadAmounts."""
    needs: list[tuple[bytes, int]] = []
    for name, amount, units in _parse(text):
        if units is not None or amount < 0:
            raise BadAmounts(f"resources: a job needs an amount of {name.decode()}, not named units")
        if amount:
            needs.append((name, amount))
    return tuple(sorted(needs))


def parse_totals(text: bytes) -> Stated:
    """What a worker has: name, amount, and the units of resources that have some. Raises BadAmounts."""
    totals: Stated = []
    for name, amount, named in _parse(text):
        units = named
        if units is None and name in UNITS_BY_DEFAULT:
            if amount % ONE or amount > UNITS_MAX * ONE:
                raise BadAmounts(f"resources: a worker has 0 to {UNITS_MAX} whole {name.decode()}")
            units = [b"%d" % number for number in range(amount // ONE)]
        elif units is not None and amount not in (-1, len(units) * ONE):
            raise BadAmounts(f"resources: the amount of {name.decode()} is not that of its units")
        totals.append((name, len(units) * ONE if units is not None else amount, units))
    return totals


def parse_given(text: bytes) -> Stated:
    """What a job was given: name, amount, and the units if there are some. Raises BadAmounts."""
    return _parse(text)


def needs_text(needs: Amounts) -> bytes:
    """The text of amounts that are sorted by name."""
    return b" ".join([b"%s=%s" % (name, amount_text(amount)) for name, amount in needs])


def amount_text(amount: int) -> bytes:
    """An amount, exactly: with a suffix where it is a whole number of at least a mebi."""
    whole, rest = divmod(amount, ONE)
    if rest:
        return b"%d.%s" % (whole, (b"%03d" % rest).rstrip(b"0"))
    for bits, suffix in _SUFFIXES_SHOWN:
        if whole and not whole & ((1 << bits) - 1):
            return b"%d%s" % (whole >> bits, suffix)
    return b"%d" % whole


def _parse(text: bytes) -> Stated:
    if len(text) > TEXT_BYTES_MAX:
        raise BadAmounts(f"resources: the text may have {TEXT_BYTES_MAX} bytes")
    stated: Stated = []
    text = text.strip(b" ,\t\r\n")
    at = 0
    while at < len(text):
        entry = _ENTRY.match(text, at)
        if entry is None:
            shown = text[at : at + NAME_BYTES_MAX].decode("utf-8", "backslashreplace")
            raise BadAmounts(f"resources: {shown!r} must be NAME=AMOUNT, such as cpus=2 or mem=32G")
        stated.append(_stated(entry[1], entry[2], entry[3]))
        at = entry.end()
    names: set[bytes] = set()
    for name, _, _ in stated:
        if name in names:
            raise BadAmounts(f"resources: {name.decode()} is stated twice")
        names.add(name)
    if len(names) > NAMES_MAX:
        raise BadAmounts(f"resources: {len(names)} are stated, and there may be {NAMES_MAX}")
    return stated


def _stated(name: bytes, number: bytes, listed: bytes | None) -> tuple[bytes, int, list[bytes] | None]:
    try:
        shown = name.decode()
    except UnicodeDecodeError:
        raise BadAmounts("resources: a name must be UTF-8") from None
    if len(name) > NAME_BYTES_MAX or not shown.isprintable():
        raise BadAmounts(f"resources: a name has 1 to {NAME_BYTES_MAX} bytes that can be printed")
    units = listed.split(b",") if listed is not None else None
    if listed == b"":
        units = []
    if units is not None and (len(units) > UNITS_MAX or len(set(units)) < len(units) or b"" in units):
        raise BadAmounts(f"resources: {shown} has 0 to {UNITS_MAX} units with different names")
    if listed is not None and not _is_printable(listed):
        raise BadAmounts(f"resources: the names of the units of {shown} must be printable UTF-8")
    if not number and units is not None:
        return name, -1, units
    found = _AMOUNT.fullmatch(number)
    if found is None:
        stated = number[:NAME_BYTES_MAX].decode("utf-8", "backslashreplace")
        text = f"resources: {shown} must be a number of 0 or more with up to 3 decimals, such as 2, 0.5 or 32G"
        raise BadAmounts(f"{text}, not {stated!r}")
    thousandths = int(found[1]) * ONE + int((found[2] or b"").ljust(3, b"0"))
    amount = thousandths << _SUFFIXES[found[3]]
    if amount > AMOUNT_MAX:
        raise BadAmounts(f"resources: {shown} may be {AMOUNT_MAX // ONE} at most")
    return name, amount, units


def _is_printable(text: bytes) -> bool:
    try:
        return text.decode().isprintable()
    except UnicodeDecodeError:
        return False
