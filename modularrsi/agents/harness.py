"""The agent under test: a composed harness in a caged worker, its terminal in the task's sandbox."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness import types
from modularrsi.agents.base import AgentEnd, AgentKind, Assignment
from modularrsi.cage.base import Cage, CageLimits
from modularrsi.cage.worker import Worker, start_message
from modularrsi.errors import Failure, SandboxError
from modularrsi.gateway.gateway import Gateway
from modularrsi.recorder.recorder import Recorder
from modularrsi.redact import Redactor
from modularrsi.sandbox.base import Sandbox
from modularrsi.session.model import ModelPort
from modularrsi.session.serve import Session, SessionEnd
from modularrsi.session.tools import ToolPort
from modularrsi.terminal.tmux import TmuxTerminal


@dataclass(frozen=True, slots=True)
class HarnessUnderTest:
    """Which harness: a library tree, its digest, and what of it is active (None = the library's own default)."""

    library: Path
    digest: str
    composition: dict[str, Any] | None = None


class HarnessAgent:
    """Runs one `HarnessUnderTest` against the solver role of a gateway."""

    kind: AgentKind = "harness"

    def __init__(
        self, harness: HarnessUnderTest, gateway: Gateway, cage: Cage, limits: types.Limits, redactor: Redactor,
        cage_limits: CageLimits | None = None,
    ) -> None:
        self._harness, self._gateway, self._cage = harness, gateway, cage
        self._limits, self._redactor = limits, redactor
        self._cage_limits = cage_limits or CageLimits()

    def describe(self) -> dict[str, Any]:
        return self.description(self._harness, self._limits, self._cage)

    @classmethod
    def description(cls, harness: HarnessUnderTest, limits: types.Limits, cage: Cage) -> dict[str, Any]:
        """What the contract says of it; known before there is a gateway."""
        return {
            "kind": cls.kind,
            "library": harness.digest,
            "composition": harness.composition,
            "limits": asdict(limits),
            "cage": cage.kind,
            "isolation": cage.isolation,
        }

    async def act(self, assignment: Assignment, sandbox: Sandbox) -> AgentEnd:
        recorder = self._recorder(assignment)
        terminal = TmuxTerminal(
            lambda: sandbox.terminal_command(assignment.user),
            folder=assignment.folder,
            name=f"t{assignment.number}",
            foreground=sandbox.foreground,
        )
        model = ModelPort(self._gateway, assignment.scope, recorder, self._limits)
        try:
            await terminal.start()
            end = await self._serve(assignment, sandbox, terminal, model, recorder)
        except SandboxError as error:
            end = SessionEnd("sandbox_failed", str(error), Failure("sandbox", error.cause, str(error)))
        finally:
            await terminal.stop()
        return AgentEnd(
            end.ending, end.detail, end.failure,
            trajectory=recorder.finish(end.ending),
            turns=model.turns,
            usage=recorder.totals(),
            stop_run=model.stop_run,
        )

    async def _serve(
        self, assignment: Assignment, sandbox: Sandbox, terminal: TmuxTerminal, model: ModelPort, recorder: Recorder
    ) -> SessionEnd:
        tools = ToolPort(terminal, sandbox, recorder, self._limits, assignment.user)
        # Named by the private folder, run and rollout: the scope is the same in another run of the same tasks at the
        # same time, and a shared control group would let one run's end kill the other's worker.
        name = f"{assignment.folder.parent.name}-{assignment.folder.name}-{assignment.number}"
        async with Worker(self._cage, self._harness.library, self._cage_limits, name) as worker:
            session = Session(worker, model, tools, recorder)
            return await session.serve(self._start(assignment, sandbox), assignment.timeout_sec)

    def _start(self, assignment: Assignment, sandbox: Sandbox) -> dict[str, Any]:
        task = types.Task(
            instruction=assignment.instruction,
            workdir=sandbox.workdir,
            skills=assignment.task.skills,
            mcp_servers=assignment.task.mcp_servers,
        )
        limits = replace(
            self._limits,
            context_tokens=self._gateway.context_tokens("solver"),
            output_tokens=self._gateway.output_tokens("solver"),
        )
        library = self._cage.library_path(self._harness.library)
        return start_message(asdict(task), asdict(limits), library, self._harness.composition)

    def _recorder(self, assignment: Assignment) -> Recorder:
        return Recorder(
            assignment.folder / "trajectory.part.jsonl",
            session_id=assignment.scope,
            agent_name="modularrsi-harness",
            agent_version=self._harness.digest[:12],
            model_name=self._gateway.model_name("solver"),
            redact=self._redactor.text,
            extra={"simulated": True} if self._gateway.simulated("solver") else None,
        )
