"""The seed conforms, candidates of another style do too, and each kind of broken candidate is refused."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.conformance import failures

from harness.context import Context
from harness.errors import EngineRefusal
from harness.keys import split_keystrokes
from harness.modules.tools.command.read_file import read_file
from harness.modules.tools.command.write_file import write_file
from harness.modules.tools.grammar.json_object import json_object
from harness.modules.tools.grammar.xml_tags import xml_tags
from harness.modules.tools.route.helpers_first import helpers_first
from harness.modules.tools.route.keystrokes import keystrokes
from harness.parsing import clamp_duration
from harness.registry import function
from harness.types import Command, CommandCall, Grammar, Reply, Routed

grammar = function(module="tools", point="grammar", describes="test")
route = function(module="tools", point="route", describes="test")
dispatcher = function(module="tools", point="route", describes="test", dispatches_commands=True)
command = function(module="tools", point="command", describes="test", usage="show_it PATH")

# ------------------------------------------------------------------------------------------------------ other styles

FENCE = re.compile(r"```bash\n(.*?)```", re.DOTALL)


@grammar
def fenced_bash(ctx: Context) -> Grammar:
    prompt = "Say what you think, then give one block to type:\n\n```bash\nls -la\n```\n\nWhen all is done:\n\nDONE"

    def parse(text: str) -> Reply:
        text = text.encode("utf-8", "replace").decode()
        commands = tuple(Command(match[1], min(1.0, ctx.limits.max_wait)) for match in FENCE.finditer(text))
        done = text.strip().endswith("DONE")
        return Reply(commands, done, "" if commands or done else "no ```bash block and no DONE", raw=text)

    return Grammar("fenced_bash", prompt, parse, "Write once more:\n\nDONE", "reply")


@dispatcher
def with_its_own_prefix(command: Command, ctx: Context) -> Routed:
    """Types helpers' names that are not active, and says so in the error of nothing: another plain dispatcher."""
    first, _, body = command.keystrokes.partition("\n")
    words = first.split(" ", 1)
    try:
        if words[0] in ctx.active("tools/command"):
            answer = ctx.call_command(words[0], words[1] if len(words) > 1 else "", body)
            return Routed(command, words[0], answer)
        parts = split_keystrokes(command.keystrokes)[:9_000]
        ctx.terminal.send(parts, clamp_duration(command.duration, ctx.limits.max_wait))
    except EngineRefusal as refusal:
        if refusal.kind == "stopped":
            raise
        return Routed(command, error=str(refusal))
    return Routed(command)


@pytest.mark.parametrize(
    "fn", [json_object, xml_tags, keystrokes, helpers_first, write_file, read_file, fenced_bash, with_its_own_prefix]
)
def test_the_seed_and_other_styles_conform(fn: Callable[..., Any]) -> None:
    assert failures(fn) == {}


# ---------------------------------------------------------------------------------------------------------- grammars


def changed(ctx: Context, parse: Callable[[str], Any] | None = None, **fields: Any) -> Grammar:
    made = json_object(ctx)
    return dataclasses.replace(made, parse=parse or made.parse, **fields)


def seed(ctx: Context, text: str) -> Reply:
    return json_object(ctx).parse(text)


@grammar
def teaches_nothing(ctx: Context) -> Grammar:
    return changed(ctx, prompt="Reply in JSON.")


@grammar
def hides_the_end(ctx: Context) -> Grammar:
    return changed(ctx, prompt=json_object(ctx).prompt.replace('"task_complete": true', '"task_complete": false'))


@grammar
def always_done(ctx: Context) -> Grammar:
    return changed(ctx, lambda text: dataclasses.replace(seed(ctx, text), complete=not seed(ctx, text).error))


@grammar
def leaves_a_placeholder(ctx: Context) -> Grammar:
    return changed(ctx, prompt=json_object(ctx).prompt + "\n{instruction}")


@grammar
def knows_the_example_only(ctx: Context) -> Grammar:
    def parse(text: str) -> Reply:
        reply = seed(ctx, text)
        return dataclasses.replace(reply, commands=tuple(Command("ls -la\n") for _ in reply.commands))

    return changed(ctx, parse)


@grammar
def takes_silence_for_consent(ctx: Context) -> Grammar:
    return changed(ctx, lambda text: seed(ctx, text) if text.strip() else Reply())


@grammar
def plain_json(ctx: Context) -> Grammar:
    prompt = '{"commands": ["ls -la\\n"], "task_complete": false}\n\n{"commands": [], "task_complete": true}'

    def parse(text: str) -> Reply:
        found = json.loads(text)
        return Reply(tuple(map(Command, found["commands"])), found["task_complete"])

    return Grammar("plain_json", prompt, parse, "again")


@grammar
def runs_half_a_reply(ctx: Context) -> Grammar:
    def parse(text: str) -> Reply:
        reply = seed(ctx, text)
        return dataclasses.replace(reply, commands=(Command("ls\n"),)) if reply.error else reply

    return changed(ctx, parse)


@grammar
def waits_for_ever(ctx: Context) -> Grammar:
    def parse(text: str) -> Reply:
        reply = seed(ctx, text)
        return dataclasses.replace(reply, commands=tuple(Command(c.keystrokes, 1e9) for c in reply.commands))

    return changed(ctx, parse)


