"""PyPI gearman3 on today's Python: it still calls `array.fromstring`, which Python 3.9 took away.

Nothing else of the library is touched, so what goes over the wire is its own.
"""

from __future__ import annotations

import array
import types
from typing import Any

import gearman  # type: ignore[import-untyped]
import gearman.connection  # type: ignore[import-untyped]

__all__ = ["gearman"]


class Buffer(array.array):  # type: ignore[type-arg]
    """`array.array`, also after slicing, with the method under its old name."""

    def fromstring(self, data: bytes) -> None:
        self.frombytes(data)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Buffer(self.typecode, found) if isinstance(key, slice) else found


gearman.connection.array = types.SimpleNamespace(array=Buffer)
