"""The shape of histories, for any rewrite a `fit` can think of."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.history import BLANK, clean, filled, is_history, problem, tidy
from harness.types import Message

texts = st.text(st.characters(), max_size=8)
messages = st.builds(Message, st.sampled_from(["user", "assistant"]), texts)


@given(st.lists(messages, max_size=8), texts)
def test_a_tidied_history_alternates_and_loses_nothing(history: list[Message], prompt: str) -> None:
    tidied, sent = tidy(history, prompt)
    roles = [message.role for message in tidied]
    assert all(one != other for one, other in pairwise(roles))
    assert not roles or roles[-1] == "assistant"
    assert all(message.content.strip() for message in tidied) and sent.strip()
    everything = "\n".join([*(message.content for message in tidied), sent])
    for message in history:
        assert filled(message.content) in everything
    assert problem(tidied) == ("the first message is not the user's" if roles[:1] == ["assistant"] else "")
    assert tidy(tidied, sent) == (tidied, sent)


@given(st.text(st.characters() | st.characters(categories=["Cs"]) | st.just("\0")))
def test_clean_text_can_always_be_sent(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.encode("utf-8").find(b"\0") == -1
    assert clean(cleaned) == cleaned
    if "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text):
        assert cleaned == text


def test_a_pair_of_surrogates_becomes_its_character() -> None:
    assert clean("\ud83d\ude00") == "😀"
    assert clean("\ude00\ud83d") == "\ufffd\ufffd"


def test_blank_texts_get_a_placeholder() -> None:
    assert filled(" \n\t") == BLANK
    assert filled(" x ") == " x "


def test_leading_system_messages_are_kept_apart() -> None:
    history = [Message("system", "a"), Message("system", "b"), Message("user", "c"), Message("assistant", "d")]
    tidied, _ = tidy(history, "e")
    assert tidied == [Message("system", "a\n\nb"), *history[2:]]
    assert problem(tidied) == ""


def test_only_messages_with_text_make_a_history() -> None:
    assert is_history([Message("user", "x")])
    assert not is_history([Message("user", "x"), ("user", "y")])
    assert not is_history([Message("user", b"x")])  # type: ignore[arg-type]
