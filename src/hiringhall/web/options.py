"""What the web process is told when it starts."""

from __future__ import annotations

import msgspec


class WebOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the hall is, and where the web listens. A hall passes them to its web process as JSON."""

    hall: str
    """The URL of the native door; several with commas between them."""
    data: str = ""
    """The data folder of the hall, whose history is read here. Empty: the hall is asked for it."""
    address: str = "127.0.0.1:4780"
    """Where the web listens, host and port."""
    hosts: tuple[str, ...] = ()
    """Further names by which browsers may call it."""
    certificate: str = ""
    """A PEM file, for TLS. Empty: no TLS."""
    key: str = ""
    """The private key of the certificate, a PEM file."""
    queue_labels_max: int = 200
    """Queues with a label of their own in the metrics."""
    log_level: str = "info"
    log_format: str = "text"

    @property
    def url(self) -> str:
        """What a person types into a browser."""
        return f"{'https' if self.certificate else 'http'}://{self.address}"
