"""Files that the task names as protected: kept before the agent starts, put back before its work is judged.

An agent that edits the evaluator's inputs (a fixture, a lock file, a test helper) would otherwise be scored by its own
edits (public reports: ARIES#55, automaton#365). The folders on the way are put back as well: an agent that leaves a
file or a link in the place of one would otherwise have its work not scored, which is better for it than a zero.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import Sandbox

_MAX_BYTES = 256 * 1024 * 1024
_SECONDS = 120.0


class Protected:
    """The content of the protected paths as it was before the agent. `keep` it, then `restore` it."""

    def __init__(self, sandbox: Sandbox, paths: Sequence[str]) -> None:
        self._sandbox, self._paths = sandbox, tuple(paths)
        self._archive = b""
        self._way: dict[str, str] = {}
        """The folders above the protected paths, the topmost first: where a link pointed to, "" for a real folder."""

    async def keep(self) -> None:
        """Raises SandboxError when a protected path is missing or cannot be kept whole."""
        if not self._paths:
            return
        names = " ".join(shlex.quote(path.lstrip("/")) for path in self._paths)
        kept = await self._sandbox.exec(
            f"tar -C / -cf - -- {names}", cwd="/", user="root", timeout_sec=_SECONDS, output_limit=_MAX_BYTES
        )
        if kept.exit_code != 0 or kept.truncated:
            why = kept.stderr.decode("utf-8", "replace").strip()[-300:] or "too large"
            raise SandboxError(f"the protected paths {self._paths} cannot be kept: {why}", "upload_failed")
        self._archive = kept.stdout
        above = {str(folder) for path in self._paths for folder in PurePosixPath(path).parents} - {"/"}
        self._way = {folder: await self._link(folder) for folder in sorted(above)}

    async def restore(self) -> None:
        """Remove whatever is at the protected paths now and unpack what was kept."""
        if not self._paths:
            return
        names = " ".join(shlex.quote("/" + path.lstrip("/")) for path in self._paths)
        script = " && ".join([*(_mended(folder, link) for folder, link in self._way.items()), f"rm -rf -- {names}"])
        done = await self._sandbox.exec(
            f"{script} && tar -C / -xpf -", cwd="/", user="root", timeout_sec=_SECONDS, stdin=self._archive
        )
        if done.exit_code != 0:
            why = done.stderr.decode("utf-8", "replace").strip()[-300:]
            raise SandboxError(f"the protected paths {self._paths} cannot be put back: {why}", "upload_failed")

    async def _link(self, path: str) -> str:
        found = await self._sandbox.exec(f"readlink -- {shlex.quote(path)}", cwd="/", user="root", timeout_sec=_SECONDS)
        return found.stdout.decode("utf-8", "surrogateescape").removesuffix("\n") if found.exit_code == 0 else ""


def _mended(folder: str, link: str) -> str:
    """The shell command that makes `folder` what it was, if it is not."""
    name, points = shlex.quote(folder), shlex.quote(link)
    if link:
        return f'{{ [ "$(readlink -- {name})" = {points} ] || {{ rm -rf -- {name} && ln -s -- {points} {name}; }}; }}'
    return f"{{ [ -d {name} ] && [ ! -L {name} ] || {{ rm -rf -- {name} && mkdir -- {name}; }}; }}"
