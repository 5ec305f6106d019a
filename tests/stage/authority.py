"""A small certificate authority."""

from __future__ import annotations

import ssl
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from stage.needs import skip_without

if TYPE_CHECKING:
    from pathlib import Path


class Authority(NamedTuple):
    """Files in PEM: a CA, and certificates for `localhost` and for a client, both signed by it."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path

    def context(self, *, with_certificate: bool) -> ssl.SSLContext:
        """How a client of ours connects."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if with_certificate:
            context.load_cert_chain(self.client, self.client_key)
        return context


def make_authority(folder: Path, name: str) -> Authority:
    """A CA of its own, in files that begin with `name`."""
    skip_without("openssl")

    def path(kind: str) -> Path:
        return folder / f"{name}-{kind}.pem"

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, capture_output=True, timeout=30, check=True)

    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    usages = "keyUsage=critical,keyCertSign"
    openssl(
        *new, "-subj", f"/CN={name}", "-addext", usages, "-keyout", str(path("ca-key")), "-out", str(path("ca"))
    )
    signed = (
        "-CA",
        str(path("ca")),
        "-CAkey",
        str(path("ca-key")),
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    )
    for kind in ("server", "client"):
        names = ("-subj", f"/CN={kind}", "-addext", "subjectAltName=DNS:localhost")
        openssl(*new, *signed, *names, "-keyout", str(path(f"{kind}-key")), "-out", str(path(kind)))
    return Authority(path("ca"), path("server"), path("server-key"), path("client"), path("client-key"))
