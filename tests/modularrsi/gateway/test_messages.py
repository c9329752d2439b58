from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modularrsi.gateway.messages import ChatMessage, clean, prompt_token_bound, wire

TEXTS = st.lists(st.text(), max_size=5)


def _bound(texts: list[str]) -> int:
    return prompt_token_bound(wire([ChatMessage("user", text) for text in texts]))


@given(TEXTS, st.text(min_size=1))
def test_more_text_never_counts_less(texts: list[str], more: str) -> None:
    assert _bound([*texts, more]) > _bound(texts)
    assert _bound([*texts[:-1], "".join(texts[-1:]) + more]) >= _bound(texts)


def test_the_bound_covers_what_tokenizes_badly() -> None:
    """Worst densities of byte-pair tokenizers in use: digits by threes at best, and often 2 bytes a token of hex."""
    assert _bound(["0123456789abcdef" * 100]) >= 800
    assert _bound(["汉" * 100]) >= 150


@given(st.text(alphabet=st.characters(codec=None)))
def test_cleaned_text_can_be_sent(text: str) -> None:
    assert clean(text).encode("utf-8")[:0] == b""
    assert clean(clean(text)) == clean(text)
