"""The help texts and shell completions of `hall`.

Invariant: the help shows no type placeholder such as `<bool>` or `<str>`. A flag has none; other parameters
have a name for their value.
"""

from __future__ import annotations

import sys
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from hiringhall.cli.reporting import WRONG_USE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HELP_NAMES: Final = ("-h", "--help")
USUAL_WIDTH: Final = 80
"""Of a help that goes to a file or a pipe."""
ARGUMENTS: Final = "Arguments"
OPTIONS: Final = "Options"
COMMANDS: Final = "Commands"
"""The panels of what belongs to no other panel."""

Panels = dict[str, list[tuple[str, str]]]


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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What is required stands without the braces of Typer, which other programs write around a choice."""
        return [piece[1:-1] if piece.startswith("{") else piece for piece in super().collect_usage_pieces(ctx)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_page(self, ctx, formatter, _parameters(self.get_params(ctx)))


class HallGroup(TyperGroup):
    """A group of commands: `hall` itself, or `hall schedule`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without a command, print the help. Typer prints nothing then, unless Rich draws its help."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            sys.stdout.write(self.get_help(ctx) + "\n")
            raise typer.Exit(WRONG_USE)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        panels = _parameters(self.get_params(ctx))
        for command in self.commands.values():
            panel = getattr(command, "rich_help_panel", None) or COMMANDS
            panels.setdefault(panel, []).append((command.name or "", command.help or ""))
        _write_page(self, ctx, formatter, panels)


def _write_page(command: Any, ctx: Any, formatter: Any, panels: Panels) -> None:
    from hiringhall.cli.help_page import Page, Panel  # noqa: PLC0415 (most calls of a command show no help)
    from hiringhall.cli.layout import terminal_width  # noqa: PLC0415
    from hiringhall.cli.styling import terminal_colours  # noqa: PLC0415

    shown = [Panel(title, rows) for title, rows in panels.items() if rows]
    page = Page(command.get_usage(ctx), (command.help or "").split("\n\n"), shown)
    for line in page.lines(terminal_width() or USUAL_WIDTH, terminal_colours()):
        formatter.write(f"{line}\n")


def _parameters(parameters: Iterable[Any]) -> Panels:
    """Arguments stand before options, and both before the panels that have a title of their own."""
    panels: Panels = {ARGUMENTS: [], OPTIONS: []}
    for parameter in parameters:
        usual = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
        panel = getattr(parameter, "rich_help_panel", None) or usual
        panels.setdefault(panel, []).append((_name(parameter), " ".join(_remarks(parameter))))
    return panels


def _name(parameter: Any) -> str:
    """How it is typed, such as `--jobs -j N`."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name)
    names = [*sorted(parameter.opts, key=len, reverse=True), *parameter.secondary_opts]
    return " ".join(names if _is_flag(parameter) else (*names, parameter.metavar or ""))


def _is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False))


def _remarks(parameter: Any) -> Iterable[str]:
    """Its help, the numbers that it takes, and its default."""
    yield parameter.help or ""
    least, most = getattr(parameter.type, "min", None), getattr(parameter.type, "max", None)
    if least is not None:
        yield f"[{least} or more]" if most is None else f"[{least} to {most}]"
    if parameter.required:
        yield "[required]"
    elif parameter.show_default and parameter.default not in (None, (), "") and not _is_flag(parameter):
        yield f"[default: {parameter.default}]"
