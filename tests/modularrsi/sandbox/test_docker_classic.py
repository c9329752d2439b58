"""BuildKit's Dockerfiles for the classic builder: the same image, or a refusal that names the line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.docker_engine import FULL, TINY, docker_engine, dockerfile, sandbox, spec  # noqa: F401

from modularrsi.errors import SandboxError
from modularrsi.sandbox.docker_classic import stage
from modularrsi.sandbox.docker_client import Engine
from modularrsi.sandbox.docker_image import image_tag


def staged(tmp_path: Path, *lines: str) -> str:
    stage(dockerfile(tmp_path, *lines), tmp_path / "staged")
    return (tmp_path / "staged" / "Dockerfile").read_text()


def test_what_needs_no_change_is_kept_to_the_letter(tmp_path: Path) -> None:
    lines = ["FROM debian AS base", "# a comment", "RUN printf 'a\tb' && \\", "    # inside", "    true", 'CMD ["x"]',
             "COPY --from=base --chown=1:2 /a /b"]  # fmt: skip
    assert staged(tmp_path, "# syntax=docker/dockerfile:1", *lines).strip() == "\n".join(lines)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("RUN --mount=type=secret,id=x true", "secret"), ("RUN --mount=target=/x true", "mount"),
        ("RUN --network=host true", "network"), ("COPY --chmod=u+x Dockerfile /x", "chmod"),
        ("COPY --chmod=755 missing /x", "missing"), ("COPY --chmod=755 ../up /x", "up"),
        ("COPY --from=base --chmod=755 /a /b", "from"), ("ADD --chmod=755 Dockerfile /x", "ADD"),
        ("COPY --parents a /x", "parents"), ("COPY <<E /x\n$HOME\nE", "variables"), ("RUN <<E\n#!/bin/x\nE", "#!"),
        ("RUN <<E\nendless", "does not end"),
    ],
)  # fmt: skip
def test_what_only_buildkit_can_do_is_refused_by_line(tmp_path: Path, line: str, word: str) -> None:
    with pytest.raises(SandboxError, match=r"line 3.*buildx") as caught:
        staged(tmp_path, "FROM debian", "RUN true", line)
    assert word in str(caught.value)
    assert caught.value.cause == "unsupported"
    assert "docker sandbox" not in str(caught.value)


def test_the_task_folder_is_not_touched(tmp_path: Path) -> None:
    staged(tmp_path, "FROM debian", "COPY --chmod=700 Dockerfile /x")
    assert sorted(path.name for path in (tmp_path / "environment").iterdir()) == ["Dockerfile"]


@pytest.mark.docker
@pytest.mark.parametrize("image", [TINY, FULL])
def test_the_image_is_what_buildkit_would_make(
    tmp_path: Path, docker_engine: Engine, image: str, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    monkeypatch.setattr("modularrsi.sandbox.docker_image._buildkit_client", lambda: None)
    folder = dockerfile(
        tmp_path, "# syntax=docker/dockerfile:1", f"FROM {image}", "ENV NAME=value", "WORKDIR /work",
        "RUN --mount=type=cache,target=/c --mount=type=tmpfs,target=/t mkdir /made",
        "RUN <<EOF", "x=\"in shell: $NAME\"", "echo \"$x\" > one", "printf '%s\\n' 'q\\n' >> one", "EOF",
        "RUN cat <<'A' > two && cat <<-B >> two", "kept $NAME", "A", "\ttabs gone $NAME", "B",
        "COPY <<'E' /three", "literal $NAME", "E",
        "COPY --link --chmod=0751 --chown=7:8 tool sub other* 'name with blank' /placed/",
        "COPY --chmod=640 tool renamed", "USER 1000", "COPY --chmod=600 tool /as-user",
    )  # fmt: skip
    for name in ("tool", "other1", "other2", "name with blank"):
        (folder / name).write_text(f"{name}\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "inner").write_text("inner\n")
    (folder / ".dockerignore").write_text("*\n!tool\n!sub\n!other*\n!name*\n")

    async def go() -> None:
        async with sandbox(tmp_path, None) as box:
            assert (await box.read_file("/work/one", user=0)).decode() == "in shell: value\nq\\n\n"
            assert (await box.read_file("/work/two", user=0)).decode() == "kept $NAME\ntabs gone value\n"
            assert (await box.read_file("/three")).decode() == "literal $NAME\n"
            show = "cd /placed && stat -c '%n %a %u:%g' * /work/renamed /as-user"
            assert (await box.exec(show, user=0)).stdout.decode().splitlines() == [
                "inner 751 7:8", "name with blank 751 7:8", "other1 751 7:8", "other2 751 7:8", "tool 751 7:8",
                "/work/renamed 640 0:0", "/as-user 600 0:0",
            ]  # fmt: skip
            assert (await box.exec("ls -d /made /c")).stdout == b"/made\n"

    asyncio.run(go())
    docker_engine.client.images.remove(image_tag(spec(tmp_path, None)), force=True)
