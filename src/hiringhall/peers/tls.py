"""TLS for the peers that speak over TCP."""

from __future__ import annotations

import ssl
from pathlib import Path

File = str | Path


def client_tls(
    ca: File | None = None, certificate: File | None = None, key: File | None = None
) -> ssl.SSLContext:
    """What a client or worker needs to come in at a door that speaks TLS; all files are PEM.

    `ca` has the certificates of those who may have signed the server's; without it, those that the system
    trusts. `certificate` is shown to the server, with its `key`, which may be in the same file. The server's
    certificate must name the host that is connected to.
    """
    context = ssl.create_default_context(cafile=ca)
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context
