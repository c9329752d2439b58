"""Digests of values, bytes, files and folders: SHA-256, in lower-case hexadecimal (64 characters), everywhere.

A value is hashed as its canonical JSON, so that two processes that hold the same value get the same digest whatever
the order of their dictionaries. A folder is hashed by what a checkout of it would reproduce: paths and contents, not
times, owners or the order in which the file system lists them. Empty folders do not count.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

_SURROGATE = re.compile("[\ud800-\udfff]")


def canonical_json(value: Any) -> bytes:
    """The one JSON text of `value`: keys sorted, no blanks, UTF-8, lone surrogates as U+FFFD.

    Raises ValueError for what JSON lacks: NaN and Infinity, bytes, keys that are not strings, endless nesting.
    """
    try:
        _check_keys(value)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON value: {error}") from error
    return _SURROGATE.sub("\ufffd", text).encode("utf-8")


def _check_keys(value: Any) -> None:
    """`json.dumps` would write the keys 1 and "1" alike: two values, one digest."""
    if isinstance(value, dict):
        for key, item in cast(dict[Any, Any], value).items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is not a string")
            _check_keys(item)
    elif isinstance(value, (list, tuple)):
        for item in cast(list[Any], value):
            _check_keys(item)


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_text(text: str) -> str:
    """Of the UTF-8 form; a lone surrogate counts as U+FFFD."""
    return digest_bytes(_SURROGATE.sub("\ufffd", text).encode("utf-8"))


def digest_value(value: Any) -> str:
    """Of the canonical JSON. Raises ValueError as `canonical_json` does."""
    return digest_bytes(canonical_json(value))


def digest_file(path: Path) -> str:
    """Of the content, read block by block. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_tree(
    root: Path,
    *,
    links: Literal["refuse", "hash"] = "refuse",
    modes: bool = False,
    ignore: Callable[[PurePosixPath], bool] | None = None,
) -> str:
    """Of every file below `root`, by relative path and content.

    links   "refuse": a symbolic link raises ValueError; "hash": its target text is hashed, and it is never followed.
    modes   True: the owner's execute bit counts as well (it decides what a test script does).
    ignore  called with relative paths; a folder it names is not entered.

    Raises ValueError for a device, pipe or socket, and OSError for what cannot be read.
    """
    total = hashlib.sha256()
    for name, path in sorted(_walk(root, root, ignore)):
        kind, digest = _entry(path, links, modes)
        # A path holds no NUL and a digest has one length, so the stream of entries reads in one way only.
        total.update(name + b"\0" + kind + b"\0" + digest.encode("ascii") + b"\n")
    return total.hexdigest()


def _walk(
    root: Path, folder: Path, ignore: Callable[[PurePosixPath], bool] | None
) -> Iterator[tuple[bytes, Path]]:
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        path = Path(entry.path)
        relative = PurePosixPath(path.relative_to(root).as_posix())
        if ignore is not None and ignore(relative):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path, ignore)
        else:
            yield os.fsencode(str(relative)), path


def _entry(path: Path, links: str, modes: bool) -> tuple[bytes, str]:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        if links == "refuse":
            raise ValueError(f"{path}: symbolic links are not allowed here")
        return b"link", digest_bytes(os.fsencode(path.readlink()))
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: neither a file nor a folder")
    executable = modes and bool(status.st_mode & stat.S_IXUSR)
    return (b"exec" if executable else b"file"), digest_file(path)
