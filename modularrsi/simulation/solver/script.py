"""A walkthrough derived from `solve.sh`: statement by statement, as somebody would type it.

Statements are told apart by `bash -n`: lines are added until they parse. A heredoc into a file becomes a `write`. What
would end or change an interactive shell (`set -e`, `exit` at the end) is left out; a script that cannot be taken apart
(it exits in the middle, reads its own name, has a trap) is written down and run as a whole.
"""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from modularrsi.simulation.solver.walkthrough import FILE, Step, Walkthrough, paths_in

_HEREDOC = re.compile(
    r"""\A(?:cat\s+>\s*(?P<a>\S+)\s+<<\s*(?P<qa>['"]?)(?P<ea>\w+)(?P=qa)|"""
    r"""cat\s+<<\s*(?P<qb>['"]?)(?P<eb>\w+)(?P=qb)\s+>\s*(?P<b>\S+))[ \t]*\n(?P<body>.*\n)?(?P<end>\w+)[ \t]*\n?\Z""",
    re.DOTALL,
)
_PLAIN_PATH = re.compile(r"[\w./+@%-]+")
_SHELL_ONLY = re.compile(r"^\s*(set\s+[-+]\S+.*|exit(\s+\d+)?|shopt\b.*)$")
_WHOLE = re.compile(r"(?m)^\s*(trap|exec)\b|\bexit\b|\breturn\b|\$0\b|BASH_SOURCE|\$[@*#1-9]|/solution/|\bdirname\b")
_CHORE = re.compile(r"^\s*(cd|mkdir|export|umask|source|\.|sleep|true|:)\b|^\s*\w+=\S*\s*$")
_SOLUTION = "/solution"


def read_script(path: Path, env: Mapping[str, str] | None = None) -> Walkthrough:
    """The way of a reference solution; `env` are variables that it is given and an agent is not."""
    text = path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
    statements = split(text)
    if not statements or any(_WHOLE.search(_code(statement)) for statement in statements):
        statements = None
    given = [f"export {name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    if statements is None:
        return _numbered([*map(_step, given), *_as_a_whole(text, path.parent)])
    return _numbered(list(map(_step, [*given, *statements])))


def _numbered(steps: Sequence[Step]) -> Walkthrough:
    return Walkthrough(tuple(replace(step, number=number) for number, step in enumerate(steps, 1)))


def split(text: str) -> list[str] | None:
    """The statements of a script, each with its line breaks, without comments and shell settings; None when its end
    does not parse."""
    found: list[str] = []
    chunk = ""
    for line in text.splitlines(keepends=True):
        if not chunk and (not line.strip() or line.lstrip().startswith("#")):
            continue
        chunk += line
        if not _complete(chunk):
            continue
        if not _SHELL_ONLY.match(chunk.rstrip("\n")):
            found.append(chunk.rstrip("\n"))
        chunk = ""
    return None if chunk.strip() else found


def _complete(chunk: str) -> bool:
    """Whether bash would run this now. Anything it says, even the warning about an open heredoc, means no."""
    body = chunk.rstrip("\n")
    if (len(body) - len(body.rstrip("\\"))) % 2:
        return False
    checked = subprocess.run(["bash", "-n"], input=chunk.encode(), capture_output=True, check=False)
    return checked.returncode == 0 and not checked.stderr


def _code(statement: str) -> str:
    """Without the bodies of heredocs and quoted text, where `exit` and `$1` belong to another program."""
    match = _HEREDOC.match(statement + "\n")
    text = statement.split("\n", 1)[0] if match or "<<" in statement else statement
    return re.sub(r"'[^']*'", "''", text)


def _step(statement: str) -> Step:
    match = _HEREDOC.match(statement + "\n")
    if match and match["end"] in (match["ea"], match["eb"]):
        path, body = match["a"] or match["b"], match["body"] or ""
        literal = bool(match["qa"] or match["qb"]) or not re.search(r"[$`\\]", body)
        if literal and _PLAIN_PATH.fullmatch(path):
            return _file(path, body)
    first = statement.strip().splitlines()[0][:60]
    chore = bool(_CHORE.match(statement)) and "\n" not in statement
    return Step(0, "run", statement, f"run `{first}`", chore=chore, names=paths_in(statement))


def _as_a_whole(text: str, folder: Path) -> list[Step]:
    """Files that it finds beside itself (`/solution/…`) are put there first; they are of the solution, not the task."""
    place = f"{_SOLUTION}/solve.sh" if _SOLUTION in text or "BASH_SOURCE" in text or "$0" in text else "/tmp/solve.sh"
    beside = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in (FILE, "solve.sh")]
    steps = [_copied(path, f"{_SOLUTION}/{path.relative_to(folder)}") for path in beside if place.startswith(_SOLUTION)]
    steps.append(replace(_file(place, text), chore=True))
    return [*steps, Step(0, "run", f"bash {place}", "run the script", names=paths_in(text))]


def _file(path: str, content: str) -> Step:
    return Step(0, "write", path, f"write {path}", content=content, names=(path,))


def _copied(path: Path, target: str) -> Step:
    try:
        return replace(_file(target, path.read_text(encoding="utf-8")), chore=True)
    except UnicodeDecodeError:
        coded = base64.b64encode(path.read_bytes()).decode()
        folder = shlex.quote(target.rpartition("/")[0])
        command = f"mkdir -p {folder} && base64 -d > {shlex.quote(target)} <<'EOF'\n{coded}\nEOF"
        return Step(0, "run", command, f"write {target}", chore=True)
