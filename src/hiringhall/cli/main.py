"""`hall`: the console script. Its commands are in a table, and are loaded when they are called."""

from __future__ import annotations

import gc
import sys
from typing import Annotated, Any

import typer

from hiringhall.cli.commands import COMMANDS
from hiringhall.cli.help_texts import HELP_NAMES
from hiringhall.cli.loading import MARKUP, LazyGroup
from hiringhall.cli.version import VERSION


class Root(LazyGroup):
    """`hall` itself."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.add_all(COMMANDS)


app = typer.Typer(
    name="hall",
    cls=Root,
    help="A job server that speaks several protocols. Start one with hall serve.",
    no_args_is_help=True,
    context_settings={"help_option_names": list(HELP_NAMES)},
    rich_markup_mode=MARKUP,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(VERSION)
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Options before a command."""


def main() -> None:
    """The console script."""
    gc.disable()  # modules stay loaded, so it finds next to nothing; `loading` enables it for the command
    app(prog_name="hall")
