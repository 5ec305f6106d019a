"""`hall web`: the dashboard and the HTTP API of a hall, as a process of its own."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hiringhall.cli.log_format import LogFormatOption, read_log_format
from hiringhall.cli.reporting import json_line, print_line, print_result
from hiringhall.config.quantities import Address, Words
from hiringhall.config.sources import ConfigError
from hiringhall.config.web import WebSettings, WebTlsSettings
from hiringhall.endpoints import HallError
from hiringhall.logs.writing import DescriptorHandler, logging_to
from hiringhall.sdk.addresses import DEFAULT_URL, VARIABLE, read_addresses
from hiringhall.web.options import WebOptions

if TYPE_CHECKING:
    from types import FrameType

DEFAULT_LISTEN: Final = "127.0.0.1:4780"


def web(
    hall: Annotated[
        str | None,
        typer.Option(
            "--hall",
            metavar="URL",
            help=f"The native door of the hall. Default: $HALL_URL, or {DEFAULT_URL}.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="The hall's data folder, to read the history from. Default: the hall is asked for it.",
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="ADDRESS", help="Where to listen; with port 0 the system chooses one."
        ),
    ] = DEFAULT_LISTEN,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME",
            help="A further host name by which browsers may call it. Can be given several times.",
        ),
    ] = None,
    certificate: Annotated[
        str | None,
        typer.Option(
            "--certificate", metavar="FILE", help="The certificate chain, a PEM file: serve with TLS."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="FILE", help="The private key of the certificate, a PEM file."),
    ] = None,
    log_format: LogFormatOption = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Print where it is as one line of JSON.")] = False,
) -> int:
    """Serve the dashboard and the HTTP API of a hall until it is stopped.

    hall serve starts it by itself. Start it alone to run it elsewhere, or for a hall that runs with --no-web.
    """
    settings = _read(listen, host or [], certificate, key)
    url = hall or os.environ.get(VARIABLE) or DEFAULT_URL
    try:
        read_addresses(url)
    except ValueError as error:
        raise ConfigError([f"--hall: {error}"]) from error
    written = read_log_format(log_format)
    from hiringhall.web.serving import listen as listen_at  # noqa: PLC0415 (heavy, and only needed here)
    from hiringhall.web.serving import serve  # noqa: PLC0415

    try:
        listener = listen_at(settings.address.host, settings.address.port)
    except OSError as error:
        raise HallError(
            f"cannot listen on {settings.address}: {error}; choose another with --listen"
        ) from error
    port = listener.getsockname()[1]
    options = WebOptions(
        hall=url,
        data=data or "",
        address=f"{settings.address.rpartition(':')[0]}:{port}",
        hosts=tuple(settings.hosts),
        certificate=certificate or "",
        key=key or "",
        log_format=log_format,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)  # until the server handles them itself
    with logging_to(DescriptorHandler(sys.stderr.fileno()), logging.INFO, written):
        if as_json:
            print_result(json_line({"web": options.url, "hall": url, "pid": os.getpid()}))
        else:
            print_line(f"web on {options.url}, for {url} (pid {os.getpid()}); Ctrl-C stops it")
        serve(options, listener)
    return 0


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _read(listen: str, hosts: list[str], certificate: str | None, key: str | None) -> WebSettings:
    """The settings, checked as those of the file are. Raises ConfigError."""
    try:
        address = Address.parse(listen)
    except ValueError:
        raise ConfigError([f'--listen: "{listen}" is not allowed; it takes {Address.allowed}']) from None
    if bool(certificate) != bool(key):
        raise ConfigError(["--certificate and --key: give both, or none"])
    tls = WebTlsSettings(certificate=certificate, key=key) if certificate and key else None
    settings = WebSettings(address=address, hosts=Words(hosts), tls=tls)
    problems = [f"--listen: {problem}" for _, problem in settings.faults()]
    if problems:
        raise ConfigError(problems)
    return settings
