"""Every command and program of the documentation is run, in the order of its page, and prints what the page shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.openai_server import OpenAIServer, Reply, Request
from support.pages import PAGES, ROOT, Block, blocks
from support.usable import usable

QUICK = {"README.md", "run-store.md", "troubleshooting.md"}
"""Run by default; the other pages are slow only because they are many."""

URL = "http://127.0.0.1:8000/v1"
_SHOWN = ("evolution_pool", "harness", "tests", "benchmarks")

COUNT = (
    "grep -v '^#' access.log | awk '$9 == 404 {n[$1]++} END {for (a in n) print n[a], a}' "
    "| LC_ALL=C sort -k1,1nr -k2,2 | head -3 > top.txt\n"
)
TURNS = [
    ("A log with comment lines.", "Look at it first.", [("head -3 access.log\n", 0.3)], False),
    ("The fields are clear.", "Count and write.", [(COUNT, 0.6)], True),
    ("It is written.", "Nothing is left to do.", [], True),
]


def solver(request: Request) -> Reply | str:
    """Solves the sample task `access-log`, by how often it has spoken before."""
    said = sum(message["role"] == "assistant" for message in request.body["messages"])
    analysis, plan, commands, complete = TURNS[min(said, len(TURNS) - 1)]
    listed = [{"keystrokes": keys, "duration": seconds} for keys, seconds in commands]
    return json.dumps({"analysis": analysis, "plan": plan, "commands": listed, "task_complete": complete})


@pytest.fixture
def workspace(short_folder: Path) -> Path:
    """A folder that looks like a checkout, in which a reader's files may be made."""
    folder = short_folder / "w"
    folder.mkdir()
    for name in _SHOWN:
        (folder / name).symlink_to(ROOT / name)
    return folder


def parameters() -> Iterator[object]:
    for page in PAGES:
        if any(block.language in ("sh", "console", "python") for block in blocks(page)):
            marks = [] if page.name in QUICK else [pytest.mark.slow]
            yield pytest.param(page, id=page.name, marks=marks)


@pytest.mark.parametrize("page", list(parameters()))
def test_a_page_does_what_it_says(page: Path, workspace: Path) -> None:
    usable("bubblewrap")
    with ExitStack() as stack:
        server = stack.enter_context(OpenAIServer(solver, models=["my-model"]))
        for block in blocks(page):
            if block.file:
                save(block, workspace, server.url)
            elif block.language == "python":
                execute(f"python - <<'PROGRAM'\n{block.text}PROGRAM\n", workspace, block)
            elif block.language in ("sh", "console") and block.runs:
                for command, shown in block.commands:
                    text = command.replace(URL, server.url) if block.scripted else command
                    compare(shown, execute(text, workspace, block), block, server.url)


def save(block: Block, workspace: Path, url: str) -> None:
    file = workspace / block.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text.replace(URL, url))
    if block.language == "python":
        compile(block.text, block.place, "exec")


def execute(command: str, workspace: Path, block: Block) -> str:
    """What it prints. It must succeed, and may not use what happens to be set here."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(workspace),
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
        "PYTHONPATH": str(ROOT),
        "MODULARRSI_SCRATCH": str(workspace.parent),
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command], cwd=workspace, env=environment, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{block.place}: {command}\nended with {done.returncode}:\n{done.stdout}"
    assert "Traceback" not in done.stdout, f"{block.place}:\n{done.stdout}"
    return done.stdout


def compare(shown: list[str], printed: str, block: Block, url: str) -> None:
    """Every line that the page shows is printed; times, token counts and run names may differ, `…` is anything."""
    lines = [" ".join(line.split()) for line in printed.replace(url, URL).splitlines()]
    for line in shown:
        pattern = loosened(" ".join(line.split()))
        assert any(re.fullmatch(pattern, one) for one in lines), f"{block.place}: not printed: {line}\n{printed}"


def loosened(line: str) -> str:
    pattern = re.escape(line).replace("…", ".*")
    pattern = re.sub(r"\d{8}\\-\d{6}\\-[0-9a-f]{6}", r"\\d{8}-\\d{6}-[0-9a-f]{6}", pattern)
    return re.sub(r"\d+(?:\\\.\d+)?(?=\\ (?:s|in|out)\b)", r"\\d+(?:\\.\\d+)?", pattern)


def test_loosening_keeps_what_matters() -> None:
    assert re.fullmatch(loosened("1 a/1 complete 2.3 s"), "1 a/1 complete 11.0 s")
    assert not re.fullmatch(loosened("1 a/1 complete 2.3 s"), "0 a/1 complete 2.3 s")
    assert re.fullmatch(loosened("run: runs/20261130-225923-a50e37"), "run: runs/20270101-000000-ffffff")
    assert not re.fullmatch(loosened("scored 4 of 4, passed 4"), "scored 4 of 4, passed 3")
    assert re.fullmatch(loosened("a … c"), "a b c")


def test_what_is_not_run_says_why() -> None:
    left_out = [block for page in PAGES for block in blocks(page) if not block.runs]
    assert left_out
    for block in left_out:
        assert re.fullmatch(r"no-run: \w.{5,}", block.flags), block.place
