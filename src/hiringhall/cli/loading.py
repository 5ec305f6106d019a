"""Loads a command of the table when it is called, or when its own help or completion is wanted.

Invariant: whatever a command raises becomes one line on stderr and an exit code.
"""

from __future__ import annotations

import functools
import gc
import importlib
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand

from hiringhall.cli.commands import LOOK, Entry, Group
from hiringhall.cli.help_texts import HallCommand, HallGroup, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PACKAGE: Final = "hiringhall.cli"
PROGRAM: Final = "hall"
MARKUP: Final = "rich"


class Placeholder(TyperCommand):
    """A command that is not loaded yet. It has a name and a line in the help."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(
            entry.name, help=entry.summary, rich_help_panel=entry.panel or None, rich_markup_mode=MARKUP
        )
        self.entry = entry


class LazyGroup(HallGroup):
    """A group of commands that are loaded when they are called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(command.entry) if isinstance(command, Placeholder) else command, rest

    def add_all(self, entries: Iterable[Entry | Group]) -> None:
        """Add the commands of a table, in its order."""
        for entry in entries:
            self.add_command(Placeholder(entry) if isinstance(entry, Entry) else _group(entry))


def load(entry: Entry) -> Any:
    """The command itself, with its parameters. Its function returns an exit code."""
    module, _, function = entry.place.partition(":")
    command: Callable[..., int] = getattr(importlib.import_module(f"{PACKAGE}.{module}"), function)
    # Imported here: it knows the errors of all parts, and `hall --help` needs none of them.
    from hiringhall.cli.reporting import guarded  # noqa: PLC0415

    checked = guarded(command, PROGRAM, quiet_pipe=entry.panel == LOOK)

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        gc.freeze()  # what was loaded is not looked at again
        gc.enable()
        raise typer.Exit(checked(*args, **kwargs))

    one = typer.Typer(add_completion=False, rich_markup_mode=MARKUP, pretty_exceptions_enable=False)
    one.command(
        entry.name,
        cls=HallCommand,
        help=unwrapped(command.__doc__ or ""),
        rich_help_panel=entry.panel or None,
        context_settings={"allow_interspersed_args": not entry.options_first},
    )(run)
    return typer.main.get_command(one)


def _group(described: Group) -> LazyGroup:
    group = LazyGroup(
        name=described.name,
        help=described.summary,
        no_args_is_help=True,
        rich_markup_mode=MARKUP,
        rich_help_panel=described.panel,
    )
    group.add_all(described.entries)
    return group
