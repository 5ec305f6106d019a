"""The base class of all tables of settings."""

from collections.abc import Iterator
from typing import TypeVar

from msgspec import Struct


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of settings."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """Settings that are valid alone but wrong together: (key, message)."""
        yield from ()


SectionType = TypeVar("SectionType", bound=Section)
