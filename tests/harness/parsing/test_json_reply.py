"""Replies as one JSON object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conformance.odd_text import ODD
from harness.parsing import parse_json
from harness.types import Command, Reply

LS = {"keystrokes": "ls\n", "duration": 0.1}


def text(commands: Any = None, **fields: Any) -> str:
    return json.dumps({"analysis": "a", "plan": "p", "commands": [LS] if commands is None else commands, **fields})


def sound(reply: Reply) -> Reply:
    assert not (reply.error and (reply.commands or reply.complete))
    assert all(0.0 <= command.duration <= 60.0 for command in reply.commands)
    "".join((reply.error, *reply.warnings, reply.analysis, reply.plan, reply.raw)).encode()
    "".join(command.keystrokes for command in reply.commands).encode()
    return reply


def test_a_proper_reply_is_understood_without_a_word() -> None:
    reply = parse_json(text(task_complete=True))
    assert reply == Reply((Command("ls\n", 0.1),), True, "", (), "a", "p", text(task_complete=True))


@pytest.mark.parametrize(
    ("value", "complete", "warns"),
    [
        (True, True, False),
        (False, False, False),
        (None, False, False),
        ("true", True, False),
        ("Yes", True, False),
        ("1", True, False),
        ("no", False, False),
        ("done", False, False),
        (1, False, True),
        (0, False, True),
        (1.5, False, True),
        ([True], False, True),
        ({}, False, True),
    ],
)
def test_only_true_and_its_words_complete_a_task(value: object, complete: bool, warns: bool) -> None:
    reply = parse_json(text(task_complete=value))
    assert (reply.complete, bool(reply.warnings), reply.error) == (complete, warns, "")


@pytest.mark.parametrize(
    ("given_text", "warnings"),
    [
        ("Sure!\n" + text(), 1),
        (text() + "\nDone.", 1),
        ("```json\n" + text() + "\n```", 2),
        ("[" + text() + "]", 2),
        (text() + text([{"keystrokes": "pwd\n", "duration": 1}]), 1),
        (text()[:-1], 2),
        ("<think>use { or }</think> " + text(), 2),
        ("} " + text(), 1),
        ('"' + text(), 2),
    ],
)
def test_text_around_the_object_is_forgiven_with_a_warning(given_text: str, warnings: int) -> None:
    reply = sound(parse_json(given_text))
    assert (reply.commands, reply.error) == ((Command("ls\n", 0.1),), "")
    assert 1 <= len(reply.warnings) <= warnings


@pytest.mark.parametrize(
    ("given_text", "says"),
    [
        ("", "No JSON object"),
        ("I am done.", "No JSON object"),
        (text()[:-20], "No JSON object"),
        ('{"analysis": "a\nb", "plan": "p", "commands": []}', "invalid"),
        ('{"analysis": "a", "plan": "p", "commands": [],}', "invalid"),
        ("{'analysis': 'a', 'plan': 'p', 'commands': []}", "invalid"),
        ('{"analysis": "a", "plan": "\\x03", "commands": []}', "invalid"),
        ('{"analysis": "a"}', "plan, commands"),
        ("{}", "analysis, plan, commands"),
        (text("ls"), "'commands' must be an array"),
        (text({"keystrokes": "ls"}), "'commands' must be an array"),
        (text(["ls\n"]), "Command 1"),
        (text([LS, {"duration": 1}]), "Command 2"),
        (text([{"keystrokes": 5}]), "Command 1"),
        (text([{"keystrokes": None}]), "Command 1"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_says_why(given_text: str, says: str) -> None:
    reply = sound(parse_json(given_text))
    assert says in reply.error
    assert reply.commands == ()


def test_one_bad_command_stops_all_of_them_but_not_a_completion() -> None:
    reply = parse_json(text([LS, "pwd"], task_complete=True))
    assert (reply.commands, reply.complete, reply.error) == ((), True, "")
    assert "Command 2" in reply.warnings[0]
    assert parse_json(text([LS, "pwd"], task_complete=1)).error


@pytest.mark.parametrize(
    ("command", "warns"),
    [
        ({"keystrokes": "ls", "duration": 1}, True),
        ({"keystrokes": "C-c", "duration": 1}, True),
        ({"keystrokes": "", "duration": 1}, False),
        ({"keystrokes": "ls\n"}, True),
        ({"keystrokes": "ls\n", "duration": "5"}, True),
        ({"keystrokes": "ls\n", "duration": None}, True),
        ({"keystrokes": "ls\n", "duration": True}, False),
        ({"keystrokes": "ls\n", "duration": 9999}, False),
        ({"keystrokes": "ls\n", "duration": 1, "is_blocking": True}, True),
    ],
)
def test_warnings_about_commands(command: dict[str, object], warns: bool) -> None:
    reply = sound(parse_json(text([command, LS])))
    assert (bool(reply.warnings), len(reply.commands)) == (warns, 2)


def test_the_last_command_needs_no_newline() -> None:
    assert not parse_json(text([{"keystrokes": "y", "duration": 1}])).warnings


def test_fields_out_of_order_and_of_other_types_are_forgiven() -> None:
    reply = parse_json('{"plan": ["x", "y"], "analysis": 3, "commands": []}')
    assert (reply.error, reply.analysis, reply.plan, len(reply.warnings)) == ("", "3", '["x", "y"]', 3)


@pytest.mark.parametrize(
    ("number", "seconds"),
    [("-5", 0.0), ("NaN", 0.0), ("Infinity", 60.0), ("1e999", 60.0), ("9" * 400, 60.0), ("9" * 6_000, 60.0),
     ("-" + "9" * 399, 0.0),
     ("-" + "9" * 6_000, 0.0), ("0." + "3" * 6_000, 1 / 3)],
)  # fmt: skip
def test_numbers_of_any_size_are_durations(number: str, seconds: float) -> None:
    reply = parse_json('{"analysis":"a","plan":"p","commands":[{"keystrokes":"x","duration":' + number + "}]}")
    assert reply.commands[0].duration == pytest.approx(seconds)


def test_the_engines_limit_on_waiting_holds() -> None:
    assert parse_json(text([{"keystrokes": "x", "duration": 30}]), max_wait=5.0).commands[0].duration == 5.0


def test_surrogates_are_paired_or_replaced() -> None:
    command = '{"keystrokes":"\\udfffx","duration":1}'
    reply = parse_json('{"analysis":"\\ud83d\\ude00","plan":"\\ud800","commands":[' + command + "]}")
    assert (reply.analysis, reply.plan, reply.commands[0].keystrokes) == ("😀", "\ufffd", "\ufffdx")
    assert sound(parse_json("\ud800" + text())).commands


def test_keystrokes_are_kept_byte_for_byte() -> None:
    keys = "cat <<'E'\n\ttab \\n \"q\" 日本 \x03\u2028\n\n  \nE\n"
    assert parse_json(text([{"keystrokes": keys, "duration": 1}])).commands[0].keystrokes == keys


@pytest.mark.parametrize(
    "given_text",
    [
        '{"analysis":' * 100_000,
        "[" * 100_000,
        '{"analysis":"a","plan":' + "[" * 100_000 + "]" * 100_000 + ',"commands":[]}',
        "{" * 300_000,
        "}" * 300_000,
        "{}" * 300_000,
        "{{a}" * 100_000,
        '"' * 300_000,
        "\\" * 300_000,
        '{"a' * 100_000,
    ],
    ids=range(10),
)
def test_nesting_and_floods_are_errors_not_crashes(given_text: str) -> None:
    reply = sound(parse_json(given_text))
    assert reply.error
    assert len(reply.error) < 1_000


def test_warnings_do_not_flood_the_agent() -> None:
    reply = parse_json(text([{"keystrokes": "x"}] * 5_000))
    assert len(reply.commands) == 5_000
    assert len(reply.warnings) <= 21
    assert len("".join(parse_json(text([{**LS, "k" * 100_000: 1}])).warnings)) < 1_000


@pytest.mark.parametrize("name", ODD)
def test_odd_texts(name: str) -> None:
    sound(parse_json(ODD[name]))
    sound(parse_json(text(analysis=ODD[name])))


FIELDS = st.sampled_from(["analysis", "plan", "commands", "keystrokes", "duration", "task_complete", "x"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner),
    max_leaves=20,
)


@given(JSON_VALUES, st.text(max_size=5), st.integers(0, 400))
def test_any_json_cut_anywhere(value: object, around: str, length: int) -> None:
    written = json.dumps(value)
    sound(parse_json(around + written[:length] + around))


@given(st.text(alphabet=st.characters(exclude_categories=())) | st.text(alphabet='{}[]":,\\ \naplncomd'))
def test_any_text(given_text: str) -> None:
    sound(parse_json(given_text))


@given(st.lists(st.tuples(st.text(), st.floats(0, 60))), st.booleans(), st.text(), st.text())
def test_what_is_written_properly_is_read_back(
    commands: list[tuple[str, float]], complete: bool, analysis: str, plan: str
) -> None:
    given_commands = [{"keystrokes": keys, "duration": seconds} for keys, seconds in commands]
    reply = parse_json(text(given_commands, analysis=analysis, plan=plan, task_complete=complete))
    assert reply.error == ""
    assert [(command.keystrokes, command.duration) for command in reply.commands] == commands
    assert (reply.complete, reply.analysis, reply.plan) == (complete, analysis, plan)
