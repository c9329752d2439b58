"""Cleaning and cutting of untrusted text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conformance.odd_text import ODD
from harness.text import Cut, clean_text, cut_bytes, decode_bytes, first_bytes, replace_surrogates

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
HOSTILE = st.text(alphabet="\x1b\x9b\x9d\x90[]P^_X;?0123m\\\x07\x9c\r\b\n\t\0abé😀\ud800\udc00( ", max_size=60)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[?2004h$ \x1b[K", "$ "),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07$ ", "$ "),
        ("\x1b]0;title\x1b\\$ ", "$ "),
        ("\x9d0;title\x9c$ ", "$ "),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1bPq#0;2\n#1\x1b\\after", "after"),
        ("\x1b_Gf=100;AAAA\x1b\\after", "after"),
        ("\x1b^private\x1b\\\x1bXstart\x1b\\after", "after"),
        ("\x1bPtmux;\x1b\x1b]52;c;AAAA\x07\x1b\\after", "after"),
        ("\x1b(B\x1b)0\x1b=\x1b>\x1b7\x1b8\x1bMa", "a"),
        ("a\x1b", "a"),
        ("a\x1b[", "a"),
        ("a\x1b[12;3", "a"),
        ("a\x1b[12\nb", "a\nb"),
        ("\x1b]0;never ended\n$ ls\nfile", "\n$ ls\nfile"),
        ("\x1bPnever ended\n$ ls", "\n$ ls"),
        ("\x1b]0;" + "t" * 300, "t" * 46),
    ],
)
def test_control_sequences_go_and_text_stays(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("downloading 100 %\rdone\n", "done\n"),
        ("10%\r\x1b[K20%\r\x1b[K", "20%"),
        ("\r\r\r", ""),
        ("first\nold\rnew\nlast", "first\nnew\nlast"),
        ("abc\b\b\bxyz", "xyz"),
        ("ab\bc", "ac"),
        ("N\bNA\bAM\bM", "NAM"),
        ("spin |\b/\b-\b\\", "spin \\"),
        ("\b\bx", "x"),
        ("typo\b\b  \b\b", "ty  "),
        ("a\nb\b\b\bc", "a\nc"),
    ],
)
def test_rewritten_lines_keep_their_last_state(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean


def test_other_controls_are_dropped_and_surrogates_replaced() -> None:
    assert clean_text("a\0b\x07c\x0bd\x0ce\x7ff\x85g\th\n") == "abcdefg\th\n"
    assert clean_text("x\ud800y") == "x\ufffdy"
    assert replace_surrogates("\ud83d\ude00") == "😀"


def test_half_of_a_long_device_control_string_does_not_hide_what_follows() -> None:
    assert clean_text("\x1bP" + "q" * 100 + "\n" + "real output\n" * 9_000).count("real output") == 9_000


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs"), include_characters="\n\t")))
def test_clean_text_is_returned_as_it_is(text: str) -> None:
    assert clean_text(text) == text


@given(HOSTILE | ANY_TEXT)
def test_cleaning_is_total_idempotent_and_never_grows(text: str) -> None:
    clean = clean_text(text)
    assert clean_text(clean) == clean
    assert len(clean) <= len(text)
    assert not [char for char in clean if (char < " " and char not in "\n\t") or "\x7f" <= char <= "\x9f"]
    clean.encode("utf-8")


@pytest.mark.parametrize("name", ODD)
def test_a_megabyte_of_odd_text_is_cleaned_and_cut(name: str) -> None:
    text = (ODD[name] * (1_000_000 // max(1, len(ODD[name])) + 1))[:1_000_000]
    assert len(clean_text(text)) <= len(text)
    cut = cut_bytes(text, 10_000)
    assert len((cut.head + cut.tail).encode()) <= 10_000


def test_bytes_that_are_no_text_are_marked() -> None:
    assert decode_bytes("naïve".encode()[:3]) == "na\ufffd"
    assert decode_bytes(b"a\xff\xfeb") == "a\ufffd\ufffdb"
    assert decode_bytes(b"\xed\xa0\x80").encode()  # a surrogate in bytes: encodable again


@given(st.binary())
def test_any_bytes_become_text(data: bytes) -> None:
    decode_bytes(data).encode("utf-8")


def test_a_cut_counts_what_is_really_left_out() -> None:
    assert cut_bytes("abc", 3) == Cut("abc")
    assert cut_bytes("x" * 40_000, 10_000) == Cut("x" * 5_000, "x" * 5_000, 30_000)
    assert cut_bytes("😀😀😀😀", 10) == Cut("😀", "😀", 8)
    assert cut_bytes("abcdef", 0) == Cut("", "", 6)
    assert cut_bytes("abcdef", -1) == Cut("", "", 6)
    assert cut_bytes("abcdef", 3) == Cut("a", "ef", 3)


@given(ANY_TEXT, st.integers(-3, 40))
def test_a_cut_keeps_its_promises(text: str, limit: int) -> None:
    whole = replace_surrogates(text).encode()
    cut = cut_bytes(text, limit)
    head, tail = cut.head.encode(), cut.tail.encode()
    assert len(head) + len(tail) <= max(0, limit) or (not cut.omitted and head == whole)
    assert len(head) + len(tail) + cut.omitted == len(whole)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert (cut.omitted == 0) == (len(whole) <= max(0, limit))


@given(ANY_TEXT, st.integers(-3, 40))
def test_first_bytes_are_a_beginning(text: str, limit: int) -> None:
    first = first_bytes(text, limit).encode()
    assert len(first) <= max(0, limit)
    assert replace_surrogates(text).encode().startswith(first)
