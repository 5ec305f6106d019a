"""The name of a function, which is its queue: `module.function`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def queue_name(function: Any) -> str:
    """The module and the name of the function. `__main__` is called as another program would import it."""
    module = function.__module__
    if module == "__main__":
        module = _main_module()
    return f"{module}.{function.__qualname__.replace('<locals>.', '')}"


def _main_module() -> str:
    """The name of the program's module: from `python -m`, or the stem of its file."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"
