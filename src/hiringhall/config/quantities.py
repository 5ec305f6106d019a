"""Types of settings beyond numbers and text: durations, byte sizes, addresses, lists.

Each describes how it is written (`allowed`), parses what a user wrote (`parse`), and formats itself (`text`).
An invalid value raises ValueError.
"""

import ipaddress
import json
import re
from collections.abc import Mapping
from typing import ClassVar, Final, Self

DAY_US: Final = 86_400_000_000
_AGE_MAX_US: Final = 36_500 * DAY_US
_UNIT_US: Final[Mapping[str, int]] = {
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": DAY_US,
    "w": 7 * DAY_US,
}
_UNIT_BYTES: Final[Mapping[str, int]] = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_LOOPBACK_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost")


def _split(written: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(written)
    if match is None:
        raise ValueError(written)
    return float(match[1]), match[2].lower()


def _number(written: object) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise ValueError(written)  # noqa: TRY004 (one kind of error for all invalid values)
    return float(written)


class Age(int):
    """A duration in microseconds, written in days or with a unit."""

    allowed: ClassVar[str] = 'a number of days, or text with a unit such as "90s", "30m", "12h", "7d", "4w"'

    @classmethod
    def parse(cls, written: object) -> Self:
        number, unit = _split(written) if isinstance(written, str) else (_number(written), "d")
        scale_us = _UNIT_US.get(unit or "d")
        if scale_us is None or not 0 < number * scale_us <= _AGE_MAX_US:
            raise ValueError(written)
        return cls(round(number * scale_us))

    @property
    def text(self) -> str:
        for unit in ("d", "h", "m"):
            if self % _UNIT_US[unit] == 0:
                return f'"{self // _UNIT_US[unit]}{unit}"'
        return f'"{self / _UNIT_US["s"]:g}s"'


class Interval(int):
    """How often something happens, in microseconds."""

    allowed: ClassVar[str] = 'text with a unit such as "90s", "15m", "6h", "1d", from "1s"'

    @classmethod
    def parse(cls, written: object) -> Self:
        """A number without a unit is rejected: it could mean seconds or days."""
        if not isinstance(written, str) or not written.strip()[-1:].isalpha():
            raise ValueError(written)
        interval_us = Age.parse(written)
        if interval_us < _UNIT_US["s"]:
            raise ValueError(written)
        return cls(interval_us)

    @property
    def text(self) -> str:
        return Age(self).text


class Size(int):
    """A number of bytes, at least one."""

    allowed: ClassVar[str] = 'a number of bytes from 1, or text with a unit such as "64MiB", "500kB"'

    @classmethod
    def parse(cls, written: object) -> Self:
        if isinstance(written, str):
            number, unit = _split(written)
            scale = _UNIT_BYTES.get(unit or "b")
        else:
            number, scale = _number(written), 1
        if scale is None or not 1 <= number * scale < 1 << 62 or number * scale != int(number * scale):
            raise ValueError(written)
        return cls(int(number * scale))

    @property
    def text(self) -> str:
        for unit, name in (("gib", "GiB"), ("mib", "MiB"), ("kib", "KiB")):
            if self % _UNIT_BYTES[unit] == 0:
                return f'"{self // _UNIT_BYTES[unit]}{name}"'
        return str(int(self))


class SizeOrZero(Size):
    """A number of bytes; 0 means nothing at all."""

    allowed: ClassVar[str] = 'a number of bytes, 0 for none, or text with a unit such as "64KiB"'

    @classmethod
    def parse(cls, written: object) -> Self:
        if isinstance(written, bool) or written not in {0, "0"}:
            return super().parse(written)
        return cls(0)

    @property
    def text(self) -> str:
        return super().text if self else "0"


_UNIX: Final = "unix:"


class Address(str):
    """Where a door listens: a host and a port. Port 0 lets the system choose one."""

    __slots__ = ()
    allowed: ClassVar[str] = 'a host and a port such as "127.0.0.1:4730" or "[::1]:4730"'

    @classmethod
    def parse(cls, written: object) -> Self:
        if not isinstance(written, str):
            raise ValueError(written)  # noqa: TRY004 (as above)
        host, colon, port = written.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not host or re.fullmatch(r"[0-9]{1,5}", port) is None or int(port) > 65535:
            raise ValueError(written)
        if bracketed:
            ipaddress.IPv6Address(host[1:-1])
        elif re.fullmatch(r"[\w.-]+", host) is None:
            raise ValueError(written)
        return cls(f"{host}:{int(port)}")

    @classmethod
    def of(cls, host: str, port: int) -> Self:
        return cls(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    @property
    def host(self) -> str:
        return self.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.rpartition(":")[2])

    @property
    def path(self) -> str:
        """The file of a Unix socket; empty: it is a host and a port."""
        return ""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. Of host names, only the usual ones of loopback count."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() in _LOOPBACK_NAMES

    @property
    def text(self) -> str:
        return f'"{self}"'


class StreamAddress(Address):
    """Where a door listens that may have a Unix socket: a host and a port, or a path."""

    __slots__ = ()
    allowed: ClassVar[str] = 'a host and a port such as "127.0.0.1:4731", or "unix:PATH" for a Unix socket'

    @classmethod
    def parse(cls, written: object) -> Self:
        if isinstance(written, str) and written.strip().startswith(_UNIX):
            path = written.strip().removeprefix(_UNIX)
            if not path or "\0" in path:
                raise ValueError(written)
            return cls(_UNIX + path)
        return super().parse(written)

    @property
    def path(self) -> str:
        return self.removeprefix(_UNIX) if self.startswith(_UNIX) else ""

    @property
    def host(self) -> str:
        return "" if self.path else super().host

    @property
    def port(self) -> int:
        return 0 if self.path else super().port

    @property
    def is_loopback(self) -> bool:
        return bool(self.path) or super().is_loopback


class Words(tuple[str, ...]):
    """Several texts without spaces."""

    __slots__ = ()
    allowed: ClassVar[str] = 'a list such as ["a", "b"], or one text with spaces or commas between'

    @classmethod
    def parse(cls, written: object) -> Self:
        words = re.split(r"[\s,]+", written.strip(" ,")) if isinstance(written, str) else written
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(written)
        return cls(word for word in words if word)

    @property
    def text(self) -> str:
        return "[" + ", ".join(json.dumps(word, ensure_ascii=False) for word in self) + "]"


QUANTITIES: Final = (Age, Interval, Size, SizeOrZero, Address, StreamAddress, Words)
