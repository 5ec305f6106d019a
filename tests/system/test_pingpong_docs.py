"""The example of the protocol's page, as it stands there, on a real hall."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from hall_process import CODE
from pingpong_house import PingPongHall

PAGE = (Path(__file__).parents[2] / "docs" / "protocols" / "pingpong.md").read_text()


def test_the_example_prints_what_it_says(tmp_path: Path) -> None:
    ((example, promised),) = re.findall(
        r"```python\n(.*?)```\n\nprints\n\n((?:    [^\n]*\n)+)", PAGE, re.DOTALL
    )
    with PingPongHall(tmp_path) as hall:
        program = example.replace("127.0.0.1:5556", hall.address).replace("127.0.0.1:5555", hall.frontend)
        ended = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "PYTHONPATH": CODE},
        )
    assert (ended.returncode, ended.stdout) == (0, textwrap.dedent(promised)), ended.stderr
