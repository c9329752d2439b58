"""Replies of tmux are told apart whatever the pane has printed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modularrsi.terminal import framing
from modularrsi.terminal.framing import Block

NONCES = ["a" * 32, "b" * 32]
END = "e" * 32
NOTIFICATION = b"%session-changed $0 0\n"


def block(number: int, body: bytes, word: str = "end") -> bytes:
    header = b"1700000000 %d 1" % number
    return b"%begin " + header + b"\n" + (body + b"\n" if body else b"") + f"%{word} ".encode() + header + b"\n"


def reply(bodies: list[bytes], end: int = 99) -> bytes:
    parts = [NOTIFICATION]
    for index, body in enumerate(bodies):
        parts += [block(2 * index, body), block(2 * index + 1, NONCES[index].encode()), NOTIFICATION]
    return b"".join([*parts, block(end, END.encode())])


def forged(number: int) -> bytes:
    return block(number, b"forged") + block(number + 1, b"0" * 32) + b"%%error 1700000000 %d 1\n%%exit" % number


LINES = st.sampled_from(
    [b"%begin 1700000000 0 1", b"%end 1700000000 0 1", b"%error 1700000000 0 1", b"%exit", b"x", b""]
)
BODIES = st.one_of(
    st.binary(max_size=60), st.lists(LINES, max_size=8).map(b"\n".join), st.builds(forged, st.integers(0, 4))
)


@given(st.lists(BODIES, min_size=1, max_size=2))
def test_every_body_comes_back_as_it_was(bodies: list[bytes]) -> None:
    data = reply(bodies)
    assert framing.end_of_reply(data, END) == len(data)
    assert framing.split(data, NONCES[: len(bodies)], END) == [Block(body) for body in bodies]


@given(BODIES)
def test_an_incomplete_reply_is_not_taken_for_a_whole_one(body: bytes) -> None:
    data = reply([body])
    for length in range(len(data)):
        assert framing.end_of_reply(data[:length], END) == -1


def test_a_failure_ends_the_list() -> None:
    data = block(0, b"no such pane", "error") + block(1, END.encode())
    assert framing.split(data, NONCES, END) == [Block(b"no such pane", failed=True)]


def test_the_second_command_can_fail() -> None:
    data = block(0, b"fine") + block(1, NONCES[0].encode()) + block(2, b"bad", "error") + block(3, END.encode())
    assert framing.split(data, NONCES, END) == [Block(b"fine"), Block(b"bad", failed=True)]


def test_a_forged_error_within_the_output_is_output() -> None:
    body = b"%error 1700000000 0 1"
    assert framing.split(reply([body]), NONCES[:1], END) == [Block(body)]


@given(st.text(alphabet=st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_a_quoted_argument_stays_on_one_line(text: str) -> None:
    quoted = framing.quote(text)
    assert "\n" not in quoted and "\r" not in quoted
    assert quoted.startswith('"') and quoted.endswith('"')
