"""A reward that cannot be read is None with a cause, never 0 (public reports: evalscope#1608, OpenEnv#1025)."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.verifier.reward import parse_json, parse_text


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), ("0\n", 0.0), (" 0.25 \n", 0.25), ("1e-3", 0.001), ("\ufeff1", 1.0), ("1_0", None), ("\u0661", None)],
)
def test_text_rewards(text: str, value: float | None) -> None:
    assert parse_text(text.encode()).value == value


@pytest.mark.parametrize(
    ("text", "cause"),
    [("", "reward_empty"), (" \n", "reward_empty"), ("nan", "reward_invalid"), ("inf", "reward_invalid"),
     ("pass", "reward_invalid"), ("1 1", "reward_invalid"), ("\x00", "reward_invalid")],
)
def test_unreadable_text_is_unscored_and_the_verifier_owns_it(text: str, cause: str) -> None:
    reward = parse_text(text.encode())
    assert reward.value is None
    assert reward.failure is not None
    assert (reward.failure.owner, reward.failure.cause) == ("verifier", cause)


def test_the_entry_named_reward_wins_and_others_are_kept() -> None:
    reward = parse_json(b'{"share": 0.5, "reward": 0}')
    assert reward.value == 0.0
    assert reward.entries == {"share": 0.5, "reward": 0.0}


def test_without_an_entry_named_reward_the_mean_counts() -> None:
    assert parse_json(b'{"a": 1, "b": 0}').value == 0.5
    assert parse_json(b'{"a": 1, "b": 1}').value == 1.0


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "1", "null", '{"reward": null}', '{"reward": true}', '{"reward": "1"}', '{"reward": NaN}',
     '{"reward": Infinity}', '{"reward": {"x": 1}}', '{"reward": 1' + "0" * 400 + "}", "[" * 100_000],
)
def test_unreadable_json_is_unscored(content: str) -> None:
    reward = parse_json(content.encode())
    assert reward.value is None
    assert reward.failure is not None and reward.failure.cause == "reward_invalid"


@given(st.binary(max_size=200))
def test_no_bytes_make_the_readers_raise(data: bytes) -> None:
    for reward in (parse_text(data), parse_json(data)):
        assert (reward.value is None) == (reward.failure is not None)
        assert reward.value is None or math.isfinite(reward.value)


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_every_flat_object_of_finite_numbers_is_read(entries: dict[str, float]) -> None:
    reward = parse_json(json.dumps(entries).encode())
    assert dict(reward.entries) == entries
    assert reward.value is not None


@pytest.mark.parametrize("content", ['{"a": 1e308, "b": 1e308}', '{"reward": 1e13}', '{"reward": -1e13}'])
def test_rewards_whose_sum_could_be_infinite_are_unscored(content: str) -> None:
    """An infinite mean cannot be written down, and would end the run for every other rollout."""
    assert parse_json(content.encode()).value is None


def test_a_text_reward_has_the_same_bound() -> None:
    assert parse_text(b"1e13").value is None
    assert parse_text(b"1e6").value == 1e6
