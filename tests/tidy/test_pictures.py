"""The pictures and the path of one job match the code, and pictures are readable in light and dark."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "hiringhall"
PAGE: Final = ROOT / "ARCHITECTURE.md"
IMAGES: Final = ROOT / "docs" / "images"
PICTURES: Final = sorted(IMAGES.glob("*.svg"))
STEPS_MAX: Final = 12
STEP: Final = re.compile(r"(\d+)\. `([\w/]+\.py)`, `([\w.]+)`: ")
METHOD: Final = re.compile(r"`([A-Z]\w+\.\w+)`")
TEXT_CLASSES: Final = ("ink", "soft")
CONTRAST_MIN: Final = 4.5
"""What WCAG asks of text of normal size."""
DARK: Final = "@media (prefers-color-scheme: dark)"
SVG: Final = "{http://www.w3.org/2000/svg}"


# --- the path of one job


def steps(page: str) -> list[str]:
    """The numbered lines of the section, each with its continuation lines."""
    section = page.partition("## The path of one job\n")[2].partition("\n## ")[0]
    return [" ".join(one.split()) for one in re.split(r"^(?=\d+\. )", section, flags=re.MULTILINE)[1:]]


@cache
def defined(path: Path) -> set[str]:
    """The functions of a file, and its methods as `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            names.update(f"{node.name}.{one.name}" for one in methods)
    return names


def faults(page: str) -> list[str]:
    """What is wrong with the path of one job."""
    everywhere = set[str]().union(*(defined(path) for path in PACKAGE.rglob("*.py")))
    wrong: list[str] = []
    found = steps(page)
    if not 0 < len(found) <= STEPS_MAX:
        wrong.append(f"{len(found)} steps")
    for number, step in enumerate(found, start=1):
        head = STEP.match(step)
        if head is None or int(head[1]) != number:
            wrong.append(f"step {number} does not begin with its number, a file and a function")
        elif not (PACKAGE / head[2]).is_file():
            wrong.append(f"step {number}: no file {head[2]}")
        elif head[3] not in defined(PACKAGE / head[2]):
            wrong.append(f"step {number}: no {head[3]} in {head[2]}")
        wrong += [
            f"step {number}: no {name} anywhere"
            for name in METHOD.findall(step[head.end() if head else 0 :])
            if name not in everywhere
        ]
    return wrong


def test_every_step_names_a_file_and_a_function_that_exist() -> None:
    assert faults(PAGE.read_text()) == []


def test_a_step_that_names_something_else_is_found() -> None:
    page = """## The path of one job

1. `core/table.py`, `JobTable.move`: fine, and calls `Ledger.note`.
2. `core/tables.py`, `JobTable.move`: no such file.
3. `core/table.py`, `JobTable.no_such`: no such function.
4. `core/table.py`, `JobTable.move`: calls
   `Ledger.no_such`.
6. `core/table.py`, `JobTable.move`: a number is missing.

## Next

1. not a step
"""
    assert faults(page) == [
        "step 2: no file core/tables.py",
        "step 3: no JobTable.no_such in core/table.py",
        "step 4: no Ledger.no_such anywhere",
        "step 5 does not begin with its number, a file and a function",
    ]
    step = "`core/table.py`, `JobTable.move`: again."
    thirteen = "\n".join(f"{number}. {step}" for number in range(1, 14))
    assert faults(f"## The path of one job\n\n{thirteen}\n") == ["13 steps"]
    assert faults("# No path\n") == ["0 steps"]


# --- what the pictures show


def shown(picture: Path, kind: str) -> list[str]:
    """The texts of a class, such as `module`."""
    elements = ET.parse(picture).getroot().iter()
    return sorted(str(one.text) for one in elements if kind in one.get("class", "").split())


def test_the_picture_of_the_core_shows_each_of_its_modules_once() -> None:
    modules = sorted(path.stem for path in (PACKAGE / "core").rglob("*.py") if path.stem != "__init__")
    assert shown(IMAGES / "core.svg", "module") == modules


def test_the_picture_of_the_core_shows_the_modules_of_each_folder_together() -> None:
    groups = [one for one in ET.parse(IMAGES / "core.svg").getroot().iter(f"{SVG}g") if one.get("id")]
    shown_there = {
        str(group.get("id")): sorted(str(one.text) for one in group.iter() if "module" in one.get("class", ""))
        for group in groups
    }
    folders = [path.parent for path in (PACKAGE / "core").glob("*/__init__.py")]
    assert shown_there == {
        folder.name: sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
        for folder in folders
    }


def test_the_picture_of_the_architecture_shows_each_package_once() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert shown(IMAGES / "architecture.svg", "package") == sorted(packages | {"server"})


def test_architecture_md_explains_each_module_of_the_core() -> None:
    section = PAGE.read_text().partition("## The parts of the core\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", section))
    modules = {path.stem for path in (PACKAGE / "core").rglob("*.py") if path.stem != "__init__"}
    assert sorted(modules - named) == []


def test_architecture_md_shows_both_pictures() -> None:
    page = PAGE.read_text()
    assert "](docs/images/architecture.svg)" in page
    assert "](docs/images/core.svg)" in page


# --- light and dark


def styles(picture: str) -> tuple[dict[str, str], dict[str, str]]:
    """The rules of each class: in light, and those that dark replaces."""
    sheet = picture.partition("<style>")[2].partition("</style>")[0]
    light, _, dark = sheet.partition(DARK)
    return dict(re.findall(r"\.(\w+) \{([^}]*)\}", light)), dict(re.findall(r"\.(\w+) \{([^}]*)\}", dark))


def fill(rules: str) -> str:
    match = re.search(r"fill: (#[0-9a-f]{6})", rules)
    return match[1] if match else ""


def luminance(colour: str) -> float:
    """As WCAG defines it, for `#rrggbb`."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def unreadable(picture: str) -> list[str]:
    """Text colours with too little contrast to an area, and colours without a dark one."""
    wrong: list[str] = []
    light, dark = styles(picture)
    used = {name for classes in re.findall(r'class="([^"]+)"', picture) for name in classes.split()}
    areas = {str(one.get("class")) for one in ET.fromstring(picture).iter(f"{SVG}rect")}
    wrong += [f"{name}: no style" for name in sorted(used - light.keys())]
    coloured = {name for name, rules in light.items() if "#" in rules}
    wrong += [f"{name}: no colour for dark" for name in sorted(coloured) if "#" not in dark.get(name, "")]
    for mode, rules in (("light", light), ("dark", {**light, **dark})):
        for area in sorted(areas - {"faster", "slower"}):  # nothing is written on the bars of a chart
            for name in TEXT_CLASSES:
                front, back = fill(rules.get(name, "")), fill(rules.get(area, ""))
                if front and back and contrast(front, back) < CONTRAST_MIN:
                    wrong.append(f"{mode}: {name} on {area} has a contrast of {contrast(front, back):.1f}")
    return wrong


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_text_is_readable_in_light_and_dark(picture: Path) -> None:
    assert unreadable(picture.read_text()) == []


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_every_picture_has_a_title_and_a_description(picture: Path) -> None:
    root = ET.parse(picture).getroot()
    assert [len(str(root.findtext(f"{SVG}{name}"))) > 10 for name in ("title", "desc")] == [True, True]


def test_a_pale_text_and_a_colour_without_dark_are_found() -> None:
    picture = """<svg xmlns="http://www.w3.org/2000/svg"><style>
    .bg { fill: #ffffff } .ink { fill: #1b1f24 } .soft { fill: #dddddd } .box { stroke: #8c959f }
    @media (prefers-color-scheme: dark) { .bg { fill: #0d1117 } .ink { fill: #222222 } .soft { fill: #e6edf3 } }
    </style><rect class="bg"/><text class="ink">a</text><text class="pale">b</text></svg>"""
    assert unreadable(picture) == [
        "pale: no style",
        "box: no colour for dark",
        "light: soft on bg has a contrast of 1.4",
        "dark: ink on bg has a contrast of 1.2",
    ]
