"""The name of a function, which is its queue: `module.function`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def queue_name(function: Any) -> str:
    """The module and the name of the function. `__main__` is called as another program would import it."""
    if not hasattr(function, "__qualname__"):
        raise TypeError(f"{function!r} has no name of its own: give it one, as in @hall.job(name=...)")
    module = function.__module__
    if module == "__main__":
        module = _main_module()
    return f"{module}.{function.__qualname__.replace('<locals>.', '')}"


def same_name(one: Any, other: Any) -> bool:
    """Whether the second is the first, or its next version: a module or a cell that is run again."""
    if hasattr(one, "__qualname__") and hasattr(other, "__qualname__"):
        return queue_name(one) == queue_name(other)
    return one is other


def _main_module() -> str:
    """The name of the program's module: from `python -m`, or the stem of its file."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"
