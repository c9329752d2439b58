"""What a RUN may do without a network and without a package manager: make files.

A command that fetches or installs is refused by name instead of being run and failing, because many Dockerfiles hide
the failure (`… || true`) and the task would then be a different one. The one exception is an `apt-get install` of
packages this host is proven to show the sandbox already.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from modularrsi.sandbox.dockerfile_lines import refuse

_REFUSED = {
    **dict.fromkeys(("apt", "apt-get", "aptitude", "apk", "yum", "dnf", "microdnf", "zypper", "pacman"), "installs"),
    **dict.fromkeys(("add-apt-repository", "dpkg", "snap", "brew", "rpm"), "installs"),
    **dict.fromkeys(("pip", "pip3", "pipx", "uv", "uvx", "poetry", "conda", "mamba", "micromamba"), "installs"),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "gem", "bundle", "cargo", "rustup", "go", "cpan"), "installs"),
    **dict.fromkeys(("curl", "wget", "aria2c", "ssh", "scp", "rsync", "svn", "hg"), "needs the network"),
    **dict.fromkeys(("docker", "systemctl", "service"), "needs a daemon"),
}
_GIT_NETWORK = {"clone", "fetch", "pull", "submodule", "lfs", "ls-remote"}
_PREFIXES = frozenset(
    ["sudo", "env", "exec", "time", "nice", "nohup", "command", "then", "do", "else", "if", "while", "until", "!", "{"]
)
_ASSIGNMENT = re.compile(r"^\w+=")
_APT_FLAGS = frozenset(
    ["-y", "--yes", "--assume-yes", "-q", "-qq", "--quiet", "-yq", "-yqq", "-qy", "-qqy", "--no-install-recommends"]
)
_PLAIN_CONFFILES = (
    "/etc/bash_completion.d/",
    "/etc/python3",
    "/etc/alternatives/",
    "/etc/perl/",
    "/etc/ssl/openssl.cnf",
)
"""Configuration a sandbox shows, or does without."""


@dataclass(frozen=True, slots=True)
class Package:
    """An installed Debian package: its version and the configuration files it owns."""

    version: str
    conffiles: tuple[str, ...]


Packages = Callable[[str], Package | None]


def installed_package(name: str) -> Package | None:
    """Ask dpkg; None when the package is not fully installed, or this is no Debian."""
    query = ["dpkg-query", "-W", "-f", "${Status}\n${Version}\n${Conffiles}", "--", name]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = answer.stdout.split("\n")
    if answer.returncode != 0 or lines[0] != "install ok installed":
        return None
    return Package(lines[1], tuple(line.split()[0] for line in lines[2:] if line.strip()))


def allowed_run(command: str, number: int, packages: Packages) -> str:
    """The command to run ("" = nothing is left to do). Raises SandboxError (unsupported) naming what it refuses."""
    command = _without_apt(command, number, packages)
    for name, argument in _commands(command):
        reason = _refusal(name, argument)
        if reason:
            raise refuse(f"RUN uses {reason}", number)
    return command


def _refusal(name: str, argument: str) -> str:
    if name == "git" and argument in _GIT_NETWORK:
        return f"git {argument}, which needs the network"
    if re.fullmatch(r"python[\d.]*", name) and argument.replace("-m", "").strip() in ("pip", "ensurepip"):
        return f"{name} -m pip, which installs"
    return f"{name}, which {_REFUSED[name]}" if name in _REFUSED else ""


def _commands(command: str) -> list[tuple[str, str]]:
    """(name, first argument that is no option) of each simple command; rough on purpose: it looks into `$(…)` too."""
    found: list[tuple[str, str]] = []
    for piece in re.split(r"&&|\|\||[;|&\n()`]", command):
        words = piece.replace('"', " ").replace("'", " ").split()
        while words and (words[0] in _PREFIXES or _ASSIGNMENT.match(words[0]) or words[0].startswith("-")):
            words.pop(0)
        if words:
            name = words[0].rsplit("/", 1)[-1]
            found.append((name, _first_argument(words[1:])))
    return found


def _first_argument(words: list[str]) -> str:
    if words[:1] == ["-m"]:
        return " ".join(words[:2])
    skip = False
    for word in words:
        if skip or word.startswith("-"):
            skip = word in ("-C", "-c") and not skip
            continue
        return word
    return ""


def _without_apt(command: str, number: int, packages: Packages) -> str:
    """Drop `apt-get update/install/clean` from a plain `&&` chain when every package is there, exactly."""
    if not re.search(r"\bapt(-get)?\b", command) or re.search(r"[;|`\n()]|(?<!&)&(?!&)", command):
        return command
    left: list[str] = []
    for piece in command.split("&&"):
        try:
            words = shlex.split(piece)
        except ValueError:
            return command
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        if words[:1] not in (["apt-get"], ["apt"]):
            if "/var/lib/apt/lists" not in piece:
                left.append(piece.strip())
            continue
        _prove(words[1:], number, packages)
    return " && ".join(left)


def _prove(words: list[str], number: int, packages: Packages) -> None:
    words = [word for word in words if word not in _APT_FLAGS]
    if words in (["update"], ["clean"], ["autoclean"]):
        return
    if words[:1] != ["install"] or len(words) < 2 or any(word.startswith("-") for word in words):
        raise refuse(f"RUN uses apt-get {' '.join(words)}, which installs", number)
    for word in words[1:]:
        name, _, version = word.partition("=")
        package = packages(name)
        if package is None or (version and package.version != version):
            raise refuse(f"RUN installs {word}, which this host does not have", number)
        hidden = [file for file in package.conffiles if not file.startswith(_PLAIN_CONFFILES)]
        if hidden:
            raise refuse(f"RUN installs {word}, whose configuration ({hidden[0]}) the sandbox does not show", number)
