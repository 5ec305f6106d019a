"""`hall device`: an intermediate device of the Worker-Manager Protocol, between workers and managers."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path  # noqa: TC003 (typer looks at it)
from typing import Annotated, Final

import typer
import zmq.auth

from hiringhall.cli.log_format import LogFormatOption, read_log_format
from hiringhall.cli.reporting import FAILURE, json_line, print_error, print_result
from hiringhall.config.sources import ConfigError
from hiringhall.logs.writing import DescriptorHandler, logging_to
from hiringhall.peers.wmp import AddressError, Curve, Device, LinkTerms, WmpError
from hiringhall.peers.wmp.links import endpoint, is_private
from hiringhall.peers.wmp.security import check_keys

DEFAULT_LISTEN: Final = "127.0.0.1:5600"
MESSAGE_BYTES_LEAST: Final = 1024


def device(
    manager: Annotated[
        list[str] | None,
        typer.Option(
            "--manager",
            metavar="ADDRESS",
            help="A manager: a hall or another device. At least one; can be given several times.",
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="ADDRESS", help="Where workers connect; with port 0 the system chooses one."
        ),
    ] = DEFAULT_LISTEN,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Listen to other machines without CURVE: everyone who can connect can use it."
        ),
    ] = False,
    curve: Annotated[
        Path | None,
        typer.Option(
            "--curve",
            metavar="FILE",
            help="This device's secret key: a ZeroMQ certificate file (.key_secret).",
        ),
    ] = None,
    client_key: Annotated[
        list[str] | None,
        typer.Option(
            "--client-key",
            metavar="KEY",
            help="With --curve: a public key that may connect. Can be given several times.",
        ),
    ] = None,
    manager_key: Annotated[
        list[str] | None,
        typer.Option(
            "--manager-key",
            metavar="KEY",
            help="With --curve: the public key of all managers, or one for each, in the order of --manager.",
        ),
    ] = None,
    message_bytes_max: Annotated[
        int,
        typer.Option(
            "--message-bytes-max",
            metavar="N",
            help="A connection that sends a longer message is closed.",
        ),
    ] = LinkTerms().message_bytes_max,
    queue_max: Annotated[
        int,
        typer.Option(
            "--queue-max",
            metavar="N",
            help="Messages that can wait on one connection; further ones are dropped.",
        ),
    ] = LinkTerms().queue_max,
    log_format: LogFormatOption = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Print lines of JSON in place of text.")] = False,
) -> int:
    """Forward messages between WMP workers and managers.

    Workers connect here and reach all the managers. Ctrl-C or SIGTERM stops the device. It stores nothing:
    workers and managers retry by themselves.
    """
    managers = manager or []
    _check_least("--message-bytes-max", message_bytes_max, MESSAGE_BYTES_LEAST)
    _check_least("--queue-max", queue_max, 1)
    keys = _keys(curve, client_key or [], manager_key or [])
    _check(listen, managers, keys, insecure=insecure)
    written = read_log_format(log_format)
    if keys is not None and len(keys.managers) not in (1, len(managers)):
        raise ConfigError([f"--manager-key: give one for all managers, or one for each of the {len(managers)}"])
    terms = LinkTerms(message_bytes_max=message_bytes_max, queue_max=queue_max)
    try:
        with logging_to(DescriptorHandler(sys.stderr.fileno()), logging.INFO, written):
            return asyncio.run(_serve(listen, managers, keys, terms, as_json=as_json))
    except WmpError as error:
        print_error(f"hall: {error}")
        return FAILURE


def _check_least(option: str, number: int, least: int) -> None:
    if number < least:
        raise ConfigError([f"{option}: {number} is not allowed; it takes a whole number from {least}"])


def _check(listen: str, managers: list[str], keys: Curve | None, *, insecure: bool) -> None:
    problems: list[str] = []
    if not managers:
        problems.append("--manager: give at least one, such as --manager 127.0.0.1:5814")
    for option, address in (("--listen", listen), *(("--manager", address) for address in managers)):
        try:
            endpoint(address)
        except AddressError as error:
            problems.append(f"{option}: {error}")
    if not problems and not is_private(listen) and keys is None and not insecure:
        remedy = "use --curve, listen on 127.0.0.1 or [::1], or add --insecure to let everyone use it"
        problems.append(f"--listen: {listen} can be reached from other machines: {remedy}")
    if problems:
        raise ConfigError(problems)


def _keys(curve: Path | None, client_keys: list[str], manager_keys: list[str]) -> Curve | None:
    if curve is None:
        if client_keys or manager_keys:
            raise ConfigError(["--client-key and --manager-key: need --curve, this device's own key"])
        return None
    if not client_keys or not manager_keys:
        raise ConfigError(
            ["--curve: give the keys that may connect with --client-key, and the managers' with --manager-key"]
        )
    try:
        public, secret = zmq.auth.load_certificate(curve)
    except (OSError, ValueError) as error:
        raise ConfigError([f"--curve: {curve} cannot be read: {error}"]) from error
    if secret is None:
        raise ConfigError([f"--curve: {curve} has no secret key; give the file that ends with .key_secret"])
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
            print_result(json_line({"device": relay.address, "pid": pid, "managers": managers}))
        else:
            encryption = " with CURVE" if keys is not None else ""
            print_result(
                f"device on {relay.address}{encryption}, for {', '.join(managers)} (pid {pid}); "
                "Ctrl-C stops it\n"
            )
        await relay.run()
    if as_json:
        print_result(json_line({"forwarded": relay.forwarded, "dropped": relay.dropped}))
    else:
        print_result(f"{relay.forwarded} messages forwarded, {relay.dropped} dropped\n")
    return 0
