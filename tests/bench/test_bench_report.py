"""What the benchmarks print: no figure is rounded over the line that it had to reach."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from figures import AT_LEAST, AT_MOST, Ratio, Row, Section
from report import cells, circumstances, markdown, sections_of

OURS = Ratio("hall", "gearmand")
SECTION = Section("Some", (), ("hall", "gearmand"), (OURS,))
VERSIONS = dict.fromkeys(
    (
        "hall",
        "build",
        "python",
        "uvloop",
        "sqlite",
        "system sqlite",
        "gearmand",
        "PostgreSQL",
        "job systems",
        "shell commands",
    ),
    "1",
)


@pytest.mark.parametrize(
    ("bound", "required", "measured", "shown", "mark"),
    [
        (AT_LEAST, 0.7, 0.699, "0.699", "FAIL"),
        (AT_LEAST, 0.7, 0.69996, "0.69996", "FAIL"),
        (AT_LEAST, 0.7, 0.69999999, "0.69999999", "FAIL"),
        (AT_LEAST, 0.7, 0.6789, "0.68", "FAIL"),
        (AT_LEAST, 0.7, 0.7001, "0.70", "pass"),
        (AT_MOST, 1.15, 1.1501, "1.1501", "FAIL"),
        (AT_MOST, 1.15, 1.1499, "1.15", "pass"),
        ("", 0.0, 0.699, "0.70", ""),
    ],
)
def test_a_ratio_that_misses_by_little_has_the_digits_that_show_it(
    bound: str, required: float, measured: float, shown: str, mark: str
) -> None:
    row = Row("one", "figure", "jobs/s", 5, {"hall": measured, "gearmand": 1.0})
    row.must(bound, required, OURS)
    line = cells(row, SECTION)
    assert (line[3], line[-1]) == (shown, mark)


def test_of_the_kernel_its_version_is_told_and_no_name_of_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.release", lambda: "6.1.2-somebody-v3")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert circumstances(VERSIONS, tmp_path, 5, 1.0)["kernel"] == "Linux 6.1"


def test_sections_that_were_not_measured_again_are_kept_with_their_date() -> None:
    row = Row("one", "figure", "jobs/s", 5, {"hall": 2.0, "gearmand": 1.0})
    other = Section("Other", (), ("hall", "gearmand"), (OURS,))
    first = markdown([(SECTION, [row]), (other, [row])], {"date": "Monday"})
    faster = Row("one", "figure", "jobs/s", 5, {"hall": 3.0, "gearmand": 1.0})
    second = markdown([(other, [faster])], {"date": "Friday"}, first, ["Some", "Other"])
    assert list(sections_of(second)) == ["Some", "Other"]
    assert sections_of(second)["Some"] == sections_of(first)["Some"]
    assert sections_of(second)["Some"].startswith("Measured Monday.")
    assert sections_of(second)["Other"].startswith("Measured Friday.")
    assert "| 3 | 1 | 3.00 |" in sections_of(second)["Other"]
    assert markdown([(SECTION, [row]), (other, [row])], {"date": "Monday"}, second) == first
