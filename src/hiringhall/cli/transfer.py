"""`hall export` and `hall import`: move the unfinished jobs of one hall to another.

Invariant: a file is checked as a whole before any job is imported. Jobs that were imported before an error
stay; when the file is imported again, jobs with a key are not duplicated.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path  # noqa: TC003 (typer looks its types up)
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from hiringhall.cli.gearman_import import Tally, carry_problems, counted_jobs, send_jobs
from hiringhall.cli.history import DASH, open_folder
from hiringhall.cli.progress import with_progress
from hiringhall.cli.reporting import FAILURE, json_line, print_error, print_line
from hiringhall.cli.settings import ConfigFlag, DataFlag, load_settings
from hiringhall.config.quantities import Address
from hiringhall.config.sources import ConfigError
from hiringhall.core.changes import Batch
from hiringhall.core.errors import Refusal
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import DONE
from hiringhall.endpoints import HallError
from hiringhall.engine.recovery import open_scheduler
from hiringhall.peers.tls import client_tls
from hiringhall.records.joblines import read_jobs, write_job
from hiringhall.records.writing import atomic_file
from hiringhall.storage.contract import StoreError
from hiringhall.storage.opening import FileInUse, open_store, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ssl import SSLContext

    from hiringhall.config.schema import Config
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.records import History
    from hiringhall.records.joblines import WrittenJob
    from hiringhall.storage.contract import Store

PROBLEMS_MAX: Final = 100
"""Problems of one file that are printed; further ones are counted."""
COMMIT_ROWS_MAX: Final = 5000
COMMIT_BYTES_MAX: Final = 32 << 20
"""A commit ends after this many jobs, or with the job that reaches this many bytes of payload."""

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]


def export_jobs(
    file: Annotated[
        Path, typer.Argument(metavar="FILE|-", show_default=False, help="The file to write; default: stdout.")
    ] = DASH,
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Write the unfinished durable jobs to a file, one JSON object per line.

    The hall can be running, stopped or killed. Its data is not changed.
    """
    hall = load_settings(config, data).config.hall
    folder = shown(hall.data)
    with open_folder(hall) as history:
        if file == DASH:
            count = _write_jobs(history, sys.stdout.buffer)
        else:
            with _writing(file) as out:
                count = _write_jobs(history, out)
    report = (
        json_line({"exported": count}).rstrip() if as_json else f"{counted_jobs(count)} exported from {folder}"
    )
    if file == DASH:
        print_error(report)
    else:
        print_line(report)
    return 0


