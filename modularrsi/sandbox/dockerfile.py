"""Reads the plain part of a Dockerfile into steps that a sandbox without images can carry out.

Done: FROM a generic base, COPY and ADD of local files, ENV, ARG, WORKDIR, SHELL, USER root, and RUN that makes files.
Ignored, each with its reason: CMD, ENTRYPOINT, EXPOSE, STOPSIGNAL, HEALTHCHECK, LABEL, MAINTAINER.
Everything else raises `SandboxError` (cause "unsupported") with its line and name. Nothing is guessed: a base image
that would bring programs of its own is not replaced by the host's.
"""

from __future__ import annotations

import platform
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from modularrsi.errors import SandboxError
from modularrsi.sandbox.build_context import Context
from modularrsi.sandbox.dockerfile_lines import (
    Heredoc,
    Line,
    exec_form,
    flags,
    heredoc_order,
    logical_lines,
    refuse,
    split_raw,
    substitute,
    unquote,
    without_heredocs,
)
from modularrsi.sandbox.dockerfile_run import Packages, allowed_run, installed_package

BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of every generic base image: what `ENV PATH=/app/bin:$PATH` refers to."""

DEFAULT_SHELL = ("/bin/sh", "-c")
_GENERIC = {"debian", "ubuntu", "busybox"}
# Images that are a generic base with well-known tools: the host's own stand for them if it has them all.
_WITH_TOOLS = {"buildpack-deps": ("gcc", "g++", "make", "git", "curl"), "gcc": ("gcc", "g++", "make")}
_HOSTS = ("docker.io/library/", "docker.io/", "library/", "index.docker.io/library/")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_IGNORED = {
    "CMD": "the sandbox starts its own first process",
    "ENTRYPOINT": "the sandbox starts its own first process",
    "EXPOSE": "ports are reached from inside only",
    "STOPSIGNAL": "the sandbox ends all its processes at once",
    "HEALTHCHECK": "nothing waits for it",
    "MAINTAINER": "no effect on files",
    "LABEL": "no effect on files",
}


@dataclass(frozen=True, slots=True)
class Run:
    """Run a command while building. `argv` is complete: in shell form the shell stands before the text."""

    number: int
    argv: tuple[str, ...]
    env: dict[str, str]
    workdir: str


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy into the image. `target` is absolute; `into`: it is a folder, there or not. `texts` are here-documents."""

    number: int
    sources: tuple[str, ...]
    texts: tuple[Heredoc, ...]
    target: str
    into: bool
    mode: int | None


