"""The frozen data that passes between functions, kernel and engine.

Data only: no behaviour beyond trivial derived properties. Durations are seconds (float), sizes are bytes unless a
name says otherwise, text is `str` without lone surrogates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from harness.record import record

Role = Literal["system", "user", "assistant"]

# ---------------------------------------------------------------------------------------------------------- the task


@record
class Skill:
    """One skill offered by the task: a `SKILL.md` with a name and a description (Harbor task format)."""

    name: str
    description: str
    location: str


@record
class McpServer:
    """One MCP server of the task. `transport` is "stdio", "sse" or "streamable-http"."""

    name: str
    transport: str
    url: str = ""
    command: str = ""
    args: tuple[str, ...] = ()


@record
class Task:
    """What an agent may know of a task: never its tests, its solution or its reward."""

    instruction: str
    workdir: str = ""
    skills: tuple[Skill, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()


@record
class Limits:
    """What the engine allows. The worker reads them; the engine enforces them."""

    max_turns: int = 1_000_000
    max_wait: float = 60.0
    observation_bytes: int = 10_000
    context_tokens: int = 1_000_000
    output_tokens: int | None = None
    summarize: bool = True
    summarize_below_tokens: int = 8_000
    unwind_until_tokens: int = 4_000


# --------------------------------------------------------------------------------------------------- talking to models


@record
class Message:
    role: Role
    content: str


@record
class Usage:
    """Tokens of one reply as the service counted them; None = not reported."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@record
class Completion:
    """One reply of the model."""

    text: str
    reasoning: str = ""
    usage: Usage = Usage()


@record
class Command:
    """One parsed command of a reply: keystrokes to send, and how long to wait for their effect.

    `duration` is finite and within [0, Limits.max_wait] after `harness.parsing.clamp_duration`.
    """

    keystrokes: str
    duration: float = 1.0


@record
class Reply:
    """What a grammar understood of a reply. `error` set: nothing may be executed."""

    commands: tuple[Command, ...] = ()
    complete: bool = False
    error: str = ""
    warnings: tuple[str, ...] = ()
    analysis: str = ""
    plan: str = ""
    raw: str = ""


@record
class Grammar:
    """How the agent is taught to reply and how its replies are read (`tools/grammar`).

    `prompt` teaches the format; `parse` reads a reply and never raises; `salvage` gets the text of a truncated reply
    and returns a text that `parse` accepts in full, or None; `confirm` says how to declare the task complete once
    more; `noun` names a reply in feedback ("JSON response").
    """

    name: str
    prompt: str
    parse: Callable[[str], Reply]
    confirm: str
    noun: str = "response"
    salvage: Callable[[str], str | None] | None = None


# ------------------------------------------------------------------------------------------------ terminal and sandbox


@record
class Key:
    """A named key (tmux name: `C-c`, `Enter`, `Up` …) as opposed to literal text."""

    name: str


@record
class Snapshot:
    """One reading of the terminal.

    `text`       what was asked for: the visible screen, the whole scrollback, or what is new since the last "new"
                 reading. Lines that the terminal wrapped come back joined; trailing blanks are dropped.
    `complete`   False when scope "new" could not be told apart (screen cleared, history overflowed): `text` is then
                 the visible screen.
    `alternate`  a full-screen program (pager, editor) holds the screen.
    `busy`       True: a program runs in the foreground; False: the shell waits; None: cannot be told.
    `waiting`    the shell waits for the rest of a quote or a heredoc.
    `recreated`  the session had died since the last reading and was started anew.
    """

    text: str
    scope: Literal["screen", "scrollback", "new"] = "screen"
    complete: bool = True
    alternate: bool = False
    busy: bool | None = None
    waiting: bool = False
    recreated: bool = False
    total_lines: int = 0


@record
class Executed:
    """The outcome of `sandbox.exec`. `exit_code` is None when the command ran into its time limit."""

    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    truncated: bool = False


# ----------------------------------------------------------------------------------------------------- turns, verdicts


@record
class Routed:
    """What became of one command (`tools/route`): `helper` is the command function that ran it, "" for keystrokes;
    `output` is what a helper answered ("" for keystrokes: their effect is on the screen)."""

    command: Command
    helper: str = ""
    output: str = ""
    error: str = ""


@record
class Turn:
    """One turn of the agent.

    `stage` is "proposed" (the reply is read, nothing has run) or "observed" (its commands ran, `observation` is what
    the agent will be shown).
    """

    number: int
    stage: Literal["proposed", "observed"]
    prompt: str
    reply: Reply
    routed: tuple[Routed, ...] = ()
    held: tuple[int, ...] = ()
    observation: str = ""
    snapshot: Snapshot | None = None


@record
class Guidance:
    """What a guard adds: `feedback` goes before the next prompt; `hold` are indexes of commands not to run (stage
    "proposed" only); `reopen` are requirements that are not met: a completion claim of this turn does not count."""

    feedback: str = ""
    hold: tuple[int, ...] = ()
    reopen: tuple[str, ...] = ()


@record
class Fault:
    """Why a reply could not be used. `kind`: "unreadable" (the grammar's error is in `reply`), "truncated" (`text`
    holds what arrived), "overflow" (the prompt does not fit, whatever `fit` made of it), "unavailable" (the service
    failed). `streak` counts faults in a row, this one included."""

    kind: Literal["unreadable", "truncated", "overflow", "unavailable"]
    message: str
    prompt: str
    text: str = ""
    reply: Reply | None = None
    streak: int = 1


@record
class Recovery:
    """What to do after a fault: exactly one of `prompt` (ask again with this), `reply` (use this text as the reply)
    and `stop` (end the run, with a reason). `keep_reply`: the faulty reply stays in the history."""

    prompt: str = ""
    reply: str = ""
    stop: str = ""
    keep_reply: bool = True


@record
class Pending:
    """The prompt about to be sent, for `context/fit`. `overflow`: the model has just refused it as too long."""

    prompt: str
    overflow: bool = False


@record
class Advice:
    """One completion check's advice. `stop` None = no opinion."""

    stop: bool | None
    reason: str = ""


@record
class Decision:
    """The folded recommendation. `prompt`: what the agent is told after its observation ("" = nothing)."""

    stop: bool
    reason: str = ""
    prompt: str = ""


@record
class Ending:
    """Why `drive` stopped: "complete", "max_turns", "stopped", "faults", "session_lost" or a word of its own."""

    reason: str
    detail: str = ""


@record
class CommandCall:
    """A call of a helper command: `head` is the rest of its first line, `body` the lines after it, byte for byte."""

    name: str
    head: str = ""
    body: str = ""


# ------------------------------------------------------------------------------------------------------------- tracing


@record
class TraceCall:
    """One call through a point: which function, in which turn, how long (milliseconds), and a short outcome."""

    turn: int
    module: str
    point: str
    function: str
    milliseconds: float
    outcome: str = ""


@dataclass(slots=True)
class State:
    """What a rollout remembers. Owned by the kernel, readable by every function; `history` is rewritten by `fit`
    only, `turns` and `number` by the kernel only."""

    history: list[Message] = field(default_factory=list[Message])
    turns: list[Turn] = field(default_factory=list[Turn])
    number: int = 0
    pending_completion: bool = False
    faults_in_a_row: int = 0
    last_usage: Usage = field(default_factory=Usage)
