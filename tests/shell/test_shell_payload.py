"""The payload of a shell command, as people write it by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hiringhall.shell.command import BadCommand, decode

PAGES = Path(__file__).parents[2] / "docs"
SUBMITTED = re.compile(r"hall submit shell '([^']*)'")


def test_a_payload_that_is_no_shell_command_is_refused_with_an_example() -> None:
    with pytest.raises(BadCommand, match=r'is not a shell command, such as {"command": "make"}: '):
        decode(b"make -j4")


def test_the_shell_commands_that_the_pages_submit_are_shell_commands() -> None:
    payloads = [found for page in PAGES.rglob("*.md") for found in SUBMITTED.findall(page.read_text())]
    assert payloads
    for payload in payloads:
        assert decode(payload.encode()).command
