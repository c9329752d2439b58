"""A tiny engine for tests: starts a real worker process and answers its lines from the fakes."""

from __future__ import annotations

import base64
import dataclasses
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import wire
from harness.errors import EngineRefusal, ReplyTruncated
from harness.scripted import ScriptedModel, ScriptedSandbox, ScriptedTerminal
from harness.types import Key, Message

ROOT = Path(__file__).resolve().parents[2]
BOOT = "import sys; sys.path.insert(0, {root!r}); from harness.worker import main; sys.exit(main())"


class FakeEngine:
    """`run` serves one worker until it exits. Afterwards: `lines` (all it said), `done`, `code`, `stderr`."""

    def __init__(self, model: ScriptedModel, terminal: ScriptedTerminal, sandbox: ScriptedSandbox) -> None:
        self.model, self.terminal, self.sandbox = model, terminal, sandbox
        self.lines: list[dict[str, Any]] = []
        self.done: dict[str, Any] | None = None
        self.code: int | None = None
        self.stderr = ""

    def run(self, start: dict[str, Any], hang_up_after: int | None = None) -> FakeEngine:
        command = [sys.executable, "-I", "-S", "-c", BOOT.format(root=str(ROOT))]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": os.defpath}
        ) as worker:
            assert worker.stdin and worker.stdout and worker.stderr
            worker.stdin.write(wire.encode(start))
            worker.stdin.flush()
            for line in worker.stdout:
                message = wire.decode(line)
                self.lines.append(message)
                number, method, params = wire.check_request(message)
                if number is not None:
                    if len(self.lines) == hang_up_after:
                        worker.stdin.close()
                        continue
                    worker.stdin.write(wire.encode({"id": number, **self._answer(method, params)}))
                    worker.stdin.flush()
                elif method == "done":
                    self.done = params
            self.stderr = worker.stderr.read().decode()
            self.code = worker.wait(10)
        return self

    @property
    def trace(self) -> list[dict[str, Any]]:
        logs = [line["params"] for line in self.lines if line["method"] == "log"]
        return [call for entry in logs for call in entry.get("calls", [])]

    def _answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {"ok": getattr(self, f"_{method.replace('.', '_')}")(**params)}
        except EngineRefusal as error:
            extra = {"text": error.text} if isinstance(error, ReplyTruncated) else {}
            return {"error": {"kind": error.kind, "message": error.message, **extra}}

    def _model_complete(self, messages: list[dict[str, str]], purpose: str) -> dict[str, Any]:
        return dataclasses.asdict(self.model.complete([Message(**m) for m in messages], purpose))  # type: ignore[arg-type]

    def _terminal_send(self, keys: list[dict[str, str]], wait: float) -> dict[str, Any]:
        return {"recreated": self.terminal.send([Key(k["key"]) if "key" in k else k["text"] for k in keys], wait)}

    def _terminal_read(self, scope: str) -> dict[str, Any]:
        return dataclasses.asdict(self.terminal.read(scope))  # type: ignore[arg-type]

    def _sandbox_exec(self, command: str, cwd: str, timeout: float, stdin: str) -> dict[str, Any]:
        return dataclasses.asdict(self.sandbox.exec(command, cwd=cwd, timeout=timeout, stdin=stdin))

    def _sandbox_read_file(self, path: str, max_bytes: int) -> dict[str, Any]:
        return {"data": base64.b64encode(self.sandbox.read_file(path, max_bytes)).decode(), "truncated": False}

    def _sandbox_write_file(self, path: str, data: str, append: bool) -> dict[str, Any]:
        return {"size": self.sandbox.write_file(path, base64.b64decode(data), append)}


def start_line(library: Path, composition: object = None, **fields: Any) -> dict[str, Any]:
    """A start message for `library`."""
    return {
        "type": "start",
        "protocol": wire.PROTOCOL,
        "task": {"instruction": "Say hello.", "workdir": "/app", "skills": [], "mcp_servers": []},
        "limits": {"max_turns": 10},
        "library": str(library),
        "composition": composition,
        **fields,
    }
