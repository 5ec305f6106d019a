"""Every path of the web, of the API or not: roles, foreign hosts (DNS rebinding) and foreign sites (CSRF)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from asgi_calls import Reply, call

from hiringhall.web.app import build, pages_of
from hiringhall.web.options import WebOptions
from hiringhall.web.routes import API, PREFIX
from hiringhall.web.services import Services

if TYPE_CHECKING:
    from hiringhall.web.guard import App

NOBODY: Final = "hall://127.0.0.1:1"
"""A hall that is not asked: the guard answers before."""
HOST: Final = ("Host", "localhost:4780")
PROGRAM: Final = ("X-Requested-By", "tests")
PUBLIC: Final = {"/healthz", "/readyz", "/login", "/logout", "/{path:path}"}
"""Paths that tell and change nothing that needs a role."""
FOREIGN: Final = (
    (("Origin", "http://evil.example"),),
    (("Origin", "http://localhost:3000"),),
    (("Origin", "http://127.0.0.1:4780"),),
    (("Origin", "null"),),
    (("Sec-Fetch-Site", "cross-site"),),
    (("Sec-Fetch-Site", "same-site"),),
    (("Origin", "http://localhost:4780"), ("Sec-Fetch-Site", "cross-site")),
)
"""What a browser says of a page of another site, or of another port."""
NAMES: Final = ("evil.example", "localhost.evil.example:4780", "127.0.0.1.nip.io", "10.0.0.1:4780", "")


def services(address: str = "127.0.0.1:4780") -> Services:
    return Services(WebOptions(hall=NOBODY, address=address))


PATHS: Final = [
    *((route.method, PREFIX + re.sub(r"\{\w+\}", "1", route.path)) for route in API),
    *((page.method, page.path.replace("{path:path}", "queues")) for page in pages_of(services())),
    ("GET", "/assets/index.html"),
]
CHANGES: Final = [(method, path) for method, path in PATHS if method != "GET"]


@pytest.fixture(scope="module")
def app() -> App:
    return build(services())  # type: ignore[return-value]


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.code


def test_a_path_outside_the_api_has_a_role_or_is_known_to_be_for_everybody() -> None:
    assert {page.path for page in pages_of(services()) if not page.role} == PUBLIC


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_a_name_of_another_server_is_answered_nowhere(app: App, method: str, path: str) -> None:
    for name in NAMES:
        assert refused(call(app, method, path, [("Host", name), PROGRAM])) == (421, "wrong_host")


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_a_page_of_another_site_changes_nothing(app: App, method: str, path: str) -> None:
    for fields in FOREIGN:
        assert refused(call(app, method, path, [HOST, *fields])) == (403, "cross_site"), fields
        assert refused(call(app, method, path, [HOST, PROGRAM, *fields])) == (403, "cross_site"), fields
    assert refused(call(app, method, path, [HOST])) == (403, "cross_site")


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", ""])
def test_a_form_of_another_site_is_no_body_for_a_change(app: App, method: str, path: str, kind: str) -> None:
    """Only these kinds can be sent to another site without asking it first."""
    fields = [HOST, PROGRAM, ("Content-Type", kind), ("Content-Length", "2")]
    assert refused(call(app, method, path, fields, [b"{}"])) == (415, "unsupported_type")


@pytest.mark.parametrize(("method", "path"), [one for one in PATHS if one[1].startswith("/api/")])
def test_no_answer_lets_another_site_read_it(app: App, method: str, path: str) -> None:
    asked = call(app, "OPTIONS", path, [HOST, ("Origin", "http://evil.example")])
    answer = call(app, method, path, [HOST, ("Sec-Fetch-Site", "cross-site")])
    assert refused(asked) == refused(answer) == (403, "cross_site")
    for reply in (asked, answer):
        assert not [name for name in reply.headers if name.startswith("access-control-")]
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
