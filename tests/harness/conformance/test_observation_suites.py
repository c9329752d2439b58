"""The seed conforms, candidates of another style do too, and each kind of broken candidate is refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.conformance import failures

from harness.context import Context
from harness.errors import EngineRefusal
from harness.modules.observation.capture.incremental import incremental
from harness.modules.observation.limit.head_and_tail import head_and_tail
from harness.modules.observation.refine.clean_controls import clean_controls
from harness.registry import function
from harness.text import clean_text, replace_surrogates
from harness.types import Snapshot

capture = function(module="observation", point="capture", describes="test")
refine = function(module="observation", point="refine", describes="test")
limit = function(module="observation", point="limit", describes="test")


# ------------------------------------------------------------------------------------------------------ other styles


@capture
def whole_scrollback(ctx: Context) -> Snapshot:
    seen = ctx.terminal.read("scrollback")
    state = "busy" if seen.busy else "waiting for input" if seen.waiting else "idle"
    fresh = "a new session, " if seen.recreated else ""
    return dataclasses.replace(seen, text=f"{seen.text}\n[terminal: {fresh}{state}]")


@refine
def with_a_line_count(text: str, ctx: Context) -> str:
    return f"{clean_text(text)}\n[{len(text.splitlines())} lines]"


@limit
def tail_with_lines(text: str, ctx: Context) -> str:
    most = ctx.limits.observation_bytes
    data = replace_surrogates(text).encode()
    if len(data) <= most:
        return data.decode()
    kept = data[len(data) - most :].decode("utf-8", "ignore")
    return f"[{len(data) - len(kept.encode()):,} bytes before this were left out]\n{kept}"


@pytest.mark.parametrize(
    "fn", [incremental, clean_controls, head_and_tail, whole_scrollback, with_a_line_count, tail_with_lines]
)
def test_the_seed_and_other_styles_conform(fn: Callable[..., Any]) -> None:
    assert failures(fn) == {}


# -------------------------------------------------------------------------------------------------- broken candidates


@capture
def screen_only(ctx: Context) -> Snapshot:
    return ctx.terminal.read("screen")


@capture
def news_only(ctx: Context) -> Snapshot:
    return ctx.terminal.read("new")


@capture
def first_look_for_ever(ctx: Context) -> Snapshot:
    return ctx.memo.setdefault("seen", incremental(ctx))


@capture
def forgets_the_flags(ctx: Context) -> Snapshot:
    return Snapshot(incremental(ctx).text)


@capture
def presses_enter(ctx: Context) -> Snapshot:
    ctx.terminal.send(["\n"])
    return incremental(ctx)


@capture
def blind_when_refused(ctx: Context) -> Snapshot:
    try:
        return incremental(ctx)
    except EngineRefusal:
        return Snapshot("(the terminal cannot be read)")


@refine
def ascii_only(text: str, ctx: Context) -> str:
    return text.encode("ascii", "ignore").decode()


@refine
def drops_prompts(text: str, ctx: Context) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith("$"))


@refine
def keeps_a_log(text: str, ctx: Context) -> str:
    ctx.memo["log"] = ctx.memo.get("log", "") + text
    return ctx.memo["log"]


@refine
def cuts(text: str, ctx: Context) -> str:
    return text[:2_000]


@refine
def expects_a_prompt(text: str, ctx: Context) -> str:
    match = re.search(r"\$", text)
    assert match is not None
    return text


@refine
def asks_the_terminal(text: str, ctx: Context) -> str:
    ctx.terminal.send(["pwd\n"])
    return text


@limit
def counts_characters(text: str, ctx: Context) -> str:
    most = ctx.limits.observation_bytes
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters left out]"


@limit
def silent(text: str, ctx: Context) -> str:
    return text.encode("utf-8", "replace")[: ctx.limits.observation_bytes].decode("utf-8", "ignore")


@limit
def applied_twice(text: str, ctx: Context) -> str:
    """The fault of the reference: the second pass cuts the first notice out and counts the notice."""
    return head_and_tail(head_and_tail(text, ctx), ctx)


@limit
def splits_characters(text: str, ctx: Context) -> str:
    most = ctx.limits.observation_bytes
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    return data[:most].decode("utf-8", "replace")[: most // 3] + f"\ufffd[{len(data)} bytes in all]"


@limit
def always_speaks(text: str, ctx: Context) -> str:
    return f"{head_and_tail(text, ctx)}\n[0 bytes left out]"


@limit
def gives_nothing(text: str, ctx: Context) -> str:
    short = len(text.encode("utf-8", "replace")) <= ctx.limits.observation_bytes
    return text if short else f"[{len(text)} characters left out]"


CASES: list[tuple[Callable[..., Any], str]] = [
    (screen_only, "shows_long_output_from_its_beginning"),
    (screen_only, "tells_that_the_shell_waits"),
    (news_only, "is_never_blank"),
    (news_only, "tells_that_the_session_is_new"),
    (first_look_for_ever, "shows_what_is_new"),
    (forgets_the_flags, "keeps_the_flags"),
    (presses_enter, "only_looks"),
    (blind_when_refused, "the_end_of_the_run_passes"),
    (ascii_only, "keeps_ordinary_text"),
    (drops_prompts, "keeps_ordinary_text"),
    (keeps_a_log, "does_not_grow"),
    (cuts, "keeps_long_output"),
    (expects_a_prompt, "never_raises"),
    (asks_the_terminal, "leaves_the_terminal_alone"),
    (counts_characters, "bounds_any_text"),
    (silent, "tells_the_truth_about_the_gap"),
    (applied_twice, "tells_the_truth_about_the_gap"),
    (splits_characters, "splits_no_character"),
    (always_speaks, "leaves_short_text_alone"),
    (gives_nothing, "keeps_as_much_as_it_may"),
]


@pytest.mark.parametrize(("broken", "case"), CASES)
def test_broken_candidates_are_refused(broken: Callable[..., Any], case: str) -> None:
    assert case in failures(broken)
