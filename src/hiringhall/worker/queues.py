"""Prints the queues of a module as a JSON array, in a process of its own: `python -m` this, then the module."""

from __future__ import annotations

import json
import os
import sys

from hiringhall.worker.loading import CannotLoad, load


def main() -> int:
    """The exit code. What is wrong with the module goes to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what the module prints while it is imported is no answer
    try:
        loaded = load(sys.argv[1], os.getcwd())  # noqa: PTH109 (text, as there)
    except CannotLoad as error:
        sys.stderr.write(f"{error}\n")
        return 1
    os.write(answers, json.dumps([served.queue.decode() for served in loaded.served]).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
