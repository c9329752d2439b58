"""The generous grammar: what it reads that the seed's does not, and that it changes nothing on the way."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.candidates import asked, entry, kernel, says

from harness.modules.tools.grammar.json_object import json_object
from harness.parsing import parse_json
from harness.scripted import make_context
from harness.types import Grammar, Limits
from modularrsi.simulation.solver.forms import Form
from modularrsi.simulation.solver.reading import signs
from modularrsi.simulation.solver.speech import KINDS, Said, speak, spoil

TOLERANT: Grammar = entry("json_tolerant").call(make_context(entry("json_tolerant")))
SAID = Said("seen", 'the "plan", so to say', (("cat > /app/x <<'EOF'\n\t[1,]\n\tit's {ok}\nEOF\n", 1.5), ("ls\n", 0.1)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "prose_only"])
def test_json_tolerant_reads_what_the_seed_cannot(kind: str) -> None:
    text = spoil(SAID, Form("json"), kind)
    assert parse_json(text).error, f"{kind} is readable for the seed: the case shows nothing"
    reply = TOLERANT.parse(text)
    assert reply.error == ""
    assert [(command.keystrokes, command.duration) for command in reply.commands] == list(SAID.commands)


def test_json_tolerant_refuses_prose() -> None:
    assert TOLERANT.parse(spoil(SAID, Form("json"), "prose_only")).error


def test_json_tolerant_teaches_and_reads_good_replies_as_the_seed() -> None:
    assert TOLERANT.prompt == json_object(make_context(json_object)).prompt
    for text in (speak(SAID, Form("json")), says(complete=True), f"Well:\n```json\n{says('ls', 'pwd')}\n```"):
        assert TOLERANT.parse(text) == parse_json(text)


def test_of_two_replies_the_last_is_run_and_the_agent_is_told() -> None:
    two = f"{says('draft')}\n{says('real')}"
    ctx, model, terminal = kernel("json_tolerant", [two, says("next\n")], limits=Limits(max_turns=2))
    ctx.drive()
    assert terminal.typed == "realnext\n"
    told = asked(model, 2)
    assert "the last one counts" in told
    read = signs(told, Form("json"))
    assert (read.left_out, read.not_run, read.complaint) == (False, False, "")


def test_json_tolerant_keeps_the_seeds_warnings() -> None:
    reply = TOLERANT.parse(says("ls", "pwd\n").replace("]", ",]"))
    assert any("does not end with a newline" in warning for warning in reply.warnings)


@pytest.mark.parametrize(
    "text",
    [
        '{"commands": [{"keystrokes": "' + '\\"' * 150_000,
        "{'commands': [\"" * 25_000,
        "{}" * 150_000,
        '{"a": "' * 50_000,
        ('{"commands": [' + ", " * 150_000)[:390_000],
    ],
)
def test_json_tolerant_ends_on_what_it_cannot_read(text: str) -> None:
    """What takes the square of the time would not come back from these."""
    assert TOLERANT.parse(text).commands == ()


@pytest.mark.parametrize("value", ["b'ls'", "{1}", "1j", "[" * 40 + "]" * 40, "{(1, 2): 3}"])
def test_python_values_that_are_no_json_are_refused(value: str) -> None:
    assert TOLERANT.parse(f"{{'commands': [{{'keystrokes': {value}}}]}}").error


plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(keys=st.lists(plain, max_size=4), analysis=plain)
def test_a_repair_changes_no_keystroke(keys: list[str], analysis: str) -> None:
    """Neither in JSON with trailing commas nor in a Python literal."""
    commands = [{"keystrokes": text, "duration": 1.0} for text in keys]
    listed = "".join(json.dumps(command) + "," for command in commands)
    python = {"analysis": analysis, "plan": "p", "commands": commands, "task_complete": False}
    for text in (f'{{"analysis": {json.dumps(analysis)}, "plan": "p", "commands": [{listed}],}}', repr(python)):
        reply = TOLERANT.parse(text)
        assert reply.error or [command.keystrokes for command in reply.commands] == keys
    assert not TOLERANT.parse(f'{{"analysis": "", "plan": "p", "commands": [{listed}],}}').error
