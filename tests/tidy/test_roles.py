"""Each kind of request at the native door has a role."""

from __future__ import annotations

import re
from pathlib import Path

from hiringhall.dialects.native import wire
from hiringhall.dialects.native.roles import NEEDED


def test_each_kind_of_request_has_a_line_in_the_table_of_roles() -> None:
    source = (Path(__file__).parents[2] / "src/hiringhall/dialects/native/wire.py").read_text()
    section = source.partition("# What a peer says.\n")[2].partition("# What the hall says")[0]
    kinds = set(re.findall(r'^[A-Z_]+: Final = "(\w+)"$', section, flags=re.MULTILINE))
    assert len(kinds) > 20
    assert kinds - {wire.HELLO} == set(NEEDED), "say in dialects/native/roles.py which role a request needs"
