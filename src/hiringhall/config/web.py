"""The settings of the web process: the HTTP API, the metrics and the dashboard."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from hiringhall.config.quantities import Address, Words
from hiringhall.config.section import Section


class WebTlsSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encryption of the web."""

    certificate: Annotated[str, Meta(min_length=1, description="The certificate chain of the web, a PEM file.")]
    key: Annotated[str, Meta(min_length=1, description="The certificate's private key, a PEM file.")]


class WebSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dashboard, the HTTP API and the metrics, served by a process of their own."""

    enabled: Annotated[bool, Meta(description="Whether the hall starts the web process.")] = True
    address: Annotated[Address, Meta(description="Where it listens; port 0 lets the system choose.")] = Address(
        "127.0.0.1:4780"
    )
    hosts: Annotated[
        Words,
        Meta(description="Further host names by which browsers may call it, such as the name of a proxy."),
    ] = Words()
    queue_labels_max: Annotated[
        int,
        Meta(ge=0, le=10_000, description="Queues with a label of their own in /metrics; the rest is summed."),
    ] = 200
    tls: Annotated[WebTlsSettings | None, Meta(description="Encryption. Without this table there is none.")] = (
        None
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        if not self.address.is_loopback and self.tls is None:
            yield (
                "address",
                (
                    f"{self.address} can be reached from other machines: add a table [web.tls], "
                    "or listen on 127.0.0.1 or [::1]"
                ),
            )
