"""Names of keys, as tmux knows them (tmux(1), KEY BINDINGS)."""

from __future__ import annotations

import re

from harness.keys import find_key
from modularrsi.errors import UserError

_KEYPAD = re.compile(r"KP(?:[0-9/*+.-]|Enter)")


def key_name(name: str) -> str:
    """The name as tmux spells it: what `harness.keys` knows, a key of the keypad, or one printable ASCII character.

    Raises `UserError` for everything else: tmux would type an unknown name out as text.
    """
    key = find_key(name)
    if key is not None:
        return key.name
    if (len(name) == 1 and "!" <= name <= "~") or _KEYPAD.fullmatch(name):
        return name
    raise UserError(f"key: {name[:40]!r} is no key that tmux knows; use a name such as Enter, Up, F1 or C-c")
