"""What the solver takes from a prompt, in the seed's own words and in a better harness's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.modules.agent_loop.recover.ask_again import ask_again
from harness.modules.tools.grammar.json_object import json_object
from harness.scripted import make_context
from harness.types import Fault, Reply
from modularrsi.gateway.messages import ChatMessage
from modularrsi.simulation.solver.forms import Form
from modularrsi.simulation.solver.reading import complaint, lists, names_as_open, offer, signs
from modularrsi.simulation.solver.walkthrough import Step

FORM = Form("json")
STEP = Step(2, "write", "/app/out.txt", names=("/app/out.txt", "report"))


def seed_complaint(error: str) -> str:
    fault = Fault("unreadable", error, "p", "t", Reply(error=error))
    return ask_again(fault, make_context(json_object)).prompt


def test_the_seeds_complaint_names_the_error() -> None:
    assert complaint(seed_complaint("The JSON is invalid: Expecting ',' delimiter: line 3 column 5"), FORM) == "named"
    assert complaint(seed_complaint("Fields are missing: commands"), FORM) == "named"


@pytest.mark.parametrize(
    ("text", "quality"),
    [
        ("Invalid reply.", "vague"),
        ("Your reply could not be read. Try again.", "vague"),
        ("Your reply could not be read: a comma is missing.", "named"),
        ('Your response was not valid. Send {"commands": [{"keystrokes": "", "duration": 1}], "done": false}', "shown"),
        ("Your last reply was used, but with warnings:\n- There is text after the JSON object", ""),
        ("New Terminal Output:\nroot@box:/app# cat log\nerror: invalid reply from server\nroot@box:/app#", ""),
        ("Still open:\n- /app/out.txt could not be read", ""),
    ],
)
def test_complaints(text: str, quality: str) -> None:
    assert complaint(text, FORM) == quality


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("New Terminal Output:\nroot@box:/app# ls\na b\nroot@box:/app#", True),
        ("New Terminal Output:\nroot@box:/app# sleep 5", False),
        ("root@box:/app# printf x\nxroot@box:/app#", True),
        ("/ # ls\nbin\n/ #", True),
        ("The terminal now:\nroot@box:~# make\nroot@box:~#\n\nAre you sure that the task is done?", True),
        ("some text without a prompt", None),
        ("some text\n[the shell is idle]", True),
        ("root@box:/app#\n[a program is still running]", False),
    ],
)
def test_whether_the_shell_waits(text: str, finished: bool | None) -> None:
    assert signs(text, FORM).finished is finished


def test_words_about_idleness_are_told_apart_from_a_prompt() -> None:
    assert not signs("root@box:/app#", FORM).told_idle
    assert signs("root@box:/app#\n[shell idle]", FORM).told_idle
    assert signs("[busy: a program runs]", FORM).told_busy


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Still open: /app/out.txt", True),
        ("- /app/out.txt does not exist", True),
        ("the report is missing", True),
        ("/app/out.txt exists", False),
        ("/app/out.txt.bak is missing", False),
        ("/srv/app/out.txt is missing", False),
        ("Still open:\n/app/out.txt", False),
    ],
)
def test_what_is_called_open(text: str, named: bool) -> None:
    assert names_as_open(text, STEP) is named


def test_lists_against_paragraphs() -> None:
    assert lists("Requirements:\n- write /app/out.txt\n- more", STEP)
    assert lists("1. the report", STEP)
    assert not lists("Write /app/out.txt, then go on.", STEP)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[... 512 bytes left out; the whole output is in /tmp/out-3.txt]", "/tmp/out-3.txt"),
        ("[cut: everything is kept in /var/tmp/o_1.log ...]", "/var/tmp/o_1.log"),
        ("[... 512 bytes left out: at most 10000 are shown. To see the rest, look at it in parts ...]", ""),
        ("the whole of /app/x was copied", ""),
    ],
)
def test_where_the_rest_is(text: str, place: str) -> None:
    assert signs(text, FORM).rest_in == place


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("Only the last of the 2 objects was used.", True),
        ("The second reply was ignored.", True),
        ("[... 5 bytes left out: at most 10000 are shown ...]", False),
        ("There is text after the JSON object", False),
    ],
)
def test_what_was_left_out(text: str, left_out: bool) -> None:
    assert signs(text, FORM).left_out is left_out


def test_offers() -> None:
    ctx = make_context(json_object)
    prompt = json_object(ctx).prompt + (
        "\nBesides keystrokes you can use these commands:\n- write_file: Write a file.\n    write_file PATH\n\n"
        "Your task:\n- not: a helper"
    )
    found = offer([ChatMessage("system", "hello"), ChatMessage("user", prompt)])
    assert found is not None
    assert found.helpers == {"write_file"}
    assert offer([ChatMessage("user", "hello")]) is None


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    signs(text, FORM)
    names_as_open(text, STEP)
    lists(text, STEP)
