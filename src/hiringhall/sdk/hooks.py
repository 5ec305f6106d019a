"""Types that msgspec does not know, on their way to the wire and back: pydantic models, and handles of jobs.

pydantic is used if the program uses it; it is not needed.
"""

from __future__ import annotations

from typing import Any


class Handle:
    """A job that an argument may stand for. `Job` is one."""

    __slots__ = ("id",)

    id: int

    @property
    def codec(self) -> str:
        """How its result is encoded; `raw`: not known."""
        return "raw"


class PathError(ValueError):
    """A value does not fit; the text ends with the path to it."""


def to_wire(value: Any) -> Any:
    """What msgspec can encode. Raises TypeError."""
    if is_model(type(value)):
        return value.model_dump(mode="json")
    if isinstance(value, Handle):
        raise TypeError("a handle of a job can be an argument, not a result: return its result or its id")
    kind = type(value)
    raise TypeError(
        f"{kind.__module__}.{kind.__qualname__} has no form for the wire: "
        "use a dataclass, a msgspec.Struct, a TypedDict or a pydantic model"
    )


def from_wire(kind: Any, value: Any) -> Any:
    """A value of this type. Raises ValueError or TypeError."""
    if is_model(kind):
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise ValueError(_explain(error)) from error
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    raise TypeError(f"{getattr(kind, '__qualname__', kind)} cannot be made from {type(value).__name__}")


def is_model(kind: Any) -> bool:
    """Whether it is a model of pydantic, which need not be installed."""
    return (
        isinstance(kind, type) and hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_validate")
    )


def _explain(error: ValueError) -> str:
    """The first complaint of pydantic in one line, with the path inside the model."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    first = errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
