"""The help texts and shell completions of `hall`.

Invariant: the help shows no type placeholder such as `<bool>` or `<str>`. A flag has none; other parameters
have a name for their value.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HELP_NAMES: Final = ("-h", "--help")


def completing(words: Iterable[str]) -> Callable[[str], list[str]]:
    """An `autocompletion` for an option that takes one of these words."""
    known = tuple(words)

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def unwrapped(docstring: str) -> str:
    """A docstring as help text: a line for each paragraph, so that it is wrapped to the terminal's width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in cleandoc(docstring).split("\n\n"))


class HallCommand(TyperCommand):
    """A command of `hall`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_placeholders(super().get_params(ctx))


class HallGroup(TyperGroup):
    """A group of commands: `hall` itself, or `hall schedule`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_placeholders(super().get_params(ctx))


def _without_placeholders(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            # Its name, such as FILE, says more than the type that Typer would show beside it.
            parameter.display_type_rich = _no_type
    return parameters


def _no_type(ctx: object) -> None:
    """In place of a parameter's method that gives the text for its type."""
