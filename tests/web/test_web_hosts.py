"""The names of the web process: one spelling for each, and foreign ones refused."""

from __future__ import annotations

import pytest

from hiringhall.web.hosts import Host, Hosts, is_loopback, read_host, same_origin


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Hall.Example.ORG", Host("hall.example.org")),
        ("hall.example.org.", Host("hall.example.org")),
        ("hall.example.org.:4780", Host("hall.example.org", 4780)),
        ("127.0.0.1:4780", Host("127.0.0.1", 4780)),
        ("[::1]", Host("::1")),
        ("[0:0:0:0:0:0:0:1]:4780", Host("::1", 4780)),
        ("[::FFFF:127.0.0.1]:80", Host("127.0.0.1", 80)),
    ],
)
def test_a_host_has_one_spelling(text: str, host: Host) -> None:
    assert read_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":4780",
        "a b",
        "::1",
        "[::1",
        "host:port",
        "host:70000",
        "user@host",
        "host/path",
        "[::1%eth0]",
        "..",
        "-a",
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    assert read_host(text) is None


@pytest.mark.parametrize(
    "field",
    ["localhost", "LOCALHOST:4780", "localhost.:1", "127.0.0.1:4780", "127.0.0.1:9", "[::1]:4780", "[::1]"],
)
def test_a_loopback_address_is_reached_by_its_names_at_any_port(field: str) -> None:
    assert Hosts("127.0.0.1").knows(field)


@pytest.mark.parametrize(
    "field",
    [
        "evil.example",
        "evil.example:4780",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "",
        "0",
    ],
)
def test_a_foreign_name_is_not_known(field: str) -> None:
    assert not Hosts("127.0.0.1").knows(field)


def test_names_of_the_settings_are_known_with_their_port_if_they_state_one() -> None:
    hosts = Hosts("10.0.0.1", ["hall.example.org", "jobs.example.org:8443"])
    assert hosts.knows("10.0.0.1:4780")
    assert hosts.knows("hall.example.org:1")
    assert hosts.knows("jobs.example.org:8443")
    assert not hosts.knows("jobs.example.org")
    assert not hosts.knows("jobs.example.org:4780")
    assert not hosts.knows("localhost")


@pytest.mark.parametrize("listen", ["0.0.0.0", "::", "[::]"])
def test_on_every_address_each_address_is_known_and_no_name(listen: str) -> None:
    hosts = Hosts(listen)
    assert hosts.knows("192.0.2.7:4780")
    assert hosts.knows("[2001:db8::7]:4780")
    assert not hosts.knows("evil.example:4780")


def test_a_setting_that_is_no_host_is_named() -> None:
    with pytest.raises(ValueError, match=r'"https://hall" is neither'):
        Hosts("127.0.0.1", ["https://hall"])


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("hall.example.org", False),
        ("", False),
    ],
)
def test_loopback_is_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


@pytest.mark.parametrize(
    ("origin", "host", "tls", "same"),
    [
        ("http://localhost:4780", "localhost:4780", False, True),
        ("http://LOCALHOST:4780", "localhost.:4780", False, True),
        ("http://[::1]:4780", "[0::1]:4780", False, True),
        ("http://hall.example.org", "hall.example.org:80", False, True),
        ("https://hall.example.org", "hall.example.org", True, True),
        ("https://hall.example.org:443", "hall.example.org", True, True),
        ("https://hall.example.org", "hall.example.org", False, True),  # a proxy that ends TLS
        ("http://hall.example.org", "hall.example.org", True, False),
        ("http://localhost:3000", "localhost:4780", False, False),
        ("http://localhost", "localhost:4780", False, False),
        ("http://evil.example", "localhost:4780", False, False),
        ("null", "localhost:4780", False, False),
        ("", "localhost:4780", False, False),
        ("http://localhost:4780/path", "localhost:4780", False, False),
        ("http://user@localhost:4780", "localhost:4780", False, False),
        ("file://", "localhost:4780", False, False),
        ("http://[::1", "[::1]:4780", False, False),
    ],
)
def test_an_origin_must_be_that_of_the_host(origin: str, host: str, tls: bool, same: bool) -> None:
    assert same_origin(origin, host, tls=tls) is same
