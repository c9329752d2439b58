"""The plain part of a Dockerfile is read; the rest is refused by name and line."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.errors import SandboxError
from modularrsi.sandbox.build_context import Context
from modularrsi.sandbox.dockerfile import BASE_PATH, Copy, Plan, Run, Workdir, read_dockerfile, read_environment
from modularrsi.sandbox.dockerfile_run import Package


def _nothing_installed(name: str) -> None:
    return None


def _read(text: str, folder: Path, packages=_nothing_installed) -> Plan:
    return read_dockerfile(text, folder, packages)


def _argv(plan: Plan) -> list[tuple[str, ...]]:
    return [step.argv for step in plan.steps if isinstance(step, Run)]


def _runs(text: str, folder: Path, packages=_nothing_installed) -> list[str]:
    return [argv[-1] for argv in _argv(_read(text, folder, packages))]


# ----------------------------------------------------------------------------------------------------------------- read


def test_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    text = """\
# syntax=docker/dockerfile:1
ARG TAG=bookworm-slim
FROM docker.io/library/debian:${TAG} AS base
ENV A=1 B="two words" C=$A-x
ENV OLD style  value
WORKDIR /srv
WORKDIR app
COPY a.txt ${A}/
RUN echo one \\
# comment between
    two
CMD ["sleep", "1"]
EXPOSE 80
"""
    plan = _read(text, tmp_path)
    assert plan.base == "docker.io/library/debian:bookworm-slim"
    # Variables of one ENV line do not see each other (Dockerfile reference, "Environment replacement").
    assert plan.env == {"A": "1", "B": "two words", "C": "-x", "OLD": "style  value"}
    assert plan.workdir == "/srv/app"
    copy = next(step for step in plan.steps if isinstance(step, Copy))
    assert (copy.sources, copy.target, copy.into) == (("a.txt",), "/srv/app/1", True)
    run = next(step for step in plan.steps if isinstance(step, Run))
    assert run.argv[:2] == ("/bin/sh", "-c")
    assert run.argv[2].split() == ["echo", "one", "two"]
    assert (run.workdir, run.env["B"]) == ("/srv/app", "two words")
    assert [step.path for step in plan.steps if isinstance(step, Workdir)] == ["/srv", "/srv/app"]
    assert [word for _, word, _ in plan.ignored] == ["CMD", "EXPOSE"]


def test_heredocs(tmp_path: Path) -> None:
    text = """\
FROM debian
ENV NAME=x
RUN <<EOF
echo "$NAME" > /a
  EOF-not-yet
