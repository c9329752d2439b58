"""Cages for tests: each that works on this machine, and programs that run inside one as a library's code would."""

from __future__ import annotations

import json
import subprocess
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from modularrsi.cage.base import READY, Cage, CageLimits, CageSpec
from modularrsi.cage.choose import CAGES
from modularrsi.cage.docker import ENGINE_LABEL, IMAGE_VARIABLE, this_engine
from modularrsi.relay.engine import Engine
from modularrsi.sandbox.docker_client import engine_url
from support.docker_engine import FULL

KINDS = ["bubblewrap", pytest.param("docker", marks=pytest.mark.docker), "landlock"]
LIMITS = CageLimits(memory_bytes=256 * 1024 * 1024)

_PRELUDE = """
import json, os, sys
answers = {}
def attempt(name, function):
    try: answers[name] = "ok " + repr(function())[:200]
    except BaseException as error: answers[name] = type(error).__name__
"""


def usable_cage(kind: str, monkeypatch: pytest.MonkeyPatch) -> Cage:
    """The cage called `kind`; skips with its reason where it does not work. Containers use the tests' own image."""
    monkeypatch.setenv(IMAGE_VARIABLE, FULL)
    cage = next(cage for cage in CAGES if cage.kind == kind)
    found = cage.available()
    if not found.usable:
        pytest.skip(f"{kind}: {found.detail}; {found.fix}")
    return cage


def attempts(cage: Cage, library: Path, code: str, limits: CageLimits = LIMITS) -> dict[str, str]:
    """Run attempts inside. `code` calls `attempt(name, function)`; the answers come back by name: "ok …", or the type
    of the error."""
    program = _PRELUDE + textwrap.dedent(code) + "\nprint(json.dumps(answers))\n"
    done = subprocess.run(
        cage.argv(CageSpec("attempts", library, limits, program)), capture_output=True, text=True, timeout=60,
        check=False, env={"SECRET_API_KEY": "sk-canary"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(READY)
    return json.loads(done.stdout.splitlines()[-1])


@dataclass
class Running:
    """A cage whose workers run `program` instead of the harness."""

    cage: Cage
    program: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cage, name)

    def argv(self, spec: CageSpec) -> list[str]:
        return self.cage.argv(replace(spec, program=self.program))


def containers(name: str) -> list[str]:
    """Ids of the containers, running or not, of the worker called `name`."""
    return _labelled(f"modularrsi.cage={name}")


def own_containers() -> list[str]:
    """Those of any worker of this process."""
    return _labelled(f"{ENGINE_LABEL}={this_engine()}")


def _labelled(label: str) -> list[str]:
    filters = quote(json.dumps({"label": [label]}))
    return [one["Id"] for one in Engine(engine_url()).ask("GET", f"/containers/json?all=1&filters={filters}")]
