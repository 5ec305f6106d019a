"""The example of the draft's page, as it stands there, on a real hall."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from hall_process import CODE

if TYPE_CHECKING:
    from hall_process import HallProcess

PAGE = (Path(__file__).parents[2] / "docs" / "protocols" / "gearman-draft.md").read_text()


def test_the_example_prints_what_it_says(hall: HallProcess) -> None:
    ((example, promised),) = re.findall(
        r"```python\n(.*?)```\n\nprints\n\n((?:    [^\n]*\n)+)", PAGE, re.DOTALL
    )
    ended = subprocess.run(
        [sys.executable, "-c", example.replace("127.0.0.1:4730", hall.address)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": CODE},
    )
    assert (ended.returncode, ended.stdout) == (0, textwrap.dedent(promised)), ended.stderr
