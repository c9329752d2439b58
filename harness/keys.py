"""Named keys: which keystrokes press a key, and which are literal text.

The policy is Terminus-2's, whose terminal is tmux: keystrokes that are *exactly* a key name (`C-c`, `Enter`, `Up`)
press that key; anything else (`Up\\n`, `echo Up`, a trailing `;`, `!x`) is text. Names and modifiers are those of
tmux(1), "KEY BINDINGS", in any case, as tmux reads them. On top of that, control characters inside text press the key
they stand for, because models write Ctrl-C as the character U+0003.
"""

from __future__ import annotations

import re

from harness.types import Key

_NAMES = (
    *("Enter", "Escape", "Tab", "BTab", "BSpace", "Space", "Up", "Down", "Left", "Right", "Home", "End"),
    *("PageUp", "PageDown", "IC", "DC", *(f"F{number}" for number in range(1, 13))),
)
_ALIASES = {
    **{name.lower(): name for name in _NAMES},
    "ppage": "PageUp",
    "pgup": "PageUp",
    "npage": "PageDown",
    "pgdn": "PageDown",
    "insert": "IC",
    "delete": "DC",
}
# Keys that tmux can send with Shift; Shift on a character is that other character.
_SHIFTABLE = frozenset(_NAMES) - {"Enter", "Escape", "Tab", "BTab", "BSpace", "Space"}
_CONTROLLABLE = frozenset("abcdefghijklmnopqrstuvwxyz@[\\]^_?/")
_SHAPE = re.compile(r"((?:[CMScms]-){0,3})(.|[A-Za-z]{2,8}|[Ff][0-9]{1,2})")

_CONTROL_KEYS: dict[str, Key] = {
    **{chr(code): Key(f"C-{chr(code + 96)}") for code in range(1, 27)},
    "\x00": Key("C-Space"),
    "\r": Key("Enter"),
    "\x1b": Key("Escape"),
    "\x1c": Key("C-\\"),
    "\x1d": Key("C-]"),
    "\x1e": Key("C-^"),
    "\x1f": Key("C-_"),
    "\x7f": Key("BSpace"),
}
# What follows ESC [ or ESC O (ECMA-48 CSI, and SS3 of application mode).
_CURSOR_KEYS: dict[str, Key] = {
    "A": Key("Up"),
    "B": Key("Down"),
    "C": Key("Right"),
    "D": Key("Left"),
    "F": Key("End"),
    "H": Key("Home"),
    "Z": Key("BTab"),
    "1~": Key("Home"),
    "2~": Key("IC"),
    "3~": Key("DC"),
    "4~": Key("End"),
    "5~": Key("PageUp"),
    "6~": Key("PageDown"),
}
# \t and \n stay text. \r\n is one line end, not two.
_SPECIAL = re.compile(r"\x1b[\[O](?:[ABCDHFZ]|[1-6]~)|\r\n|[\x00-\x08\x0b-\x1f\x7f]")


def find_key(text: str) -> Key | None:
    """The key that `text` names, with its canonical name (`^C` and `c-C` are `C-c`), or None."""
    if len(text) == 2 and text[0] == "^":
        return find_key(f"C-{text[1]}")
    shape = _SHAPE.fullmatch(text) if 2 <= len(text) <= 14 else None
    if shape is None:
        return None
    modifiers = set(shape[1].upper().replace("-", ""))
    name = _ALIASES.get(shape[2].lower())
    return _named(modifiers, name) if name else _character(modifiers, shape[2])


def _named(modifiers: set[str], name: str) -> Key | None:
    if modifiers == {"S"} and name == "Tab":
        return Key("BTab")
    if "S" in modifiers and name not in _SHIFTABLE:
        return None
    return Key(_prefix(modifiers) + name)


def _character(modifiers: set[str], char: str) -> Key | None:
    if len(char) != 1 or not modifiers or "S" in modifiers or not "!" <= char <= "~":
        return None
    if "C" in modifiers:
        char = char.lower()
        if char not in _CONTROLLABLE:
            return None
    return Key(_prefix(modifiers) + char)


def _prefix(modifiers: set[str]) -> str:
    return "".join(f"{letter}-" for letter in "CMS" if letter in modifiers)


def is_key_name(text: str) -> bool:
    """Whether keystrokes of exactly this text press a key."""
    return find_key(text) is not None


def split_keystrokes(keystrokes: str) -> list[str | Key]:
    """Literal text and keys, in order; joined, they are all of `keystrokes`. Empty keystrokes are an empty list.

    Exactly a key name → that one key. Otherwise text, in which control characters (not newline, not tab) and the
    escape sequences of cursor keys press their keys.
    """
    key = find_key(keystrokes)
    if key is not None:
        return [key]
    parts: list[str | Key] = []
    text: list[str] = []
    start = 0
    for match in _SPECIAL.finditer(keystrokes):
        text.append(keystrokes[start : match.start()])
        start = match.end()
        if match[0] == "\r\n":
            text.append("\n")
            continue
        _flush(text, parts)
        parts.append(_CONTROL_KEYS.get(match[0]) or _CURSOR_KEYS[match[0][2:]])
    text.append(keystrokes[start:])
    _flush(text, parts)
    return parts


def _flush(text: list[str], parts: list[str | Key]) -> None:
    joined = "".join(text)
    text.clear()
    if joined:
        parts.append(joined)
