"""Replies in XML-like tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conformance.odd_text import ODD
from harness.parsing import parse_xml, salvage_xml
from harness.types import Command, Reply

LS = '<keystrokes duration="0.1">ls\n</keystrokes>'


def text(commands: str = f"<commands>\n{LS}\n</commands>", rest: str = "", head: str = "") -> str:
    return f"<response>\n{head or '<analysis>a</analysis><plan>p</plan>'}\n{commands}\n{rest}\n</response>"


def commands(inner: str) -> str:
    return text(f"<commands>{inner}</commands>")


def sound(reply: Reply) -> Reply:
    assert not (reply.error and (reply.commands or reply.complete))
    assert all(0.0 <= command.duration <= 60.0 for command in reply.commands)
    "".join((reply.error, *reply.warnings, reply.analysis, reply.plan, reply.raw)).encode()
    "".join(command.keystrokes for command in reply.commands).encode()
    return reply


def test_a_proper_reply_is_understood_without_a_word() -> None:
    given_text = text(rest="<task_complete>true</task_complete>")
    assert parse_xml(given_text) == Reply((Command("ls\n", 0.1),), True, "", (), "a", "p", given_text)


@pytest.mark.parametrize(
    ("tag", "complete"),
    [
        ("<task_complete>true</task_complete>", True),
        ("<task_complete> TRUE\n</task_complete>", True),
        ("<task_complete>false</task_complete>", False),
        ("<task_complete>yes</task_complete>", False),
        ("<task_complete></task_complete>", False),
        ("<task_complete/>", False),
        ("", False),
    ],
)
def test_only_true_completes_a_task(tag: str, complete: bool) -> None:
    reply = parse_xml(text(rest=tag))
    assert (reply.complete, reply.warnings) == (complete, ())


def test_a_completion_that_is_typed_into_a_file_does_not_end_the_task() -> None:
    typed = "cat > notes <<'E'\n<task_complete>true</task_complete>\nE\n"
    reply = parse_xml(commands(f'<keystrokes duration="1">{typed}</keystrokes>'))
    assert (reply.complete, reply.commands) == (False, (Command(typed, 1.0),))


@pytest.mark.parametrize(
    "given_text",
    [
        "hi " + text(),
        text() + " bye",
        text() + text(),
        text(rest="<note>x</note>"),
        text(head="<plan>p</plan><analysis>a</analysis>"),
        text(head="<analysis>a</analysis>"),
        text(head="<plan>p</plan>"),
        text(head="<analysis>a</analysis><plan>p</plan><analysis>b</analysis>"),
        text(f"<commands>{LS}</commands><commands>{LS}</commands>"),
    ],
)
def test_odd_shapes_are_forgiven_with_a_warning(given_text: str) -> None:
    reply = sound(parse_xml(given_text))
    assert (reply.commands, reply.error) == ((Command("ls\n", 0.1),), "")
    assert reply.warnings


@pytest.mark.parametrize("missing", ["</response>", ""])
def test_a_missing_end_is_tolerated_in_silence(missing: str) -> None:
    reply = parse_xml(text().replace("</response>", "") + "")
    assert (reply.commands, reply.error, reply.warnings) == ((Command("ls\n", 0.1),), "", ())


@pytest.mark.parametrize(
    ("given_text", "says"),
    [
        ("", "<response>"),
        ("just prose", "<response>"),
        ("<analysis>a</analysis><plan>p</plan><commands></commands>", "<response>"),
        ("<response></response>", "<response>"),
        ("<response> \n </response>", "<response>"),
        (text(""), "<commands>"),
        (text("<commands>" + LS), "<commands>"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_says_why(given_text: str, says: str) -> None:
    assert says in sound(parse_xml(given_text)).error


def test_no_commands_are_an_error_a_warning_or_fine() -> None:
    done = "<task_complete>true</task_complete>"
    assert parse_xml(text("", done)).complete
    assert parse_xml(text("", done)).warnings
    for empty in ("<commands></commands>", "<commands/>", "<commands> \n</commands>"):
        assert (parse_xml(text(empty)).error, bool(parse_xml(text(empty)).warnings)) == ("", True)
        assert (parse_xml(text(empty, done)).complete, parse_xml(text(empty, done)).warnings) == (True, ())
    assert parse_xml(commands("ls -la")).warnings == ()


@pytest.mark.parametrize(
    ("attributes", "seconds", "warnings"),
    [
        (' duration="2.5"', 2.5, 0),
        (' duration = "2.5"', 2.5, 0),
        (" duration='2'", 2.0, 1),
        (" duration=2", 1.0, 2),
        ("", 1.0, 1),
        (' duration=""', 1.0, 1),
        (' duration="soon"', 1.0, 1),
        (' duration="2" wait="true"', 2.0, 1),
        (' duration="-5"', 0.0, 0),
        (' duration="nan"', 0.0, 0),
        (' duration="inf"', 60.0, 0),
        (f' duration="{"9" * 400}"', 60.0, 0),
        (f' duration="{"9" * 6_000}"', 60.0, 0),
    ],
)
def test_durations(attributes: str, seconds: float, warnings: int) -> None:
    reply = sound(parse_xml(commands(f"<keystrokes{attributes}>ls\n</keystrokes>")))
    assert reply.commands == (Command("ls\n", seconds),)
    assert len(reply.warnings) == warnings


@pytest.mark.parametrize(
    ("keys", "warns"),
    [("ls\n", False), ("ls", True), ("", True), ("a &lt; b\n", True), ("a & b\n", False), ("ls\\r\\n\n", True)],
)
def test_warnings_about_keystrokes_leave_them_as_they_are(keys: str, warns: bool) -> None:
    reply = parse_xml(commands(f'<keystrokes duration="1">{keys}</keystrokes>{LS}'))
    assert reply.commands[0] == Command(keys, 1.0)
    assert bool(reply.warnings) == warns


def test_keystrokes_are_kept_byte_for_byte() -> None:
    keys = "  cat <<'E'\n\t<div class=\"x\">&</div> </analysis> \\n 日本\n\n  \nE\n"
    assert parse_xml(commands(f'<keystrokes duration="1">{keys}</keystrokes>')).commands[0].keystrokes == keys


def test_tags_that_are_not_closed_type_nothing() -> None:
    reply = parse_xml(commands(f'{LS}<keystrokes duration="1"/><keystrokes duration="1">rm -rf build'))
    assert reply.commands == (Command("ls\n", 0.1),)
    assert len(reply.warnings) == 2


def test_a_reply_cut_off_after_its_response_is_salvaged_and_readable() -> None:
    whole = text(rest="<task_complete>false</task_complete>")
    for tail in ("", "\nNow I will expl", "\n<analysis>what"):
        saved = salvage_xml("Let me see. " + whole + tail)
        assert saved is not None
        assert saved == "Let me see. " + whole
        reply = parse_xml(saved)
        assert (reply.commands, reply.error) == ((Command("ls\n", 0.1),), "")


@pytest.mark.parametrize(
    "given_text",
    [
        "",
        "prose",
        text()[:-5],
        text() + "\n<response>\n<analysis>again",
        text(f"<commands>{LS}</commands><commands></commands>"),
        text("<commands>" + LS),
        "<response></response>",
        "</commands></response>",
    ],
)
def test_nothing_doubtful_is_salvaged(given_text: str) -> None:
    assert salvage_xml(given_text) is None


@pytest.mark.parametrize(
    "given_text",
    [
        "<response>" * 100_000,
        "<response>" + "<analysis>" * 100_000,
        "<response>" + "<a " * 300_000,
        "<response><commands><keystrokes " + "a" * 300_000 + "></keystrokes></commands>",
        "<response><commands><keystrokes " + "a =" * 300_000 + "></keystrokes></commands>",
        "<response><commands>" + "<keystrokes>" * 80_000 + "</commands>",
        "<response><commands>" + "<keystrokes" + " /" * 500_000 + "</commands>",
        "<response><task_complete>" + " " * 300_000,
    ],
    ids=range(8),
)
def test_floods_are_read_or_refused(given_text: str) -> None:
    reply = sound(parse_xml(given_text))
    assert len("".join((reply.error, *reply.warnings))) < 5_000
    salvage_xml(given_text)


@pytest.mark.parametrize("name", ODD)
def test_odd_texts(name: str) -> None:
    sound(parse_xml(ODD[name]))
    sound(parse_xml(commands(f'<keystrokes duration="1">{ODD[name]}</keystrokes>')))


PIECES = [
    *("<response>", "</response>", "<analysis>", "</analysis>", "<plan>", "</plan>", "<commands>", "</commands>"),
    *("<commands/>", '<keystrokes duration="1">', "<keystrokes>", "</keystrokes>"),
    *("<task_complete>true</task_complete>", "<x>", "ls\n", "<", "a"),
]
ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | ANY_TEXT)
def test_any_mixture_is_read_or_refused_and_what_is_salvaged_can_be_read(given_text: str) -> None:
    sound(parse_xml(given_text))
    saved = salvage_xml(given_text)
    assert saved is None or not parse_xml(saved).error


@given(st.lists(st.tuples(st.text(), st.floats(0, 60))), st.booleans())
def test_what_is_written_properly_is_read_back(given_commands: list[tuple[str, float]], complete: bool) -> None:
    given_commands = [(keys.replace("<", "("), seconds) for keys, seconds in given_commands]
    inner = "".join(f'<keystrokes duration="{seconds!r}">{keys}</keystrokes>' for keys, seconds in given_commands)
    reply = parse_xml(text(f"<commands>{inner}</commands>", f"<task_complete>{complete}</task_complete>"))
    assert [(command.keystrokes, command.duration) for command in reply.commands] == given_commands
    assert (reply.error, reply.complete) == ("", complete)
