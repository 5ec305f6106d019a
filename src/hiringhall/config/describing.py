"""The schema as data: each setting with its key, variable, allowed values and description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, get_args

import msgspec
from msgspec import inspect

from hiringhall.config.needs import QueueSettings, WorkerSettings
from hiringhall.config.schedules import ScheduleSettings
from hiringhall.config.schema import DoorSettings, HallSettings, HistorySettings, LimitsSettings
from hiringhall.config.web import WebSettings

if TYPE_CHECKING:
    from msgspec.structs import FieldInfo

    from hiringhall.config.section import Section
    from hiringhall.config.sources import Key

Dialects = Mapping[str, type[DoorSettings]]
"""The dialects of doors with their settings, given by the composition root."""

SECTIONS: Final[Mapping[str, type[Section]]] = {
    "hall": HallSettings,
    "limits": LimitsSettings,
    "history": HistorySettings,
    "web": WebSettings,
}
TABLES: Final[Mapping[str, type[Section]]] = {
    "schedule": ScheduleSettings,
    "queue": QueueSettings,
    "worker": WorkerSettings,
}
"""Tables that can occur several times, besides doors."""
ARRAYS: Final[frozenset[Key]] = frozenset(
    {("door",), ("schedule",), ("queue",), ("worker",), ("history", "queue")}
)
"""Tables that can occur several times, each with a heading [[...]]."""
_UNITS: Final = {"s": " of seconds", "us": " of microseconds"}


class Setting(NamedTuple):
    """One setting, for display."""

    key: Key
    """Without the index of a table in an array: ("door", "tls", "ca")."""
    variable: str
    """Its environment variable; `<n>` stands for the index."""
    allowed: str
    description: str
    default: object
    """msgspec.NODEFAULT: it is required."""


def inner_section(field: FieldInfo) -> type[Section] | None:
    """The table type of a field, if it is a table."""
    info = _bare(inspect.type_info(field.type))
    return cast("type[Section]", info.cls) if isinstance(info, inspect.StructType) else None


def array_section(field: FieldInfo) -> type[Section] | None:
    """The table type of a field, if it is an array of tables."""
    info = _bare(inspect.type_info(field.type))
    if not isinstance(info, inspect.VarTupleType) or not isinstance(info.item_type, inspect.StructType):
        return None
    return cast("type[Section]", info.item_type.cls)


def _bare(info: inspect.Type) -> inspect.Type:
    """The type without its description and without None."""
    while True:
        if isinstance(info, inspect.Metadata):
            info = info.type
        elif isinstance(info, inspect.UnionType):
            info = next(inner for inner in info.types if not isinstance(inner, inspect.NoneType))
        else:
            return info


def allowed(field: FieldInfo) -> str:
    """The allowed values of a field, as text that follows "it takes"."""
    info = _bare(inspect.type_info(field.type))
    match info:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() | inspect.FloatType():
            kind = "a whole number" if isinstance(info, inspect.IntType) else "a number"
            kind += _UNITS.get(field.name.rpartition("_")[2], "")
            if info.ge is not None and info.le is not None:
                return f"{kind} from {info.ge} to {info.le}"
            return f"{kind} from {info.ge}" if info.ge is not None else kind
        case inspect.LiteralType():
            words = get_args(get_args(field.type)[0])  # In the order of the schema.
            return "one of " + ", ".join(f'"{word}"' for word in words)
        case inspect.CustomType():
            return str(cast("Any", info.cls).allowed)
        case inspect.StrType(max_length=int(longest)):
            return f"text of 1 to {longest} characters"
        case inspect.StrType(min_length=1):
            return "text that is not empty"
        case _:
            return "text"


def settings(shape: type[Section], key: Key) -> Iterator[Setting]:
    """Every setting of a table; settings of inner tables come last."""
    tables: list[tuple[type[Section], Key]] = []
    for field in msgspec.structs.fields(shape):
        inner = inner_section(field) or array_section(field)
        if inner is not None:
            tables.append((inner, (*key, field.name)))
            continue
        info = inspect.type_info(field.type)
        schema = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
        yield Setting(
            (*key, field.name),
            _variable((*key, field.name)),
            allowed(field),
            str((schema or {}).get("description", "")),
            field.default,
        )
    for inner, inner_key in tables:
        yield from settings(inner, inner_key)


def _variable(key: Key) -> str:
    steps = [f"{step}_<n>" if key[: depth + 1] in ARRAYS else str(step) for depth, step in enumerate(key)]
    return "HALL_" + "_".join(steps[1:] if key[0] == "hall" else steps).upper().replace("<N>", "<n>")


def every_section(dialects: Dialects) -> Iterator[tuple[str, type[Section], Key]]:
    """All tables with a heading: the hall's own, arrays of tables, then one for each dialect."""
    for name, shape in SECTIONS.items():
        yield name, shape, (name,)
    for name, shape in TABLES.items():
        yield name, shape, (name,)
    for dialect, door in dialects.items():
        yield f"door, dialect {dialect}", door, ("door",)


def variables(dialects: Dialects) -> dict[str, Key]:
    """Environment variables and their keys; `<n>` stands for an index."""
    return {
        setting.variable: setting.key
        for _, shape, key in every_section(dialects)
        for setting in settings(shape, key)
    }
