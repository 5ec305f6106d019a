"""Where a token comes from, and where it must not be."""

from __future__ import annotations

import pytest

from hiringhall.dialects.native import wire
from hiringhall.sdk.addresses import read_addresses, read_token
from hiringhall.sdk.conversation import Conversation


@pytest.mark.parametrize(
    "url", ["hall://hall_secret@host", "halls://anna:hall_secret@host:4731", "hall://a,hall://hall_secret@b"]
)
def test_a_token_in_a_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="HALL_TOKEN") as raised:
        read_addresses(url)
    assert "secret" not in str(raised.value)


def test_a_socket_may_have_any_path() -> None:
    assert read_addresses("hall+unix:///run/hall@1.sock")[0].path == "/run/hall@1.sock"


def test_the_token_is_stated_or_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALL_TOKEN", raising=False)
    assert read_token(None) == ""
    monkeypatch.setenv("HALL_TOKEN", " hall_a\n")
    assert (read_token(None), read_token(""), read_token("hall_b")) == ("hall_a", "", "hall_b")


@pytest.mark.parametrize("token", ["hall_ä", "a\nb", "a\x00b"])
def test_what_cannot_be_a_token_is_an_error_that_does_not_show_it(token: str) -> None:
    with pytest.raises(ValueError, match="hall token add") as raised:
        read_token(token)
    assert token not in str(raised.value)


def test_the_authorities_are_stated_or_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALL_CA", raising=False)
    assert read_addresses("halls://a")[0].ca == ""
    monkeypatch.setenv("HALL_CA", "ca.pem")
    assert [one.ca for one in read_addresses("halls://a,halls://b")] == ["ca.pem"] * 2
    assert read_addresses("halls://a", "other.pem")[0].ca == "other.pem"


def test_hello_has_only_what_there_is() -> None:
    bodies = []
    for conversation in (Conversation("me"), Conversation("me", "hall_a"), Conversation("me", person="anna")):
        _, _, raw = wire.decode_frame(conversation.hello()[wire.HEADER_BYTES :])
        body = wire.decode(wire.HELLO_BODY, raw)
        bodies.append({name: wire.decode(wire.TEXT_BODY, body[name]) for name in body if name != "version"})
    assert bodies == [{"name": "me"}, {"name": "me", "token": "hall_a"}, {"name": "me", "person": "anna"}]
