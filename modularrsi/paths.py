"""Where things are: the folders that travel with the product, and the private folders of a run.

The folders that are not import packages (`configs/`, `validators/`, `evolution_pool/`, `generations/`) travel inside
the wheel as package data and are found by `data_folder`; in a source checkout they are the checkout's own.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from modularrsi.errors import UserError

DATA_FOLDERS = ("configs", "validators", "evolution_pool", "generations")

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str, override: Path | None = None) -> Path:
    """The folder `name` of the product, or the user's own of the same shape. Raises UserError when there is none."""
    if name not in DATA_FOLDERS:
        raise ValueError(f"{name} is not one of {DATA_FOLDERS}")
    if override is not None:
        if not override.is_dir():
            raise UserError(f"{override} is not a folder; --{name.replace('_', '-')} needs one shaped like {name}/")
        return override
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise UserError(f"the folder {name}/ did not come with this installation; install the package again")


def scratch_root() -> Path:
    """The engine's private folder for everything that lives only as long as a rollout.

    Short, because tmux sockets below it may not exceed about 100 bytes; 0700, because it holds private roots.
    Absolute, because helpers start elsewhere. Raises UserError when it cannot be made.
    """
    base = Path(os.environ.get("MODULARRSI_SCRATCH") or tempfile.gettempdir()).absolute()
    folder = base / f"mrsi-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        why = f"{folder} cannot be made ({error.strerror})"
        raise UserError(f"{why}; set MODULARRSI_SCRATCH to a folder that you can write to") from error
    if found.st_uid != os.getuid() or folder.is_symlink():
        raise UserError(f"{folder} belongs to somebody else; set MODULARRSI_SCRATCH to a folder of your own")
    folder.chmod(0o700)
    return folder
