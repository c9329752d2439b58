"""The text of tmux's control mode: how a request is written and how its replies are told apart.

tmux answers each command with a block (tmux(1), CONTROL MODE):

    %begin <time> <number> <flags>
    …output…
    %end <time> <number> <flags>        or %error …

The output of `capture-pane` is what a program in the pane printed, so it may imitate every one of these lines: time
and number are easy to guess. A block is therefore delimited by a nonce, 128 random bits made for the request and
printed by tmux right after it (`display-message -p <nonce>`): what the pane holds was written before the nonce
existed. Between two nonces, the first `%begin` is tmux's (outside blocks tmux writes only notifications, and none of
them can hold a line break), and so is the last `%end` or `%error` of the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BEGIN = re.compile(rb"^%begin (\d+ \d+ \d+)\n", re.MULTILINE)
_ESCAPED = re.compile(r'[\x00-\x1f\x7f"\\$~]')  # tmux expands $VAR and a leading ~ even between double quotes


@dataclass(frozen=True, slots=True)
class Block:
    """The reply to one command: its output, or why it failed."""

    body: bytes
    failed: bool = False


def quote(text: str) -> str:
    """`text` as one argument of a tmux command, on one line, with nothing in it expanded. NUL cannot be passed."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return f"\\{char}" if char in '"\\$' else f"\\{ord(char):03o}"


def request(commands: Sequence[str], nonces: Sequence[str], end: str) -> bytes:
    """Two lines: the commands as one list (tmux runs it in one go), each followed by its nonce; then the end nonce.

    The end nonce is on a line of its own because a failing command takes the rest of its line with it.
    """
    marked = (f"{command} ; display-message -p {nonce}" for command, nonce in zip(commands, nonces, strict=True))
    return (" ; ".join(marked) + f"\ndisplay-message -p {end}\n").encode("utf-8", "replace")


def end_of_reply(data: bytes | bytearray, end: str, start: int = 0) -> int:
    """Where the block of the end nonce is over (index after its last line), or -1 while it is incomplete."""
    nonce = data.find(end.encode(), start)
    if nonce < 0:
        return -1
    closing = data.find(b"\n%end ", nonce)
    return data.find(b"\n", closing + 1) + 1 or -1 if closing >= 0 else -1


def split(reply: bytes, nonces: Sequence[str], end: str) -> list[Block]:
    """The blocks of one reply, in order; shorter than `nonces` when a command failed (its block is then the last)."""
    blocks: list[Block] = []
    start = 0
    for nonce in nonces:
        found = reply.find(nonce.encode(), start)
        stop = found if found >= 0 else reply.find(end.encode(), start)
        blocks.append(_block(reply[start : reply.rfind(b"%begin ", start, stop)]))
        if found < 0:
            break
        start = reply.find(b"\n", reply.find(b"\n%end ", found) + 1) + 1
    return blocks


def _block(segment: bytes) -> Block:
    """The one block within `segment` (notifications may stand before and after it)."""
    begin = _BEGIN.search(segment)
    if begin is None:
        return Block(b"tmux gave no reply", failed=True)
    good = segment.rfind(b"\n%end " + begin[1] + b"\n", begin.end() - 1)
    bad = segment.rfind(b"\n%error " + begin[1] + b"\n", begin.end() - 1)
    body = segment[begin.end() : max(good, bad) + 1]
    return Block(body.removesuffix(b"\n"), failed=bad > good)
