"""The documentation as tests see it: pages, fenced blocks, tables, inline code.

A block's first line is ```` ```language flags ````. Flags, which no reader sees:

no-run: reason   the commands are not run (they need a key, or install something)
scripted         a scripted model service stands where the page says `http://127.0.0.1:8000/v1`
no-file          a TOML example that is not a whole file

A Python or TOML block whose first line is a comment with a path (`# models.toml`) is saved under that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(\w*)[ \t]*([^\n]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")


@dataclass(frozen=True)
class Block:
    """`line` is where it starts in its page."""

    page: str
    line: int
    language: str
    flags: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return not self.flags.startswith("no-run")

    @property
    def scripted(self) -> bool:
        return self.flags == "scripted"

    @property
    def file(self) -> str:
        """The name it is saved under, "" for none."""
        match = _NAMED.match(self.text)
        return match[1] if match and "no-file" not in self.flags else ""

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """(command, lines that the page shows of its output). A `sh` block is one command without output."""
        if self.language == "sh":
            return [(self.text, [])]
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line.strip():
                found[-1][1].append(line)
        return found


def blocks(page: Path) -> list[Block]:
    text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
    return [
        Block(name, text.count("\n", 0, match.start()) + 1, match[1], match[2].strip(), match[3])
        for match in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> list[str]:
    return _INLINE.findall(prose(page))


def table(page: Path, mark: str) -> list[list[str]]:
    """The rows between `<!-- mark -->` and `<!-- /mark -->`, without the heading; the cells' code marks are gone."""
    match = re.search(rf"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", page.read_text(encoding="utf-8"), re.DOTALL)
    assert match, f"{page.name} has no table {mark}"
    return list(rows(match[1]))


def rows(text: str) -> Iterator[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def code_of(cell: str) -> list[str]:
    return _INLINE.findall(cell)


def slug(heading: str) -> str:
    """The anchor that a heading gets on the usual forges."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
