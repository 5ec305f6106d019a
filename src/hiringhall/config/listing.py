"""The settings of a hall as a list: each with its value, where it was set, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import inspect

from hiringhall.config.describing import SECTIONS
from hiringhall.config.quantities import QUANTITIES
from hiringhall.config.section import Section
from hiringhall.config.sources import show
from hiringhall.storage.places import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hiringhall.config.schema import Config
    from hiringhall.config.sources import Key

DEFAULT: Final = "default"
LISTED_TABLES: Final = ("door", "queue", "worker")
"""Arrays of tables that are listed. Schedules have a list of their own."""


ListedSetting = tuple[str, str, str, str]
"""The name, as in door[0].address; the value, empty if it is not set; the file, variable or flag that has set
it, or `default`; and the description."""


def listed(config: Config) -> list[ListedSetting]:
    """Every setting of a hall. None of them is a secret: keys and certificates are names of files, and the URL
    of a database comes without its password.
    """
    found: list[ListedSetting] = []
    for name in SECTIONS:
        found += _of_table(getattr(config, name), (name,), config.origins)
    for name in LISTED_TABLES:
        for index, table in enumerate(getattr(config, name)):
            found += _of_table(table, (name, index), config.origins)
    return found


def _of_table(table: Section, key: Key, origins: Mapping[str, str]) -> Iterator[ListedSetting]:
    for field in msgspec.structs.fields(table):
        value = getattr(table, field.name)
        inner_key = (*key, field.name)
        if isinstance(value, Section):
            yield from _of_table(value, inner_key, origins)
            continue
        if isinstance(value, tuple) and any(isinstance(each, Section) for each in value):
            for index, each in enumerate(value):
                yield from _of_table(each, (*inner_key, index), origins)
            continue
        name = show(inner_key)
        info = inspect.type_info(field.type)
        schema = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
        description = str((schema or {}).get("description", ""))
        yield (
            name,
            shown(value) if name == "hall.data" else _text(value),
            origins.get(name, DEFAULT),
            description,
        )


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, QUANTITIES):
        return value.text.strip('"')
    return str(value).lower() if isinstance(value, bool) else str(value)
