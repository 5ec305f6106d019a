"""What this machine has, as far as it can be found out: the resources that `--resource auto` stands for.

Only what this process may use counts: the cores that it is bound to, and the limits of its control group.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hiringhall.amounts import ONE, amount_text, parse_totals

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO: Final = "auto"
CUDA: Final = "CUDA_VISIBLE_DEVICES"
MOUNTS: Final = Path("/proc/self/mounts")
GPUS: Final = Path("/proc/driver/nvidia/gpus")
_QUOTA: Final = "cpu.max"
_MEMORY: Final = "memory.max"


def resources_of(words: list[str]) -> str:
    """The text of resources that were given one by one; `auto` adds what is found and not given. Raises
    BadAmounts.
    """
    stated = [word for word in words if word != AUTO]
    text = " ".join(stated)
    names = {name.decode() for name, _, _ in parse_totals(text.encode())}
    if AUTO in words:
        found = [part for part in found_resources().split() if part.partition("=")[0] not in names]
        text = " ".join([*stated, *found])
    parse_totals(text.encode())
    return text


def found_resources(
    cgroups: Path | None = None, gpus: Path = GPUS, environment: Mapping[str, str] = os.environ
) -> str:
    """The cores, the memory and the GPUs of this machine."""
    folders = _folders(cgroups or _mounted())
    parts = [f"cpus={_text(_cpus(folders))}", f"mem={_text(_memory(folders) * ONE)}"]
    units = _gpus(gpus, environment)
    if units:
        parts.append(f"gpus=[{','.join(units)}]")
    return " ".join(parts)


def _text(amount: int) -> str:
    return amount_text(amount).decode()


def _mounted() -> Path | None:
    """Where the control groups are; None: there are none."""
    mounts = [line.split(" ") for line in _read(MOUNTS).splitlines()]
    return next((Path(mount[1]) for mount in mounts if len(mount) > 2 and mount[2] == "cgroup2"), None)


def _folders(cgroups: Path | None) -> list[Path]:
    """The control groups of this process, from its own up to the root."""
    if cgroups is None:
        return []
    lines = _read(Path("/proc/self/cgroup")).splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), "/").strip("/")
    folder = cgroups / own
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(cgroups))]


def _cpus(folders: list[Path]) -> int:
    """In thousandths: the cores that it is bound to, or the part of them that it may use."""
    cpus = len(os.sched_getaffinity(0)) * ONE
    for folder in folders:
        quota, _, period = _read(folder / _QUOTA).partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            cpus = min(cpus, max(int(quota) * ONE // int(period), 1))
    return cpus


def _memory(folders: list[Path]) -> int:
    """In bytes, whole mebibytes."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for folder in folders:
        limit = _read(folder / _MEMORY)
        if limit.isdigit():
            most = min(most, int(limit))
    return most >> 20 << 20


def _gpus(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The GPUs that CUDA may use, or all of the driver by their numbers."""
    if CUDA in environment:
        units = [unit.strip() for unit in environment[CUDA].split(",")]
        return [unit for unit in units if unit and unit != "-1"]
    try:
        return [str(number) for number in range(len(list(folder.iterdir())))]
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
