"""A name as one step of a path.

    /queues/photos.resize    /queues/%FFraw    /queues/base64:Li4

Invariant: every name has a path that browsers and clients send as it is written. They resolve `.` and `..`,
also percent-encoded, and drop empty steps, so such a name is written in base64. The colon tells that form
from a name: in a name it is percent-encoded.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from hiringhall.web.problems import Problem

BASE64: Final = "base64:"
RESOLVED: Final = (b"", b".", b"..")
"""Names that are lost on the way if they are written plainly."""
_MARK: Final = BASE64.encode()


def read_name(step: bytes) -> bytes:
    """The name that a step of a path means. Raises Problem."""
    if not step.startswith(_MARK):
        return unquote_to_bytes(step)
    written = unquote_to_bytes(step[len(_MARK) :]).rstrip(b"=")
    try:
        return base64.b64decode(written + b"=" * (-len(written) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Problem("bad_request", f"what follows {BASE64} in the path is not valid base64") from None


def write_name(name: bytes) -> str:
    """The step of a path that means this name."""
    if name in RESOLVED:
        return BASE64 + base64.urlsafe_b64encode(name).decode().rstrip("=")
    return quote(name, safe="")
