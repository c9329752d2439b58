"""Untrusted text: cleaning what a terminal or a file printed, and cutting it to size.

Every function is total (any `str` or `bytes` goes in, nothing is raised), takes time linear in its input and never
returns more than it was given. Control sequences follow ECMA-48 and xterm's ctlseqs: CSI, OSC (ended by BEL or ST),
DCS/APC/PM/SOS (ended by ST), two-byte escapes, and their 8-bit forms.
"""

from __future__ import annotations

import re

from harness.record import record

# A string (OSC, DCS, …) stops at the next introducer, whatever follows, so no scan passes the same text twice.
_PAYLOAD = r"[^\x1b\x80-\x9f]{0,65536}+"
# What a broken sequence may swallow at most: part of its own line. Output after it must stay visible.
_REMNANT = r"[^\x07\x1b\x80-\x9f\n]{0,256}+"

_SEQUENCE = re.compile(
    rf"""
      (?:\x1b\[|\x9b) (?: [0-?]*+[ -/]*+[@-~] | [0-?]{{0,256}}+ )
    | (?:\x1b\]|\x9d) (?: [^\x07\x1b\x80-\x9f]{{0,65536}}+ (?:\x07|\x1b\\|\x9c) | {_REMNANT} )
    | (?:\x1b[PX^_]|[\x90\x98\x9e\x9f]) (?: {_PAYLOAD} (?:\x1b\\|\x9c) | {_REMNANT} )
    | \x1b [ -/]{{0,16}}+ [0-~]
    """,
    re.VERBOSE,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SILENT_CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but \r and \b, which move


def replace_surrogates(text: str) -> str:
    """Pairs of surrogates become the character they mean, lone ones U+FFFD: the result can be encoded."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def decode_bytes(data: bytes) -> str:
    """UTF-8 → text; what is invalid or cut in half becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def strip_sequences(text: str) -> str:
    """Remove control sequences. A string sequence that never ends loses its introducer and at most 256 characters
    of its line; a whole one may be up to 65,536 characters long."""
    return _SEQUENCE.sub("", text)


def clean_text(text: str) -> str:
    """What a reader should see of raw terminal output.

    Control sequences are gone; a line rewritten by carriage returns keeps its last state (the last non-empty
    rewriting: what a progress bar ended as); backspaces move back and overwrite; other control characters (C0 except
    newline and tab, DEL, C1) are dropped; lone surrogates are U+FFFD. Clean text is returned as it is.
    """
    text = replace_surrogates(text)
    if not _CONTROL.search(text):
        return text
    text = _SILENT_CONTROL.sub("", strip_sequences(text))
    if "\r" in text or "\b" in text:
        text = "\n".join(_settle(line) for line in text.split("\n"))
    return text


def _settle(line: str) -> str:
    """The last state of one line (no newline in it) that uses \\r or \\b."""
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    return _overstrike(line) if "\b" in line else line


def _overstrike(line: str) -> str:
    """Backspace moves back one column and what comes next overwrites, as on a terminal."""
    cells: list[str] = []
    column = 0
    for char in line:
        if char == "\b":
            column = max(0, column - 1)
            continue
        if column < len(cells):
            cells[column] = char
        else:
            cells.append(char)
        column += 1
    return "".join(cells)


@record
class Cut:
    """A text without its middle: `omitted` is the number of UTF-8 bytes between `head` and `tail`."""

    head: str
    tail: str = ""
    omitted: int = 0


def cut_bytes(text: str, limit: int) -> Cut:
    """At most `limit` UTF-8 bytes of `text`: its first half and its last half; no character is split.

    Within the limit the whole text is the head. `omitted` counts the bytes really left out, those of a character at
    the edge of a cut included.
    """
    data = replace_surrogates(text).encode("utf-8")
    limit = max(0, limit)
    if len(data) <= limit:
        return Cut(data.decode("utf-8"))
    first = limit // 2
    head = data[:first].decode("utf-8", "ignore")
    tail = data[len(data) - (limit - first) :].decode("utf-8", "ignore")
    return Cut(head, tail, len(data) - len(head.encode("utf-8")) - len(tail.encode("utf-8")))


def first_bytes(text: str, limit: int) -> str:
    """The first at most `limit` UTF-8 bytes, no character split."""
    return replace_surrogates(text).encode("utf-8")[: max(0, limit)].decode("utf-8", "ignore")
