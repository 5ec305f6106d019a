"""A table of settings: what all of them have in common."""

from collections.abc import Iterator
from typing import TypeVar

from msgspec import Struct


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of settings."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """Settings that are fine alone and wrong together: (key, what to do)."""
        yield from ()


SectionType = TypeVar("SectionType", bound=Section)
