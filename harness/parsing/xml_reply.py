"""Replies in XML-like tags, read as Terminus-2 reads them: literal tags, no XML parser, no entities.

Keystrokes are everything between their tags, byte for byte. A missing `</response>` is tolerated. The durations are
clamped (`harness.parsing.durations`).
"""

from __future__ import annotations

import re

from harness.parsing.durations import MAX_DURATION, clamp_duration
from harness.parsing.notes import Notes
from harness.record import record
from harness.text import replace_surrogates
from harness.types import Command, Reply

_OPEN, _CLOSE = "<response>", "</response>"
_SECTIONS = ("analysis", "plan", "commands")
_TAG = re.compile(r"<([A-Za-z_][\w.-]{0,60})(?:\s[^<>]*)?/?>")
_COMPLETE = re.compile(r"<task_complete>\s*true\s*</task_complete>", re.IGNORECASE)
_KEYSTROKES_OPEN = re.compile(r"<keystrokes((?:\s[^<>]*?)?)(/?)>")
_KEYSTROKES_CLOSE = "</keystrokes>"
_DURATION = re.compile(r"""\bduration\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ATTRIBUTE = re.compile(r"""(?<![\w:-])([\w:-]++)\s*+=\s*+("[^"]*"|'[^']*'|[^\s"']+)""")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos);")
_MAX_NAMED = 5
_PREVIEW = 100


def parse_xml(text: str, max_wait: float = MAX_DURATION) -> Reply:
    """Read a reply. Never raises; time is linear in the text."""
    return _Reader(replace_surrogates(text), max_wait).read()


def salvage_xml(text: str) -> str | None:
    """The whole response at the start of a reply that was cut off after it, or None.

    Only a response that parses without error and stands alone is salvaged: with a second one begun, it is not known
    which the model meant.
    """
    text = replace_surrogates(text)
    commands_end = text.find("</commands>")
    end = text.find(_CLOSE, commands_end) if commands_end >= 0 else -1
    if end < 0 or text.count(_OPEN) != 1:
        return None
    whole = text[: end + len(_CLOSE)]
    reader = _Reader(whole, MAX_DURATION)
    return whole if not reader.read().error and not reader.several else None


class _Reader:
    """One attempt to read one text; collects warnings on the way. `several`: a block came more than once."""

    def __init__(self, text: str, max_wait: float) -> None:
        self.text = text
        self.max_wait = max_wait
        self.notes = Notes()
        self.several = False

    def read(self) -> Reply:
        content = self._response()
        if not content:
            return Reply(error=f"No {_OPEN} block with content was found", raw=self.text)
        sections, outside = self._sections(content)
        block = sections.get("commands")
        found, between = _find_keystrokes(block or "", self.notes)
        # Only outside of keystrokes: what is typed into a file must not end the task.
        complete = bool(_COMPLETE.search(f"{outside} {between}"))
        error = "The <commands> block is missing" if block is None and not complete else ""
        if block is not None and not block.strip() and not complete:
            self.notes.add("The <commands> block is empty: nothing was done")
        commands = self._commands(found)
        analysis, plan = (sections.get(name, "").strip() for name in ("analysis", "plan"))
        return Reply(commands, complete, error, self.notes.all(), analysis, plan, self.text)

    def _response(self) -> str:
        """What stands in the first response block; warns of what stands around it."""
        start = self.text.find(_OPEN)
        if start < 0:
            return ""
        end = self.text.find(_CLOSE, start)
        content = self.text[start + len(_OPEN) : end if end >= 0 else len(self.text)].strip()
        if not content:
            return ""
        after = self.text[end + len(_CLOSE) :] if end >= 0 else ""
        if self.text[:start].strip():
            self.notes.add(f"There is text before {_OPEN}")
        if after.strip():
            self.notes.add(f"There is text after {_CLOSE}")
        if _OPEN in after:
            self._warn_several("response")
        return content

    def _warn_several(self, name: str) -> None:
        self.several = True
        self.notes.add(f"IMPORTANT: send one <{name}> block only; the first one was used, the others were not")

    def _sections(self, content: str) -> tuple[dict[str, str], str]:
        """The first of each section, and what stands outside of them."""
        spans = {name: span for name in _SECTIONS if (span := _find_section(content, name)) is not None}
        outside = _cut_out(content, [(start, end) for start, end, _ in spans.values()])
        for name in _SECTIONS:
            if name not in spans:
                self.notes.add(f"The <{name}> block is missing")
        found = sorted(spans, key=lambda name: spans[name][0])
        if found != list(spans):
            self.notes.add(f"The blocks come as {', '.join(found)}; the order is {', '.join(_SECTIONS)}")
        self._check_tags(outside, tuple(spans))
        return {name: inner for name, (_, _, inner) in spans.items()}, outside

    def _check_tags(self, outside: str, used: tuple[str, ...]) -> None:
        tags = dict.fromkeys(match[1] for match in _TAG.finditer(outside))
        for name in [name for name in tags if name in used]:
            self._warn_several(name)
        unknown = [name for name in tags if name not in (*_SECTIONS, "task_complete")]
        if unknown:
            self.notes.add(f"Tags that are not known: {', '.join(unknown[:_MAX_NAMED])}")

    def _commands(self, found: list[_Keystrokes]) -> tuple[Command, ...]:
        commands: list[Command] = []
        for number, item in enumerate(found, 1):
            self._check_keystrokes(item.text, number, number == len(found))
            commands.append(Command(item.text, self._duration(item.attributes, number)))
        return tuple(commands)

    def _check_keystrokes(self, text: str, number: int, last: bool) -> None:
        if not last and not text.endswith("\n"):
            self.notes.no_newline(number)
        if _ENTITY.search(text):
            self.notes.add(f"Command {number} holds XML entities such as &lt;; they are typed as they stand")
        if "\\r\\n" in text:
            self.notes.add(f"Command {number} holds the characters \\r\\n; a real line break presses Enter")

    def _duration(self, attributes: str, number: int) -> float:
        pairs: list[tuple[str, str]] = _ATTRIBUTE.findall(attributes)
        unknown = [name for name, _ in pairs if name != "duration"]
        if unknown:
            names = ", ".join(unknown[:_MAX_NAMED])[:_PREVIEW]
            self.notes.add(f"Command {number} has attributes that are not known: {names}")
        if any(name == "duration" and not value.startswith('"') for name, value in pairs):
            self.notes.add(f"Command {number}: write the duration in double quotes")
        match = _DURATION.search(attributes)
        value = _number(match[1] if match[1] is not None else match[2]) if match else None
        if value is None:
            problem = "a duration that is not a number" if match else "no readable duration"
            self.notes.add(f"Command {number} has {problem}; 1.0 is used")
        return clamp_duration(value, self.max_wait)


@record
class _Keystrokes:
    attributes: str
    text: str


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _find_section(content: str, name: str) -> tuple[int, int, str] | None:
    """(start, end, inner text) of the first `<name>…</name>` or `<name/>`, or None."""
    empty = re.search(rf"<{name}\s*/>", content)
    start = content.find(f"<{name}>")
    end = content.find(f"</{name}>", start) if start >= 0 else -1
    if end >= 0 and not (empty and empty.start() < start):
        return start, end + len(name) + 3, content[start + len(name) + 2 : end]
    return (empty.start(), empty.end(), "") if empty else None


def _cut_out(content: str, spans: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in sorted(spans):
        parts.append(content[position:start])
        position = max(position, end)
    return " ".join([*parts, content[position:]])


def _find_keystrokes(block: str, notes: Notes) -> tuple[list[_Keystrokes], str]:
    """Each `<keystrokes …>…</keystrokes>` in order, and the text between them. A self-closing one does nothing."""
    found: list[_Keystrokes] = []
    between: list[str] = []
    position = 0
    while (opening := _KEYSTROKES_OPEN.search(block, position)) is not None:
        between.append(block[position : opening.start()])
        position = opening.end()
        if opening[2]:
            notes.add("A self-closing <keystrokes/> was skipped; to wait, send an empty pair of tags")
            continue
        end = block.find(_KEYSTROKES_CLOSE, position)
        if end < 0:
            notes.add("A <keystrokes> tag is not closed; it was skipped")
            break
        found.append(_Keystrokes(opening[1], block[position:end]))
        position = end + len(_KEYSTROKES_CLOSE)
    else:
        between.append(block[position:])
    return found, " ".join(between)
