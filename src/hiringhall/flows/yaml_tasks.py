"""A flow in YAML: `tasks` maps names to commands, or to maps with a command, what it needs, and settings.

Invariant: a field that is not known is refused, so that a misspelt one is not ignored.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from hiringhall.amounts import BadAmounts, needs_text, parse_needs
from hiringhall.flows.tasks import (
    NEEDS_MAX,
    TASKS_MAX,
    FileError,
    FlowFile,
    Settings,
    Task,
    check_name,
    shown,
)
from hiringhall.flows.yaml_values import Entries, Items, Text, read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hiringhall.flows.yaml_values import Value

PRIORITIES: Final = ("high", "normal", "low")
POLICIES: Final = ("fail", "run", "hold")
COUNT_MAX: Final = 1_000_000
SPAN_MAX_US: Final = 36_500 * 86_400_000_000
_UNITS_US: Final = {
    "": 1_000_000,
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_SPAN: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(ms|s|m|min|h|d|)")
SETTING_FIELDS: Final = (
    "queue",
    "retries",
    "backoff",
    "timeout",
    "priority",
    "on_parent_failure",
    "cwd",
    "env",
    "resources",
)
TASK_FIELDS: Final = ("command", "payload", "needs", *SETTING_FIELDS)
_FILE_FIELDS: Final = ("name", "defaults", "tasks")
_NO_SETTINGS: Final = Settings()


def read_yaml(place: str, data: str) -> FlowFile:
    """The tasks of a file. Raises FileError."""
    with _without_collection():
        document = read_document(place, data)
        if document is None or (isinstance(document, Text) and not document.text):
            return FlowFile(place, None, [])
        return _Reading(place).flow(document)


@contextmanager
def _without_collection() -> Iterator[None]:
    """All values are kept until the end. The garbage collector would go through them again and again, which
    takes half as long as the rest.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Reading:
    """One file."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._needs = 0
        self._readers: dict[str, Callable[[str, Value], object]] = {
            "queue": self._filled,
            "retries": self._count,
            "backoff": self._span_us,
            "timeout": self._span_us,
            "priority": lambda name, value: self._word(name, value, PRIORITIES),
            "on_parent_failure": lambda name, value: self._word(name, value, POLICIES),
            "cwd": self._filled,
            "env": self._environment,
            "resources": self._resources,
        }

    def flow(self, document: Value) -> FlowFile:
        name: str | None = None
        defaults = _NO_SETTINGS
        listed: Entries | None = None
        for key, value in self._entries("the file", document):
            if key.text == "name":
                name = self._filled("name", value)
            elif key.text == "defaults":
                defaults = self._defaults(value)
            elif key.text == "tasks":
                listed = self._map("tasks", value)
            else:
                raise self._unknown(key, "the file", _FILE_FIELDS)
        if listed is None:
            raise FileError(self._place, document.line, 'the file has no "tasks"')
        tasks: list[Task] = []
        for key, value in listed.values:
            check_name(self._place, key.line, key.text)
            tasks.append(self._task(key, value, defaults))
            if len(tasks) > TASKS_MAX:
                raise FileError(self._place, key.line, f"a flow may have {TASKS_MAX:,} tasks")
        return FlowFile(self._place, name, tasks)

    def _defaults(self, value: Value) -> Settings:
        found: dict[str, Any] = {}
        for key, each in self._entries("defaults", value):
            self._setting(found, key, each, "defaults", SETTING_FIELDS)
        return replace(_NO_SETTINGS, **found)

    def _task(self, key: Text, value: Value, defaults: Settings) -> Task:
        """`fetch: curl ...`, or a map with all about it."""
        if isinstance(value, Text):
            return Task(key.text, key.line, command=self._filled("command", value), settings=defaults)
        command: str | None = None
        payload: str | None = None
        needs: tuple[str, ...] = ()
        found: dict[str, Any] = {}
        task = f"task {shown(key.text)}"
        for field, each in self._entries(task, value):
            if field.text == "command":
                command = self._filled("command", each)
            elif field.text == "payload":
                payload = self._text("payload", each)
            elif field.text == "needs":
                needs = self._names(each)
            else:
                self._setting(found, field, each, task, TASK_FIELDS)
        settings = self._merged(defaults, found)
        if command is not None and payload is not None:
            raise FileError(self._place, key.line, f"{task} has a command and a payload; it can have one")
        if command is None and settings.queue is None:
            text = f'{task} has no command; give it one, or a "queue" whose workers know what to do'
            raise FileError(self._place, key.line, text)
        return Task(key.text, key.line, needs, command, payload or "", settings)

    def _merged(self, defaults: Settings, found: dict[str, Any]) -> Settings:
        if not found:
            return defaults
        environment = found.get("env")
        if isinstance(environment, dict) and defaults.env:
            found["env"] = {**defaults.env, **environment}
        return replace(defaults, **found)

    def _setting(
        self, found: dict[str, Any], key: Text, value: Value, owner: str, known: Iterable[str]
    ) -> None:
        read = self._readers.get(key.text)
        if read is None:
            raise self._unknown(key, owner, known)
        name = key.text if key.text in _SETTING_NAMES else f"{key.text}_us"
        found[name] = read(key.text, value)

    def _unknown(self, key: Text, owner: str, known: Iterable[str]) -> FileError:
        return FileError(
            self._place, key.line, f"{owner} has no field {shown(key.text)}; it takes {', '.join(known)}"
        )

    # --- values

    def _entries(self, owner: str, value: Value) -> Iterator[tuple[Text, Value]]:
        """The entries of a map, none of them twice."""
        seen: set[str] = set()
        for key, each in self._map(owner, value).values:
            if key.text in seen:
                raise FileError(self._place, key.line, f"{owner} has {shown(key.text)} twice")
            seen.add(key.text)
            yield key, each

    def _map(self, owner: str, value: Value) -> Entries:
        if isinstance(value, Text) and value.plain and not value.text:
            return Entries(value.line, [])
        if not isinstance(value, Entries):
            raise FileError(self._place, value.line, f'{owner} must be a map, with a line "NAME: VALUE" each')
        return value

    def _text(self, name: str, value: Value) -> str:
        if not isinstance(value, Text):
            raise FileError(self._place, value.line, f"{name} must be a text")
        return value.text

    def _filled(self, name: str, value: Value) -> str:
        text = self._text(name, value)
        if not text.strip():
            raise FileError(self._place, value.line, f"{name} is empty")
        return text

    def _word(self, name: str, value: Value, words: tuple[str, ...]) -> str:
        text = self._text(name, value)
        if text not in words:
            raise FileError(
                self._place, value.line, f"{name} cannot be {shown(text)}; it takes {', '.join(words)}"
            )
        return text

    def _count(self, name: str, value: Value) -> int:
        text = self._text(name, value)
        if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) <= COUNT_MAX):
            raise FileError(self._place, value.line, f"{name} must be a number from 0 to {COUNT_MAX:,}")
        return int(text)

    def _span_us(self, name: str, value: Value) -> int:
        match = _SPAN.fullmatch(self._text(name, value))
        span_us = round(float(match[1]) * _UNITS_US[match[2]]) if match else -1
        if not 0 <= span_us <= SPAN_MAX_US:
            raise FileError(self._place, value.line, f"{name} must be a time such as 500ms, 90s, 15m, 6h or 1d")
        return span_us

    def _names(self, value: Value) -> tuple[str, ...]:
        """One name, or a list of names."""
        if isinstance(value, Text):
            listed: list[Value] = [value] if value.text or not value.plain else []
        elif isinstance(value, Items):
            listed = value.values
        else:
            raise FileError(self._place, value.line, "needs must be the name of a task, or a list of names")
        self._needs += len(listed)
        if self._needs > NEEDS_MAX:
            raise FileError(
                self._place, value.line, f"the tasks of a flow may have {NEEDS_MAX:,} needs together"
            )
        return tuple(dict.fromkeys(self._filled("a name in needs", each) for each in listed))

    def _resources(self, name: str, value: Value) -> str:
        """`cpus=2 mem=8G`, or a map of names and amounts."""
        if isinstance(value, Text):
            text = value.text
        else:
            text = " ".join(
                f"{key.text}={self._text(key.text, each)}" for key, each in self._entries(name, value)
            )
        try:
            return needs_text(parse_needs(text.encode())).decode()
        except BadAmounts as error:
            raise FileError(self._place, value.line, str(error)) from None

    def _environment(self, name: str, value: Value) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, each in self._entries(name, value):
            if not key.text or "=" in key.text or "\0" in key.text:
                raise FileError(self._place, key.line, f"{shown(key.text)} is no name of a variable")
            found[key.text] = self._text(key.text, each)
        return found


_SETTING_NAMES: Final = frozenset(field.name for field in fields(Settings))
