"""Every relative link of README.md and of the pages in docs/ leads to a file, and to a heading in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
ELSEWHERE: Final = re.compile(r"[a-z]+:")
FENCE: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")


def anchors(page: Path, text: str = "") -> set[str]:
    """What the headings of a page are called in a link: as GitHub names them."""
    text = text or page.read_text()
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = NOT_IN_ANCHORS.sub("", plain.strip().lower()).replace(" ", "-")
        found.add(name if name not in found else f"{name}-1")
    return found


def broken(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    wrong: list[str] = []
    for link in LINK.findall(FENCE.sub("", text)):
        if ELSEWHERE.match(link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target, text if target == page else "")):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_a_link_to_no_file_or_no_heading_is_found() -> None:
    page = ROOT / "docs" / "glossary.md"
    text = "# One\n\n[a](nowhere.md) [b](history.md) [c](#one) [d](#two) [e](history.md#no-such) [f](https://x.example/)\n"
    assert broken(page, text) == ["nowhere.md", "#two", "history.md#no-such"]
