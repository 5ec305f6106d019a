"""The schema as text: a complete hall.toml with the defaults, and the table rows of the documentation."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import msgspec

from hiringhall.config.describing import ARRAYS, Dialects, Setting, every_section, settings
from hiringhall.config.quantities import QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hiringhall.config.section import Section
    from hiringhall.config.sources import Key

_WIDTH = 100


def annotated(dialects: Dialects, opened: Collection[str]) -> str:
    """A hall.toml with all defaults and a comment on every setting. Doors of dialects that are not open by
    default are commented out.
    """
    lines = [
        "# Every setting of a hall, with its default. A setting that you leave out keeps its default.",
        "# A flag overrides an environment variable, and a variable overrides this file.",
    ]
    for name, shape, key in every_section(dialects):
        dialect = name.rpartition(" ")[2]
        off = "# " if key in ARRAYS and dialect not in opened else ""
        if off:
            what = "door of this dialect" if key == ("door",) else key[-1]
            lines += ["", f"# Remove one # from each of these lines for a {what}."]
        heading = _heading(key)
        lines += ["", *(f"{off}{line}" for line in (*_comment(_purpose(shape)), heading))]
        lines += [f"{off}{line}" for line in _table(shape, key, dialect)]
    return "\n".join(lines) + "\n"


def _heading(key: Key) -> str:
    path = ".".join(str(step) for step in key)
    return f"[[{path}]]" if key in ARRAYS else f"[{path}]"


def _table(shape: type[Section], key: Key, dialect: str) -> Iterator[str]:
    table = key
    for setting in settings(shape, key):
        if setting.key[:-1] != table:
            table = setting.key[:-1]
            yield from ("", "# Remove the # from this table to use it.", f"# {_heading(table)}")
        yield from _comment(f"{setting.description} {_takes(setting)}")
        line = f"{setting.key[-1]} = {_default(setting, dialect)}"
        off = ("# " if table != key else "") + ("# " if setting.default is None else "")
        yield f"{off}{line.rstrip()}"


def rows(dialects: Dialects) -> Iterator[str]:
    """One row of a Markdown table for each setting."""
    for name, shape, key in every_section(dialects):
        for setting in settings(shape, key):
            path = ".".join(str(step) for step in setting.key[1:])
            default = "" if setting.default in (msgspec.NODEFAULT, None) else f"`{_default(setting, name)}`"
            takes = setting.allowed.replace("|", r"\|")
            yield f"| `{path}` | `{setting.variable}` | {default} | {takes} | {setting.description} |"


def _purpose(shape: type[Section]) -> str:
    return " ".join((shape.__doc__ or "").split())


def _takes(setting: Setting) -> str:
    return f"Takes {setting.allowed}. {setting.variable}"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False)


def _default(setting: Setting, dialect: str) -> str:
    value = setting.default
    if value is msgspec.NODEFAULT:
        return f'"{dialect}"' if setting.key == ("door", "dialect") else '""'
    if value is None:
        return ""
    if isinstance(value, QUANTITIES):
        return value.text
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def facts(dialects: Dialects) -> Iterator[dict[str, object]]:
    """One JSON object for each setting. `dialect` is null for settings that are not of a door."""
    for name, shape, key in every_section(dialects):
        dialect = name.rpartition(" ")[2] if key == ("door",) else None
        for setting in settings(shape, key):
            yield {
                "setting": ".".join(str(step) for step in setting.key),
                "dialect": dialect,
                "variable": setting.variable,
                "default": _default(setting, dialect or "") or None,
                "takes": setting.allowed,
                "description": setting.description,
            }
