"""Rules for the dashboard's own files: nothing from elsewhere, no markup from text, small modules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ASSETS: Final = Path(__file__).parents[2] / "src" / "hiringhall" / "web" / "assets"
FILES: Final = sorted(path for path in ASSETS.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg"))
LINES_MAX: Final = 400
MARKUP: Final = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "DOMParser",
    "srcdoc",
    "eval(",
    "new Function",
)
ELSEWHERE: Final = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.[a-z]{2,}""")
INLINE: Final = re.compile(r"""<script(?![^>]*\bsrc=)|\bstyle=|\son\w+=""")


def name(path: Path) -> str:
    return str(path.relative_to(ASSETS))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_text_becomes_markup(path: Path) -> None:
    assert [word for word in MARKUP if word in path.read_text()] == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    assert ELSEWHERE.findall(path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_is_one_idea(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < LINES_MAX
    if path.suffix in (".js", ".css"):
        assert text.startswith(("//", "/*")), "a file opens with what it is"


def test_the_page_has_no_inline_script_or_style() -> None:
    assert INLINE.findall((ASSETS / "index.html").read_text()) == []


def test_every_import_names_something_that_exists() -> None:
    imports = re.compile(r'import \{([^}]*)\} from "([^"]+)"')
    wrong = [
        f"{name(path)}: no {one} in {target}"
        for path in FILES
        if path.suffix == ".js"
        for names, target in imports.findall(path.read_text())
        for one in re.findall(r"(\w+)(?: as \w+)?(?:,|\s*$)", names)
        if f" {one}" not in exported((path.parent / target).resolve())
    ]
    assert wrong == []


def exported(path: Path) -> set[str]:
    return {
        f" {one}"
        for one in re.findall(
            r"^export (?:async )?(?:function|const|class) (\w+)", path.read_text(), re.MULTILINE
        )
    }
