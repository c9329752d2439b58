from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.errors import UserError
from modularrsi.gateway.prices import Prices, bundled, read_prices
from modularrsi.gateway.usage import TokenUsage, read_usage, usage_from_json

COUNT = st.integers(0, 2_000_000)


def _price(**fields: Any) -> Any:
    return read_prices({"m": fields}, "s.toml").of("m")


def test_cached_and_cache_write_tokens_are_part_of_the_prompt() -> None:
    price = _price(input=5.0, output=25.0, cached_input=0.5, cache_write=6.25)
    assert price.cost(TokenUsage(172_000, 0, 155_000, 3_000)) == Decimal("0.166250")


def test_unknown_is_none_and_free_is_zero() -> None:
    assert Prices().of("no-such-model") is None
    free = _price(input=0, output=0)
    assert free is not None and free.cost(TokenUsage(1000, 1000)) == 0


def test_unreported_usage_has_no_cost() -> None:
    price = _price(input=0, output=0)
    assert price.cost(TokenUsage()) is None
    assert price.cost(TokenUsage(prompt_tokens=5)) is None


def test_own_price_goes_before_the_bundled_one() -> None:
    own = read_prices({"gpt-4o": {"input": 1, "output": 2}}, "s.toml").of("gpt-4o")
    assert own is not None and own.cost(TokenUsage(1_000_000, 0)) == 1


def test_names_are_exact() -> None:
    assert Prices().of("gpt-4o") is not None
    assert Prices().of("gpt-4o-2024-05-13") is None


def test_bundled_table_is_dated_and_sane() -> None:
    assert len(bundled()) >= 15
    for name, price in bundled().items():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", price.as_of) and price.source, name
        if name.startswith("simulated"):  # free, and known to be
            assert price.worst(1000, 1000) == 0
            continue
        for rates in price.tiers:
            assert 0 < rates.cached_input <= rates.input <= rates.cache_write, name
            assert rates.input < rates.output < Decimal("1e-3"), name


def test_long_prompts_have_their_own_rates() -> None:
    price = bundled()["gemini-2.5-pro"]
    assert price.cost(TokenUsage(200_000, 0)) == Decimal("0.25")
    assert price.cost(TokenUsage(200_001, 0)) == Decimal("200001") * Decimal("2.5e-6")


@given(COUNT, COUNT, COUNT, COUNT, st.sampled_from(sorted(bundled())))
def test_no_call_costs_more_than_its_worst_case(prompt: int, out: int, cached: int, written: int, name: str) -> None:
    price = bundled()[name]
    cost = price.cost(TokenUsage(prompt, out, cached, written))
    assert cost is not None and cost.is_finite() and 0 <= cost <= price.worst(prompt, out)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"input": 1}, "output is missing"),
        ({"input": -1, "output": 1}, "input must be a number"),
        ({"input": float("nan"), "output": 1}, "input must be a number"),
        ({"input": "1", "output": 1}, "input must be a number"),
        ({"input": 1, "output": 1, "cached": 1}, "cached is unknown"),
        ({"input": 1, "output": 1, "above": [{"input": 1}]}, "above must be"),
        (3, "must be a table"),
    ],
)
def test_mistakes(entry: Any, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        read_prices({"m": entry}, "s.toml")
    assert 's.toml: prices."m"' in str(caught.value)


def test_usage_of_several_dialects() -> None:
    openai = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4},
              "completion_tokens_details": {"reasoning_tokens": 2}}  # fmt: skip
    assert read_usage(openai) == TokenUsage(10, 3, 4, None, 2)
    deepseek = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_cache_hit_tokens": 0}
    assert read_usage(deepseek) == TokenUsage(10, 3, 0)
    relay = {"prompt_tokens": 10, "completion_tokens": 3, "cache_creation_input_tokens": 5,
             "prompt_tokens_details": {"cached_tokens": 1}}  # fmt: skip
    assert read_usage(relay) == TokenUsage(10, 3, 1, 5)


@pytest.mark.parametrize("bad", [None, "12", -1, float("nan"), float("inf"), 1.5, True, [], {}])
def test_no_count_is_not_reported(bad: Any) -> None:
    usage = read_usage({"prompt_tokens": bad, "completion_tokens": 3})
    assert usage.prompt_tokens is None and usage.total is None


@pytest.mark.parametrize("raw", [None, [], "x", {"prompt_tokens_details": 3, "completion_tokens_details": "x"}])
def test_odd_usage_is_not_reported(raw: Any) -> None:
    assert read_usage(raw) == TokenUsage()


@given(st.builds(TokenUsage, *[st.none() | COUNT] * 5))
def test_usage_survives_json(usage: TokenUsage) -> None:
    assert usage_from_json(usage.to_json()) == usage