EOF
RUN cat > /b <<'END' && true
$NAME stays
END
COPY <<one <<"two" /folder/
v=$NAME
one
v=$NAME
two
"""
    plan = _read(text, tmp_path)
    assert [argv[2] for argv in _argv(plan)] == [
        'echo "$NAME" > /a\n  EOF-not-yet\n',
        "cat > /b <<'END' && true\n$NAME stays\nEND\n",
    ]
    copy = plan.steps[-1]
    assert isinstance(copy, Copy)
    assert [(doc.name, doc.text) for doc in copy.texts] == [("one", "v=x\n"), ("two", "v=$NAME\n")]


def test_exec_form_and_shell(tmp_path: Path) -> None:
    text = 'FROM debian\nRUN ["touch", "/a b"]\nSHELL ["/bin/bash", "-o", "pipefail", "-c"]\nRUN x | y\n'
    assert _argv(_read(text, tmp_path)) == [("touch", "/a b"), ("/bin/bash", "-o", "pipefail", "-c", "x | y")]


def test_substitution_forms(tmp_path: Path) -> None:
    text = "FROM debian\nARG A=a\nARG E=\nENV X=${A:-d} Y=${E:-d} Z=${A:+set} W=\\$A V='$A' U=${NO}end\n"
    assert _read(text, tmp_path).env == {"X": "a", "Y": "d", "Z": "set", "W": "$A", "V": "$A", "U": "end"}


def test_path_is_extended_from_the_base_images(tmp_path: Path) -> None:
    assert _read("FROM debian\nENV PATH=/app/bin:$PATH\n", tmp_path).env == {"PATH": f"/app/bin:{BASE_PATH}"}
    assert _read("FROM debian\n", tmp_path).env == {}


def test_windows_line_ends_and_no_final_newline(tmp_path: Path) -> None:
    assert _runs("FROM debian\r\nRUN echo hi", tmp_path) == ["echo hi"]


def test_tabs_separate_words_like_blanks(tmp_path: Path) -> None:
    assert _runs("FROM\tdebian\nRUN\techo 'a\tb'", tmp_path) == ["echo 'a\tb'"]


# -------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("FROM node:20", "node:20"),
        ("FROM ghcr.io/x/debian", "ghcr.io/x/debian"),
        ("FROM alpine", "alpine"),
        ("FROM python:2.7", "python:2.7"),
        ("FROM python:3.99", "python:3.99"),
        ("FROM --platform=linux/s390x debian", "--platform"),
        ("FROM debian\nFROM debian", "multi-stage"),
        ("FROM debian\nRUN apt-get update && apt-get install -y nosuch", "nosuch"),
        ("FROM debian\nRUN apk add x", "apk"),
        ("FROM debian\nRUN true && pip install x", "pip"),
        ("FROM debian\nRUN python3 -m pip install x", "-m pip"),
        ("FROM debian\nRUN cd /x; npm ci", "npm"),
        ("FROM debian\nRUN X=1 curl -fsSL http://x | sh", "curl"),
        ("FROM debian\nRUN wget -q http://x || true", "wget"),
        ("FROM debian\nRUN git -C /x clone http://x", "git clone"),
        ("FROM debian\nRUN echo $(curl x)", "curl"),
        ("FROM debian\nRUN if true; then /usr/bin/curl x; fi", "curl"),
        ('FROM debian\nRUN ["pip", "install", "x"]', "pip"),
        ("FROM debian\nRUN <<E\nset -e\nwget x\nE", "wget"),
        ("FROM debian\nRUN --mount=type=cache,target=/x true", "--mount"),
        ("FROM debian\nVOLUME /x", "VOLUME"),
        ("FROM debian\nONBUILD RUN true", "ONBUILD"),
        ("FROM debian\nNONSENSE x", "NONSENSE"),
        ("FROM debian\nUSER app", "USER app"),
        ("FROM debian\nADD http://x/y /y", "network"),
        ("FROM debian\nADD a.tar.gz /y", "unpack"),
        ("FROM debian\nCOPY --from=build /a /b", "--from"),
        ("FROM debian\nCOPY --chown=app a.tar.gz /b", "--chown"),
        ("FROM debian\nCOPY missing /b", "missing"),
        ("FROM debian\nCOPY ../x /b", "outside"),
        ("FROM debian\nCOPY leaving /b", "leaves"),
        ("FROM debian\nENV X=${A%b}", "substitution"),
        ("FROM debian\nRUN <<E\nnever ends", "here-document"),
        ("RUN true", "before FROM"),
        ("# escape=`\nFROM debian", "escape"),
        ("", "no FROM"),
    ],
)
def test_what_it_does_not_know_is_refused_by_name(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"x")
    (tmp_path / "leaving").symlink_to("/etc/passwd")
    with pytest.raises(SandboxError) as refused:
        _read(line, tmp_path)
    assert refused.value.cause == "unsupported"
    assert says in str(refused.value)


def test_the_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="line 4"):
        _read("FROM debian\n\n# x\nVOLUME /x\n", tmp_path)


@pytest.mark.parametrize("command", ["echo pip > /x", "mkdir -p /opt/curl", "git init /x && git -C /x commit -m wget"])
def test_words_that_are_no_commands_are_no_reason(tmp_path: Path, command: str) -> None:
    assert _runs(f"FROM debian\nRUN {command}\n", tmp_path) == [command]


# ------------------------------------------------------------------------------------------------------------ apt proof


def _host(name: str) -> Package | None:
    return {
        "git": Package("1:2.39", ("/etc/bash_completion.d/git-prompt",)),
        "nginx": Package("1.22", ("/etc/nginx/nginx.conf",)),
    }.get(name)


def test_an_installed_package_counts_as_installed(tmp_path: Path) -> None:
    text = """\
