"""The sources of settings: the file, the environment, the flags. Each returns leaves that know their origin.

A leaf is one value at a path such as ("door", 0, "lease_s"). Only the syntax of a source is checked here:
`loading` checks all leaves together, so that a message can always say where a value was set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Key = tuple[str | int, ...]

FOREIGN_VARIABLES: Final = ("HALL_CONFIG", "HALL_COMPILE", "HALL_URL", "HALL_TOKEN", "HALL_CA")
"""HALL_ variables that are not settings: which file to read, how to build, and those of the SDK."""
_STEP: Final = re.compile(r"[^.\[\]]+")
_INDEXED: Final = re.compile(r"HALL_(DOOR|SCHEDULE|QUEUE|WORKER|HISTORY_QUEUE)_(\d{1,4})_(\w+)")


class ConfigError(Exception):
    """Invalid settings. Each problem is one line with the source, the key and what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Leaf(NamedTuple):
    """One value as it was written."""

    value: object
    origin: str
    """The file, the variable or the flag that holds it."""
    is_text: bool
    """It came from a variable or a flag, so "5" may mean 5."""


Leaves = dict[Key, Leaf]


def show(key: Key) -> str:
    """("door", 0, "lease_s") as text: door[0].lease_s"""
    shown = ""
    for step in key:
        shown += f"[{step}]" if isinstance(step, int) else f".{step}" if shown else step
    return shown


def parse_key(written: str) -> Key:
    """The reverse of `show`. Also reads door.0.lease_s."""
    return tuple(int(step) if step.isdecimal() else step.strip() for step in _STEP.findall(written))


def from_file(path: Path) -> Leaves:
    """Every value of a TOML file."""
    import tomllib  # noqa: PLC0415 (only with a file)

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"{path}: is not UTF-8 text"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{path}: is not valid TOML: {error}"]) from None
    leaves: Leaves = {}
    _flatten((), table, str(path), leaves)
    return leaves


def _flatten(key: Key, value: object, origin: str, leaves: Leaves) -> None:
    """Descend into tables and lists of tables. Everything else is a leaf, and so is an empty table."""
    if isinstance(value, dict) and (value or not key):
        for name, inner in value.items():
            _flatten((*key, name), inner, origin, leaves)
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        for index, inner in enumerate(value):
            _flatten((*key, index), inner, origin, leaves)
    else:
        leaves[key] = Leaf(value, origin, is_text=False)


def from_doors(doors: Iterable[str], origin: str) -> Leaves:
    """Doors written as "dialect=address"."""
    leaves: Leaves = {}
    for index, written in enumerate(doors):
        dialect, equals, address = written.partition("=")
        if not dialect or not equals or not address:
            raise ConfigError([f'{origin}: "{written}" is not a door; write it as in gearman=127.0.0.1:4730'])
        leaves["door", index, "dialect"] = Leaf(dialect.strip(), origin, is_text=True)
        leaves["door", index, "address"] = Leaf(address.strip(), origin, is_text=True)
    return leaves


def setting_variables(environ: Mapping[str, str]) -> list[str]:
    """The HALL_ variables that each stand for one setting."""
    others = ("HALL_DOORS", *FOREIGN_VARIABLES)
    return sorted(name for name in environ if name.startswith("HALL_") and name not in others)


def from_environment(environ: Mapping[str, str], known: Mapping[str, Key]) -> tuple[Leaves, Leaves, list[str]]:
    """The doors of HALL_DOORS, all other HALL_ variables, and the unknown ones.

    `known` maps names to keys; HALL_DOOR_0_LEASE_S is looked up as HALL_DOOR_<n>_LEASE_S.
    """
    leaves: Leaves = {}
    unknown: list[str] = []
    named = re.split(r"[\s,]+", environ.get("HALL_DOORS", "").strip(" ,"))
    doors = from_doors(filter(None, named), "HALL_DOORS")
    for name in setting_variables(environ):
        indexed = _INDEXED.fullmatch(name)
        key = known.get(without_index(name))
        if key is None:
            unknown.append(name)
            continue
        if indexed:
            depth = indexed[1].count("_") + 1
            key = (*key[:depth], int(indexed[2]), *key[depth:])
        leaves[key] = Leaf(environ[name], name, is_text=True)
    return doors, leaves, unknown


def without_index(variable: str) -> str:
    """HALL_DOOR_0_LEASE_S as HALL_DOOR_<n>_LEASE_S; others unchanged."""
    indexed = _INDEXED.fullmatch(variable)
    return f"HALL_{indexed[1]}_<n>_{indexed[3]}" if indexed else variable


def from_assignments(assignments: Iterable[str], flag: str) -> Leaves:
    """Settings written as "limits.jobs_max=5" or "door[0].lease_s=30"."""
    leaves: Leaves = {}
    for written in assignments:
        path, equals, value = written.partition("=")
        key = parse_key(path)
        if not equals or not key:
            raise ConfigError([f'{flag}: "{written}" is not a setting; write it as in limits.jobs_max=5'])
        leaves[key] = Leaf(value, flag, is_text=True)
    return leaves
