"""Where the arguments of `hall run` come from, and how lists are combined."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hiringhall.shell.feeding import Plan
from hiringhall.shell.inputs import (
    BadInput,
    Reading,
    arguments_of,
    combinations,
    compile_columns,
    count_of,
    split_words,
)

if TYPE_CHECKING:
    from pathlib import Path


def read(words: str, *files: bytes, separator: bytes = b"\n") -> list[bytes]:
    """The arguments of each job, with spaces between them."""
    _, sources = split_words(words.encode().split(), files)
    return [b" ".join(found) for found in combinations(sources, separator) if found is not None]


def test_the_words_before_the_first_mark_are_the_command() -> None:
    command, sources = split_words(b"gzip -9 {} ::: a b".split(), [])
    assert command == [b"gzip", b"-9", b"{}"]
    assert count_of(sources) == 2


def test_several_lists_are_combined_and_the_last_changes_fastest() -> None:
    assert read("x ::: A B ::: 1 2") == [b"A 1", b"A 2", b"B 1", b"B 2"]
    assert count_of(split_words(b"x ::: A B ::: 1 2 3".split(), [])[1]) == 6


def test_linked_lists_go_together_and_the_shortest_ends_them() -> None:
    assert read("x ::: A B C :::+ 1 2") == [b"A 1", b"B 2"]
    assert read("x ::: A B :::+ 1 2 ::: y z") == [b"A 1 y", b"A 1 z", b"B 2 y", b"B 2 z"]


def test_an_empty_list_makes_no_jobs() -> None:
    assert read("x :::") == []
    assert read("x ::: a :::") == []


def test_files_are_lists_of_lines(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a\nb c\n\nlast")
    (tmp_path / "two").write_bytes(b"1\n2\n")
    one, two = os.fsencode(tmp_path / "one"), os.fsencode(tmp_path / "two")
    assert read("x", one) == [b"a", b"b c", b"", b"last"]
    assert read(f"x :::: {tmp_path}/two ::: y") == [b"1 y", b"2 y"]
    assert read(f"x ::: a b ::::+ {tmp_path}/two") == [b"a 1", b"b 2"]
    assert len(read("x", one, two)) == 8


def test_nul_separates_names_with_line_ends(tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(b"a\nb\0c\0")
    assert read("x", os.fsencode(tmp_path / "names"), separator=b"\0") == [b"a\nb", b"c"]


def test_lines_longer_than_a_read_are_whole_and_absurd_ones_are_cut(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a" * 100_000 + b"\n" + b"b" * 1_000_000 + b"\nc\n")
    long, absurd, last = read("x", os.fsencode(tmp_path / "lines"))
    assert (long, last) == (b"a" * 100_000, b"c")
    assert 131_071 < len(absurd) < 200_000


@pytest.mark.parametrize(
    ("words", "files", "reason"),
    [
        ("x :::+ a", (), "there is none"),
        ("x ::::", (), "a file"),
        ("x :::: -", (b"-",), "once only"),
        ("x :::: no-such-file", (), "no-such-file cannot be read"),
    ],
)
def test_lists_that_cannot_be_read_are_refused(words: str, files: tuple[bytes, ...], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        read(words, *files)


def test_without_a_command_each_line_is_one_and_empty_lines_are_left_out() -> None:
    _, sources = split_words([b":::", b"echo  a", b" ", b"false"], [])
    planned = [one for one in Plan(None, sources, Reading()) if one is not None]
    assert [(one.number, one.command) for one in planned] == [(1, b"echo  a"), (2, b"false")]


def test_a_command_that_the_system_does_not_take_has_a_problem() -> None:
    _, sources = split_words([b":::", b"x" * 200_000, b"a\0b", b"fine"], [])
    problems = [one.problem for one in Plan(None, sources, Reading()) if one is not None]
    assert ["bytes" in problems[0], "NUL" in problems[1], problems[2]] == [True, True, ""]


def shaped(words: str, reading: Reading) -> list[tuple[bytes, ...] | None]:
    return list(arguments_of(split_words(words.encode().split(), [])[1], reading))


def test_columns_of_an_argument_are_arguments() -> None:
    comma = Reading(columns=compile_columns(","))
    assert shaped("x ::: a,b c ,d,e", comma) == [(b"a", b"b"), (b"c",), (b"", b"d", b"e")]
    assert shaped("x ::: a,b ::: 1,2", comma) == [(b"a", b"b", b"1", b"2")]
    grouped = Reading(columns=compile_columns("(,)|(;)"))
    assert shaped("x ::: a,b;c", grouped) == [(b"a", b"b", b"c")]
    with pytest.raises(BadInput, match="--colsep is no regular expression"):
        compile_columns("(")


def test_a_job_gets_several_arguments_and_the_last_one_the_rest() -> None:
    assert shaped("x ::: a b c", Reading(each=2)) == [(b"a", b"b"), (b"c",)]
    assert shaped("x ::: a b ::: 1 2", Reading(each=2)) == [(b"a", b"1", b"a", b"2"), (b"b", b"1", b"b", b"2")]
    assert [count_of(split_words(b"x ::: a b c".split(), [])[1], each) for each in (1, 2, 3)] == [3, 2, 1]
