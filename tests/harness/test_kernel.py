"""The kernel over the fakes: phases, history, faults, trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.context import Context
from harness.errors import (
    ContextOverflow,
    EngineRefusal,
    FunctionError,
    ModelUnavailable,
    ReplyTruncated,
    Stopped,
)
from harness.phases import Steps
from harness.registry import function
from harness.scripted import Effect, ScriptedModel, ScriptedSandbox, ScriptedTerminal, make_context
from harness.standins import parse
from harness.types import (
    Advice,
    Command,
    CommandCall,
    Completion,
    Ending,
    Fault,
    Grammar,
    Guidance,
    Limits,
    McpServer,
    Message,
    Pending,
    Recovery,
    Reply,
    Routed,
    Skill,
    Snapshot,
    Task,
    Turn,
    Usage,
)

LS = '{"commands": [{"keystrokes": "ls\\n"}]}'
DONE = '{"commands": [], "task_complete": true}'


def at(point: str, **tag: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    module, _, name = point.partition("/")
    return function(module=module, point=name, **{"describes": "test", **tag})


def refine_as(name: str, work: Callable[[str, Context], str]) -> Callable[..., Any]:
    def refine(text: str, ctx: Context) -> str:
        return work(text, ctx)

    refine.__name__ = name
    return at("observation/refine")(refine)


def fit_as(work: Callable[[Pending, Context], str]) -> Callable[..., Any]:
    @at("context/fit")
    def fit(pending: Pending, ctx: Context) -> str:
        return work(pending, ctx)

    return fit


def grammar_as(**fields: Any) -> Callable[..., Any]:
    @at("tools/grammar")
    def grammar(ctx: Context) -> Grammar:
        return Grammar(**{"name": "test", "prompt": "Format.", "parse": parse, "confirm": "again", **fields})

    return grammar


def turn_of(ctx: Context, prompt: str = "go") -> Turn:
    turn = ctx.run.ask(prompt)
    assert isinstance(turn, Turn), turn
    return turn


def fault_of(ctx: Context, prompt: str = "go") -> Fault:
    fault = ctx.run.ask(prompt)
    assert isinstance(fault, Fault), fault
    return fault


# --------------------------------------------------------------------------------------------------------- whole runs


def test_a_whole_run_from_prompt_to_completion() -> None:
    ctx = make_context(model=[LS, DONE], terminal=["ls\nhello.txt\n$ "])
    assert ctx.drive() == Ending("complete", "declared complete")
    assert [turn.number for turn in ctx.state.turns] == [1, 2]
    assert ctx.state.turns[0].observation == "ls\nhello.txt\n$ "
    assert ctx.state.turns[0].stage == "observed"
    assert [message.role for message in ctx.state.history] == ["user", "assistant"] * 2
    assert ctx.terminal.sent == [(("ls\n",), 1.0)]  # type: ignore[attr-defined]


def test_every_call_is_traced_with_its_turn_and_outcome() -> None:
    ctx = make_context(refine_as("shorten", lambda text, ctx: text[:1]), model=[LS, DONE])
    ctx.drive()
    calls = [(c["turn"], f"{c['module']}/{c['point']}/{c['function']}", c["outcome"]) for c in ctx.trace]
    assert calls[0] == (0, "agent_loop/drive/drive", "started")
    assert calls[-1] == (2, "agent_loop/drive/drive", "complete: declared complete")
    assert (1, "tools/route/route", "keystrokes") in calls
    assert (1, "observation/refine/shorten", "5 → 1 characters") in calls
    assert (1, "tools/grammar/grammar", "parse: 1 commands") in calls
    assert all(c["milliseconds"] >= 0 and len(c["outcome"]) <= 200 for c in ctx.trace)


def test_the_trace_leaves_at_every_turn_not_only_at_the_end() -> None:
    ctx = make_context(model=[LS, LS, LS])
    turn = turn_of(ctx)
    ctx.run.observe(ctx.run.execute(turn))
    assert not any(call["turn"] == 1 for entry in ctx.logged for call in entry.get("calls", []))
    turn_of(ctx)
    assert any(call["turn"] == 1 for entry in ctx.logged for call in entry["calls"])


def test_a_long_outcome_is_cut() -> None:
    ctx = make_context(model=["x" * 1000])

    @at("completion/check")
    def wordy(turn: Turn, ctx: Context) -> Advice:
        return Advice(True, "because " * 100)

    ctx = make_context(wordy, model=[DONE])
    ctx.drive()
    outcome = next(call["outcome"] for call in ctx.trace if call["function"] == "wordy")
    assert len(outcome) == 200


def test_memo_is_private_to_the_function_and_lives_through_the_run() -> None:
    seen: dict[str, list[int]] = {"a": [], "b": []}

    def count(name: str) -> Callable[[str, Context], str]:
        def work(text: str, ctx: Context) -> str:
            ctx.memo["n"] = ctx.memo.get("n", 0) + 1
            seen[name].append(ctx.memo["n"])
            return text

        return work

    ctx = make_context(refine_as("a", count("a")), refine_as("b", count("b")), model=[LS, LS, DONE])
    ctx.drive()
    assert seen == {"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}, "the first look and one after each turn"
    assert ctx.memo == {}


def test_memo_comes_back_after_a_nested_call() -> None:
    @at("tools/command")
    def helper(call: CommandCall, ctx: Context) -> str:
        ctx.memo["who"] = "helper"
        return "done"

    @at("tools/route")
    def route(command: Command, ctx: Context) -> Routed:
        ctx.memo["who"] = "route"
        answer = ctx.call_command("helper", "a", "b")
        return Routed(command, "helper", f"{answer}, {ctx.memo['who']}")

    ctx = make_context(helper, route, model=[LS])
    turn = ctx.run.execute(turn_of(ctx))
    assert turn.routed[0].output == "done, route"


def test_the_context_tells_what_is_active() -> None:
    @at("tools/command", describes="writes", usage="write_file PATH")
    def write_file(call: CommandCall, ctx: Context) -> str:
        return ""

    ctx = make_context(write_file)
    assert ctx.active("tools/command") == ("write_file",)
    assert ctx.active("completion/check") == ()
    assert ctx.describe("tools/command", "write_file") == ("writes", "write_file PATH")
    with pytest.raises(KeyError):
        ctx.active("tools/commands")
    with pytest.raises(KeyError):
        ctx.call_command("edit_block", "", "")
    with pytest.raises(KeyError):
        ctx.describe("tools/command", "edit_block")


def test_notes_are_bounded_and_clean() -> None:
    ctx = make_context()
    ctx.log("a\0b\ud800" + "x" * 5000)
    assert len(ctx.notes[0]) == 2000
    assert ctx.notes[0].startswith("a\ufffdb\ufffdx")


# -------------------------------------------------------------------------------------------------------- first prompt


def test_the_first_prompt_holds_every_block_in_order() -> None:
    @at("tools/command", describes="writes a file", usage="write_file PATH\n<content>")
    def write_file(call: CommandCall, ctx: Context) -> str:
        return ""

    servers = (McpServer("web", "sse", url="http://x/sse"), McpServer("db", "stdio", command="db", args=("-v", "1")))
    task = Task("Do it.", skills=(Skill("pdf", "reads <PDF> & more", "/skills/pdf/SKILL.md"),), mcp_servers=servers)
    ctx = make_context(write_file, grammar_as(), terminal=ScriptedTerminal(screen="root@box:/app# "), task=task)
    prompt = ctx.run.first_prompt()
    parts = [
        "Format.",
        "- write_file: writes a file\n    write_file PATH\n    <content>",
        "MCP Servers:\n- web: sse transport, url: http://x/sse\n- db: stdio transport, command: db -v 1",
        "<available_skills>\n  <skill>\n    <name>pdf</name>\n"
        "    <description>reads &lt;PDF&gt; &amp; more</description>\n"
        "    <location>/skills/pdf/SKILL.md</location>\n  </skill>\n</available_skills>",
        "Do it.",
        "root@box:/app# ",
    ]
    places = [prompt.find(part) for part in parts]
    assert -1 not in places and places == sorted(places), prompt


def test_blocks_without_content_leave_no_trace() -> None:
    prompt = make_context(grammar_as()).run.first_prompt()
    assert "MCP" not in prompt and "skills" not in prompt and "commands" not in prompt


def test_what_the_first_prompt_showed_is_not_new_afterwards() -> None:
    ctx = make_context(model=[LS], terminal=ScriptedTerminal(["ls\n"], screen="welcome\n$ "))
    assert "welcome" in ctx.run.first_prompt()
    assert ctx.run.observe(ctx.run.execute(turn_of(ctx))).observation == "ls\n"


def test_the_grammar_is_made_once() -> None:
    ctx = make_context(model=[LS, LS, DONE])
    ctx.drive()
    assert [c["outcome"] for c in ctx.trace if c["point"] == "grammar"].count("plain") == 1


# ----------------------------------------------------------------------------------------------------------------- ask


def test_a_readable_reply_enters_the_history_as_it_came() -> None:
    ctx = make_context(model=[Completion(LS, usage=Usage(10, 5, 2))])
    turn = turn_of(ctx, "the prompt")
    assert turn == Turn(1, "proposed", "the prompt", Reply((Command("ls\n"),), raw=LS))
    assert ctx.state.history == [Message("user", "the prompt"), Message("assistant", LS)]
    assert ctx.state.last_usage == Usage(10, 5, 2)


def test_an_unreadable_reply_is_a_fault_and_stays_in_the_history() -> None:
    ctx = make_context(model=["gibberish", "more", LS, "again"])
    fault = fault_of(ctx)
    assert (fault.kind, fault.prompt, fault.text, fault.streak) == ("unreadable", "go", "gibberish", 1)
    assert fault.reply and fault.reply.error == fault.message
    assert ctx.state.history[-1] == Message("assistant", "gibberish")
    assert fault_of(ctx).streak == 2
    turn = turn_of(ctx)
    assert (turn.number, ctx.state.faults_in_a_row) == (3, 0)
    assert fault_of(ctx).streak == 1


def test_a_service_failure_is_a_fault_and_leaves_the_history_alone() -> None:
    ctx = make_context(model=[ModelUnavailable("502 for ten minutes")])
    fault = fault_of(ctx)
    assert (fault.kind, fault.message, fault.prompt) == ("unavailable", "502 for ten minutes", "go")
    assert ctx.state.history == []
    assert ctx.state.number == 1


def test_a_truncated_reply_without_salvage_is_a_fault() -> None:
    ctx = make_context(model=[ReplyTruncated("output limit of 100 tokens", '{"comm')])
    fault = fault_of(ctx)
    assert (fault.kind, fault.text, fault.message) == ("truncated", '{"comm', "output limit of 100 tokens")
    assert ctx.state.history[-1] == Message("assistant", '{"comm')


def test_a_truncated_reply_that_can_be_salvaged_is_a_turn() -> None:
    grammar = grammar_as(salvage=lambda text: text.partition("#")[0])
    ctx = make_context(grammar, model=[ReplyTruncated("limit", LS + "# and then I wanted")])
    turn = turn_of(ctx)
    assert turn.reply.commands == (Command("ls\n"),)
    assert ctx.state.history[-1] == Message("assistant", LS)
    assert ctx.state.faults_in_a_row == 0


@pytest.mark.parametrize("salvaged", [None, "still broken"])
def test_a_salvage_that_fails_is_a_truncation_with_the_original_text(salvaged: str | None) -> None:
    ctx = make_context(grammar_as(salvage=lambda text: salvaged), model=[ReplyTruncated("limit", "broken")])
    fault = fault_of(ctx)
    assert (fault.kind, fault.text) == ("truncated", "broken")
    assert ctx.state.history[-1].content == "broken"


def test_an_overflow_is_fitted_again_and_tried_once_more() -> None:
    pendings: list[Pending] = []

    def work(pending: Pending, ctx: Context) -> str:
        pendings.append(pending)
        if pending.overflow:
            ctx.state.history.clear()
            return "short"
        return pending.prompt

    model = ScriptedModel([LS, ContextOverflow("too long"), LS])
    ctx = make_context(fit_as(work), model=model)
    turn_of(ctx, "first")
    turn = turn_of(ctx, "second")
    assert pendings == [Pending("first"), Pending("second"), Pending("second", overflow=True)]
    assert turn.prompt == "short"
    assert [len(request.messages) for request in model.requests] == [1, 3, 1]
    assert ctx.state.history == [Message("user", "short"), Message("assistant", LS)]


def test_a_second_overflow_is_a_fault() -> None:
    model = ScriptedModel([ContextOverflow("too long"), ContextOverflow("still too long"), LS])
    ctx = make_context(model=model)
    fault = fault_of(ctx)
    assert (fault.kind, fault.message) == ("overflow", "still too long")
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([ModelUnavailable("down")], "unavailable"),
        ([ReplyTruncated("cut", LS)], "unavailable"),
        ([ContextOverflow("long"), ContextOverflow("long")], "overflow"),
    ],
)
def test_a_model_failure_that_fit_lets_through_is_a_fault_never_a_reply(answers: list[Exception], kind: str) -> None:
    ctx = make_context(
        fit_as(lambda pending, ctx: ctx.model.complete([Message("user", "sum up")], "summary").text), model=answers
    )
    assert fault_of(ctx).kind == kind
    assert ctx.state.history == []


def test_the_history_is_restored_to_alternation_after_fit() -> None:
    def work(pending: Pending, ctx: Context) -> str:
        ctx.state.history[:] = [
            Message("user", "one"), Message("user", "two"), Message("assistant", ""), Message("user", "three"),
        ]
        return "four"

    model = ScriptedModel([LS])
    turn = turn_of(make_context(fit_as(work), model=model))
    assert model.requests[0].messages == (
        Message("user", "one\n\ntwo"), Message("assistant", "(empty)"), Message("user", "three\n\nfour"),
    )
    assert turn.prompt == "three\n\nfour"


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([Message("assistant", "x")], "the first message is not the user's"),
        ([Message("user", "x"), Message("assistant", "y"), Message("system", "z")], "a system message after"),
        ([Message("tool", "x")], "unknown role 'tool'"),  # type: ignore[arg-type]
        (["text"], "things that are not a Message"),
        ([Message("user", None)], "things that are not a Message"),  # type: ignore[arg-type]
    ],
)
def test_a_history_that_cannot_be_mended_is_fits_error(history: list[Any], message: str) -> None:
    def work(pending: Pending, ctx: Context) -> str:
        ctx.state.history[:] = history
        return "go"

    ctx = make_context(fit_as(work), model=[LS])
    with pytest.raises(FunctionError, match=f"^context/fit/fit: .*({message})"):
        ctx.run.ask("go")


def test_surrogates_and_nul_never_reach_the_model() -> None:
    model = ScriptedModel(["a\0\udfff", LS])
    ctx = make_context(model=model)
    fault_of(ctx, "x\0y\ud83d\ude00\ud800")
    assert model.requests[0].messages[-1].content == "x\ufffdy😀\ufffd"
    turn_of(ctx)
    assert model.requests[1].messages[1].content == "a\ufffd\ufffd"


def test_blank_texts_are_filled() -> None:
    model = ScriptedModel(["", LS])
    ctx = make_context(model=model)
    fault_of(ctx, " \n")
    assert ctx.state.history == [Message("user", "(empty)"), Message("assistant", "(empty)")]


def test_faulty_turns_count_and_the_limit_stops_asking() -> None:
    model = ScriptedModel(["?", ModelUnavailable("x"), LS, LS])
    ctx = make_context(model=model, limits=Limits(max_turns=3))
    fault_of(ctx), fault_of(ctx), turn_of(ctx)
    with pytest.raises(Stopped, match="turn limit of 3"):
        ctx.run.ask("once more")
    assert len(model.requests) == 3


def test_a_drive_that_ignores_the_turn_limit_ends_stopped() -> None:
    @at("agent_loop/drive")
    def endless(ctx: Context) -> Ending:
        while True:
            ctx.run.ask("go")

    ctx = make_context(endless, model=ScriptedModel(then=LS), limits=Limits(max_turns=5))
    assert ctx.drive() == Ending("stopped", "the turn limit of 5 is used up")
    assert ctx.state.number == 5


# ------------------------------------------------------------------------------------------------------------- recover


def recover_as(recovery: Recovery) -> Callable[..., Any]:
    @at("agent_loop/recover")
    def recover(fault: Fault, ctx: Context) -> Recovery:
        return recovery

    return recover


@pytest.mark.parametrize("keep", [True, False])
def test_a_faulty_exchange_stays_or_goes_as_recover_says(keep: bool) -> None:
    ctx = make_context(recover_as(Recovery(prompt="again", keep_reply=keep)), model=[LS, "gibberish"])
    turn_of(ctx)
    ctx.run.recover(fault_of(ctx))
    assert len(ctx.state.history) == (4 if keep else 2)


def test_no_exchange_is_taken_out_for_a_failure_that_added_none() -> None:
    ctx = make_context(recover_as(Recovery(prompt="again", keep_reply=False)), model=[LS, ModelUnavailable("x")])
    turn_of(ctx, "go")
    ctx.run.recover(fault_of(ctx, "go"))
    assert len(ctx.state.history) == 2


@pytest.mark.parametrize("recovery", [Recovery(), Recovery(prompt="a", stop="b"), Recovery(prompt="a", reply="b")])
def test_recover_must_answer_exactly_one_thing(recovery: Recovery) -> None:
    ctx = make_context(recover_as(recovery), model=["?"])
    with pytest.raises(FunctionError, match="agent_loop/recover/recover: must set exactly one"):
        ctx.run.recover(fault_of(ctx))


def test_a_used_reply_takes_the_faulty_ones_place_and_its_turn() -> None:
    ctx = make_context(model=[LS, ReplyTruncated("limit", "half")])
    turn_of(ctx, "one")
    fault = fault_of(ctx, "two")
    turn = ctx.run.use_reply(fault.prompt, LS)
    assert isinstance(turn, Turn)
    assert (turn.number, ctx.state.faults_in_a_row) == (2, 0)
    assert [message.content for message in ctx.state.history] == ["one", LS, "two", LS]


def test_a_used_reply_can_be_faulty_too() -> None:
    ctx = make_context(model=["?"])
    fault = ctx.run.use_reply(fault_of(ctx).prompt, "??")
    assert isinstance(fault, Fault)
    assert (fault.text, fault.streak) == ("??", 2)
    assert [message.content for message in ctx.state.history] == ["go", "??"]


# -------------------------------------------------------------------------------------- guard, execute, observe, decide


def guard_as(name: str, work: Callable[[Turn], Guidance]) -> Callable[..., Any]:
    def guard(turn: Turn, ctx: Context) -> Guidance:
        return work(turn)

    guard.__name__ = name
    return at("agent_loop/guard")(guard)


THREE = '{"commands": [{"keystrokes": "a\\n"}, {"keystrokes": "b\\n"}, {"keystrokes": "c\\n"}]}'


def test_guards_add_up_in_order_and_see_what_is_held() -> None:
    seen: list[tuple[int, ...]] = []

    def second(turn: Turn) -> Guidance:
        seen.append(turn.held)
        return Guidance("second", hold=(0, 0, 9, -1), reopen=("r2", "r1"))

    ctx = make_context(
        guard_as("one", lambda turn: Guidance("first", hold=(2,), reopen=("r1",))),
        guard_as("two", second),
        guard_as("three", lambda turn: Guidance()),
        model=[THREE],
    )
    turn, feedback, reopened = ctx.run.guard(turn_of(ctx))
    assert seen == [(2,)]
    assert (turn.held, feedback, reopened) == ((0, 2), "first\n\nsecond", ("r1", "r2"))
    turn = ctx.run.execute(turn)
    assert [routed.command.keystrokes for routed in turn.routed] == ["b\n"]
    observed = ctx.run.observe(turn)
    assert ctx.run.guard(observed)[0].held == (0, 2)


def test_nothing_can_be_held_back_once_it_ran() -> None:
    ctx = make_context(guard_as("late", lambda turn: Guidance(hold=(0,))), model=[LS])
    observed = ctx.run.observe(ctx.run.execute(turn_of(ctx)))
    assert ctx.run.guard(observed)[0].held == ()


def test_an_observation_is_captured_refined_in_order_and_limited_once() -> None:
    ctx = make_context(
        refine_as("up", lambda text, ctx: text.upper()),
        refine_as("mark", lambda text, ctx: f"<{text}>"),
        model=[LS],
        terminal=["abcdef" * 20],
        limits=Limits(observation_bytes=46),
    )
    ctx.run.first_prompt()
    turn = ctx.run.observe(ctx.run.execute(turn_of(ctx)))
    assert turn.observation == "<ABCDE\n[116 bytes left out]"
    assert turn.snapshot and turn.snapshot.text == "abcdef" * 20
    assert ctx.state.turns == [turn]


def test_a_helpers_answer_is_shown_and_not_refined() -> None:
    @at("tools/command")
    def say(call: CommandCall, ctx: Context) -> str:
        return f"{call.head}|{call.body}"

    reply = '{"commands": [{"keystrokes": "say hi\\nthere\\n you"}, {"keystrokes": "ls\\n"}]}'
    ctx = make_context(say, refine_as("up", lambda text, ctx: text.upper()), model=[reply], terminal=["new text"])
    ctx.run.first_prompt()
    turn = ctx.run.observe(ctx.run.execute(turn_of(ctx)))
    assert turn.observation == "[say] hi|there\n you\n\nNEW TEXT"


def test_a_routing_error_is_shown() -> None:
    @at("tools/route")
    def route(command: Command, ctx: Context) -> Routed:
        return Routed(command, error="no such key")

    ctx = make_context(route, model=[LS])
    assert "[keystrokes] ERROR: no such key" in ctx.run.observe(ctx.run.execute(turn_of(ctx))).observation


def check_as(name: str, stop: bool | None) -> Callable[..., Any]:
    def check(turn: Turn, ctx: Context) -> Advice:
        return Advice(stop, name)

    check.__name__ = name
    return at("completion/check")(check)


def test_all_advice_reaches_decide() -> None:
    ctx = make_context(check_as("yes", True), check_as("no", False), model=[DONE])
    assert not ctx.run.decide(turn_of(ctx)).stop
    ctx = make_context(check_as("yes", True), check_as("none", None), model=[DONE])
    assert ctx.run.decide(turn_of(ctx)).stop


def test_a_claim_is_pending_until_a_turn_without_one() -> None:
    ctx = make_context(check_as("no", False), model=[DONE, "?", LS])
    ctx.run.decide(turn_of(ctx))
    assert ctx.state.pending_completion
    fault_of(ctx)
    assert ctx.state.pending_completion
    ctx.run.decide(turn_of(ctx))
    assert not ctx.state.pending_completion


def test_a_reopened_claim_does_not_count() -> None:
    ctx = make_context(
        guard_as("open", lambda turn: Guidance(reopen=("file is missing",))), check_as("no", False), model=[DONE]
    )
    turn = turn_of(ctx)
    ctx.run.guard(turn)
    ctx.run.decide(turn)
    assert not ctx.state.pending_completion


def test_what_must_be_retained_is_joined() -> None:
    def retain_as(name: str, text: str) -> Callable[..., Any]:
        def retain(ctx: Context) -> str:
            return text

        retain.__name__ = name
        return at("context/retain")(retain)

    ctx = make_context(retain_as("a", "A"), retain_as("b", "  "), retain_as("c", "C"))
    assert ctx.run.retained() == "A\n\nC"
    assert make_context().run.retained() == ""


# -------------------------------------------------------------------------------------------------- functions that fail


def boom(text: str, ctx: Context) -> str:
    raise ValueError("no \0 good")


def test_a_function_that_raises_ends_the_run_with_its_name() -> None:
    ctx = make_context(refine_as("broken", boom), model=[LS])
    ending = ctx.drive()
    assert ending.reason == "function_error"
    assert ending.detail.startswith("observation/refine/broken: raised ValueError: no")
    assert any(call["function"] == "broken" and "ValueError" in call["outcome"] for call in ctx.trace)


def test_a_drive_that_swallows_the_error_does_not_hide_it() -> None:
    @at("agent_loop/drive")
    def forgiving(ctx: Context) -> Ending:
        turn = ctx.run.ask("go")
        assert isinstance(turn, Turn)
        try:
            ctx.run.observe(turn)
        except Exception:  # noqa: BLE001
            return Ending("complete")
        return Ending("max_turns")

    ending = make_context(forgiving, refine_as("broken", boom), model=[LS]).drive()
    assert ending.reason == "function_error"
    assert "observation/refine/broken" in ending.detail


def test_the_first_function_to_fail_is_the_one_named() -> None:
    @at("tools/command")
    def helper(call: CommandCall, ctx: Context) -> str:
        raise KeyError("x")

    reply = '{"commands": [{"keystrokes": "helper a"}]}'
    ending = make_context(helper, model=[reply]).drive()
    assert ending.detail.startswith("tools/command/helper: raised KeyError")


@pytest.mark.parametrize("error", [SystemExit(0), RecursionError("deep"), MemoryError(), StopIteration()])
def test_errors_of_every_kind_are_the_functions(error: BaseException) -> None:
    def work(text: str, ctx: Context) -> str:
        raise error

    ending = make_context(refine_as("broken", work), model=[LS]).drive()
    assert ending.reason == "function_error" and "observation/refine/broken" in ending.detail


@pytest.mark.parametrize("wrong", [None, b"bytes", 3, Snapshot("x")])
def test_a_wrong_type_is_the_functions_error(wrong: Any) -> None:
    ending = make_context(refine_as("odd", lambda text, ctx: wrong), model=[LS]).drive()
    assert ending.detail == f"observation/refine/odd: returned {type(wrong).__name__}, must return str"


def test_a_parser_that_raises_or_answers_nonsense_is_the_grammars_error() -> None:
    def broken(text: str) -> Reply:
        raise IndexError("x")

    raising = make_context(grammar_as(parse=broken), model=[LS]).drive()
    assert "tools/grammar/grammar: raised IndexError" in raising.detail
    nonsense = make_context(grammar_as(parse=lambda text: None), model=[LS]).drive()
    assert nonsense.detail == "tools/grammar/grammar: returned NoneType, must return Reply"


def test_a_wrong_field_is_the_functions_error_not_the_drives() -> None:
    held = guard_as("holds", lambda turn: Guidance(hold=("first",)))  # type: ignore[arg-type]
    ending = make_context(held, model=[LS]).drive()
    assert ending.detail == "agent_loop/guard/holds: returned Guidance with hold=('first',)"
    words = grammar_as(parse=lambda text: Reply(commands=("ls",)))  # type: ignore[arg-type]
    ending = make_context(words, model=[LS]).drive()
    assert ending.detail == "tools/grammar/grammar: returned Reply with commands=('ls',)"


def test_an_error_that_cannot_be_printed_still_has_a_name() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    def work(text: str, ctx: Context) -> str:
        raise Rude

    assert make_context(refine_as("rude", work), model=[LS]).drive().detail == "observation/refine/rude: raised Rude"


def test_nothing_more_is_asked_of_the_model_after_a_function_failed() -> None:
    @at("agent_loop/drive")
    def stubborn(ctx: Context) -> Ending:
        while True:
            try:
                turn = ctx.run.ask("go")
                assert isinstance(turn, Turn)
                ctx.run.observe(turn)
            except FunctionError:
                ctx.memo["n"] = ctx.memo.get("n", 0) + 1
                if ctx.memo["n"] == 5:
                    return Ending("complete")

    model = ScriptedModel(then=LS)
    ending = make_context(stubborn, refine_as("broken", boom), model=model).drive()
    assert len(model.requests) == 1
    assert ending.reason == "function_error" and "observation/refine/broken" in ending.detail


def test_a_drive_that_returns_nothing_is_an_error() -> None:
    @at("agent_loop/drive")
    def silent(ctx: Context) -> Ending:
        return None  # type: ignore[return-value]

    assert make_context(silent).drive().detail == "agent_loop/drive/silent: returned NoneType, must return Ending"


def test_stopped_reaches_the_top_and_ends_the_run_stopped() -> None:
    assert make_context(model=[LS, Stopped("budget of $1 is used up")]).drive() == Ending(
        "stopped", "budget of $1 is used up"
    )


def test_a_refusal_passes_through_for_policy_and_is_an_error_at_the_top() -> None:
    @at("tools/route")
    def reads(command: Command, ctx: Context) -> Routed:
        return Routed(command, output=ctx.sandbox.read_file("/nowhere").decode())

    @at("agent_loop/drive")
    def patient(ctx: Context) -> Ending:
        turn = ctx.run.ask("go")
        assert isinstance(turn, Turn)
        try:
            ctx.run.execute(turn)
        except EngineRefusal as error:
            return Ending("gave_up", error.message)
        return Ending("complete")

    assert make_context(reads, patient, model=[LS]).drive() == Ending("gave_up", "/nowhere: no such file")
    ending = make_context(reads, model=[LS]).drive()
    detail = "agent_loop/drive/drive: let EngineRefusal through: /nowhere: no such file"
    assert ending == Ending("function_error", detail)


# ----------------------------------------------------------------------------------------------------------- the fakes


def test_the_scripted_terminal_tells_new_from_old() -> None:
    terminal = ScriptedTerminal(["a\n", Effect("b\n", busy=True), Effect("fresh", clear=True)], screen="$ ", rows=2)
    assert terminal.read("new").text == "$ "
    terminal.send(["x"])
    assert terminal.read("new").text == "a\n"
    terminal.send(["y"])
    assert terminal.read("screen").busy is True
    assert terminal.read("scrollback").text == "$ a\nb\n"
    assert terminal.read("screen").text == "b\n"
    terminal.send(["z"])
    assert terminal.read("new") == Snapshot("fresh", "new", complete=False, busy=False, total_lines=1)
    assert terminal.read("new") == Snapshot("", "new", busy=False, total_lines=1)
    assert terminal.typed == "xyz"


def test_the_scripted_terminal_can_die_once() -> None:
    terminal = ScriptedTerminal([Effect("$ ", recreated=True)])
    assert terminal.send(["exit\n"]) is True
    assert terminal.read("new").recreated
    assert not terminal.read("new").recreated
    assert terminal.send(["ls\n"]) is False


def test_the_scripted_sandbox_keeps_files() -> None:
    sandbox = ScriptedSandbox({"/app/a": b"12345"})
    assert sandbox.read_file("a", 3) == b"123"
    assert sandbox.write_file("b/c", b"x") == 1
    sandbox.write_file("b/c", b"y", append=True)
    assert sandbox.files["/app/b/c"] == b"xy"
    assert sandbox.exec("true").exit_code == 127
    with pytest.raises(EngineRefusal, match="is a directory"):
        sandbox.write_file("b", b"")
    with pytest.raises(EngineRefusal, match="no such file"):
        sandbox.read_file("nope")


def test_steps_has_all_phases() -> None:
    """`Phases` is what functions are promised; a missing one would show only at run time."""
    for name in ("grammar", "first_prompt", "ask", "recover", "use_reply", "guard", "execute", "observe", "decide",
                 "retained"):
        assert callable(getattr(Steps, name))
