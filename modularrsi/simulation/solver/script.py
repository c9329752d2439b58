"""A walkthrough derived from `solve.sh`: statement by statement, as somebody would type it.

Statements are told apart by `bash -n`: lines are added until they parse. A heredoc into a file becomes a `write`. What
would end or change an interactive shell (`set -e`, `exit` at the end) is left out; a script that cannot be taken apart
(it exits in the middle, reads its own name, has a trap) is written down and run as a whole.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from modularrsi.simulation.solver.walkthrough import Step, Walkthrough, paths_in

_HEREDOC = re.compile(
    r"""\A(?:cat\s+>\s*(?P<a>\S+)\s+<<\s*(?P<qa>['"]?)(?P<ea>\w+)(?P=qa)|"""
    r"""cat\s+<<\s*(?P<qb>['"]?)(?P<eb>\w+)(?P=qb)\s+>\s*(?P<b>\S+))[ \t]*\n(?P<body>.*\n)?(?P<end>\w+)[ \t]*\n?\Z""",
    re.DOTALL,
)
_PLAIN_PATH = re.compile(r"[\w./+@%-]+")
_SHELL_ONLY = re.compile(r"^\s*(set\s+[-+]\S+.*|exit(\s+\d+)?|shopt\b.*)$")
_WHOLE = re.compile(r"(?m)^\s*(trap|exec)\b|\bexit\b|\breturn\b|\$0\b|BASH_SOURCE|\$[@*#1-9]|/solution/|\bdirname\b")
_CHORE = re.compile(r"^\s*(cd|mkdir|export|umask|source|\.|sleep|true|:)\b|^\s*\w+=\S*\s*$")
_PLACE = "/tmp/solve.sh"


def read_script(path: Path) -> Walkthrough:
    """The way of a reference solution. Files beside it are written first where it names them."""
    text = path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
    statements = split(text)
    if statements is None or any(_WHOLE.search(_code(statement)) for statement in statements):
        return _as_a_whole(text)
    steps: list[Step] = []
    for statement in statements:
        steps.append(_step(len(steps) + 1, statement))
    return Walkthrough(tuple(steps)) if steps else _as_a_whole(text)


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


def _step(number: int, statement: str) -> Step:
    match = _HEREDOC.match(statement + "\n")
    if match and match["end"] in (match["ea"], match["eb"]):
        path, body = match["a"] or match["b"], match["body"] or ""
        literal = bool(match["qa"] or match["qb"]) or not re.search(r"[$`\\]", body)
        if literal and _PLAIN_PATH.fullmatch(path):
            return Step(number, "write", path, f"write {path}", content=body, names=(path,))
    first = statement.strip().splitlines()[0][:60]
    return Step(
        number, "run", statement, f"run `{first}`", chore=bool(_CHORE.match(statement)) and "\n" not in statement,
        names=paths_in(statement),
    )  # fmt: skip


def _as_a_whole(text: str) -> Walkthrough:
    command = f"bash {shlex.quote(_PLACE)}"
    return Walkthrough(
        (
            Step(1, "write", _PLACE, "write the script", content=text, chore=True, names=(_PLACE,)),
            Step(2, "run", command, "run the script", names=paths_in(text)),
        )
    )
