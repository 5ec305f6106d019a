"""TLS for peers that use TCP."""

from __future__ import annotations

import ssl
from pathlib import Path

File = str | Path


def client_tls(
    ca: File | None = None, certificate: File | None = None, key: File | None = None
) -> ssl.SSLContext:
    """The SSLContext of a client or worker for a door with TLS. All files are PEM.

    `ca` has the CA certificates that may sign the server's certificate; the default is those of the system.
    `certificate` is sent to the server, with its `key`, which may be in the same file. The server's certificate
    must name the host that is connected to.
    """
    context = ssl.create_default_context(cafile=ca)
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context
