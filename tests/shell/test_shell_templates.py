"""Replacement strings, and that no argument can be more than one word for the shell."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from hiringhall.shell.templates import BadTemplate, Template, quote

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = (
    b"plain",
    b"",
    b"two words",
    b"it's",
    b'say "hi"',
    b"$(touch hacked)",
    b"`touch hacked`",
    b"; touch hacked",
    b"a\nb",
    b"\\",
    b"$HOME",
    b"-n",
    b"*",
    b"~",
    b"\xff\xfe",
    b"\x1b[31m",
    b"'; touch hacked; '",
    b'"; touch hacked; "',
    b"{}",
    b"{1}{#}",
    b"!x",
    b"#",
)


def fill(text: bytes, *arguments: bytes, number: int = 1) -> bytes:
    return Template(text, len(arguments)).fill(arguments, number)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (b"{}", b"dir.d/sub/pic.tar.gz"),
        (b"{.}", b"dir.d/sub/pic.tar"),
        (b"{/}", b"pic.tar.gz"),
        (b"{//}", b"dir.d/sub"),
        (b"{/.}", b"pic.tar"),
        (b"x {#}", b"x 7"),
        (b"{1}", b"dir.d/sub/pic.tar.gz"),
        (b"{1/.} {-1.}", b"pic.tar dir.d/sub/pic.tar"),
        (b"echo", b"echo dir.d/sub/pic.tar.gz"),
        (b"awk '{print $1}' {}", b"awk '{print $1}' dir.d/sub/pic.tar.gz"),
        (b"x \\{} {}", b"x \\{} dir.d/sub/pic.tar.gz"),
        (b"x {a} {0} {/..} { } {}", b"x {a} {0} {/..} { } dir.d/sub/pic.tar.gz"),
    ],
)
def test_a_replacement_string_becomes_its_part_of_the_argument(text: bytes, command: bytes) -> None:
    assert fill(text, b"dir.d/sub/pic.tar.gz", number=7) == command


@pytest.mark.parametrize(
    ("argument", "parts"),
    [
        (b"a", b"a a . a"),
        (b"a.b", b"a a.b . a"),
        (b"/a.b", b"/a a.b / a"),
        (b"x/.hidden", b"x/ .hidden x ''"),
        (b"dir.d/a", b"dir.d/a a dir.d a"),
        (b"dir/", b"dir/ '' . ''"),
    ],
)
def test_paths_are_taken_apart_as_gnu_parallel_does(argument: bytes, parts: bytes) -> None:
    assert fill(b"{.} {/} {//} {/.}", argument) == parts


def test_several_lists_are_named_by_their_numbers() -> None:
    assert fill(b"{2}-{1} {-1} {}", b"a", b"b c") == b"'b c'-a 'b c' a 'b c'"
    assert fill(b"{2.}", b"a", b"b.c") == b"b"


def test_a_command_without_a_replacement_string_gets_all_arguments_at_its_end() -> None:
    assert fill(b"cp -v", b"a", b"b") == b"cp -v a b"


@pytest.mark.parametrize("text", [b"{2}", b"{-2}", b"{3/}"])
def test_a_list_that_does_not_exist_is_refused(text: bytes) -> None:
    with pytest.raises(BadTemplate, match="has no argument"):
        Template(text, 1)


@pytest.mark.parametrize("argument", HOSTILE)
@pytest.mark.parametrize(
    "text",
    [
        b"printf %s {}",
        b"printf %s '{}'",
        b'printf %s "{}"',
        b"printf %s ''{}''",
        b'printf %s "$(printf %s {}; printf x)"',
        b"printf %s \"$(printf %s '{}'; printf x)\"",
        b'(printf %s "$(printf "%s" "{}")x")',
        b"printf %s\\'s {} | sed \"s/'s\\$//\"",
        b": it is; printf %s {1}",
    ],
)
def test_an_argument_is_one_word_wherever_it_stands(text: bytes, argument: bytes, tmp_path: Path) -> None:
    if b"sed" in text and (b"\n" in argument or not argument.isascii()):
        argument = b"sed reads lines of text"
    command = fill(text, argument)
    found = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    printed = found.stdout.removesuffix(b"x") if b"x" in text.rpartition(b"%s")[2] else found.stdout
    assert printed == argument
    assert not list(tmp_path.iterdir())


def test_a_safe_word_is_not_quoted() -> None:
    assert quote(b"a-b_c/d.e:f,g+h=i@j%k") == b"a-b_c/d.e:f,g+h=i@j%k"
    assert quote(b"a b") == b"'a b'"


def test_the_slot_is_left_to_the_worker() -> None:
    command = fill(b"echo {%} \"{%}\" '{%}' {}", b"x")
    found = subprocess.run(["/bin/sh", "-c", command], env={"HALL_SLOT": "3"}, capture_output=True, check=True)
    assert found.stdout == b"3 3 3 x\n"


def test_an_argument_that_a_job_does_not_have_is_nothing_if_jobs_differ() -> None:
    template = Template(b'echo {1} "{2}" {-1} {3.}', None)
    assert template.fill((b"a.b",), 1) == b'echo a.b """" a.b '
    assert template.fill((b"", b"b c", b"d.e"), 1) == b"echo '' \"\"'b c'\"\" d.e d"