@dataclass(frozen=True, slots=True)
class Link:
    """A name for a program of the host that the base image would have (`python` for python3.11)."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Workdir:
    path: str


Step = Run | Copy | Link | Workdir


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in order, and what commands find afterwards. `ignored`: (line, instruction, reason)."""

    base: str
    steps: tuple[Step, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    workdir: str = "/"
    ignored: tuple[tuple[int, str, str], ...] = ()


def read_environment(folder: Path, docker_image: str | None, packages: Packages = installed_package) -> Plan:
    """The plan of a task's `environment/`: its Dockerfile, else its prebuilt image when that is a generic one."""
    for name in ("docker-compose.yaml", "docker-compose.yml", "compose.yaml"):
        if (folder / name).exists():
            raise SandboxError(f"{folder / name}: several containers need the docker sandbox", "unsupported")
    file = folder / "Dockerfile"
    if docker_image is not None:
        return _Reader(folder, packages).read([Line(0, "FROM", docker_image)])
    if not file.is_file():
        raise SandboxError(f"{file} is missing and the task names no docker_image", "unsupported")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(f"{file} cannot be read: {error}", "unsupported") from None
    return read_dockerfile(text, folder, packages)


def read_dockerfile(text: str, folder: Path, packages: Packages = installed_package) -> Plan:
    """Read a Dockerfile whose context is `folder`. Raises SandboxError (unsupported)."""
    return _Reader(folder, packages).read(logical_lines(text))


class _Reader:
    def __init__(self, folder: Path, packages: Packages) -> None:
        self.context = Context(folder)
        self.packages = packages
        self.shell = DEFAULT_SHELL
        self.arguments: dict[str, str] = {}
        self.steps: list[Step] = []
        self.ignored: list[tuple[int, str, str]] = []
        self.plan: Plan | None = None

    def read(self, lines: list[Line]) -> Plan:
        for line in lines:
            if line.keyword in _IGNORED:
                self.ignored.append((line.number, line.keyword, _IGNORED[line.keyword]))
            elif line.keyword in _HANDLERS:
                _HANDLERS[line.keyword](self, line)
            else:
                raise refuse(f"{line.keyword} is not supported", line.number)
        if self.plan is None:
            raise SandboxError("the Dockerfile has no FROM", "unsupported")
        return replace(self.plan, steps=tuple(self.steps), ignored=tuple(self.ignored))

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": BASE_PATH, **self.arguments, **(self.plan.env if self.plan else {})}

    def need(self, line: Line) -> Plan:
        if self.plan is None:
            raise refuse(f"{line.keyword} stands before FROM", line.number)
        return self.plan

    def text(self, line: Line) -> str:
        return substitute(line.rest, self.variables, line.number)

    def begin(self, line: Line) -> None:
        if self.plan is not None:
            raise refuse("a second FROM (multi-stage build) is not supported", line.number)
        given, rest = flags(self.text(line))
        machine = _MACHINES.get(platform.machine(), platform.machine())
        if given.keys() - {"platform"} or given.get("platform", f"linux/{machine}") != f"linux/{machine}":
            raise refuse(f"FROM with {_shown(given)} is not supported", line.number)
        parts = rest.split()
        if len(parts) not in (1, 3) or (len(parts) == 3 and parts[1].upper() != "AS"):
            raise refuse(f"FROM {rest} cannot be read", line.number)
        self.plan = Plan(parts[0])
        self.arguments = {}
        self.steps += _base_steps(parts[0], line.number)

    def env(self, line: Line) -> None:
        plan = self.need(line)
        pairs = _pairs(line, self.variables)
        self.plan = replace(plan, env={**plan.env, **pairs})

    def arg(self, line: Line) -> None:
        for word in split_raw(line.rest, line.number):
            name, separator, value = word.partition("=")
            if separator:
                self.arguments[name] = unquote(substitute(value, self.variables, line.number))

    def workdir(self, line: Line) -> None:
        plan = self.need(line)
        path = _absolute(unquote(self.text(line)), plan.workdir)
        self.plan = replace(plan, workdir=path)
        self.steps.append(Workdir(path))

    def user(self, line: Line) -> None:
        self.need(line)
        name = self.text(line)
        if name.split(":")[0] not in ("root", "0"):
            raise refuse(f"USER {name} is not supported (only root)", line.number)

    def set_shell(self, line: Line) -> None:
        self.need(line)
        argv = exec_form(line.rest)
        if not argv or argv[-1] not in ("-c", "-lc", "-ec", "-ce", "-exc"):
            raise refuse("SHELL needs a list that ends in -c", line.number)
        self.shell = tuple(argv)

    def run(self, line: Line) -> None:
        plan = self.need(line)
        given, rest = flags(line.rest)
        if given.keys() - {"network"} or given.get("network", "none") not in ("none", "default"):
            raise refuse(f"RUN with {_shown(given)} is not supported", line.number)
        argv = exec_form(rest)
        if argv is not None:
            allowed_run(" ".join(argv), line.number, self.packages)
            self._run(line, tuple(argv), plan)
            return
        command = allowed_run(self._script(line, rest), line.number, self.packages)
        if command:
            self._run(line, (*self.shell, command), plan)

    def _run(self, line: Line, argv: tuple[str, ...], plan: Plan) -> None:
        self.steps.append(Run(line.number, argv, {**self.arguments, **plan.env}, plan.workdir))

    def _script(self, line: Line, rest: str) -> str:
        """The shell text: a lone here-document is the script itself, any other stays a shell here-document."""
        if not line.heredocs:
            return rest
        if len(line.heredocs) == 1 and not without_heredocs(rest):
            return line.heredocs[0].text
        return rest + "\n" + "".join(f"{doc.text}{doc.name}\n" for doc in line.heredocs)

    def copy(self, line: Line) -> None:
        plan = self.need(line)
        given, rest = flags(line.rest)
        mode = _copy_flags(given, line)
        listed = exec_form(rest)
        raw = listed if listed is not None else [unquote(word) for word in split_raw(rest, line.number)]
        parts = [substitute(word, self.variables, line.number) for word in heredoc_order(raw)]
        if len(parts) < 2:
            raise refuse(f"{line.keyword} needs a source and a target", line.number)
        texts = tuple(self._heredoc(doc, line) for doc in line.heredocs)
        sources = tuple(part for part in parts[:-1] if not part.startswith("<<"))
        found = tuple(name for source in sources for name in self._sources(source, line))
        into = parts[-1].endswith(("/", "/.")) or parts[-1] == "." or len(found) + len(texts) > 1
        target = _absolute(parts[-1], plan.workdir)
        self.steps.append(Copy(line.number, found, texts, target, into, mode))

    def _heredoc(self, doc: Heredoc, line: Line) -> Heredoc:
        return doc if doc.literal else replace(doc, text=substitute(doc.text, self.variables, line.number))

    def _sources(self, source: str, line: Line) -> list[str]:
        if line.keyword == "ADD" and re.match(r"(https?|ftp|git|ssh)://|git@", source):
            raise refuse(f"ADD {source} needs the network", line.number)
        try:
            found = self.context.matches(source)
            for name in found:
                self.context.files(name)
        except ValueError as error:
            raise refuse(f"{line.keyword}: {error}", line.number) from None
        if not found:
            raise refuse(f"{line.keyword} {source}: no such file in the environment folder", line.number)
        archives = [name for name in found if re.search(r"\.(tar|tar\.\w+|tgz|tbz2?|txz)$", name)]
        if line.keyword == "ADD" and archives:
            raise refuse(f"ADD would unpack {archives[0]}, which is not supported", line.number)
        return found


_HANDLERS = {
    "FROM": _Reader.begin,
    "ENV": _Reader.env,
    "ARG": _Reader.arg,
    "WORKDIR": _Reader.workdir,
    "USER": _Reader.user,
    "SHELL": _Reader.set_shell,
    "RUN": _Reader.run,
    "COPY": _Reader.copy,
    "ADD": _Reader.copy,
}


def _shown(given: dict[str, str]) -> str:
    return " ".join(f"--{name}={value}" if value else f"--{name}" for name, value in given.items())


def _base_steps(image: str, number: int) -> list[Step]:
    """Refuse a base image that is not generic; for `python:3.x` name the host's interpreter of that version."""
    name, _, tag = image.partition("@")[0].partition(":")
    for host in _HOSTS:
        name = name.removeprefix(host)
    if name == "python":
        return _python_steps(image, tag, number)
    if name in _WITH_TOOLS:
        return _tool_steps(image, _WITH_TOOLS[name], number)
    if name not in _GENERIC and image != "scratch":
        raise refuse(f"FROM {image} is not a generic base", number)
    return []


def _tool_steps(image: str, tools: tuple[str, ...], number: int) -> list[Step]:
    missing = [tool for tool in tools if shutil.which(tool, path="/usr/bin:/bin") is None]
    if missing:
        raise refuse(f"FROM {image} needs {', '.join(missing)}, which this host does not have in /usr/bin", number)
    return []


def _python_steps(image: str, tag: str, number: int) -> list[Step]:
    match = re.fullmatch(r"(3\.\d+)(-(slim|bookworm|bullseye|trixie|slim-\w+))?", tag)
    program = f"/usr/bin/python{match[1]}" if match else ""
    if not program or shutil.which(program) is None:
        raise refuse(f"FROM {image} needs a python this host does not have in /usr/bin", number)
    names = ("python", "python3", f"python{match[1] if match else ''}")
    return [Link(f"/usr/local/bin/{name}", program) for name in names]


def _pairs(line: Line, variables: dict[str, str]) -> dict[str, str]:
    raw = split_raw(line.rest, line.number)
    if raw and "=" not in raw[0]:
        name, _, value = line.rest.partition(" ")
        return {name: unquote(substitute(value.strip(), variables, line.number))}
    pairs: dict[str, str] = {}
    for word in raw:
        name, separator, value = word.partition("=")
        if not separator:
            raise refuse(f"ENV {word} has no value", line.number)
        pairs[name] = unquote(substitute(value, variables, line.number))
    return pairs


def _copy_flags(given: dict[str, str], line: Line) -> int | None:
    """Check the flags of COPY and ADD; returns the mode to set. Ownership other than root's is refused."""
    unknown = given.keys() - {"chown", "chmod", "link"}
    if unknown:
        raise refuse(f"{line.keyword} --{sorted(unknown)[0]} is not supported", line.number)
    owner = given.get("chown", "root")
    if any(part not in ("root", "0") for part in owner.split(":")):
        raise refuse(f"{line.keyword} --chown={owner} is not supported (only root)", line.number)
    mode = given.get("chmod")
    if mode is not None and not re.fullmatch(r"[0-7]{3,4}", mode):
        raise refuse(f"{line.keyword} --chmod={mode} is not an octal mode", line.number)
    return None if mode is None else int(mode, 8)


def _absolute(path: str, workdir: str) -> str:
    joined = path if path.startswith("/") else f"{workdir}/{path}"
    parts: list[str] = []
    for part in joined.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)

