"""Which files of a task's `environment/` a COPY means: `.dockerignore`, globs, and nothing outside the folder.

Patterns follow Go's `filepath.Match` as the Dockerfile reference says: `*` and `?` stay within a name, `**` in
`.dockerignore` crosses folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

_ALWAYS_LEFT_OUT = ("Dockerfile", ".dockerignore")


def pattern(text: str) -> re.Pattern[str]:
    """A pattern over a whole relative path. Raises ValueError for one that cannot be read, such as `[`."""
    out, position = "", 0
    while position < len(text):
        char = text[position]
        if text.startswith("**/", position):
            out, position = out + "(?:.*/)?", position + 3
            continue
        if text.startswith("**", position):
            out, position = out + ".*", position + 2
            continue
        if char == "[":
            end = text.find("]", position + 1)
            if end < 0:
                raise ValueError(f"the pattern {text} cannot be read")
            inner = text[position + 1 : end]
            negated, inner = ("^", inner[1:]) if inner.startswith("^") else ("", inner)
            members = "".join(char if char == "-" else re.escape(char) for char in inner)
            out, position = f"{out}[{negated}{members}]", end + 1
            continue
        out += {"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char))
        position += 1
    try:
        return re.compile(out, re.DOTALL)
    except re.error:
        raise ValueError(f"the pattern {text} cannot be read") from None


@dataclass(frozen=True)
class Context:
    """A build context folder."""

    folder: Path

    @cached_property
    def _rules(self) -> list[tuple[bool, re.Pattern[str]]]:
        """(keep, pattern), in order: the last that matches decides."""
        rules: list[tuple[bool, re.Pattern[str]]] = []
        try:
            lines = (self.folder / ".dockerignore").read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return rules
        for line in lines:
            text = line.strip()
            if text and not text.startswith("#"):
                keep = text.startswith("!")
                text = str(PurePosixPath(text.lstrip("!").strip().lstrip("/")))
                rules.append((keep, pattern(text)))
        return rules

    def ignored(self, name: str) -> bool:
        """Whether `.dockerignore` leaves this relative path out (a rule on a folder covers what is in it)."""
        parts = name.split("/")
        prefixes = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        out = False
        for keep, rule in self._rules:
            if any(rule.fullmatch(prefix) for prefix in prefixes):
                out = not keep
        return out

    def matches(self, source: str) -> list[str]:
        """Relative paths that `source` names, sorted; "" is the whole context. Raises ValueError for a way out."""
        cleaned = os.path.normpath("/" + source).lstrip("/")
        if ".." in PurePosixPath(source).parts:
            raise ValueError(f"{source} lies outside the environment folder")
        if cleaned in ("", "."):
            return [""]
        if not re.search(r"[*?\[]", cleaned):
            return [cleaned] if os.path.lexists(self.folder / cleaned) and not self._hidden(cleaned) else []
        rule = pattern(cleaned.replace("**", "*"))
        depth = cleaned.count("/")
        found = [name for name in self._names("", depth) if name.count("/") == depth and rule.fullmatch(name)]
        return sorted(name for name in found if not self._hidden(name))

    def _hidden(self, name: str) -> bool:
        # A folder that is left out may still hold files that a later `!` rule takes back in.
        if not self.ignored(name):
            return False
        return not ((self.folder / name).is_dir() and any(keep for keep, _ in self._rules))

    def _names(self, start: str, depth: int) -> Iterator[str]:
        with os.scandir(self.folder / start) as entries:
            for entry in entries:
                name = f"{start}/{entry.name}".lstrip("/")
                yield name
                if depth > 0 and entry.is_dir(follow_symlinks=False):
                    yield from self._names(name, depth - 1)

    def files(self, name: str) -> list[tuple[Path, str]]:
        """What a matched path brings along: (file or folder on the host, path below the target), parents first.

        A file gives one entry with its own name, a folder its content. Raises ValueError for a link that leaves the
        context.
        """
        top = self.folder / name
        if top.is_symlink() and not top.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError(f"{name} is a link that leaves the environment folder")
        if not top.is_dir():
            return [(top, top.name)]
        return list(self._below(top.resolve() if top.is_symlink() else top, name, ""))

    def _below(self, folder: Path, name: str, inside: str) -> Iterator[tuple[Path, str]]:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        for entry in ordered:
            path = f"{name}/{entry.name}".lstrip("/")
            target = f"{inside}/{entry.name}".lstrip("/")
            is_folder = entry.is_dir(follow_symlinks=False)
            if not self.ignored(path):
                yield Path(entry.path), target
            if is_folder:
                yield from self._below(Path(entry.path), path, target)
