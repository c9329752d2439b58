"""The seed's looking, cleaning and cutting, with scripts and with a real terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.terminals import idle, needs_tmux, terminal, written

from harness.modules.observation.capture.incremental import incremental
from harness.modules.observation.limit.head_and_tail import head_and_tail
from harness.modules.observation.refine.clean_controls import clean_controls
from harness.modules.tools.route.keystrokes import keystrokes
from harness.scripted import Effect, ScriptedContext, make_context
from harness.types import Command, Key, Limits, Reply, Snapshot, Turn
from modularrsi.terminal.tmux import TmuxTerminal


def after(*effects: Effect | str) -> ScriptedContext:
    """A context whose terminal has been looked at once and then had these effects."""
    ctx = make_context(terminal=effects)
    incremental(ctx)
    for _ in effects:
        ctx.terminal.send(["x\n"])
    return ctx


def test_new_output_has_its_own_heading() -> None:
    assert incremental(after("ls\nfile\n$ ")).text == "New Terminal Output:\nls\nfile\n$ "


def test_the_screen_is_shown_when_there_is_nothing_new_or_nothing_to_compare() -> None:
    assert incremental(after("")).text == "Current Terminal Screen:\n$ "
    assert incremental(after(Effect("top\n$ ", clear=True))).text == "Current Terminal Screen:\ntop\n$ "


def test_a_new_session_and_an_open_quote_are_told() -> None:
    lines = incremental(after(Effect("$ ", recreated=True))).text.split("\n")
    assert "started anew" in lines[0]
    assert lines[1:] == ["Current Terminal Screen:", "$ "]
    lines = incremental(after(Effect("echo 'a\n> ", waiting=True))).text.split("\n")
    assert lines[:3] == ["New Terminal Output:", "echo 'a", "> "]
    assert "waiting for the rest" in lines[3]


def test_a_new_session_is_told_once() -> None:
    ctx = after(Effect("$ ", recreated=True))
    assert "started anew" in incremental(ctx).text
    assert "started anew" not in incremental(ctx).text


def test_controls_are_cleaned_on_the_way_to_the_agent() -> None:
    ctx = make_context(incremental, clean_controls, head_and_tail, terminal=["\x1b[31m10%\r100%\x1b[0m\n$ "])
    ctx.run.first_prompt()
    ctx.terminal.send(["x\n"])
    observed = ctx.run.observe(Turn(1, "proposed", "p", Reply()))
    assert observed.observation == "New Terminal Output:\n100%\n$ "


def test_the_gap_is_told_once_and_truly() -> None:
    ctx = make_context(incremental, clean_controls, head_and_tail, terminal=["x" * 40_000])
    ctx.run.first_prompt()
    ctx.terminal.send(["x\n"])
    observed = ctx.run.observe(Turn(1, "proposed", "p", Reply())).observation
    whole = len("New Terminal Output:\n") + 40_000
    assert observed.count("bytes left out") == 1
    assert f"{whole - 10_000} bytes left out" in observed
    assert observed.startswith("New Terminal Output:\nxxx")
    assert observed.endswith("xxx")


@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers(0, 60))
def test_any_text_is_cut_to_its_bytes(text: str, limit: int) -> None:
    shown = head_and_tail(text, make_context(limits=Limits(observation_bytes=limit)))
    if "bytes left out" in shown:
        head, _, rest = shown.partition("\n[... ")
        shown = head + rest.partition(" ...]\n")[2]
    assert len(shown.encode()) <= limit


# ------------------------------------------------------------------------------------------------------ a real terminal


class Bridge:
    """The engine's asynchronous terminal, for functions that run in another thread."""

    def __init__(self, made: TmuxTerminal, loop: asyncio.AbstractEventLoop) -> None:
        self._made, self._loop = made, loop

    def send(self, keys: Sequence[str | Key], wait: float = 0.0) -> bool:
        return self._wait(self._made.send(keys, wait))

    def read(self, scope: Literal["screen", "scrollback", "new"] = "new") -> Snapshot:
        return self._wait(self._made.read(scope))

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


def with_terminal(folder: Path, work: Callable[[ScriptedContext, TmuxTerminal], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with terminal(folder) as made:
            ctx = make_context()
            ctx.terminal = Bridge(made, asyncio.get_running_loop())
            await idle(made)
            await asyncio.to_thread(incremental, ctx)
            await work(ctx, made)

    asyncio.run(run())


@needs_tmux
@pytest.mark.parametrize(
    "content",
    [
        "Up\n",
        "\tif x:\n\t\tprint('!x', \"$HOME\", `y`, \\n) ;\n\nlast line ;\n",
        "naïve 日本語 😀\n",
        "x" * 6_000 + "\n",
    ],
    ids=["key name", "code", "wide", "long line"],
)
def test_heredocs_arrive_byte_for_byte(tmp_path: Path, content: str) -> None:
    target = tmp_path / "out.txt"

    async def work(ctx: ScriptedContext, made: TmuxTerminal) -> None:
        typed = f"cat > {target} <<'EOF'\n{content}EOF\n"
        assert not (await asyncio.to_thread(keystrokes, Command(typed, 0.1), ctx)).error
        assert await written(target, content.encode()) == content.encode()

    with_terminal(tmp_path, work)


@needs_tmux
@pytest.mark.parametrize("interrupt", ["C-c", "\x03", "^C"])
def test_an_interrupt_ends_a_program_and_the_agent_sees_it(tmp_path: Path, interrupt: str) -> None:
    async def work(ctx: ScriptedContext, made: TmuxTerminal) -> None:
        await asyncio.to_thread(keystrokes, Command("sleep 600\n", 0.5), ctx)
        await asyncio.to_thread(keystrokes, Command(interrupt, 0.1), ctx)
        await idle(made)
        await asyncio.to_thread(keystrokes, Command("echo done-$((6*7))\n", 0.1), ctx)
        await idle(made)
        text = (await asyncio.to_thread(incremental, ctx)).text
        assert text.startswith("New Terminal Output:\n$ sleep 600")
        assert "done-42" in text

    with_terminal(tmp_path, work)


@needs_tmux
def test_an_open_quote_is_told_by_a_real_shell(tmp_path: Path) -> None:
    async def work(ctx: ScriptedContext, made: TmuxTerminal) -> None:
        await asyncio.to_thread(keystrokes, Command("echo 'open\n", 0.5), ctx)
        assert "waiting for the rest" in (await asyncio.to_thread(incremental, ctx)).text
        await asyncio.to_thread(keystrokes, Command("C-c", 0.5), ctx)
        await idle(made)
        assert "waiting for the rest" not in (await asyncio.to_thread(incremental, ctx)).text

    with_terminal(tmp_path, work)
