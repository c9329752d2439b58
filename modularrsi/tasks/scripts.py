"""Shell scripts as the sandbox needs them: with the line ends of Unix.

A checkout on Windows gives scripts CR LF, and bash then fails on every line, the reference solution's too (public
report: SWE-bench#372). The copy that is uploaded is mended; the task folder never is.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_BYTES = 4_000_000


@contextmanager
def staged_scripts(folder: Path) -> Iterator[Path]:
    """A folder with the content of `folder` in which no shell script has CR LF: `folder` itself when none has, else a
    copy that is removed at the end. Modes and symbolic links stay as they are. Raises OSError."""
    broken = [path for path in sorted(folder.rglob("*")) if _is_broken(path)]
    if not broken:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="modularrsi-scripts-") as name:
        copy = Path(name) / "copy"
        shutil.copytree(folder, copy, symlinks=True)
        for path in broken:
            mended = copy / path.relative_to(folder)
            mended.write_bytes(unix_lines(mended.read_bytes()))
        yield copy


def unix_lines(script: bytes) -> bytes:
    return script.replace(b"\r\n", b"\n")


def _is_broken(path: Path) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_BYTES:
        return False
    content = path.read_bytes()
    is_script = path.suffix in (".sh", ".bash") or content.startswith(b"#!")
    return is_script and b"\r\n" in content and b"\0" not in content
