"""The good candidates do what they say, each in a whole kernel run; the others fail where their labels say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.candidates import asked, composition, entry, grown, kernel, says

from harness.conformance.base import run_suite
from harness.errors import EngineRefusal, LibraryError
from harness.scripted import Effect, ScriptedSandbox
from harness.types import Executed, Limits, Message, Task
from modularrsi.instrument.labels import labels, of_kind
from modularrsi.simulation.solver.forms import Form, shows
from modularrsi.simulation.solver.reading import lists, names_as_open, signs
from modularrsi.simulation.solver.walkthrough import Step


def test_every_library_with_a_sound_candidate_composes() -> None:
    for name, label in labels().items():
        if label.kind not in ("broken", "hostile"):
            composition(name).validate(grown(name).registry)


@pytest.mark.parametrize("name", of_kind("overfitted"))
def test_the_overfitted_conform_so_that_only_a_review_can_refuse_them(name: str) -> None:
    assert [result for result in run_suite(entry(name).point, entry(name)) if not result.ok] == []


@pytest.mark.parametrize(("name", "why"), [("find_by_name", "the signature is"), ("seen_paths", "syntax error")])
def test_what_is_broken_on_the_page_does_not_load(name: str, why: str) -> None:
    with pytest.raises(LibraryError, match=why):
        grown(name)


@pytest.mark.parametrize(
    ("name", "case", "why"),
    [
        ("give_up_early", "asks_again_at_first", "stopped at the first"),
        ("beginning_only", "bounds_any_text", "bytes for a limit"),
        ("last_command_ok", "gives_a_reason", "NameError"),
    ],
)
def test_what_is_broken_in_behaviour_fails_its_suite(name: str, case: str, why: str) -> None:
    (failed,) = [result for result in run_suite(entry(name).point, entry(name)) if result.case == case]
    assert not failed.ok
    assert why in failed.message

# ---------------------------------------------------------------------------------------------------------- agent_loop


@pytest.mark.parametrize(("grammar", "form"), [("json_object", Form("json")), ("xml_tags", Form("tags"))])
def test_show_form_names_the_error_and_shows_the_form(grammar: str, form: Form) -> None:
    ctx, model, _ = kernel(
        "show_form", ["I run ls.", says("ls\n")], limits=Limits(max_turns=2), instead={"tools/grammar": (grammar,)}
    )
    ctx.drive()
    told = asked(model, 2)
    error = ctx.run.grammar().parse("I run ls.").error
    assert error in told
    assert shows(form, told)
    assert signs(told, form).complaint == "shown"
    assert ctx.run.grammar().parse(told[told.index("looks like this:") :].partition("\n")[2]).commands


NOT_FOUND = "$ sl -a\nbash: sl: command not found\n$ "


def test_repeated_command_speaks_from_the_second_time_on() -> None:
    ctx, model, _ = kernel(
        "repeated_command", [says("sl -a\n")] * 3 + [says("ls -a\n")], [NOT_FOUND] * 4, limits=Limits(max_turns=5)
    )
    ctx.drive()
    assert "same command" not in asked(model, 2)
    assert "The same command was sent 2 times and keeps failing: 'sl -a'" in asked(model, 3)
    assert "sent 3 times" in asked(model, 4)
    assert "same command" not in asked(model, 5)


def test_repeated_command_lets_waiting_and_progress_be() -> None:
    answers = [says("", ""), says(""), says("make\n"), says("make\n"), says("cat x\n"), says("cat x\n"), says()]
    effects = ["", "", "", "make: 3 tests failed\n$ ", "make: 1 test failed\n$ ", "x\n$ ", "x and y\n$ "]
    ctx, model, _ = kernel("repeated_command", answers, effects, limits=Limits(max_turns=7))
    ctx.drive()
    assert len(model.requests) == 7
    assert not any("same command" in asked(model, number) for number in range(1, 8))


def test_repeated_command_tells_of_a_look_that_shows_the_same() -> None:
    look, shown = says("cat x\n"), "cat x\none\n$ "
    ctx, model, _ = kernel("repeated_command", [look] * 3, [shown] * 3, limits=Limits(max_turns=3))
    ctx.drive()
    assert "it showed the same" not in asked(model, 2)
    assert "sent the same command before, and it showed the same" in asked(model, 3)


@pytest.mark.parametrize(
    ("keys", "effect", "told"),
    [
        (("make all",), Effect("make all"), True),
        (("make all", ""), Effect("make all"), True),
        (("make all\n",), Effect("make all\n$ "), False),
        (("C-c",), Effect("^C\n$ "), False),
        (("yes",), Effect("yes", busy=True), False),
        (("EOF",), Effect("EOF", waiting=True), False),
        (("make all",), Effect("make all", busy=None), False),
    ],
)
def test_unfinished_line_speaks_of_a_line_that_waits(keys: tuple[str, ...], effect: Effect, told: bool) -> None:
    ctx, model, _ = kernel("unfinished_line", [says(*keys), says()], [effect] * len(keys), limits=Limits(max_turns=2))
    ctx.drive()
    assert ("typed but not run" in asked(model, 2)) is told


# --------------------------------------------------------------------------------------------------------- observation


def test_rest_in_file_names_a_file_that_holds_all_of_it() -> None:
    output = "\n".join(f"line {number} of the build" for number in range(2_000))
    sandbox = ScriptedSandbox()
    ctx, model, _ = kernel(
        "rest_in_file", [says("make\n"), says()], [output], sandbox=sandbox, limits=Limits(max_turns=2)
    )
    ctx.drive()
    told = asked(model, 2)
    place = signs(told, Form("json")).rest_in
    assert "line 1000 of" not in told
    assert output in sandbox.files[place].decode()


def test_rest_in_file_holds_what_a_helper_answered_too() -> None:
    sandbox = ScriptedSandbox({"/app/big": b"from the helper\n" * 3_000})
    helpers = {"tools/command": ("read_file",), "tools/route": ("helpers_first",)}
    limits = Limits(max_turns=2, observation_bytes=2_000)
    answers = [says("read_file /app/big\n", "make\n"), says()]
    ctx, model, _ = kernel("rest_in_file", answers, ["x" * 3_000], sandbox=sandbox, limits=limits, instead=helpers)
    ctx.drive()
    saved = sandbox.files[signs(asked(model, 2), Form("json")).rest_in].decode()
    assert "from the helper" in saved
    assert "x" * 3_000 in saved


class ReadOnly(ScriptedSandbox):
    def write_file(self, path: str, data: bytes, append: bool = False) -> int:
        raise EngineRefusal("read-only file system")


def test_rest_in_file_names_no_file_that_is_not_there() -> None:
    ctx, model, _ = kernel(
        "rest_in_file", [says("make\n"), says()], ["x" * 20_000], sandbox=ReadOnly(), limits=Limits(max_turns=2)
    )
    ctx.drive()
    told = asked(model, 2)
    assert "bytes left out" in told
    assert signs(told, Form("json")).rest_in == ""


@pytest.mark.parametrize(
    ("effect", "words"),
    [
        (Effect("$ ", busy=False), "shell is idle"),
        (Effect("", busy=True), "still running"),
        (Effect("> ", waiting=True), "waiting for the rest of your input"),
        (Effect("$ ", busy=None), ""),
    ],
)
def test_shell_status_says_what_the_terminal_knows(effect: Effect, words: str) -> None:
    ctx, model, _ = kernel("shell_status", [says("make\n"), says()], [effect], limits=Limits(max_turns=2))
    ctx.drive()
    said = re.findall(r"\[Status: .*?\]", asked(model, 2))
    assert (len(said) == 1 and words in said[0]) if words else said == []


# --------------------------------------------------------------------------------------------------- tools, completion


def test_write_file_is_offered_and_writes_byte_for_byte() -> None:
    content = "#!/bin/sh\n\techo \"$HOME `id`\" \\n\n"
    sandbox = ScriptedSandbox()
    answers = [says(f"write_file /app/run.sh\n{content}"), says()]
    ctx, model, terminal = kernel("offer_write_file", answers, sandbox=sandbox, limits=Limits(max_turns=2))
    ctx.drive()
    assert "write_file PATH" in asked(model, 1)
    assert sandbox.files["/app/run.sh"].decode() == content
    assert terminal.typed == ""


def bash(command: str) -> Executed:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20, check=False)
    return Executed(done.returncode, done.stdout, done.stderr)


def outputs_task(folder: Path) -> Task:
    return Task(f"Sum up (see http://host/sum) and write {folder}/sum.txt. A list goes to `{folder}/list.md`.")


def test_outputs_exist_names_what_is_missing_until_it_is_there(tmp_path: Path) -> None:
    task = outputs_task(tmp_path)
    sandbox = ScriptedSandbox(answers={"for": bash})

    def write(_: object) -> str:
        (tmp_path / "sum.txt").write_text("7")
        (tmp_path / "list.md").write_text("- 7")
        return says(complete=True)

    answers: list[Any] = [says(complete=True), says(complete=True), write, says(complete=True), says()]
    ctx, model, _ = kernel("outputs_exist", answers, sandbox=sandbox, task=task)
    assert ctx.drive().reason == "complete"
    assert len(model.requests) == 3
    for number in (2, 3):
        told = asked(model, number)
        assert f"{tmp_path}/sum.txt does not exist; {tmp_path}/list.md does not exist" in told
        for name in ("sum.txt", "list.md"):
            assert names_as_open(told, step(f"{tmp_path}/{name}"))
    assert len(sandbox.executed) == 3


def test_outputs_exist_objects_three_times_at_most(tmp_path: Path) -> None:
    sandbox = ScriptedSandbox(answers={"for": bash})
    answers = [says(complete=True)] * 9
    ctx, model, _ = kernel("outputs_exist", answers, sandbox=sandbox, task=outputs_task(tmp_path))
    assert ctx.drive().reason == "complete"
    assert len(model.requests) == 4


def test_outputs_exist_quotes_what_it_gives_to_the_shell(tmp_path: Path) -> None:
    odd = Task(f"Write {tmp_path}/$(touch {tmp_path}/run).txt and {tmp_path}/a;b and '{tmp_path}/c'.")
    sandbox = ScriptedSandbox(answers={"for": bash})
    kernel("outputs_exist", [says(complete=True)] * 9, sandbox=sandbox, task=odd)[0].drive()
    assert sandbox.executed
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------------- context


def step(name: str) -> Step:
    return Step(1, "run", "true", "do it", names=(name,))


def test_requirement_list_keeps_each_requirement_word_for_word_on_its_own_line() -> None:
    task = Task("Write /app/report.txt, e.g. with `cat`. Then pack it:\n\n* make /app/out.tar\n* keep the old\n  file")
    ctx, _, _ = kernel("requirement_list", task=task)
    kept = ctx.run.retained()
    assert [line for line in kept.splitlines() if line.startswith("- ")] == [
        "- Write /app/report.txt, e.g. with `cat`.", "- Then pack it:", "- make /app/out.tar", "- keep the old file",
    ]  # fmt: skip
    assert lists(kept, step("/app/out.tar"))
    assert not lists(task.instruction.partition("\n")[0], step("/app/report.txt"))


def replied(messages: Sequence[Message]) -> str:
    asks = messages[-1].content
    return "Much was done." if "takes over" in asks or "take over" in asks or "agent asks" in asks else says("make\n")


def test_requirement_list_is_in_what_is_handed_over() -> None:
    task = Task("Write /app/report.txt. Write /app/sum.txt.")
    output = ["one more line of text\n" * 90] * 12
    limits = Limits(context_tokens=4_500, max_turns=12)
    ctx, model, _ = kernel("requirement_list", [replied] * 30, output, limits=limits, task=task)
    ctx.drive()
    purposes = [request.purpose for request in model.requests]
    after = model.requests[purposes.index("answers") + 1]
    assert after.purpose == "turn"
    handed = "\n".join(message.content for message in after.messages)
    handed = handed[handed.index("You take over a task") :]
    assert lists(handed, step("/app/report.txt"))
    assert lists(handed, step("/app/sum.txt"))
