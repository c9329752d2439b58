"""The two agents without a model: the task's own solution, and nobody.

Run before anything is believed: a task whose reference solution does not score 1.0, or where doing nothing scores more
than 0.0, measures nothing (public report: prime-agent#2306).
"""

from __future__ import annotations

from typing import Any

from modularrsi.agents.base import AgentEnd, AgentKind, Assignment
from modularrsi.errors import Failure
from modularrsi.sandbox.base import Sandbox
from modularrsi.tasks.scripts import staged_scripts

_OUTPUT_TAIL = 2_000


class Oracle:
    """Plays `solution/solve.sh` of the task."""

    kind: AgentKind = "oracle"

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind}

    async def act(self, assignment: Assignment, sandbox: Sandbox) -> AgentEnd:
        solution = assignment.solution
        if solution is None or not (solution / "solve.sh").is_file():
            message = f"{assignment.task.name} has no reference solution (solution/solve.sh)"
            return AgentEnd("no_solution", message, Failure("engine", "no_solution", message))
        with staged_scripts(solution) as staged:
            await sandbox.upload_dir(staged, "/solution")
        await sandbox.exec("chmod +x /solution/solve.sh", user="root", timeout_sec=60.0)
        result = await sandbox.exec(
            "/solution/solve.sh",
            env=assignment.solution_env,
            user=assignment.user,
            timeout_sec=assignment.timeout_sec,
        )
        if result.timed_out:
            message = f"the reference solution did not end within {assignment.timeout_sec:.0f} s"
            return AgentEnd("deadline", message, Failure("agent", "deadline", message))
        tail = (result.stdout + result.stderr)[-_OUTPUT_TAIL:].decode("utf-8", "replace")
        return AgentEnd("complete" if result.exit_code == 0 else f"exit {result.exit_code}", tail)


class Nop:
    """Does nothing: what the tests must not reward."""

    kind: AgentKind = "nop"

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind}

    async def act(self, assignment: Assignment, sandbox: Sandbox) -> AgentEnd:
        return AgentEnd("complete")
