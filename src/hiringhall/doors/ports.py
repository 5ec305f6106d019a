"""Finds doors that cannot be opened because another program uses their address."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from hiringhall.transports import unix

if TYPE_CHECKING:
    from hiringhall.config.quantities import Address
    from hiringhall.config.schema import DoorSettings


def find_taken(door: DoorSettings, index: int) -> str:
    """Say which address of a door another program uses, and what to do about it. Empty: all are free."""
    for setting in door.__struct_fields__:
        address = getattr(door, setting)
        if address in door.addresses and _is_taken(address):
            return (
                f"{address} is in use by another program, so the {door.dialect} door is not opened: stop that "
                f"program, or choose another {'path' if address.path else 'port'} with "
                f"--set door[{index}].{setting}={'unix:PATH' if address.path else f'{address.host}:PORT'}"
            )
    return ""


def _is_taken(address: Address) -> bool:
    if address.path:
        return unix.is_taken(address.path)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server((address.host, address.port), family=family).close()
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False
