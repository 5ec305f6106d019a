"""`hall device`: an intermediate device of the Worker-Manager Protocol, between workers and managers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path  # noqa: TC003 (typer looks at it)
from typing import Annotated, Final

import typer
import zmq.auth

from hiringhall.cli.reporting import TROUBLE, complain, say
from hiringhall.config.sources import ConfigError
from hiringhall.logs.writing import DescriptorHandler, LogFormat, logging_to
from hiringhall.peers.wmp import AddressError, Curve, Device, LinkTerms, WmpError
from hiringhall.peers.wmp.links import endpoint, is_private
from hiringhall.peers.wmp.security import check_keys

DEFAULT_LISTEN: Final = "127.0.0.1:5600"
LOG_FORMATS: Final[dict[str, LogFormat]] = {"text": "text", "json": "json"}


def device(
    manager: Annotated[
        list[str] | None,
        typer.Option(
            "--manager", metavar="ADDRESS", help="A manager, a hall or another device; may be repeated."
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="ADDRESS", help="Where workers connect; port 0 lets the system choose."
        ),
    ] = DEFAULT_LISTEN,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Let other machines in without CURVE: whoever reaches it may use it."),
    ] = False,
    curve: Annotated[
        Path | None,
        typer.Option(
            "--curve",
            metavar="FILE",
            help="This device's secret key, a certificate file of ZeroMQ (.key_secret).",
        ),
    ] = None,
    client_key: Annotated[
        list[str] | None,
        typer.Option(
            "--client-key", metavar="KEY", help="With --curve: a public key that may connect; repeat it."
        ),
    ] = None,
    manager_key: Annotated[
        list[str] | None,
        typer.Option(
            "--manager-key",
            metavar="KEY",
            help="With --curve: the managers' public key, or one for each in order.",
        ),
    ] = None,
    message_bytes_max: Annotated[
        int, typer.Option("--message-bytes-max", min=1024, help="A connection that brings more is closed.")
    ] = LinkTerms().message_bytes_max,
    queue_max: Annotated[
        int, typer.Option("--queue-max", min=1, help="Messages that wait on one connection; more are dropped.")
    ] = LinkTerms().queue_max,
    log_format: Annotated[
        str, typer.Option("--log-format", metavar="FORMAT", help="The log in lines of text, or of json.")
    ] = "text",
    as_json: Annotated[
        bool, typer.Option("--json", help="Say what there is to say as lines of JSON, for programs.")
    ] = False,
) -> int:
    """Forward between WMP workers and managers: workers connect here, and reach all the managers.

    SIGTERM or Ctrl-C ends it. It keeps nothing: workers and managers try again by themselves.
    """
    managers = manager or []
    keys = _keys(curve, client_key or [], manager_key or [])
    _check(listen, managers, keys, insecure=insecure)
    if log_format not in LOG_FORMATS:
        raise ConfigError([f'--log-format: "{log_format}" is not allowed; it takes one of "text", "json"'])
    if keys is not None and len(keys.managers) not in (1, len(managers)):
        raise ConfigError([f"--manager-key: give one for all managers, or one for each of the {len(managers)}"])
    terms = LinkTerms(message_bytes_max=message_bytes_max, queue_max=queue_max)
    try:
        with logging_to(DescriptorHandler(sys.stderr.fileno()), logging.INFO, LOG_FORMATS[log_format]):
            return asyncio.run(_serve(listen, managers, keys, terms, as_json=as_json))
    except WmpError as error:
        complain(f"hall: {error}")
        return TROUBLE


def _check(listen: str, managers: list[str], keys: Curve | None, *, insecure: bool) -> None:
    problems: list[str] = []
    if not managers:
        problems.append("--manager: name at least one, such as --manager 127.0.0.1:5814")
    for option, address in (("--listen", listen), *(("--manager", address) for address in managers)):
        try:
            endpoint(address)
        except AddressError as error:
            problems.append(f"{option}: {error}")
    if not problems and not is_private(listen) and keys is None and not insecure:
        remedy = (
            "use --curve, listen on 127.0.0.1 or [::1], or say --insecure if everyone who reaches it may use it"
        )
        problems.append(f"--listen: {listen} can be reached from other machines: {remedy}")
    if problems:
        raise ConfigError(problems)


def _keys(curve: Path | None, client_keys: list[str], manager_keys: list[str]) -> Curve | None:
    if curve is None:
        if client_keys or manager_keys:
            raise ConfigError(["--client-key and --manager-key: these need --curve, this device's own keys"])
        return None
    if not client_keys or not manager_keys:
        raise ConfigError(
            ["--curve: name who may connect with --client-key, and the managers with --manager-key"]
        )
    try:
        public, secret = zmq.auth.load_certificate(curve)
    except (OSError, ValueError) as error:
        raise ConfigError([f"--curve: {curve} cannot be read: {error}"]) from error
    if secret is None:
        raise ConfigError([f"--curve: {curve} has no secret key; name the file that ends with .key_secret"])
    keys = Curve(public, secret, _encoded(manager_keys), _encoded(client_keys))
    try:
        check_keys([public, secret, *keys.managers, *keys.callers])
    except WmpError as error:
        raise ConfigError([f"--curve, --client-key, --manager-key: {error}"]) from error
    return keys


def _encoded(keys: list[str]) -> tuple[bytes, ...]:
    return tuple(key.encode() for key in keys)


async def _serve(
    listen: str, managers: list[str], keys: Curve | None, terms: LinkTerms, *, as_json: bool
) -> int:
    relay = Device(listen, managers, curve=keys, links=terms)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, relay.stop)
    async with relay:
        pid = os.getpid()
        if as_json:
            say(json.dumps({"device": relay.address, "pid": pid, "managers": managers}) + "\n")
        else:
            shield = " with CURVE" if keys is not None else ""
            say(f"device on {relay.address}{shield}, for {', '.join(managers)} (pid {pid}); Ctrl-C ends it\n")
        await relay.run()
    if as_json:
        say(json.dumps({"forwarded": relay.forwarded, "dropped": relay.dropped}) + "\n")
    else:
        say(f"{relay.forwarded} messages forwarded, {relay.dropped} dropped\n")
    return 0
