"""The matrix of dialects: what of a job that one dialect hands in reaches a worker of another, and comes back.

`contract` says what a submitter and a worker of any dialect can do; each dialect has a module in which they do
it. `aspects` is what is tried with each pair, on the hall of `house`. `losses` is what is known to be lost, and
why. `page` makes docs/matrix.md of that, and the test proves it.
"""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "system")]
