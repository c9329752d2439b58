from __future__ import annotations

import json
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from modularrsi.errors import UserError
from modularrsi.gateway.caps import read_budget
from modularrsi.gateway.keys import NO_KEY, resolve_key
from modularrsi.gateway.settings import ROLES, ModelSettings, model_settings, read_models

KEY = "sk-" + "canary-0123456789abcdefghij"


def test_roles_start_from_default_and_change_what_they_name() -> None:
    models = read_models(
        tomllib.loads("""
        [default]
        model = "small"
        temperature = 0.0
        max_output_tokens = 100
        [reviewer]
        model = "large"
        """),
        "s.toml",
    )
    assert set(models) == set(ROLES)
    assert models["solver"].model == "small"
    assert (models["reviewer"].model, models["reviewer"].temperature) == ("large", 0.0)


def test_without_default_only_named_roles_have_a_model() -> None:
    assert set(read_models({"solver": {"model": "m"}}, "s.toml")) == {"solver"}


def test_a_role_at_another_service_does_not_take_the_key_along() -> None:
    models = read_models(
        {"default": {"model": "a", "api_key_env": "A_KEY"},
         "editor": {"base_url": "https://other.example/v1"},
         "analyst": {"api_key_file": "/k"}},
        "s.toml",
    )  # fmt: skip
    assert models["editor"].api_key_env is None
    assert (models["analyst"].api_key_env, models["analyst"].api_key_file) == (None, "/k")
    assert models["solver"].api_key_env == "A_KEY"


def test_what_is_not_set_is_not_a_parameter() -> None:
    assert ModelSettings("m").parameters() == {"model": "m"}


def test_zero_is_set() -> None:
    assert ModelSettings("m", temperature=0.0).parameters() == {"model": "m", "temperature": 0.0}


@pytest.mark.parametrize(
    ("url", "field", "expected"),
    [
        (None, "auto", "max_completion_tokens"),
        ("https://api.openai.com/v1/", "auto", "max_completion_tokens"),
        ("http://localhost:8000/v1", "auto", "max_tokens"),
        ("http://localhost:8000/v1", "max_completion_tokens", "max_completion_tokens"),
        (None, "max_tokens", "max_tokens"),
    ],
)
def test_name_of_the_output_limit(url: str | None, field: Any, expected: str) -> None:
    settings = ModelSettings("m", base_url=url, max_output_tokens=7, output_limit_field=field)
    assert settings.parameters() == {"model": "m", expected: 7}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"model": "m", "temprature": 1}, "did you mean temperature"),
        ({"temperature": 1}, "model is missing"),
        ({"model": ""}, "model must be a text"),
        ({"model": 3}, "model must be a text"),
        ({"model": "m", "temperature": "hot"}, "temperature must be a number"),
        ({"model": "m", "temperature": float("nan")}, "temperature must be a number"),
        ({"model": "m", "temperature": True}, "temperature must be a number"),
        ({"model": "m", "top_p": 0}, "top_p must be a number above 0"),
        ({"model": "m", "top_p": 1.1}, "top_p must be a number"),
        ({"model": "m", "max_output_tokens": 0}, "max_output_tokens must be a whole number"),
        ({"model": "m", "max_output_tokens": 1.5}, "max_output_tokens must be a whole number"),
        ({"model": "m", "concurrency": 0}, "concurrency"),
        ({"model": "m", "retries": -1}, "retries"),
        ({"model": "m", "timeout_sec": 0}, "timeout_sec"),
        ({"model": "m", "output_limit_field": "x"}, "output_limit_field"),
        ({"model": "m", "simulated": "yes"}, "simulated"),
        ({"model": "m", "base_url": "api.example.com"}, "base_url must start with http"),
        ({"model": "m", "base_url": f"https://user:{KEY}@host/v1"}, "base_url must not carry"),
        ({"model": "m", "base_url": f"https://host/v1?key={KEY}"}, "base_url must not carry"),
        ({"model": "m", "extra": {"model": "other"}}, "extra.model is set by the engine"),
        ({"model": "m", "extra": {"stream": True}}, "extra.stream"),
        ({"model": "m", "extra": {"api_key": KEY}}, "looks like a key"),
        ({"model": "m", "extra": 3}, "extra must be a table"),
        ({"model": "m", "extra": {"seed": float("nan")}}, "extra.seed cannot be sent"),
        ({"model": "m", "extra": {"when": date(2025, 1, 1)}}, "extra.when cannot be sent"),
        ({"model": "m", "api_key_env": "A", "api_key_file": "B"}, "keep one"),
        ({"model": "m", "api_key": KEY}, "api_key"),
    ],
)
def test_mistakes_name_file_field_and_fix(table: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        model_settings(table, "s.toml: models.solver")
    assert says in str(caught.value) and str(caught.value).startswith("s.toml: models.solver")
    assert KEY not in str(caught.value)


def test_unknown_role() -> None:
    with pytest.raises(UserError, match=r"s\.toml: models\.judge is no role"):
        read_models({"judge": {"model": "m"}}, "s.toml")


def test_description_names_the_place_of_the_key_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    settings = model_settings({"model": "m", "api_key_env": "SOME_KEY", "extra": {"seed": 1}}, "s")
    assert resolve_key(settings, "s") == KEY
    text = json.dumps(settings.describe()) + repr(settings)
    assert KEY not in text and "SOME_KEY" in text
    assert "temperature" not in settings.describe()


def test_keys_come_from_environment_or_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    assert resolve_key(ModelSettings("m", api_key_file=str(tmp_path / "key")), "s", {}) == KEY
    assert resolve_key(ModelSettings("m", api_key_env="K"), "s", {"K": f" {KEY} "}) == KEY
    assert resolve_key(ModelSettings("m"), "s", {"OPENAI_API_KEY": KEY}) == KEY


def test_a_local_service_gets_no_key_even_if_there_is_one() -> None:
    assert resolve_key(ModelSettings("m", base_url="http://localhost/v1"), "s", {"OPENAI_API_KEY": KEY}) == NO_KEY


@pytest.mark.parametrize("bad", ["", "  ", "two\nlines-of-" + KEY, "schlüssel-" + KEY, "with blank " + KEY])
def test_unusable_keys_are_not_shown(bad: str) -> None:
    with pytest.raises(UserError, match="K") as caught:
        resolve_key(ModelSettings("m", api_key_env="K"), "s", {"K": bad})
    assert KEY not in str(caught.value)


def test_missing_keys_name_their_place(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="OPENAI_API_KEY is not set"):
        resolve_key(ModelSettings("m"), "s", {})
    with pytest.raises(UserError, match="nowhere cannot be read"):
        resolve_key(ModelSettings("m", api_key_file=str(tmp_path / "nowhere")), "s", {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not a text file"):
        resolve_key(ModelSettings("m", api_key_file=str(tmp_path / "binary")), "s", {})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"dollars": 3}, "budget.dollars is unknown"),
        ({"usd": -1}, "budget.usd must be a number, 0 or more"),
        ({"usd": float("nan")}, "budget.usd"),
        ({"tokens": 1.5}, "budget.tokens must be a whole number"),
        ({"solver": {"call": 1}}, "budget.solver.call is unknown"),
        ({"solver": 3}, "budget.solver must be a table"),
    ],
)
def test_budget_mistakes(table: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=r"s\.toml") as caught:
        read_budget(table, "s.toml")
    assert says in str(caught.value)
