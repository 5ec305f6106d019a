"""Faults of the hall that the simulator has found and that are not mended yet.

Each switch makes one law lenient, so that the others stay strict. Mend the fault, turn its switch off.
"""

from __future__ import annotations

from typing import Final

RECALLED_WATCHER_HEARS: Final = False
"""A watched submit that is refused because a commit failed leaves its peer a watcher: it hears the end."""
RETRIED_RESULT_LOST: Final = False
"""A dead letter retried and done again while the commit of its failure is under way: the commit's return clears
the new result before it is written."""
RETRY_PASSES_BOUND: Final = False
"""A retry is let in above `jobs_max`."""
DURABLE_UNDETACHED_RETRY: Final = False
"""A durable job that is not detached is live without a watcher after a retry, which the audit forbids."""
