"""The checks, each a row: what was looked at, whether it works, what was found, and the command that mends it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from modularrsi.cage.choose import CAGES
from modularrsi.errors import ModularRSIError
from modularrsi.paths import DATA_FOLDERS, data_folder, scratch_root
from modularrsi.sandbox import availability
from modularrsi.sandbox.base import Availability
from modularrsi.terminal.server import tmux_availability

_MIN_FREE_BYTES = 2 * 1024**3

_EXTRAS = {
    "harbor": ("harbor", "run benchmarks in Harbor's environments (Python >= 3.12)"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """`state`: "ok", "missing" (something one can do without) or "broken" (the product cannot work without it)."""

    area: str
    name: str
    state: str
    detail: str
    fix: str = ""


def local_checks() -> Iterator[Row]:
    """Everything that can be told without a network."""
    yield _python()
    yield _row("terminal", tmux_availability(), "broken")
    sandboxes = availability()
    isolated = any(found.usable for found in sandboxes if found.kind != "process")
    for found in sandboxes:
        yield _row("sandbox", found, "missing" if isolated or found.kind == "process" else "broken")
    cages = [cage.available() for cage in CAGES]
    for found in cages:
        yield _row("cage", found, "missing" if any(other.usable for other in cages) else "broken")
    yield from map(_extra, _EXTRAS)
    yield from map(_data, DATA_FOLDERS)
    yield _scratch()


def _python() -> Row:
    found = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    fix = "" if good else "install Python 3.11 or newer"
    return Row("python", found, "ok" if good else "broken", sys.executable, fix)


def _row(area: str, found: Availability, otherwise: str) -> Row:
    detail = found.isolation if found.usable and found.isolation else found.detail
    return Row(area, found.kind, "ok" if found.usable else otherwise, detail, found.fix)


def _extra(name: str) -> Row:
    module, purpose = _EXTRAS[name]
    if importlib.util.find_spec(module) is not None:
        return Row("extra", name, "ok", purpose)
    needs_newer = name == "harbor" and sys.version_info < (3, 12)
    fix = "use a Python >= 3.12, then " if needs_newer else ""
    return Row("extra", name, "missing", purpose, f"{fix}pip install 'modularrsi[{name}]'")


def _data(name: str) -> Row:
    try:
        return Row("data", name, "ok", str(data_folder(name)))
    except ModularRSIError as error:
        return Row("data", name, "broken", str(error), "pip install --force-reinstall modularrsi")


def _scratch() -> Row:
    try:
        folder = scratch_root()
    except (ModularRSIError, OSError) as error:
        return Row("disk", "scratch", "broken", str(error), "set MODULARRSI_SCRATCH to a folder of your own")
    free = shutil.disk_usage(folder).free
    detail = f"{folder}, {free / 1024**3:.0f} GiB free"
    if len(os.fsencode(folder)) > 60:
        return Row("disk", "scratch", "broken", f"{folder} is too long for sockets below it",
                   "set MODULARRSI_SCRATCH to a short path")
    if free < _MIN_FREE_BYTES:
        return Row("disk", "scratch", "missing", detail, "free some space, or set MODULARRSI_SCRATCH elsewhere")
    return Row("disk", "scratch", "ok", detail)


