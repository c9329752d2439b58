"""The lexical part of a Dockerfile: logical lines, here-documents, words, variables.

Rules: Docker's Dockerfile reference. What this reader does not know it refuses by name and line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from modularrsi.errors import SandboxError

_HEREDOC = re.compile(r"<<(-?)\s*(?:\"(\w+)\"|'(\w+)'|(\w+))")
_TAKES_HEREDOC = {"RUN", "COPY", "ADD"}
_VARIABLE = re.compile(r"\\(.)|\$(?:(\w+)|\{(\w+)(?:(:[-+])([^}]*))?\}|(\{[^}]*\}?))", re.DOTALL)
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S+))?(?:\s+|$)")


@dataclass(frozen=True, slots=True)
class Heredoc:
    """`literal`: its delimiter was quoted, so nothing in it is substituted."""

    name: str
    text: str
    literal: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction: continuation lines joined, comments gone. `number` is the line it starts on."""

    number: int
    keyword: str
    rest: str
    heredocs: tuple[Heredoc, ...] = ()


def refuse(what: str, number: int) -> SandboxError:
    """The error for something this reader will not do; it names the line, the thing and the way out."""
    message = f"Dockerfile line {number}: {what}; use the docker sandbox for this task"
    return SandboxError(message, "unsupported")


def logical_lines(text: str) -> list[Line]:
    """Split a Dockerfile into instructions. Raises SandboxError (unsupported)."""
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").split("\n")
    _check_directives(lines)
    found: list[Line] = []
    index = 0
    while index < len(lines):
        if not lines[index].strip() or lines[index].lstrip().startswith("#"):
            index += 1
            continue
        number = index + 1
        joined, index = _join(lines, index)
        if not joined.strip():
            continue
        keyword, rest = [*joined.split(maxsplit=1), ""][:2]
        heredocs: list[Heredoc] = []
        if keyword.upper() in _TAKES_HEREDOC:
            heredocs, index = _heredocs(rest, lines, index, number)
        found.append(Line(number, keyword.upper(), rest.strip(), tuple(heredocs)))
    return found


def _check_directives(lines: list[str]) -> None:
    for number, line in enumerate(lines, 1):
        match = re.match(r"#\s*(\w+)\s*=\s*(\S+)", line.strip())
        if match is None:
            return
        if match[1].lower() == "escape" and match[2] != "\\":
            raise refuse(f"the escape character {match[2]!r} is not supported", number)


def _join(lines: list[str], index: int) -> tuple[str, int]:
    parts: list[str] = []
    while index < len(lines):
        line = lines[index]
        index += 1
        if parts and (not line.strip() or line.lstrip().startswith("#")):
            continue
        stripped = line.rstrip()
        if not stripped.endswith("\\"):
            parts.append(line)
            break
        parts.append(stripped[:-1])
    return "".join(parts), index


def _heredocs(rest: str, lines: list[str], index: int, number: int) -> tuple[list[Heredoc], int]:
    found: list[Heredoc] = []
    for match in _HEREDOC.finditer(rest):
        tabs, name = bool(match[1]), match[2] or match[3] or match[4]
        body: list[str] = []
        while True:
            if index >= len(lines):
                raise refuse(f"the here-document {name} does not end", number)
            line = lines[index].lstrip("\t") if tabs else lines[index]
            index += 1
            if line == name:
                break
            body.append(line + "\n")
        found.append(Heredoc(name, "".join(body), match[4] is None))
    return found, index


def without_heredocs(rest: str) -> str:
    return _HEREDOC.sub("", rest).strip()


def heredoc_order(words: list[str]) -> list[str]:
    """The words with each here-document marker kept as one word `<<NAME`."""
    return [re.sub(r"^<<-?[\"']?(\w+)[\"']?$", r"<<\1", word) for word in words]


def flags(rest: str) -> tuple[dict[str, str], str]:
    """Leading `--name=value` flags, and what follows them."""
    found: dict[str, str] = {}
    while match := _FLAG.match(rest):
        found[match[1]] = match[2] or ""
        rest = rest[match.end() :]
    return found, rest


def exec_form(rest: str) -> list[str] | None:
    """The list of an instruction in JSON form, or None when it is in shell form."""
    if not rest.startswith("["):
        return None
    try:
        value = json.loads(rest)
    except ValueError:
        return None
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def split_raw(rest: str, number: int) -> list[str]:
    """Split at blanks outside quotes, quotes kept."""
    found: list[str] = []
    current, quote, position = "", "", 0
    while position < len(rest):
        char = rest[position]
        if char == "\\" and quote != "'" and position + 1 < len(rest):
            current += rest[position : position + 2]
            position += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char.isspace():
            if current:
                found.append(current)
            current, position = "", position + 1
            continue
        current += char
        position += 1
    if quote:
        raise refuse(f"a quote {quote} is not closed", number)
    return [*found, current] if current else found


def unquote(word: str) -> str:
    out, quote, position = "", "", 0
    while position < len(word):
        char = word[position]
        if char == "\\" and quote != "'" and position + 1 < len(word):
            position += 1
            keep = quote == '"' and word[position] not in '"\\$'
            out += ("\\" if keep else "") + word[position]
        elif quote and char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        else:
            out += char
        position += 1
    return out


def substitute(text: str, variables: Mapping[str, str], number: int) -> str:
    """`$X`, `${X}`, `${X:-word}`, `${X:+word}`; single quotes protect. Unknown names give the empty text."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return "\\" + match[1] if match[1] != "$" else "\0"
        if match[6] is not None:
            raise refuse(f"the substitution ${match[6]} is not supported", number)
        value = variables.get(match[2] or match[3], "")
        if match[4] == ":-":
            return value or match[5]
        if match[4] == ":+":
            return match[5] if value else ""
        return value

    pieces = re.split(r"('[^']*')", text)
    done = [piece if piece.startswith("'") else _VARIABLE.sub(replace, piece) for piece in pieces]
    return "".join(done).replace("\0", "$")
