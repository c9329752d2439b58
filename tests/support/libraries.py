"""Small libraries on disk, made of the stand-ins' own source."""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path

from harness.standins import STANDINS

HEADER = """from __future__ import annotations
from collections.abc import Sequence
from harness import *
from harness.standins import parse
"""

MINIMAL = {
    f"modules/{entries[0].key}.py": HEADER + inspect.getsource(entries[0].call) for entries in STANDINS.values()
}


def source(point: str, name: str, signature: str, body: str, **tag: object) -> str:
    """The text of a function file. `signature` as in `text: str, ctx: Context`."""
    module, _, place = point.partition("/")
    fields = "".join(f", {key}={value!r}" for key, value in tag.items())
    return (
        f"{HEADER}@function(module={module!r}, point={place!r}, describes='test'{fields})\n"
        f"def {name}({signature}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    )


def write_library(root: Path, *parts: dict[str, str]) -> Path:
    """Write files (relative path → text) below `root`; later parts win."""
    for part in parts:
        for name, text in part.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return root


def write_manifest(root: Path) -> dict[str, str]:
    """Freeze a library as it is now."""
    files = {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "manifest.json" and "__pycache__" not in path.parts
    }
    (root / "manifest.json").write_text(json.dumps({"files": files}), encoding="utf-8")
    return files
