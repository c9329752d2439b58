"""Skills of a task: folders with a `SKILL.md` whose front matter gives a name and a description.

Front matter is the small part of YAML that such files use: `key: value`, quotes, folded (`>`) and literal (`|`) blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from harness.types import Skill

_FRONT = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_KEY = re.compile(r"([A-Za-z_][\w-]*):[ \t]*(.*)")
_BLOCK = re.compile(r"[|>][+-]?[0-9]?")
_MAX_BYTES = 1_000_000


def front_matter(text: str) -> dict[str, str]:
    """The top-level keys of a `SKILL.md`; {} when it has no front matter. Nested values are left out."""
    match = _FRONT.match(text.replace("\r\n", "\n"))
    values: dict[str, str] = {}
    for key, first, more in _entries(match[1].split("\n") if match else []):
        if _BLOCK.fullmatch(first):
            values[key] = ("\n" if first[0] == "|" else " ").join(line.strip() for line in more).strip()
        elif first or (more and not more[0].lstrip().startswith(("- ", "#")) and not _KEY.match(more[0].lstrip())):
            values[key] = _unquote(" ".join([first, *(line.strip() for line in more)]).strip())
    return values


def _entries(lines: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    key, first, more = "", "", list[str]()
    for line in lines:
        match = _KEY.fullmatch(line.rstrip())
        if match:
            if key:
                yield key, first, more
            key, first, more = match[1], match[2].strip(), []
        elif line.strip() and line[0] in " \t":
            more.append(line)
    if key:
        yield key, first, more


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return re.sub(r"\s+#.*\Z", "", text)


def read_skills(environment: Path, skills_dir: str) -> tuple[Skill, ...]:
    """The skills that the environment will have at `skills_dir`, as far as its build folder shows them, sorted by
    location. The folder is looked for under its whole path and under its last component."""
    inside = PurePosixPath(skills_dir)
    for candidate in (environment / str(inside).lstrip("/"), environment / inside.name):
        skills = tuple(_skills(candidate, inside)) if _below(candidate, environment) else ()
        if skills:
            return skills
    return ()


def _below(path: Path, root: Path) -> bool:
    return path.is_dir() and path.resolve().is_relative_to(root.resolve())


def _skills(folder: Path, inside: PurePosixPath) -> Iterator[Skill]:
    for path in sorted(folder.glob("*/SKILL.md")):
        if not path.is_file() or path.is_symlink() or path.stat().st_size > _MAX_BYTES:
            continue
        values = front_matter(path.read_text(encoding="utf-8", errors="replace"))
        if values.get("name") and values.get("description"):
            yield Skill(values["name"], values["description"], str(inside / path.parent.name / "SKILL.md"))