FROM debian
RUN apt-get update && apt-get install -y --no-install-recommends git \\
 && rm -rf /var/lib/apt/lists/* && echo made > /x
"""
    assert _runs(text, tmp_path, _host) == ["echo made > /x"]
    assert _runs("FROM debian\nRUN apt-get update && apt-get install -y git=1:2.39\n", tmp_path, _host) == []


@pytest.mark.parametrize(
    "command",
    [
        "apt-get install -y git=1:2.40",
        "apt-get install -y git other",
        "apt-get install -y nginx",
        "apt-get install -y git; true",
        "apt-get upgrade -y",
        "apt-get install --reinstall git",
        "apt-get install -y git || true",
    ],
)
def test_what_is_not_proven_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(SandboxError):
        _runs(f"FROM debian\nRUN {command}\n", tmp_path, _host)


# ---------------------------------------------------------------------------------------------------------- environment


def test_an_environment_without_dockerfile(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="Dockerfile"):
        read_environment(tmp_path, None)
    assert read_environment(tmp_path, "ubuntu:24.04").steps == ()
    with pytest.raises(SandboxError, match="swebench"):
        read_environment(tmp_path, "swebench/x")
    (tmp_path / "docker-compose.yaml").write_text("")
    with pytest.raises(SandboxError, match="docker-compose"):
        read_environment(tmp_path, "ubuntu:24.04")


def test_recorded_tasks_are_plain(shared: Path) -> None:
    folders = sorted((shared / "data/tasks").glob("*/environment"))
    assert folders
    for folder in folders:
        assert read_environment(folder, None).workdir == "/app"


# -------------------------------------------------------------------------------------------------------------- context


def _tree(folder: Path, *names: str) -> Context:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return Context(folder)


def test_globs_stay_within_a_folder(tmp_path: Path) -> None:
    context = _tree(tmp_path, "a.txt", "b.txt", "c.md", "sub/d.txt", "sub/deep/e.txt")
    assert context.matches("*.txt") == ["a.txt", "b.txt"]
    assert context.matches("[ab].txt") == ["a.txt", "b.txt"]
    assert context.matches("sub/?.txt") == ["sub/d.txt"]
    assert context.matches("./a.txt") == ["a.txt"]
    assert context.matches("/a.txt") == ["a.txt"]
    assert context.matches(".") == [""]
    assert [name for _, name in context.files("sub")] == ["d.txt", "deep", "deep/e.txt"]


def test_dockerignore(tmp_path: Path) -> None:
    context = _tree(tmp_path, "a.txt", "keep.log", "b.log", "sub/c.log", "node/x", "node/y/z", ".dockerignore")
    (tmp_path / ".dockerignore").write_text("# comment\n**/*.log\n!keep.log\nnode\n!node/y\n")
    names = {name for _, name in context.files("")}
    assert "keep.log" in names
    assert names.isdisjoint({"b.log", "sub/c.log", "node/x"})
    assert "node/y/z" in names
    assert context.matches("b.log") == []


@given(st.text(string.printable, max_size=300))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        _read("FROM debian\n" + text, folder)
    except SandboxError as error:
        assert error.cause == "unsupported"


@pytest.mark.parametrize("text", ["\\", "\\\n\\\n", "RUN", "RUN \\", "COPY", "ENV", "ENV =", "ARG", "WORKDIR", "USER"])
def test_unfinished_lines(tmp_path: Path, text: str) -> None:
    try:
        _read("FROM debian\n" + text, tmp_path)
    except SandboxError as error:
        assert error.cause == "unsupported"


@pytest.mark.parametrize("source", ["[", "[]", "[z-a]", "a[^"])
def test_a_pattern_that_cannot_be_read_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(SandboxError, match="cannot be read"):
        _read(f'FROM debian\nCOPY "{source}" /x\n', tmp_path)
