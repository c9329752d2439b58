"""Says a Dockerfile that was written for BuildKit in the words of the classic builder, where that can be done exactly.

The classic builder is what the Engine itself offers; BuildKit needs Docker's client with its buildx plugin, which many
machines lack. Here-documents become JSON-form commands or files of the context, `--chmod` becomes files that have that
mode, caches are left out. Everything else of BuildKit's is refused by line. (Rules: Docker's Dockerfile reference.)
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

from modularrsi.errors import SandboxError
from modularrsi.sandbox.dockerfile_lines import (
    Line,
    exec_form,
    heredoc_order,
    logical_lines,
    split_raw,
    unquote,
    without_heredocs,
)

_BUILDKIT = re.compile(
    r"^\s*#\s*syntax=|^\s*(?:RUN|COPY|ADD)\b[^\n]*"
    r"(?:--(?:mount|network|security|chmod|exclude)=|--(?:link|parents)\b|<<-?[\"']?[A-Za-z_])",
    re.IGNORECASE | re.MULTILINE,
)
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S+))?(?:\s+|$)")
_INSTALL = "install Docker's client with its buildx plugin"
_STAGED = ".modularrsi-staged"


def needs_buildkit(dockerfile: str) -> bool:
    """Whether the classic builder would stumble over this text, or read it as something else."""
    return _BUILDKIT.search(dockerfile) is not None


def stage(environment: Path, staged: Path) -> None:
    """Make `staged`, a copy of the environment that the classic builder builds alike.

    Raises `SandboxError` ("unsupported") for what only BuildKit can do.
    """
    shutil.copytree(environment, staged, symlinks=True)
    dockerfile = staged / "Dockerfile"
    text = dockerfile.read_text("utf-8", "replace").replace("\r\n", "\n")
    try:
        dockerfile.write_text(_Rewriting(staged).all(text))
    except SandboxError as error:
        said = str(error).replace("; use the docker sandbox for this task", "")  # as the other reader of lines puts it
        raise SandboxError(f"{environment}: {said}; {_INSTALL}", "unsupported") from error
    if (ignore := staged / ".dockerignore").exists():
        ignore.write_text(f"{ignore.read_text()}\n!{_STAGED}\n")


class _Rewriting:
    def __init__(self, context: Path) -> None:
        self._context = context
        self._shell = ["/bin/sh", "-c"]
        self._count = 0

    def all(self, text: str) -> str:
        lines = logical_lines(text)
        source = text.split("\n")
        ends = [line.number for line in lines[1:]] + [len(source) + 1]
        return "".join(self._one(line, "\n".join(source[line.number - 1 : end - 1])) + "\n"
                       for line, end in zip(lines, ends, strict=True))  # fmt: skip

    def _one(self, line: Line, verbatim: str) -> str:
        """One instruction; untouched where the classic builder reads it as BuildKit does."""
        if line.keyword == "SHELL":
            self._shell = exec_form(line.rest) or self._shell
        elif line.keyword == "FROM":
            self._shell = ["/bin/sh", "-c"]
        flags, rest = _flags(line.rest)
        if not line.heredocs and not {name for name, _ in flags} - {"chown", "from"}:
            return verbatim
        if line.keyword == "RUN":
            return self._run(replace(line, rest=rest), flags)
        return self._copy(replace(line, rest=rest), flags)

    def _run(self, line: Line, flags: list[tuple[str, str]]) -> str:
        for name, value in flags:
            mount = re.search(r"(?:^|,)type=(\w+)", value)
            dropped = name == "mount" and mount is not None and mount[1] in ("cache", "tmpfs")
            if not dropped and (name, value) != ("network", "default"):
                raise _refuse(f"RUN --{name}={value}", line)
        if not line.heredocs:
            return f"RUN {line.rest}"
        bodies = "".join(f"{document.text}{document.name}\n" for document in line.heredocs)
        script = f"{line.rest}\n{bodies}" if without_heredocs(line.rest) else line.heredocs[0].text
        if script.startswith("#!"):
            raise _refuse("a here-document with a `#!` line", line)
        return f"RUN {json.dumps([*self._shell, script], ensure_ascii=False)}"

    def _copy(self, line: Line, flags: list[tuple[str, str]]) -> str:
        known = dict(flags)
        for name in known.keys() - {"chown", "chmod", "link"}:
            raise _refuse(f"{line.keyword} --{name}", line)
        mode = known.get("chmod")
        if mode is not None and (line.keyword == "ADD" or not re.fullmatch("[0-7]{3,4}", mode)):
            raise _refuse(f"{line.keyword} --chmod={mode}", line)
        *sources, target = exec_form(line.rest) or [unquote(word) for word in split_raw(line.rest, line.number)]
        if line.heredocs or mode is not None:
            sources = self._staged(line, sources, int(mode or "644", 8))
        owner = f"--chown={known['chown']} " if "chown" in known else ""
        return f"{line.keyword} {owner}{json.dumps([*sources, target], ensure_ascii=False)}"

    def _staged(self, line: Line, sources: list[str], mode: int) -> list[str]:
        """Copies of the sources in a folder of the context, all with `mode`; the names that COPY then uses."""
        self._count += 1
        documents = {f"<<{document.name}": document for document in line.heredocs}
        for number, source in enumerate(heredoc_order(sources)):
            folder = self._context / _STAGED / str(self._count) / str(number)
            folder.mkdir(parents=True)
            if source not in documents:
                self._stage_files(line, source, folder)
            elif "$" in documents[source].text and not documents[source].literal:
                raise _refuse("a here-document with variables", line)
            else:
                (folder / documents[source].name).write_text(documents[source].text)
        made = sorted((self._context / _STAGED / str(self._count)).glob("*/*"))
        for path in [inner for outer in made for inner in (outer, *outer.rglob("*"))]:
            if not path.is_symlink():
                path.chmod(mode)
        return [path.relative_to(self._context).as_posix() for path in made]

    def _stage_files(self, line: Line, source: str, folder: Path) -> None:
        inside = PurePosixPath(source.lstrip("/"))
        found = sorted(self._context.glob(str(inside))) if inside.parts and ".." not in inside.parts else []
        if not found or "$" in source or "://" in source or any(path.is_symlink() for path in found):
            raise _refuse(f"{line.keyword} --chmod of {source}", line)
        for path in found:
            if path.is_dir():
                shutil.copytree(path, folder / path.name, symlinks=True)
            else:
                shutil.copy2(path, folder / path.name)


def _flags(rest: str) -> tuple[list[tuple[str, str]], str]:
    """All leading `--name=value`, repeated ones too, and what follows them."""
    found: list[tuple[str, str]] = []
    while match := _FLAG.match(rest):
        found.append((match[1], match[2] or ""))
        rest = rest[match.end() :]
    return found, rest


def _refuse(what: str, line: Line) -> SandboxError:
    return SandboxError(f"Dockerfile line {line.number}: {what} needs BuildKit", "unsupported")
