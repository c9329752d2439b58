"""Load a library: a tree of function files, by content, side by side with any other generation.

A library's root is a folder that holds `modules/<module>/<point>/<name>.py`. Each file becomes a module under a private
name that contains the tree's digest; the tree is never on `sys.path` and no byte code is written into it. Files are
read once: what was hashed is what runs.

`os.path`, not `pathlib`, whose import would cost a tenth of a worker's start.
"""
# ruff: noqa: PTH112, PTH113, PTH114, PTH117, PTH118, PTH120, PTH123

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator
from types import CodeType, ModuleType, TracebackType
from typing import Any, cast

from harness.errors import LibraryError
from harness.points import POINTS
from harness.record import record
from harness.registry import TAG_ATTRIBUTE, Registry, nearest

MANIFEST = "manifest.json"
DEFAULT_COMPOSITION = "composition.json"
_SHAPE = "a library holds modules/<module>/<point>/<name>.py and nothing else"


@record
class Library:
    """A loaded tree. `digest` is over the content and paths of `files` (relative path → sha256)."""

    root: str
    registry: Registry
    digest: str
    files: dict[str, str]


def seed_library_path() -> str:
    """The root of the seed library: this package's own folder."""
    return os.path.dirname(os.path.realpath(__file__))


def load_library(path: str | os.PathLike[str], only: Collection[str] | None = None) -> Library:
    """Read and verify a tree, and import its functions.

    `only`: import just these (`module/point/name`), as a worker does; the others are verified and known by name.
    Raises LibraryError naming the file (and line): a symbolic link, a file in the wrong place, a digest that is not the
    manifest's, a file the manifest lacks, code that does not compile, raises on import, or is not one tagged function.
    """
    root = os.fspath(path)
    contents = read_tree(root)
    files = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    _verify(root, files)
    digest = tree_digest(files)
    registry = Registry()
    for name in sorted(contents):
        if not name.startswith("modules/") or name.endswith("/__init__.py"):
            continue
        key = name.removeprefix("modules/").removesuffix(".py")
        if only is None or key in only:
            registry.add(_load_function(root, name, contents[name], digest), name, files[name])
        else:
            registry.declare(key)
    return Library(root, registry, digest, files)


