"""The option `--log-format` of commands that run without the settings of a hall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from hiringhall.cli.help_texts import completing
from hiringhall.config.sources import ConfigError

if TYPE_CHECKING:
    from hiringhall.logs.writing import LogFormat

LOG_FORMATS: Final[dict[str, LogFormat]] = {"text": "text", "json": "json"}

LogFormatOption = Annotated[
    str,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        autocompletion=completing(LOG_FORMATS),
        help="How the log is written: text or json.",
    ),
]


def read_log_format(word: str) -> LogFormat:
    """The format of that name. Raises ConfigError."""
    known = LOG_FORMATS.get(word)
    if known is None:
        raise ConfigError([f'--log-format: "{word}" is not allowed; it takes one of "text", "json"'])
    return known
