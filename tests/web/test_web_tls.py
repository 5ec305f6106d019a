"""The web where other machines reach it: TLS with a real client, tokens, and what a change leaves behind."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from hall_process import wait_until
from web_process import TIMEOUT_S, WebHall

from hiringhall.access.tokens import TokenList
from hiringhall.web.routes import API
from stage.authority import Authority, make_authority
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANYWHERE: Final = "0.0.0.0:0"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"), "web")


def tls_hall(folder: Path, authority: Authority, *, tokens: bool = True, **settings: Any) -> WebHall:
    """A hall, not yet started, whose web other machines reach."""
    tls = f'[web.tls]\ncertificate = "{authority.server}"\nkey = "{authority.server_key}"\n'
    hall = WebHall(folder, web=ANYWHERE, more=f'hosts = ["localhost"]\n{tls}', **settings)
    hall.data.mkdir(mode=0o700)
    if tokens:
        for role in ("viewer", "operator", "admin"):
            made = TokenList(hall.documents).add(f"some-{role}", role, datetime.now(UTC), None)
            (folder / role).write_text(made)
    return hall


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[WebHall]:
    with tls_hall(tmp_path_factory.mktemp("hall"), authority) as hall:
        yield hall


def client(hall: WebHall, authority: Authority, role: str = "") -> httpx.Client:
    """A client that verifies the web's certificate, and shows the token of a role."""
    bearer = {"Authorization": f"Bearer {(hall.folder / role).read_text()}"} if role else {}
    url = f"https://localhost:{hall.web.rpartition(':')[2]}"
    context = authority.context(with_certificate=False)
    return httpx.Client(base_url=url, verify=context, headers=bearer, timeout=TIMEOUT_S)


def test_every_route_needs_a_token(hall: WebHall, authority: Authority) -> None:
    with client(hall, authority) as nobody:
        for route in API:
            path = "/api/v1" + route.path.replace("{", "").replace("}", "")
            answer = nobody.request(route.method, path, headers={"X-Requested-By": "tests"})
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), route
        assert nobody.get("/metrics").status_code == 401
        assert nobody.get("/healthz").status_code == 200
        assert nobody.get("/readyz").json() == {"ready": True, "reasons": []}


def test_the_web_speaks_no_plain_http_there(hall: WebHall) -> None:
    plain = hall.web.replace("https://0.0.0.0", "http://localhost")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{plain}/healthz", timeout=TIMEOUT_S)


def test_a_browser_logs_in_over_tls_and_its_cookie_stays_there(hall: WebHall, authority: Authority) -> None:
    with client(hall, authority) as browser:
        origin = {"Origin": str(browser.base_url).rstrip("/")}
        fixed = {"Cookie": "__Host-hall_session=chosen-by-somebody-else"}
        token = (hall.folder / "viewer").read_text()
        answer = browser.post("/login", json={"token": token}, headers={**origin, **fixed})
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-hall_session=")
        assert "chosen-by-somebody-else" not in cookie
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        assert browser.get("/api/v1/hall").json()["actor"] == {"name": "some-viewer", "role": "viewer"}
        plain_origin = {"Origin": origin["Origin"].replace("https", "http")}
        assert browser.post("/api/v1/queues/q/pause", headers=plain_origin).json()["code"] == "cross_site"
        assert browser.post("/api/v1/queues/q/pause", headers=origin).json()["code"] == "forbidden"


def test_the_audit_log_says_where_the_browser_is(hall: WebHall, authority: Authority) -> None:
    with client(hall, authority, "operator") as operator, client(hall, authority, "admin") as admin:
        assert operator.post("/api/v1/queues/q/pause").status_code == 200
        line = admin.get("/api/v1/audit").json()["items"][0]
        assert (line["who"], line["what"], line["queue"]) == ("some-operator", "pause", "q")
        assert (line["from"], line["through"]) == ("127.0.0.1", "unix")

    def written() -> list[dict[str, str]]:
        return [json.loads(line) for line in hall.documents.tail("audit.jsonl", 10)]

    wait_until(lambda: any(line["through"] == "unix" for line in written()), "the line is in the log")


def test_a_stream_ends_when_its_token_is_revoked(hall: WebHall, authority: Authority) -> None:
    token = TokenList(hall.documents).add("brief", "viewer", datetime.now(UTC), None)
    (hall.folder / "brief").write_text(token)
    with client(hall, authority, "brief") as viewer, client(hall, authority, "operator") as operator:
        wait_until(lambda: viewer.get("/api/v1/hall").status_code == 200, "the hall knows the token")
        with viewer.stream("GET", "/api/v1/events") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            TokenList(hall.documents).revoke("brief")
            with Stopwatch() as watch:
                for _ in lines:
                    # Something always happens in the hall: no line may come of it for long.
                    operator.post("/api/v1/jobs", json={"queue": "busy"})
                    assert watch.elapsed_s < 10.0
        assert viewer.get("/api/v1/history").status_code == 401


def test_an_expired_token_is_of_no_use(hall: WebHall, authority: Authority) -> None:
    now = datetime.now(UTC)
    token = TokenList(hall.documents).add("old", "admin", now - timedelta(days=2), now - timedelta(days=1))
    (hall.folder / "old").write_text(token)
    with client(hall, authority, "old") as old:
        wait_until(lambda: "expired" in old.get("/api/v1/hall").json()["detail"], "the hall knows the token")
        assert old.get("/api/v1/history").status_code == 401


def test_a_web_does_not_open_for_other_machines_while_there_is_no_token(
    tmp_path: Path, authority: Authority
) -> None:
    with tls_hall(tmp_path, authority, tokens=False) as hall:
        assert hall.web == ""
        hall.wait_for_errors("make one with `hall token add")


def test_no_token_is_taken_from_a_hall_that_checks_none(tmp_path: Path, authority: Authority) -> None:
    with tls_hall(tmp_path, authority, door={"tokens": "off"}) as hall:
        (hall.folder / "invented").write_text("hall_invented")
        with client(hall, authority, "invented") as stranger:
            answer = stranger.get("/api/v1/hall")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
