"""A YAML document as values that know their line.

Invariant: a document of any depth and with any aliases is read with bounded work: it is read event by event, a
value that is nested too deep is refused, and an alias is the same object, not a copy. Nothing is made of a tag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml
from yaml import events as told

from hiringhall.flows.tasks import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH_MAX: Final = 8
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C, where PyYAML was built with it: it is ten times as fast."""
_STARTS: Final = (told.SequenceStartEvent, told.MappingStartEvent)
_ENDS: Final = (told.SequenceEndEvent, told.MappingEndEvent)


@dataclass(slots=True, eq=False)
class Text:
    """A scalar, as it is written: a number or a date is text too."""

    line: int
    text: str
    plain: bool
    """Without quotes: an empty one means that there is no value."""


@dataclass(slots=True, eq=False)
class Items:
    line: int
    values: list[Value]


@dataclass(slots=True, eq=False)
class Entries:
    line: int
    values: list[tuple[Text, Value]]


Value: TypeAlias = Text | Items | Entries


def read_document(place: str, data: str) -> Value | None:
    """The only document of a file; None: the file is empty. Raises FileError."""
    document: Value | None = None
    try:
        for value in _values(place, data):
            if document is not None:
                raise FileError(place, value.line, "the file has a second document; a flow is one document")
            document = value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        text = " ".join(part for part in (error.context, error.problem) if part)
        raise FileError(place, mark.line + 1 if mark else 0, f"not YAML: {text}") from error
    except yaml.YAMLError as error:
        raise FileError(place, 0, f"not YAML: {' '.join(str(error).split())}") from error
    return document


def _values(place: str, data: str) -> Iterator[Value]:
    """The documents. `open_values` are the lists and maps whose end has not come, the innermost last."""
    open_values: list[Items | Entries] = []
    keys: list[Text | None] = []
    """For each open value: the key whose value is to come, of a map."""
    anchors: dict[str, Value] = {}
    event: Any  # Its type decides which attributes it has.
    for event in yaml.parse(data, Loader=LOADER):
        kind = type(event)
        value: Value
        if kind is told.ScalarEvent:
            value = Text(event.start_mark.line + 1, event.value, not event.style)
        elif kind is told.SequenceStartEvent:
            value = Items(event.start_mark.line + 1, [])
        elif kind is told.MappingStartEvent:
            value = Entries(event.start_mark.line + 1, [])
        elif kind is told.AliasEvent:
            value = _anchored(place, event, anchors, open_values)
        else:
            if kind in _ENDS:
                open_values.pop()
                keys.pop()
            elif kind is told.DocumentStartEvent:
                anchors.clear()
            continue
        if event.anchor:
            anchors[event.anchor] = value
        if open_values:
            _put(place, open_values[-1], keys, value)
        else:
            yield value
        if kind in _STARTS:
            if len(open_values) == DEPTH_MAX:
                raise FileError(place, value.line, "values are nested too deep")
            assert not isinstance(value, Text)
            open_values.append(value)
            keys.append(None)


def _anchored(place: str, alias: Any, anchors: dict[str, Value], open_values: list[Items | Entries]) -> Value:
    """The value that an alias stands for: one that is complete."""
    found = anchors.get(alias.anchor)
    if found is None or any(found is each for each in open_values):
        line = alias.start_mark.line + 1
        raise FileError(place, line, f"the alias *{alias.anchor} has no anchor before it")
    return found


def _put(place: str, parent: Items | Entries, keys: list[Text | None], value: Value) -> None:
    """Add a value to a list, or as a key or a value to a map."""
    if isinstance(parent, Items):
        parent.values.append(value)
        return
    key = keys[-1]
    if key is not None:
        parent.values.append((key, value))
        keys[-1] = None
    elif isinstance(value, Text):
        keys[-1] = value
    else:
        raise FileError(place, value.line, "the key of a map must be a text")
