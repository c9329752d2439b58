"""The token estimate: monotone, bounded in its error on recorded prompts, and never over the limit when it cuts."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import tokens
from harness.types import Message, Usage

ANY_TEXT = st.text(st.characters(codec=None))  # lone surrogates included


@given(ANY_TEXT, ANY_TEXT)
def test_appended_text_never_makes_it_smaller(text: str, more: str) -> None:
    alone, both = tokens.count_text(text), tokens.count_text(text + more)
    assert alone <= both <= alone + tokens.count_text(more)


def test_known_values() -> None:
    assert tokens.count_text("") == 0
    assert tokens.count_text("abcd" * 100) == 100
    assert tokens.count_text("1" * 100) == 120
    assert tokens.count_text("世" * 100) == 180


def test_each_message_has_an_overhead() -> None:
    messages = [Message("user", "abcd"), Message("assistant", "")]
    assert tokens.count(messages) == 1 + 2 * tokens.MESSAGE_OVERHEAD
    assert tokens.count([]) == 0


@given(ANY_TEXT, st.integers(0, 60), st.sampled_from(["head", "tail"]))
def test_a_cut_text_fits_and_says_what_is_missing(text: str, limit: int, keep: Any) -> None:
    cut = tokens.clip(text, limit, keep)
    assert tokens.count_text(cut) <= limit
    if tokens.count_text(text) <= limit:
        assert cut == text
    elif cut:
        kept, mark = cut.rsplit("\n", 1) if keep == "head" else cut.split("\n", 1)[::-1]
        assert text.startswith(kept) if keep == "head" else text.endswith(kept)
        assert mark == f"[{len(text) - len(kept)} characters left out]"


def test_a_cut_uses_its_limit() -> None:
    text = "plain words of a longer text " * 1000
    for keep in ("head", "tail"):
        assert 490 <= tokens.count_text(tokens.clip(text, 500, keep)) <= 500


def test_calibration_is_the_ratio_of_the_last_prompt() -> None:
    history = [Message("user", "abcd" * 992), Message("assistant", "a reply of any length")]
    assert tokens.calibration(history, Usage(prompt_tokens=1_000)) == 1.0
    assert tokens.calibration(history, Usage(prompt_tokens=2_000)) == 2.0
    assert tokens.calibration(history, Usage(prompt_tokens=100_000)) == 3.0
    assert tokens.calibration(history, Usage(prompt_tokens=1)) == 0.75


@pytest.mark.parametrize(
    ("history", "usage"),
    [
        ([], Usage(500)),
        ([Message("user", "first")], Usage(500)),
        ([Message("user", "first"), Message("assistant", "reply")], Usage()),
        ([Message("assistant", "reply")], Usage(500)),
    ],
)
def test_nothing_to_calibrate_with(history: list[Message], usage: Usage) -> None:
    assert tokens.calibration(history, usage) == 1.0


def test_the_error_on_recorded_prompts_is_as_documented(shared: Path) -> None:
    prompts = {
        pair for file in shared.glob("data/trajectories/terminus2_qwen/*.trajectory.json") for pair in _read(file)
    }
    assert len(prompts) > 70
    ratios = sorted(tokens.count([Message("user", text)]) / true for text, true in prompts)
    assert ratios[0] > 0.6
    assert ratios[-1] < 1.4
    assert sum(abs(ratio - 1) <= 0.15 for ratio in ratios) >= len(ratios) / 2


def _read(file: Path) -> list[tuple[str, int]]:
    """(user message, tokens of it) of one recording: what a prompt has more than the last prompt and its reply."""
    steps = json.loads(file.read_text(encoding="utf-8"))["steps"]
    found = [(steps[0]["message"], steps[1]["metrics"]["prompt_tokens"])]
    for step, later in pairwise(steps[1:]):
        before, after = step["metrics"], later["metrics"]
        results = step["observation"]["results"]
        if len(results) == 1:
            true = after["prompt_tokens"] - before["prompt_tokens"] - before["completion_tokens"]
            found.append((results[0]["content"], true))
    return found
