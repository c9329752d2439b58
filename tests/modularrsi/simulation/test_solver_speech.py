"""Replies in the form that a prompt teaches: read by the harness's own parsers, or, spoilt, not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.modules.tools.grammar.json_object import json_object
from harness.modules.tools.grammar.xml_tags import xml_tags
from harness.scripted import make_context
from harness.types import Command, Grammar
from modularrsi.simulation.solver.forms import Form, objects, shows, taught
from modularrsi.simulation.solver.speech import KINDS, Said, speak, spoil

JSON: Grammar = json_object(make_context())
XML: Grammar = xml_tags(make_context())


def form(prompt: str) -> Form:
    found = taught(prompt)
    assert found is not None
    return found


def test_the_seeds_forms_are_found_in_their_prompts() -> None:
    assert form(JSON.prompt) == Form("json")
    assert form(XML.prompt) == Form("tags")


def test_other_words_are_learnt_from_the_example() -> None:
    example = {"thought": "…", "actions": [{"cmd": "ls\n", "wait": 1.5}], "finished": False}
    learnt = form("Reply like this: " + json.dumps(example))
    assert learnt == Form("json", "cmd", "wait", "finished", "actions", ("thought",))
    said = json.loads(speak(Said("a", "b", (("pwd\n", 0.3),), True), learnt))
    assert said == {"thought": "a", "actions": [{"cmd": "pwd\n", "wait": 0.3}], "finished": True}


def test_a_fenced_block_is_a_form_too() -> None:
    learnt = form("Answer with one command:\n```bash\nls\n```")
    assert "```bash\npwd\n```" in speak(Said("a", "b", (("pwd\n", 0.3),)), learnt)


def test_a_prompt_without_an_example_teaches_nothing() -> None:
    assert taught('Reply in JSON, please. {"a": 1} {"b": []} {broken') is None


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
commands = st.lists(st.tuples(words, st.floats(0, 60)), max_size=4)


@given(words, words, commands, st.booleans())
def test_json_arrives_as_it_was_meant(analysis: str, plan: str, listed: list[tuple[str, float]], done: bool) -> None:
    reply = JSON.parse(speak(Said(analysis, plan, tuple(listed), done), form(JSON.prompt)))
    assert not reply.error
    assert reply.commands == tuple(Command(keys, seconds) for keys, seconds in listed)
    assert (reply.complete, reply.analysis, reply.plan) == (done, analysis, plan)


tagless = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>"), min_size=1, max_size=40)


@given(st.lists(st.tuples(tagless, st.floats(0.1, 59)), min_size=1, max_size=4))
def test_tags_arrive_as_they_were_meant(listed: list[tuple[str, float]]) -> None:
    reply = XML.parse(speak(Said("a", "b", tuple(listed)), form(XML.prompt)))
    assert not reply.error
    assert [command.keystrokes for command in reply.commands] == [keys for keys, _ in listed]


SAID = Said("I look.", "Then I write.", (("cat > /app/x <<'EOF'\na \"b\"\nEOF\n", 0.3), ("ls\n", 0.1)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", [SAID, Said("Done.", "Nothing.", (), True), Said("Wait.", "It runs.", (("", 1.0),))])
def test_six_kinds_are_unreadable_to_the_seeds_json(kind: str, said: Said) -> None:
    reply = JSON.parse(spoil(said, form(JSON.prompt), kind))
    assert reply.error
    assert not reply.commands


@pytest.mark.parametrize("kind", ["python_quotes", "renamed_fields", "raw_line_breaks", "prose_only", "thought_first"])
def test_spoilt_tags_run_nothing(kind: str) -> None:
    reply = XML.parse(spoil(SAID, form(XML.prompt), kind))
    assert reply.error or not reply.commands


def test_whether_a_text_shows_the_form() -> None:
    assert shows(form(JSON.prompt), JSON.prompt)
    assert shows(form(XML.prompt), XML.prompt)
    assert not shows(form(JSON.prompt), 'The field "keystrokes" is missing in {"a": 1}.')


@given(st.text(max_size=200))
def test_objects_are_found_in_any_text(text: str) -> None:
    assert all(isinstance(found, dict) for found in objects(text + '{"a": {"b": 1}} {'))