def import_jobs(
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="A file from hall export; - is stdin.")],
    config: ConfigFlag = None,
    data: DataFlag = None,
    door: Annotated[
        str | None,
        typer.Option(
            "--door", metavar="HOST:PORT", help="Submit the jobs at this Gearman door of a running hall."
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca", metavar="FILE", help="For a door with TLS: the CA of its certificate, a PEM file."
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(
            "--tls-certificate",
            metavar="FILE",
            help="For a door with TLS: your client certificate, a PEM file.",
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            "--tls-key", metavar="FILE", help="The key of --tls-certificate, unless it is in the same file."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Import jobs from a file into a stopped hall, or into a running one with --door.

    If the file has an error, nothing is imported. A job is skipped if an unfinished job has the same queue and
    key. With --door the jobs get the terms of that door, and jobs that wait for parents are refused.
    """
    if door is not None and data is not None:
        raise ConfigError(["--door: cannot be used with --data: it sends the jobs to a running hall"])
    address = None if door is None else _address(door)
    tls = _tls(door, tls_ca, tls_certificate, tls_key)
    settings = load_settings(config, data).config
    tally = Tally()
    try:
        with _reading(file) as source:
            jobs, problems = read_jobs(source)
        if not problems and address is not None:
            problems = carry_problems(jobs)
        if problems:
            return _refuse(file, problems)
        tally.total = len(jobs)
        if address is None:
            with ignoring_sighup():
                return import_offline(file, jobs, settings, tally, as_json=as_json)
        asyncio.run(send_jobs(with_progress(jobs, "jobs", len(jobs)), address, tally, tls))
    except KeyboardInterrupt:
        print_error(f"hall: interrupted; {tally if tally.taken or tally.unsure else 'nothing was imported'}")
        raise
    print_line(
        _report({"sent": len(jobs), "door": address}, f"{counted_jobs(len(jobs))} sent to {address}", as_json)
    )
    return 0


def _write_jobs(history: History, out: IO[bytes]) -> int:
    """Write all unfinished jobs. Return their number."""
    (live, _) = history.count()
    written: set[int] = set()
    awaited: dict[int, int] = {}
    outside = 0
    for row in with_progress(history.unfinished(), "jobs", live):
        if row.holder == OUTSIDE:
            outside += 1
            continue
        out.write(write_job(row))
        written.add(row.id)
        awaited.update((parent, row.id) for parent in row.parents if isinstance(parent, int))
    out.flush()
    if outside:
        print_error(
            f"hall: {counted_jobs(outside)} not exported: the work is done outside the hall and only reported"
        )
    for parent, child in awaited.items():
        if parent not in written:
            print_error(
                f"hall: job {child} waits for job {parent}, which was not exported because it is not durable"
            )
    return len(written)


def import_offline(file: Path, jobs: list[WrittenJob], settings: Config, tally: Tally, *, as_json: bool) -> int:
    """Submit jobs to a stopped hall and print what was done; the exit code."""
    if settings.hall.storage != "sqlite":
        raise HallError(
            "hall.storage is memory: there is no data folder to import into; use --door for a running hall"
        )
    folder = shown(settings.hall.data)
    now_us = time.time_ns() // 1000
    # Without a retention, no history is dropped: the hall that will run here may have other settings.
    store = open_store(settings.hall.data, None, lambda text: print_error(f"hall: {text}"), "import")
    try:
        scheduler = open_scheduler(store, settings.limits.limits(), now_us)
    except FileInUse as error:
        if error.holder.kind == "import":
            raise
        raise HallError(f"{error}, or submit the jobs at its Gearman door with --door") from error
    try:
        for queue in settings.queue:
            scheduler.needs.need(queue.name.encode(), *queue.needs)
        problems = _submit(jobs, scheduler)
        if problems:
            return _refuse(file, problems)
        scheduler.settle()
        batch = scheduler.seal()
        _commit(batch, store, now_us, tally)
    finally:
        store.close()
    new, joined = scheduler.counters.submitted, scheduler.counters.joined
    failed = len([job for job in batch.ended if job.state > DONE and not job.stored])
    words = f"{counted_jobs(new)} imported into {folder}"
    if joined:
        words += f", {joined} {'was' if joined == 1 else 'were'} already there"
    if failed:
        words += f"; {failed} failed at once because a parent had failed"
    facts = {"imported": new, "already_there": joined, "failed": failed, "data": folder}
    print_line(_report(facts, words, as_json))
    return 0


def _submit(jobs: list[WrittenJob], scheduler: Scheduler) -> list[tuple[int, str]]:
    """Submit all jobs to the scheduler, parents first. Nothing is on disk yet."""
    problems: list[tuple[int, str]] = []
    new_ids: dict[int, int] = {}
    for job in with_progress(jobs, "checked", len(jobs)):
        spec = job.spec
        numbers = [parent for parent in spec.parents if isinstance(parent, int)]
        if any(number not in new_ids for number in numbers):
            continue  # The parent was refused, which is reported for its own line.
        spec.parents = tuple([new_ids[ref] if isinstance(ref, int) else ref for ref in spec.parents])
        try:
            taken = scheduler.submit(spec, None)
        except Refusal as refusal:
            problems.append((job.line, refusal.text))
            continue
        if job.id is not None:
            new_ids[job.id] = taken.id
    return problems


def _commit(batch: Batch, store: Store, now_us: int, tally: Tally) -> None:
    tally.total = len(batch.inserts)
    try:
        for part in _parts(batch):
            tally.unsure = len(part.inserts)
            store.commit(part, now_us)
            tally.taken += len(part.inserts)
            tally.unsure = 0
    except StoreError as error:
        tally.unsure = 0
        raise HallError(f"{error}; {tally}") from error


def _parts(batch: Batch) -> Iterator[Batch]:
    """The batch in several transactions. Parents stay before their children, as in the batch."""
    part = Batch()
    part.updates, part.deletes, part.ends = batch.updates, batch.deletes, batch.ends
    part.revived = batch.revived
    weight = 0
    for row in with_progress(batch.inserts, "stored", len(batch.inserts)):
        part.inserts.append(row)
        weight += len(row.payload)
        if len(part.inserts) >= COMMIT_ROWS_MAX or weight >= COMMIT_BYTES_MAX:
            yield part
            part = Batch()
            weight = 0
    if not part.empty:
        yield part


def _refuse(file: Path, problems: list[tuple[int, str]]) -> int:
    for line, text in sorted(problems, key=itemgetter(0))[:PROBLEMS_MAX]:
        print_error(f"hall: {file}: line {line}: {text}")
    if len(problems) > PROBLEMS_MAX:
        print_error(f"hall: {file}: {len(problems) - PROBLEMS_MAX} further problems")
    print_error(f"hall: {file}: nothing was imported")
    return FAILURE


def _tls(door: str | None, ca: Path | None, certificate: Path | None, key: Path | None) -> SSLContext | None:
    """The SSLContext for a door with TLS; None: the door has no TLS."""
    given = {"--tls-ca": ca, "--tls-certificate": certificate, "--tls-key": key}
    named = [flag for flag, file in given.items() if file is not None]
    if not named:
        return None
    if door is None:
        raise ConfigError([f"{named[0]}: needs --door, the door to connect to"])
    if certificate is None and key is not None:
        raise ConfigError(["--tls-key: needs --tls-certificate, the certificate of this key"])
    for flag, file in given.items():
        if file is not None and not file.is_file():
            raise ConfigError([f"{flag}: there is no file {file}"])
    try:
        return client_tls(ca, certificate, key)
    except OSError as error:
        raise ConfigError([f"{', '.join(named)}: cannot be used: {error}"]) from None


def _report(facts: dict[str, object], words: str, as_json: bool) -> str:
    return json_line(facts).rstrip() if as_json else words


def _address(written: str) -> Address:
    try:
        address = Address.parse(written)
    except ValueError:
        raise ConfigError([f'--door: "{written}" is not allowed; it takes {Address.allowed}']) from None
    if address.port == 0:
        raise ConfigError([f'--door: "{written}" has no port; add the port of the hall\'s Gearman door'])
    return address


@contextmanager
def ignoring_sighup() -> Iterator[None]:
    """Ignore SIGHUP: an earlier version of `hall schedule` signals any process that has the folder open."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def _reading(file: Path) -> Iterator[IO[bytes]]:
    if file == DASH:
        yield sys.stdin.buffer
        return
    try:
        with file.open("rb") as source:
            yield source
    except OSError as error:
        raise HallError(f"{file} cannot be read: {error.strerror or error}") from error


@contextmanager
def _writing(file: Path) -> Iterator[IO[bytes]]:
    try:
        with atomic_file(file) as out:
            yield out
    except OSError as error:
        raise HallError(f"{file} cannot be written: {error.strerror or error}") from error
