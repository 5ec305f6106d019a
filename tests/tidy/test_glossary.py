"""The glossary has every word that carries the product, and a cell for each system it compares with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "glossary.md"
COLUMNS: Final = ["word", "what it means here", "Gearman", "Celery", "Dask", "dwork"]
PICTURES: Final = {
    "hall",
    "door",
    "dialect",
    "lease",
    "watcher",
    "ledger",
    "archive",
    "lane",
    "turn",
    "pledge",
    "resident",
}
"""The words that are kept although they are pictures."""
CONCEPTS: Final = {
    "queue",
    "job",
    "worker",
    "terms",
    "dead letter",
    "provider",
    "market",
    "engagement",
    "schedule",
    "firing",
    "stand-in",
}
"""Further words that the documents use without explaining them."""


def tables(text: str) -> list[list[list[str]]]:
    """Each table of a page, as rows of cells."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("|"):
            if not inside:
                found.append([])
            found[-1].append([cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")])
        inside = line.startswith("|")
    return found


def faults(text: str) -> list[str]:
    """What is wrong with a glossary."""
    wrong: list[str] = []
    defined: list[str] = []
    for header, _rule, *rows in tables(text):
        if header != COLUMNS:
            wrong.append(f"a table has the columns {header}")
        for row in rows:
            if len(row) != len(COLUMNS):
                wrong.append(f"{row[0]}: {len(row)} cells")
            if not all(row[:2]):
                wrong.append(f"{row[0]}: no word, or no meaning")
            defined += row[0].split(", ")
    wrong += [f"{word}: missing" for word in sorted((PICTURES | CONCEPTS) - set(defined))]
    wrong += [f"{word}: twice" for word in sorted(set(defined)) if defined.count(word) > 1]
    return wrong


def test_every_word_has_its_row_with_all_columns() -> None:
    assert faults(PAGE.read_text()) == []


def test_a_missing_word_a_short_row_and_a_repeated_word_are_found() -> None:
    page = PAGE.read_text()
    (lane,) = [line for line in page.splitlines() if line.startswith("| lane |")]
    assert faults(page.replace(lane + "\n", "")) == ["lane: missing"]
    assert faults(page.replace(lane, lane.removesuffix("|").rpartition("|")[0] + "|")) == ["lane: 5 cells"]
    assert faults(page.replace(lane, f"{lane}\n{lane}")) == ["lane: twice"]
    assert faults(page.replace(lane, "| lane | | | | | |")) == ["lane: no word, or no meaning"]