def tree_digest(files: dict[str, str]) -> str:
    """sha256 over (path, digest) of every file, whatever the order, the times and the caches of the tree."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def library_digest(path: str | os.PathLike[str]) -> str:
    """The digest that `load_library` gives this tree, without running any of its code. Raises LibraryError."""
    return tree_digest({name: hashlib.sha256(data).hexdigest() for name, data in read_tree(os.fspath(path)).items()})


def read_tree(root: str) -> dict[str, bytes]:
    """Relative POSIX path → bytes of all files that belong to the library (its functions and default composition)."""
    if not os.path.isdir(os.path.join(root, "modules")):
        raise LibraryError(f"{root}: not a library; it needs a folder modules/<module>/<point>/<name>.py")
    try:
        names = sorted(_walk(root, "modules"))
    except OSError as error:
        raise LibraryError(f"{root}: cannot be listed: {error}") from error
    contents = {name: _read(root, name) for name in names}
    if os.path.lexists(os.path.join(root, DEFAULT_COMPOSITION)):
        contents[DEFAULT_COMPOSITION] = _read(root, DEFAULT_COMPOSITION)
    return contents


def _walk(root: str, folder: str) -> Iterator[str]:
    """Relative paths below `folder`. A link would let the tree reach outside itself, so there may be none."""
    if os.path.islink(os.path.join(root, folder)):
        raise LibraryError(f"{folder}: symbolic links are not allowed in a library")
    with os.scandir(os.path.join(root, folder)) as entries:
        for entry in entries:
            name = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name == "__pycache__":
                    continue
                if name.count("/") > 2:
                    raise LibraryError(f"{name}: {_SHAPE}")
                yield from _walk(root, name)
            elif entry.is_symlink():
                raise LibraryError(f"{name}: symbolic links are not allowed in a library")
            else:
                _check_file_name(name)
                yield name


def _check_file_name(name: str) -> None:
    parts = name.split("/")
    if parts[-1] == "__init__.py":
        return
    if len(parts) != 4 or not parts[-1].endswith(".py"):
        raise LibraryError(f"{name}: {_SHAPE}")
    point = "/".join(parts[1:3])
    if point not in POINTS:
        raise LibraryError(f"{name}: unknown point {point!r}{nearest(point, POINTS)}")


def _read(root: str, name: str) -> bytes:
    path = os.path.join(root, name)
    if os.path.islink(path):
        raise LibraryError(f"{name}: symbolic links are not allowed in a library")
    if not os.path.isfile(path):
        raise LibraryError(f"{name}: not a regular file")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise LibraryError(f"{name}: {error.strerror or error}") from error


# ------------------------------------------------------------------------------------------------------- the manifest


def _verify(root: str, files: dict[str, str]) -> None:
    """Hold the tree against `manifest.json`, where there is one."""
    if not os.path.lexists(os.path.join(root, MANIFEST)):
        return
    listed = _manifest_files(root)
    for name in sorted(files.keys() - listed.keys()):
        raise LibraryError(f"{name}: not listed in {MANIFEST}; the library was changed after it was frozen")
    for name, digest in sorted(listed.items()):
        found = files.get(name) or _digest_beside(root, name)
        if found != digest:
            raise LibraryError(f"{name}: sha256 is {found[:12]}…, {MANIFEST} says {digest[:12]}…")


def _manifest_files(root: str) -> dict[str, str]:
    try:
        data: Any = json.loads(_read(root, MANIFEST))
        listed = data["files"]
        if not all(isinstance(value, str) for pair in listed.items() for value in pair):
            raise TypeError("files must map paths to sha256 digests")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LibraryError(f"{MANIFEST}: unreadable: {error}") from error
    return cast("dict[str, str]", listed)


def _digest_beside(root: str, name: str) -> str:
    """The digest of a listed file that is no function (a certificate, say)."""
    if os.path.isabs(name) or ".." in name.split("/"):
        raise LibraryError(f"{name}: {MANIFEST} lists a path outside the library")
    if not os.path.lexists(os.path.join(root, name)):
        raise LibraryError(f"{name}: listed in {MANIFEST} but missing")
    return hashlib.sha256(_read(root, name)).hexdigest()


# ---------------------------------------------------------------------------------------------------------- importing


def _load_function(root: str, name: str, source: bytes, digest: str) -> Any:
    """Run one file as a private module and return its only tagged function."""
    module = ModuleType("_".join(["_harness_lib", digest[:12], *name.removesuffix(".py").split("/")[1:]]))
    module.__file__ = os.path.join(root, name)
    code = _compile(name, source, module.__file__)
    # `dataclasses`, `pickle` and `typing` look a class's module up by name.
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    # The boundary to a library's own top-level code: whatever it raises, the library is what cannot be used.
    except (Exception, SystemExit) as error:
        line = _line_of(error.__traceback__, module.__file__)
        raise LibraryError(f"{name}:{line}: {type(error).__name__} on import: {error}") from error
    return _only_function(name, module)


def _compile(name: str, source: bytes, filename: str) -> CodeType:
    try:
        return compile(source, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise LibraryError(f"{name}:{error.lineno or 1}: syntax error: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise LibraryError(f"{name}:1: cannot be compiled: {error}") from error


def _line_of(trace: TracebackType | None, filename: str) -> int:
    """The last line of the file itself on the way to the error."""
    line = 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _only_function(name: str, module: ModuleType) -> Any:
    found = {id(value): value for value in vars(module).values() if _is_tagged(value, module.__name__)}
    if len(found) != 1:
        raise LibraryError(f"{name}: holds {len(found) or 'no'} tagged functions; a file holds exactly one")
    return next(iter(found.values()))


def _is_tagged(value: object, module: str) -> bool:
    # In the object's own `__dict__`: one with a `__getattr__` would claim any attribute. A function that was imported
    # from elsewhere is not this file's.
    own = getattr(value, "__dict__", {})
    return callable(value) and TAG_ATTRIBUTE in own and getattr(value, "__module__", "") == module
