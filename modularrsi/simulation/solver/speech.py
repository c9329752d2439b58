"""A reply in the form that the harness teaches, and the six ways in which it can be unreadable."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modularrsi.simulation.solver.forms import Form

KINDS = ("trailing_comma", "raw_line_breaks", "python_quotes", "thought_first", "renamed_fields", "prose_only")
"""The six kinds of unreadable replies."""

_OTHER_NAMES = {"commands": "actions", "keystrokes": "command", "duration": "timeout", "task_complete": "done"}


@dataclass(frozen=True, slots=True)
class Said:
    """What a reply says, before it has a form. `commands`: (keystrokes, seconds)."""

    analysis: str
    plan: str
    commands: tuple[tuple[str, float], ...] = ()
    complete: bool = False


def speak(said: Said, form: Form) -> str:
    if form.kind == "json":
        return json.dumps(_table(said, form), ensure_ascii=False, indent=1)
    if form.kind == "tags":
        return _tags(said, form)
    body = "".join(keys for keys, _ in said.commands) or ("echo done\n" if said.complete else "\n")
    return f"{said.analysis}\n{said.plan}\n\n```bash\n{body}```"


def spoil(said: Said, form: Form, kind: str) -> str:
    """The same reply in an unreadable form. In another form than JSON each kind stands for its nearest relation."""
    if kind == "prose_only":
        keys = said.commands[0][0].strip() if said.commands else "nothing more"
        return f"{said.analysis} {said.plan} So now I run this in the terminal: {keys}"
    if form.kind != "json":
        return _spoilt_tags(said, form, kind)
    text = speak(said, form)
    if kind == "trailing_comma":
        return re.sub(r"\n(\s*)([\]}])", r",\n\1\2", text)
    if kind == "raw_line_breaks":
        broken = text.replace("\\n", "\n")
        return broken if broken != text else text.replace(said.analysis, said.analysis + "\n")
    if kind == "python_quotes":
        return repr(_table(said, form))
    if kind == "thought_first":
        return f'<think>{{"thought": "{_plain(said.plan)}"}}</think>\n{text}'
    return json.dumps(_table(said, _renamed(form)), ensure_ascii=False, indent=1)


def _table(said: Said, form: Form) -> dict[str, Any]:
    commands = [_command(keys, seconds, form) for keys, seconds in said.commands]
    table: dict[str, Any] = dict(zip(form.texts, _texts(said, len(form.texts)), strict=True))
    table[form.list] = commands
    return {**table, form.done: said.complete} if form.done else table


def _command(keys: str, seconds: float, form: Form) -> dict[str, Any]:
    return {form.keys: keys, form.wait: seconds} if form.wait else {form.keys: keys}


def _texts(said: Said, count: int) -> Sequence[str]:
    return [said.analysis, said.plan, *[""] * count][:count]


def _tags(said: Said, form: Form) -> str:
    texts = zip(form.texts, _texts(said, len(form.texts)), strict=True)
    lines = [f"<{form.outer}>", *(f"<{name}>{text}</{name}>" for name, text in texts)]
    lines.append(f"<{form.list}>")
    lines += [f'<{form.keys} {form.wait}="{seconds}">{keys}</{form.keys}>' for keys, seconds in said.commands]
    lines += [f"</{form.list}>", f"<{form.done}>{str(said.complete).lower()}</{form.done}>", f"</{form.outer}>"]
    return "\n".join(lines)


def _spoilt_tags(said: Said, form: Form, kind: str) -> str:
    text = speak(said, form)
    if kind == "python_quotes":
        return repr({"analysis": said.analysis, "plan": said.plan, "commands": list(said.commands)})
    if kind == "thought_first":
        return f"<think>{_plain(said.plan)} <{form.outer}></think>\n" + text.replace(f"<{form.list}>", "")
    if kind == "renamed_fields":
        return text.replace(form.list, "actions").replace(form.keys, "command")
    cut = f"</{form.keys}>" if kind == "trailing_comma" and said.commands else f"</{form.list}>"
    return text.replace(cut, "")


def _renamed(form: Form) -> Form:
    """The same form with other words for its fields."""
    other = _OTHER_NAMES
    return Form(
        form.kind, other.get(form.keys, form.keys + "_text"), other.get(form.wait, form.wait),
        other.get(form.done, form.done), other.get(form.list, form.list + "_list"), form.texts, form.outer,
    )  # fmt: skip


def _plain(text: str) -> str:
    return text.replace('"', "'").replace("\n", " ").replace("\\", "/")
