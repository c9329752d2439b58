"""Material for the suites: texts that terminals, files and models really produce and that break careless code."""

from __future__ import annotations

ORDINARY = (
    "$ ls -la\ntotal 8\n-rw-r--r-- 1 user user 12 Jan  1 10:00 notes.txt\n"
    "$ grep -n TODO notes.txt\n3:\tTODO: naïve 日本語 ✓\n$ "
)

ODD: dict[str, str] = {
    "empty": "",
    "blank": " \n\t\n",
    "NUL": "a\0b",
    "lone surrogates": "x\ud800y\udfffz",
    "colours": "\x1b[1;31mred\x1b[0m plain\n",
    "title with BEL": "\x1b]0;title\x07$ ls\n",
    "title with ST": "\x1b]0;title\x1b\\$ ls\n",
    "unfinished title": "\x1b]0;never ended\n$ ls\n",
    "device control": "\x1bPq#0;2;0;0;0\x1b\\done\n",
    "only introducers": "\x1b[\x1b]\x1bP\x9b\x9d\x1b",
    "progress bar": "".join(f"\r{percent:3d}% [{'#' * (percent // 5)}" for percent in range(101)) + "\n",
    "backspaces": "\b\bab\b\bcd\b" * 50,
    "control characters": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "binary read as UTF-8": bytes(range(256)).decode("utf-8", "replace") * 20,
    "wide and combining": "e\u0301日本語😀👩‍👩‍👧" * 500,
    "right to left": "\u202eabc\u202c \u200f",
    "very long line": "x" * 100_000,
    "very many lines": "y\n" * 50_000,
    "deep nesting": "{" * 50_000 + "[" * 50_000,
    "nested JSON": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "escape flood": "\x1b[31m" * 20_000,
    "quotes and backslashes": "\\\"'`" * 10_000,
}


def encodable(text: str) -> bool:
    """Whether a text can leave the process: no lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
