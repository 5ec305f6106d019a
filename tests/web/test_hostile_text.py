"""Text that would be code on a page stays text, through every field that a client or a worker can set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    import httpx
    from web_process import WebHall

HOSTILE: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</textarea><svg/onload=alert(1)>",
    "{{constructor.constructor('alert(1)')()}}",
    "\u202egpj.exe\u2066",
    "\x1b]0;title\x07\r\nSet-Cookie: a=b",
    "\udcff".encode(errors="surrogateescape").decode("latin-1") + "\x00\x85\u2028",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_comes_back_as_json_and_never_as_a_page(
    api: httpx.Client, hall: WebHall, text: str
) -> None:
    queue = f"{text}.q"
    data = text.encode()
    number = api.post("/jobs", json={"queue": queue, "key": text, "payload": text}).json()["ids"][0]
    with hall.native() as peer:
        peer.work(queue.encode(), name=data)
        lease = peer.hear("assign")[0]
        peer.ask("log", [lease, data])
        peer.ask(
            "fail", [lease, 1, json.dumps({"type": text, "text": text, "traceback": text}).encode(), False]
        )
        answers = [api.get("/workers", params={"queue": queue}), api.get("/queues", params={"text": queue})]
    schedule = {"name": f"s{text}", "queue": queue, "payload": text, "key": text, "every_s": 3600}
    answers.append(api.post("/schedules", json=schedule))
    answers += [
        api.get(path) for path in (f"/jobs/{number}", f"/jobs/{number}/output", "/schedules", "/summary")
    ]
    answers += [api.get("/history", params={"queue": queue}), api.get("/jobs", params={"text": text})]
    answers += [api.get(f"/nothing{quote(text)}"), api.get("/jobs", params={"state": text})]
    for answer in answers:
        kind = answer.headers["content-type"]
        assert kind in ("application/json", "application/problem+json"), answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
        answer.json()
    job = api.get(f"/jobs/{number}").json()
    assert (job["queue"], job["key"], job["payload"], job["worker"]) == (queue, text, text, text)
    assert job["error"] == {"type": text, "text": text, "traceback": text}
    for path in ("payload", "result"):
        raw = api.get(f"/jobs/{number}/{path}")
        assert raw.headers["content-type"] in ("application/octet-stream", "application/problem+json")
    saved = api.get("/history", params={"queue": queue, "format": "csv"})
    assert saved.headers["content-type"] == "text/csv; charset=utf-8"
    assert saved.headers["content-disposition"].startswith("attachment")
