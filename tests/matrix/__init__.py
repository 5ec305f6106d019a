"""The matrix of dialects: what of a job that one dialect hands in reaches a worker of another, and comes back.

`adapters` has a submitter and a worker of each dialect, `aspects` what is tried with each pair of them, `losses`
what is known to be lost and why. `page` makes docs/matrix.md of it; the test proves it.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "system"))
