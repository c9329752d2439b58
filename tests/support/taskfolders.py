"""Task folders for tests, written on the spot."""

from __future__ import annotations

from pathlib import Path

TEST_SH = "#!/bin/bash\nmkdir -p /logs/verifier\necho 1 > /logs/verifier/reward.txt\n"


def write_task(
    folder: Path, toml: str = 'schema_version = "1.4"\n', instruction: str = "Do it.\n",
    files: dict[str, str] | None = None,
) -> Path:
    """A whole task at `folder`; `files` are written over it ("" removes one), by relative path, bytes as given."""
    content = {
        "task.toml": toml,
        "instruction.md": instruction,
        "environment/Dockerfile": "FROM debian:bookworm-slim\n",
        "tests/test.sh": TEST_SH,
        "solution/solve.sh": "#!/bin/bash\ntrue\n",
    } | (files or {})
    for name, text in content.items():
        if text:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
    return folder
