"""Shared fixtures. `tests/` is importable, so that tests say `from support import …`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _no_ambient_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may reach a paid service by way of the developer's environment."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name in {"OPENAI_BASE_URL", "OPENAI_API_BASE"}:
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of acceptance cases and recorded data, where it exists."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the shared acceptance cases are not here")
    return folder


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A temporary folder whose path is short enough for sockets below it."""
    with tempfile.TemporaryDirectory(prefix="mr-", dir="/tmp") as name:
        yield Path(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one Docker Engine share its networks and its reaper: with several processes they run in one of them."""
    for item in items:
        if item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.xdist_group("docker"))
