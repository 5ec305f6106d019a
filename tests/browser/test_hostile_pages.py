"""Text that any dialect can set is shown as text: no markup, no script, nothing hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from screen import Screen
    from web_process import WebHall

STRINGS = (
    "<script>window.hurt = 1</script>",
    "<img src=x onerror=window.hurt=1>",
    '"><svg/onload=window.hurt=1>',
    "javascript:window.hurt=1",
    "{{constructor.constructor('window.hurt=1')()}}",
    "</title><script>window.hurt=1</script>",
)


@pytest.mark.parametrize("text", STRINGS)
def test_names_keys_payloads_results_and_workers_are_shown_as_text(
    hall: WebHall, screen: Screen, text: str
) -> None:
    data = text.encode()
    with hall.native() as worker:
        worker.work(data, name=data, slots=2)
        job = worker.submit(data, data, data, durable=True)
        failing = worker.submit(data, data, durable=True)
        first, second = worker.hear("assign")[0], worker.hear("assign")[0]
        worker.ask("chunk", [first, data, False])
        screen.open(f"/queues/{quote(text, safe='')}")
        expect(screen.page.get_by_role("heading", level=1)).to_contain_text(text)
        screen.follow("/workers")
        expect(screen.row(text).first).to_be_visible()
        screen.follow(f"/jobs?queue={quote(text, safe='')}")
        expect(screen.row(str(job)).locator("[data-label=Payload]")).to_have_text(text)
        worker.ask("finish", [first, data])
        worker.ask("fail", [second, 1, data, False])
    screen.follow(f"/jobs/{job}")
    expect(screen.page.get_by_role("region", name="Result")).to_contain_text(text)
    screen.follow(f"/history?queue={quote(text, safe='')}")
    expect(screen.row(str(failing))).to_contain_text(text)
    screen.follow("/queues")
    expect(screen.row(text).first).to_be_visible()
    screen.follow("/")
    expect(screen.page.get_by_role("region", name="Needs attention")).to_contain_text(text)
    assert screen.page.evaluate("window.hurt") is None


def test_characters_that_hide_or_reorder_text_are_made_visible(hall: WebHall, screen: Screen) -> None:
    with hall.native() as peer:
        job = peer.submit(b"reversed", b"\x1b[31mred", "pay\u202egpj.exe\u200b".encode())
    screen.open(f"/jobs/{job}")
    expect(screen.page.locator(".lead")).to_contain_text("pay[U+202E]gpj.exe[U+200B]")
    expect(screen.page.get_by_role("region", name="Payload")).to_contain_text("␛[31mred")


def test_a_line_feed_or_a_tab_in_a_name_is_seen(hall: WebHall, screen: Screen) -> None:
    with hall.native() as peer:
        job = peer.submit(b"two\nlines", b"first\nsecond", b"tab\there")
    screen.open("/jobs?queue=two%0Alines")
    expect(screen.row(str(job))).to_contain_text("two␊lines")
    expect(screen.row(str(job))).to_contain_text("tab␉here")
    expect(screen.row(str(job))).to_contain_text("first␊second")
    screen.open(f"/jobs/{job}")
    expect(screen.page.locator(".bytes")).to_have_text("first\nsecond", use_inner_text=True)
    screen.open("/queues/pay%E2%80%AEgpj.exe")
    expect(screen.page).to_have_title("pay[U+202E]gpj.exe · hiringhall")
    screen.faults.clear()  # Chromium writes of the status 404: nobody has used this queue


def test_the_beginning_of_a_long_text_is_shown_as_text(hall: WebHall, screen: Screen) -> None:
    with hall.native() as peer:
        job = peer.submit(b"shown", b"x" + "é".encode() * 40_000)
    screen.open(f"/jobs/{job}")
    expect(screen.page.locator(".bytes")).to_contain_text("xééé")
    screen.button("Load all 80 kB").click()
    expect(screen.button("Load all 80 kB")).to_have_count(0)
    assert screen.page.locator(".bytes").text_content() == "x" + "é" * 40_000


def test_bytes_are_shown_as_json_text_hex_or_picture(hall: WebHall, screen: Screen) -> None:
    pixel = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
        "08d763f8cfc000000301010018dd8db00000000049454e44ae426082"
    )
    with hall.native() as peer:
        picture = peer.submit(b"shown", pixel)
        table = peer.submit(b"shown", b'{"anna": [1, 2]}')
        page = peer.submit(b"shown", b"<html><body onload=window.hurt=1>")
    screen.open(f"/jobs/{picture}")
    expect(screen.page.get_by_role("img", name="Picture of 69 bytes, image/png")).to_be_visible()
    screen.button("Hex").click()
    expect(screen.page.locator(".hex")).to_contain_text("89 50 4e 47 0d 0a 1a 0a")
    screen.open(f"/jobs/{table}")
    expect(screen.page.locator(".json-tree")).to_contain_text("anna: [2]")
    screen.open(f"/jobs/{page}")
    expect(screen.page.locator(".bytes")).to_have_text("<html><body onload=window.hurt=1>")
    assert screen.page.evaluate("window.hurt") is None
