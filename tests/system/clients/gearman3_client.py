"""PyPI gearman3's GearmanClient, told what to do line by line; see tests/system/foreign.py for the words.

It keeps updates until the end, sets no options (so it never hears an exception's text), and cannot ask for a
status by unique, send an echo, or submit for later. Of a status it reads the progress alone: it compares
"known" and "running" with text where Python 3 gives it bytes.
"""

from __future__ import annotations

import sys
from typing import Any

from gearman3_today import gearman

PRIORITIES = {"high": gearman.PRIORITY_HIGH, "normal": gearman.PRIORITY_NONE, "low": gearman.PRIORITY_LOW}


def say(*words: Any) -> None:
    texts = (word.decode() if isinstance(word, bytes) else str(word) for word in words)
    sys.stdout.write(" ".join((">", *texts)) + "\n")
    sys.stdout.flush()


def tell_end(request: Any) -> None:
    if request.status:
        say("progress", request.status["numerator"], request.status["denominator"])
    for data in request.data_updates:
        say("data", data)
    for warning in request.warning_updates:
        say("warning", warning)
    if request.state == gearman.JOB_COMPLETE:
        say("complete", request.result)
    else:
        say("fail")


def obey(client: Any, submitted: dict[str, Any], word: str, rest: list[str]) -> None:
    if word == "run":
        priority, function, unique, data = rest
        tell_end(
            client.submit_job(
                function, data, unique=None if unique == "." else unique, priority=PRIORITIES[priority]
            )
        )
    elif word == "background":
        priority, function, unique, data = rest
        request = client.submit_job(
            function,
            data,
            unique=None if unique == "." else unique,
            priority=PRIORITIES[priority],
            background=True,
            wait_until_complete=False,
        )
        submitted[request.job.handle.decode()] = request
        say("created", request.job.handle)
    elif word == "status" and rest[0] in submitted:
        status = client.get_job_status(submitted[rest[0]]).status
        numbers = (status["known"], status["running"], status["numerator"], status["denominator"])
        say("status", *(int(number) for number in numbers))
    else:
        say("cannot")


def main() -> None:
    client = gearman.GearmanClient([sys.argv[1]])
    submitted: dict[str, Any] = {}
    for line in sys.stdin:
        word, *rest = line.split()
        obey(client, submitted, word, rest)
        say("ok")


main()