@grammar
def ignores_the_engines_limit(ctx: Context) -> Grammar:
    def parse(text: str) -> Reply:
        found = re.findall(r'"duration": (\d+\.\d+)', text)
        reply = seed(ctx, text)
        waits = [float(number) for number in found] + [1.0] * len(reply.commands)
        commands = [Command(c.keystrokes, wait) for c, wait in zip(reply.commands, waits, strict=False)]
        return dataclasses.replace(reply, commands=tuple(commands))

    return changed(ctx, parse)


@grammar
def passes_surrogates_on(ctx: Context) -> Grammar:
    return changed(ctx, lambda text: dataclasses.replace(seed(ctx, text), analysis=text))


@grammar
def salvages_rubbish(ctx: Context) -> Grammar:
    return changed(ctx, salvage=lambda text: text)


GRAMMARS: list[tuple[Callable[..., Any], str]] = [
    (teaches_nothing, "prompt_shows_a_reply_it_can_read"),
    (hides_the_end, "prompt_shows_how_to_finish"),
    (always_done, "working_is_not_finishing"),
    (leaves_a_placeholder, "texts_are_filled_in"),
    (knows_the_example_only, "reads_the_keystrokes_that_are_there"),
    (takes_silence_for_consent, "silence_is_an_error"),
    (plain_json, "never_raises"),
    (plain_json, "reads_any_beginning"),
    (runs_half_a_reply, "never_raises"),
    (waits_for_ever, "durations_are_bounded"),
    (ignores_the_engines_limit, "durations_are_bounded"),
    (passes_surrogates_on, "never_raises"),
    (salvages_rubbish, "salvage_is_readable"),
]


@pytest.mark.parametrize(("broken", "case"), GRAMMARS)
def test_broken_grammars_are_refused(broken: Callable[..., Any], case: str) -> None:
    assert case in failures(broken)


# ------------------------------------------------------------------------------------------------------------ routes


@route
def types_no_keys(command: Command, ctx: Context) -> Routed:
    ctx.terminal.send([command.keystrokes], command.duration)
    return Routed(command)


@route
def strips(command: Command, ctx: Context) -> Routed:
    ctx.terminal.send(split_keystrokes(command.keystrokes.strip() + "\n"), min(command.duration, ctx.limits.max_wait))
    return Routed(command)


@route
def types_twice(command: Command, ctx: Context) -> Routed:
    for _ in range(2):
        keystrokes(command, ctx)
    return Routed(command)


@route
def swallows_refusals(command: Command, ctx: Context) -> Routed:
    try:
        return keystrokes(command, ctx)
    except EngineRefusal:
        return Routed(command)


@dispatcher
def only_claims_to_dispatch(command: Command, ctx: Context) -> Routed:
    return keystrokes(command, ctx)


@dispatcher
def finds_helpers_anywhere(command: Command, ctx: Context) -> Routed:
    for name in ctx.active("tools/command"):
        if name in command.keystrokes:
            return Routed(command, name, ctx.call_command(name, command.keystrokes, ""))
    return keystrokes(command, ctx)


@dispatcher
def tidies_the_body(command: Command, ctx: Context) -> Routed:
    first, _, body = command.keystrokes.partition("\n")
    tidy = Command(f"{first}\n{body.strip()}", command.duration)
    return helpers_first(tidy, ctx) if first.split(" ")[0] in ctx.active("tools/command") else keystrokes(command, ctx)


ROUTES: list[tuple[Callable[..., Any], str]] = [
    (types_no_keys, "presses_named_keys"),
    (types_no_keys, "waits_within_bounds"),
    (types_no_keys, "a_refusal_is_reported"),
    (strips, "types_text_as_it_is"),
    (strips, "only_waits_for_empty_keystrokes"),
    (types_twice, "types_text_as_it_is"),
    (swallows_refusals, "a_refusal_is_reported"),
    (only_claims_to_dispatch, "helpers_get_their_bytes"),
    (finds_helpers_anywhere, "helpers_are_called_by_first_word_only"),
    (tidies_the_body, "helpers_get_their_bytes"),
]


@pytest.mark.parametrize(("broken", "case"), ROUTES)
def test_broken_routes_are_refused(broken: Callable[..., Any], case: str) -> None:
    assert case in failures(broken)


# ---------------------------------------------------------------------------------------------------------- commands


@command
def show_it(call: CommandCall, ctx: Context) -> str:
    return ctx.sandbox.read_file(call.head).decode()


@command
def show_nothing(call: CommandCall, ctx: Context) -> str:
    return ""


@function(module="tools", point="command", describes="types it", usage="by_terminal PATH")
def by_terminal(call: CommandCall, ctx: Context) -> str:
    ctx.terminal.send([f"cat {call.head}\n"], 1.0)
    return "look at the terminal"


@function(module="tools", point="command", describes="never stops", usage="stubborn PATH")
def stubborn(call: CommandCall, ctx: Context) -> str:
    try:
        return f"{len(ctx.sandbox.read_file(call.head))} bytes"
    except EngineRefusal:
        return "something went wrong"


COMMANDS: list[tuple[Callable[..., Any], str]] = [
    (show_it, "always_answers"),
    (show_it, "answers_are_bounded"),
    (show_it, "a_refusal_is_an_answer"),
    (show_nothing, "says_how_it_is_called"),
    (show_nothing, "always_answers"),
    (by_terminal, "leaves_the_terminal_alone"),
    (stubborn, "the_end_of_the_run_passes"),
]


@pytest.mark.parametrize(("broken", "case"), COMMANDS)
def test_broken_commands_are_refused(broken: Callable[..., Any], case: str) -> None:
    assert case in failures(broken)
