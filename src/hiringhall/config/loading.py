"""Builds a `Config` from leaves: precedence, unknown keys, types, and rules between settings.

Flags override the environment, the environment overrides the file, the file overrides the defaults. All
problems are collected, so that the user sees them at once.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from hiringhall.config.describing import SECTIONS, TABLES, allowed, array_section, inner_section, variables
from hiringhall.config.needs import QueueSettings, WorkerSettings
from hiringhall.config.quantities import QUANTITIES
from hiringhall.config.schedules import ScheduleSettings
from hiringhall.config.schema import Config, DoorSettings, HallSettings, HistorySettings, LimitsSettings
from hiringhall.config.sources import (
    ConfigError,
    Key,
    Leaf,
    Leaves,
    from_assignments,
    from_doors,
    from_environment,
    from_file,
    parse_key,
    setting_variables,
    show,
    without_index,
)
from hiringhall.config.web import WebSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from msgspec.structs import FieldInfo

    from hiringhall.config.describing import Dialects
    from hiringhall.config.section import Section, SectionType

DEFAULT_FILE: Final = "hall.toml"
SIMILARITY_MIN: Final = 0.6
"""How similar a known name must be to a wrong one to be suggested; 1 is equal."""


class Flags(NamedTuple):
    """The settings from the command line."""

    config: Path | None = None
    doors: Sequence[str] = ()
    assignments: Sequence[str] = ()
    named: Mapping[str, tuple[Key, str | None]] = {}
    """Settings with their own flag: "--data" with its key and value; None if it was not given."""


class Loaded(NamedTuple):
    """Valid settings, the file they came from, and warnings about them."""

    config: Config
    file: Path | None
    warnings: list[str]
    doors_named: bool
    """The doors were configured; they are not the default ones."""


def load(flags: Flags, environ: Mapping[str, str], dialects: Dialects, default_doors: Sequence[str]) -> Loaded:
    """Merge all sources. Raises ConfigError with every problem found."""
    file = _find_file(flags, environ)
    names = _known_variables(environ, dialects)
    doors, settings, unknown = from_environment(environ, names)
    leaves = from_doors(default_doors, "default")
    if file is not None:
        _override(leaves, from_file(file))
    _override(leaves, doors)
    leaves.update(settings)
    _override(leaves, from_doors(flags.doors, "--door"))
    for flag, (key, value) in flags.named.items():
        if value is not None:
            leaves[key] = Leaf(value, flag, is_text=True)
    leaves.update(from_assignments(flags.assignments, "--set"))
    warnings = [f"{name}: no such setting, ignored{_suggest_variable(name, names)}" for name in unknown]
    doors_named = any(
        key[0] == "door" and key[-1] == "dialect" and leaf.origin != "default" for key, leaf in leaves.items()
    )
    return Loaded(_Reader(leaves, dialects).config(), file, warnings, doors_named)


def _known_variables(environ: Mapping[str, str], dialects: Dialects) -> Mapping[str, Key]:
    """The names of variables that are needed here. Those of doors are in the settings of all dialects, which
    are loaded only if one of these is to be looked up.
    """
    asked = setting_variables(environ)
    own = variables({}) if asked else {}
    return own if all(without_index(name) in own for name in asked) else variables(dialects)


def _find_file(flags: Flags, environ: Mapping[str, str]) -> Path | None:
    if flags.config is not None:
        return flags.config
    if named := environ.get("HALL_CONFIG"):
        return Path(named)
    return Path(DEFAULT_FILE) if os.path.lexists(DEFAULT_FILE) else None


def _override(leaves: Leaves, upper: Leaves) -> None:
    """Doors of a source replace all earlier doors; other settings are replaced one by one."""
    if any(key[0] == "door" for key in upper):
        for key in [key for key in leaves if key[0] == "door"]:
            del leaves[key]
    leaves.update(upper)


class _Reader:
    """Reads the leaves along the schema, once."""

    def __init__(self, leaves: Leaves, dialects: Dialects) -> None:
        self._leaves = leaves
        self._dialects = dialects
        self._problems: list[str] = []

    def config(self) -> Config:
        for name in _children(self._leaves, ()):
            if name not in (*SECTIONS, *TABLES, "door"):
                self._unknown((name,), (*SECTIONS, *TABLES, "door"))
        hall = self._section(HallSettings, ("hall",))
        limits = self._section(LimitsSettings, ("limits",))
        history = self._section(HistorySettings, ("history",))
        web = self._section(WebSettings, ("web",))
        schedules = self._sections(ScheduleSettings, ("schedule",))
        queues = self._sections(QueueSettings, ("queue",))
        workers = self._sections(WorkerSettings, ("worker",))
        doors = [self._door(key) for key in self._indexed(("door",))]
        if hall is None or limits is None or history is None or web is None or None in doors or self._problems:
            raise ConfigError(self._problems)
        config = Config(
            hall=hall,
            limits=limits,
            history=history,
            web=web,
            door=tuple(cast("list[DoorSettings]", doors)),
            schedule=schedules,
            queue=queues,
            worker=workers,
            origins={show(key): leaf.origin for key, leaf in self._leaves.items()},
        )
        self._check(config, ())
        if self._problems:
            raise ConfigError(self._problems)
        return config

    def _sections(self, shape: type[SectionType], key: Key) -> tuple[SectionType, ...]:
        """All valid tables of one array."""
        built = [self._section(shape, indexed) for indexed in self._indexed(key)]
        return tuple(section for section in built if section is not None)

    def _indexed(self, key: Key) -> list[Key]:
        """The keys of the tables of an array, in order."""
        what = key[-1]
        leaf = self._leaves.get(key) or _named_child(self._leaves, key)
        if leaf is not None:
            self._problems.append(
                f"{leaf.origin}: {show(key)}: write each {what} as a separate table headed [[{show(key)}]]"
            )
            return []
        indexes = sorted(step for step in _children(self._leaves, key) if isinstance(step, int))
        for position, index in enumerate(indexes):
            if position != index:
                self._problems.append(
                    f"{self._origin((*key, index))}: {show((*key, index))}: no such {what}; "
                    f"there are {position}, counted from 0"
                )
                return [(*key, index) for index in indexes[:position]]
        return [(*key, index) for index in indexes]

    def _door(self, key: Key) -> DoorSettings | None:
        leaf = self._leaves.get((*key, "dialect"))
        names = ", ".join(f'"{name}"' for name in self._dialects)
        if leaf is None:
            self._problems.append(
                f"{self._origin(key)}: {show(key)}.dialect: is missing; it takes one of {names}"
            )
            return None
        shape = self._dialects.get(leaf.value) if isinstance(leaf.value, str) else None
        if shape is None:
            hint = _suggest(str(leaf.value), list(self._dialects))
            self._refuse((*key, "dialect"), leaf, f"one of {names}{hint}")
            return None
        return self._section(shape, key)

    def _section(self, shape: type[SectionType], key: Key) -> SectionType | None:
        """Build one table, or report what is wrong with it."""
        leaf = self._leaves.get(key)
        if leaf is not None and leaf.value != {}:
            self._problems.append(
                f"{leaf.origin}: {show(key)}: must be a table of settings, such as [{show(key)}]"
            )
            return None
        fields = {field.name: field for field in msgspec.structs.fields(shape)}
        problems_before = len(self._problems)
        for name in _children(self._leaves, key):
            if name not in fields:
                self._unknown((*key, name), tuple(fields))
        values: dict[str, object] = {}
        for name, field in fields.items():
            self._field(field, (*key, name), values)
        if len(self._problems) > problems_before:
            return None
        section = shape(**values)
        self._check(section, key)
        return section

    def _field(self, field: FieldInfo, key: Key, values: dict[str, object]) -> None:
        inner, array = inner_section(field), array_section(field)
        leaf = self._leaves.get(key)
        if inner is not None:
            if leaf is not None or _children(self._leaves, key):
                values[field.name] = self._section(inner, key)
        elif array is not None:
            values[field.name] = self._sections(array, key)
        elif leaf is not None:
            try:
                values[field.name] = msgspec.convert(
                    leaf.value, field.type, strict=not leaf.is_text, dec_hook=_parse_quantity
                )
            except (msgspec.ValidationError, ValueError, OverflowError):
                self._refuse(key, leaf, allowed(field))
        elif inner_leaves := [inner_key for inner_key in self._leaves if inner_key[: len(key)] == key]:
            self._refuse(key, self._leaves[inner_leaves[0]]._replace(value="a table"), allowed(field))
        elif field.required:
            self._problems.append(
                f"{self._origin(key[:-1])}: {show(key)}: is missing; it takes {allowed(field)}"
            )

    def _check(self, section: Section, key: Key) -> None:
        for name, problem in section.faults():
            where = f"{show(key)}.{name}" if key else name
            self._problems.append(f"{self._origin(parse_key(where))}: {where}: {problem}")

    def _refuse(self, key: Key, leaf: Leaf, takes: str) -> None:
        value = f'"{leaf.value}"' if isinstance(leaf.value, str) else _spell(leaf.value)
        self._problems.append(f"{leaf.origin}: {show(key)}: {value} is not allowed; it takes {takes}")

    def _unknown(self, key: Key, known: Sequence[str]) -> None:
        name = str(key[-1])
        elsewhere = [section for section, shape in SECTIONS.items() if name in shape.__struct_fields__]
        if elsewhere and key != (elsewhere[0],) and name not in known:
            hint = f"; did you mean {elsewhere[0]}.{name}?"
        else:
            hint = _suggest(name, list(known)) or f"; known here: {', '.join(known)}"
        self._problems.append(f"{self._origin(key)}: {show(key)}: no such setting{hint}")

    def _origin(self, key: Key) -> str:
        """The source of this key, or of a key below or next to it."""
        for length in range(len(key), -1, -1):
            for candidate, leaf in self._leaves.items():
                if candidate[:length] == key[:length]:
                    return leaf.origin
        return "default"


def _children(leaves: Leaves, key: Key) -> list[str | int]:
    """The steps that follow `key`, in the order of the leaves."""
    depth = len(key)
    return list(dict.fromkeys(path[depth] for path in leaves if len(path) > depth and path[:depth] == key))


def _named_child(leaves: Leaves, key: Key) -> Leaf | None:
    """A leaf below `key` whose next step is a name, not an index."""
    depth = len(key)
    for path, leaf in leaves.items():
        if len(path) > depth and path[:depth] == key and isinstance(path[depth], str):
            return leaf
    return None


def _parse_quantity(kind: type, written: object) -> object:
    for quantity in QUANTITIES:
        if kind is quantity:
            return quantity.parse(written)
    raise TypeError(f"{kind} is not a type of a setting")


def _suggest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=SIMILARITY_MIN)
    return f"; did you mean {near[0]}?" if near else ""


def _suggest_variable(name: str, known: Iterable[str]) -> str:
    """As `_suggest`, for variables. Common first words, such as HALL, are not compared."""
    written = without_index(name).split("_")
    best, nearest = SIMILARITY_MIN, ""
    for variable in known:
        words = variable.split("_")
        alike = 0
        while alike < min(len(written), len(words)) - 1 and written[alike] == words[alike]:
            alike += 1
        matcher = difflib.SequenceMatcher(None, "_".join(written[alike:]), "_".join(words[alike:]))
        if matcher.ratio() >= best:
            best, nearest = matcher.ratio(), variable
    return f"; did you mean {nearest}?" if nearest else ""


def _spell(value: object) -> str:
    """A value in TOML's spelling."""
    return str(value).lower() if isinstance(value, bool) else str(value)
