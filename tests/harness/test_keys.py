"""Which keystrokes press a key, and which are text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.keys import find_key, is_key_name, split_keystrokes
from harness.types import Key
from modularrsi.terminal.keys import key_name

NAMES = [
    *("C-c", "C-d", "C-z", "C-l", "C-\\", "C-]", "C-Space", "C-@", "M-x", "M-.", "C-M-a", "C-Up"),
    *("S-Up", "S-F1", "M-Enter"),
    *("Enter", "Escape", "Tab", "BTab", "BSpace", "Space", "Up", "Down", "Left", "Right", "Home", "End"),
    *("PageUp", "PageDown", "IC", "DC", "F1", "F9", "F12"),
]


@pytest.mark.parametrize("name", NAMES)
def test_key_names_are_keys(name: str) -> None:
    assert is_key_name(name)
    assert split_keystrokes(name) == [Key(name)]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("^C", "C-c"),
        ("^c", "C-c"),
        ("^[", "C-["),
        ("c-C", "C-c"),
        ("M-C-x", "C-M-x"),
        ("PPage", "PageUp"),
        ("NPage", "PageDown"),
        ("enter", "Enter"),
        ("S-Tab", "BTab"),
        ("Delete", "DC"),
    ],
)
def test_other_spellings_have_one_name(written: str, name: str) -> None:
    assert find_key(written) == Key(name)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "q", "y", ":", "Up\n", "Up ", " Up", "echo Up", "C-c\n", "C-", "-c", "C-cc", "C-c C-d", "^"),
        *("^^^", "C--", "F0", "F13", "Ctrl-C", "ls;", ";", "!x", "C-ü", "M-\n", "S-x", "C-1", "CC-c"),
        *("KEYC", "Backspace", "$HOME"),
    ],
)
def test_everything_else_is_text(text: str) -> None:
    assert not is_key_name(text)
    assert split_keystrokes(text) == ([text] if text else [])


@pytest.mark.parametrize(
    ("keystrokes", "parts"),
    [
        ("\x03", [Key("C-c")]),
        ("\x04", [Key("C-d")]),
        ("\x1a", [Key("C-z")]),
        ("\x1b", [Key("Escape")]),
        ("\x7f", [Key("BSpace")]),
        ("\0", [Key("C-Space")]),
        ("\x03ls\n", [Key("C-c"), "ls\n"]),
        ("ihello\x1b:wq\n", ["ihello", Key("Escape"), ":wq\n"]),
        ("\x1b[A\n", [Key("Up"), "\n"]),
        ("\x1bOB\x1b[5~", [Key("Down"), Key("PageUp")]),
        ("ls\r", ["ls", Key("Enter")]),
        ("a\r\nb\r\n", ["a\nb\n"]),
        ("\tindented\n\n", ["\tindented\n\n"]),
        ("cat <<'E'\n\\x03 $x\nE\n", ["cat <<'E'\n\\x03 $x\nE\n"]),
    ],
)
def test_control_characters_press_their_keys(keystrokes: str, parts: list[str | Key]) -> None:
    assert split_keystrokes(keystrokes) == parts


@given(st.text(alphabet=st.sampled_from("CMS-^xUp\n\t\r\x03\x1b[A~5é;!"), max_size=20) | st.text())
def test_no_text_is_lost_and_every_key_is_one_that_tmux_has(keystrokes: str) -> None:
    parts = split_keystrokes(keystrokes)
    for part in parts:
        if isinstance(part, Key):
            assert key_name(part.name) == part.name
        else:
            assert part
    plain = all((char >= " " or char in "\n\t") and char != "\x7f" for char in keystrokes)
    if plain and not is_key_name(keystrokes):
        assert parts == ([keystrokes] if keystrokes else [])
