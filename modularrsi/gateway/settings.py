"""Which model plays which role, and how it is asked. Read from TOML, checked at once, frozen.

    [models.default]                    # every role starts from this
    model = "gpt-5-mini"
    max_output_tokens = 16000

    [models.reviewer]                   # and changes what it names
    model = "claude-sonnet-4-5"
    base_url = "https://api.anthropic.com/v1"
    api_key_env = "ANTHROPIC_API_KEY"

A parameter that is not set is not sent. A key is named (an environment variable or a file), never written here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

from modularrsi.digest import canonical_json
from modularrsi.errors import UserError

ModelRole = Literal["solver", "analyst", "editor", "reviewer", "composer"]
ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
OPENAI_URL = "https://api.openai.com/v1"
UNKNOWN_CONTEXT = 1_000_000
SIMULATED = "simulated"
"""How the names of the product's own simulated models begin. The simulator serves no other, so a name tells."""

# What the engine says itself; `extra` must not say it again.
_OWN_PARAMETERS = frozenset({
    "model", "messages", "stream", "stream_options", "n", "tools", "functions", "temperature", "top_p",
    "reasoning_effort", "max_tokens", "max_completion_tokens",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model as one role uses it.

    model                 the name that is sent
    base_url              of the OpenAI-compatible service, with its `/v1`; None = OpenAI's own
    api_key_env           environment variable that holds the key
    api_key_file          file that holds the key (and nothing else); exclusive with `api_key_env`. With neither,
                          OpenAI's service takes `OPENAI_API_KEY`, and any other gets no key
    max_output_tokens     of one reply; needed as soon as tokens or money are capped, since a call is reserved at its
                          worst case
    output_limit_field    the name under which `max_output_tokens` is sent. "auto": `max_completion_tokens` to
                          OpenAI's own service, whose reasoning models refuse the older name, and `max_tokens` to any
                          other, since some servers know only that one
    context_tokens        window of the model, for the harness; never sent
    extra                 further fields of the request body, sent as they are
    timeout_sec           of one attempt, from the request to the last byte
    retries               further attempts after the first
    retry_total_sec       no attempt starts later than this after the first one
    requests_per_minute, tokens_per_minute, concurrency
                          limits of this model at this service, shared by all roles that use it; None = no limit
    simulated             the service is the product's own simulator: it is told scope, role and purpose of a call
                          in headers, and no other service is. Follows from the model's name
    """

    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    output_limit_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    context_tokens: int | None = None
    reasoning_effort: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout_sec: float = 600.0
    retries: int = 4
    retry_total_sec: float = 900.0
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int = 16
    simulated: bool = False

    @property
    def url(self) -> str:
        return (self.base_url or OPENAI_URL).rstrip("/")

    def parameters(self) -> dict[str, Any]:
        """The body of a request without its messages. What is not set is not in it."""
        named = {
            "model": self.model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
            self.output_limit_name: self.max_output_tokens,
        }
        return {name: value for name, value in named.items() if value is not None} | dict(self.extra)

    def describe(self) -> dict[str, Any]:
        """For the certificate: everything that is set. There is no key in it, only where it is found."""
        return {name: value for name, value in asdict(self).items() if value not in (None, {}) and value is not False}

    @property
    def output_limit_name(self) -> str:
        """The field of the request that carries `max_output_tokens`."""
        if self.output_limit_field != "auto":
            return self.output_limit_field
        openai = urlsplit(self.url).hostname == urlsplit(OPENAI_URL).hostname
        return "max_completion_tokens" if openai else "max_tokens"


def read_models(table: Mapping[str, Any], where: str) -> Mapping[ModelRole, ModelSettings]:
    """The `models` table of a settings file: `default` and one sub-table for each role that differs from it.

    `where` names the file in messages. Roles that neither a sub-table nor `default` describes are absent. Raises
    UserError for an unknown role or field, a wrong type and a value out of range.
    """
    for name in table.keys() - {"default", *ROLES}:
        raise UserError(f"{where}: models.{name} is no role; roles are default, {', '.join(ROLES)}")
    common = _table(table.get("default", {}), f"{where}: models.default")
    found: dict[ModelRole, ModelSettings] = {}
    for role in ROLES:
        place = f"{where}: models.{role}"
        own = _table(table.get(role, {}), place)
        if common or own:
            found[role] = model_settings(_overlay(common, own), place if own else f"{where}: models.default")
    return MappingProxyType(found)


def model_settings(table: Mapping[str, Any], where: str) -> ModelSettings:
    """One model from one table. Raises UserError whose message starts with `where`."""
    known = {entry.name for entry in fields(ModelSettings)}
    for name in table.keys() - known:
        near = get_close_matches(name, known, n=1)
        raise UserError(f"{where}.{name} is unknown" + (f"; did you mean {near[0]}?" if near else "; remove it"))
    if "model" not in table:
        raise UserError(f'{where}.model is missing; name the model, for example model = "gpt-5-mini"')
    for name, value in table.items():
        _check(name, value, f"{where}.{name}")
    simulated = str(table["model"]).partition("-")[0] == SIMULATED
    if table.get("simulated", simulated) is not simulated:
        raise UserError(f"{where}.simulated contradicts the model's name: the simulator's models, and no others, are "
                        f"called {SIMULATED} or {SIMULATED}-ROLE; leave the field out")
    settings = ModelSettings(**{**table, "extra": dict(table.get("extra", {})), "simulated": simulated})
    _check_url(settings, where)
    return settings


def _overlay(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A role that goes to another service must not take the default service's key along, or be limited by it."""
    merged = {**common, **own}
    if own.get("base_url", common.get("base_url")) != common.get("base_url") or own.keys() & {
        "api_key_env", "api_key_file",
    }:  # fmt: skip
        for name in ("api_key_env", "api_key_file"):
            if name not in own:
                merged.pop(name, None)
    return merged


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{where} must be a table")
    return cast(Mapping[str, Any], value)


_TEXTS = {"model", "base_url", "api_key_env", "api_key_file", "reasoning_effort"}
_COUNTS = {"max_output_tokens", "context_tokens", "requests_per_minute", "tokens_per_minute", "concurrency"}
# name -> (lowest, highest, lowest itself allowed)
_NUMBERS = {
    "temperature": (0.0, 10.0, True),
    "top_p": (0.0, 1.0, False),
    "timeout_sec": (0.0, 86_400.0, False),
    "retry_total_sec": (0.0, 86_400.0, True),
}


def _check(name: str, value: object, where: str) -> None:
    if name in _TEXTS and not (isinstance(value, str) and value.strip()):
        raise UserError(f"{where} must be a text")
    if name in _COUNTS and not (_whole(value) and cast(int, value) >= 1):
        raise UserError(f"{where} must be a whole number, 1 or more; leave it out for none")
    if name == "retries" and not (_whole(value) and 0 <= cast(int, value) <= 100):
        raise UserError(f"{where} must be a whole number between 0 and 100")
    if name in _NUMBERS:
        _check_number(value, *_NUMBERS[name], where)
    if name == "output_limit_field" and value not in ("auto", "max_tokens", "max_completion_tokens"):
        raise UserError(f'{where} must be "auto", "max_tokens" or "max_completion_tokens"')
    if name == "simulated" and not isinstance(value, bool):
        raise UserError(f"{where} must be true or false")
    if name == "extra":
        _check_extra(_table(value, where), where)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_number(value: object, lowest: float, highest: float, closed: bool, where: str) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not (lowest <= cast(float, value) <= highest) or (value == lowest and not closed):
        bound = "from" if closed else "above"
        raise UserError(f"{where} must be a number {bound} {lowest:g} up to {highest:g}")


def _check_extra(extra: Mapping[str, Any], where: str) -> None:
    for name in extra:
        if name in _OWN_PARAMETERS:
            raise UserError(f"{where}.{name} is set by the engine; use the field of the model's own table")
        if "key" in name.lower() or "authorization" in name.lower():
            raise UserError(f"{where}.{name} looks like a key; name its place with api_key_env or api_key_file")
        try:
            canonical_json(extra[name])
        except ValueError as error:
            raise UserError(f"{where}.{name} cannot be sent: {error}") from error


def _check_url(settings: ModelSettings, where: str) -> None:
    if settings.api_key_env and settings.api_key_file:
        raise UserError(f"{where} has both api_key_env and api_key_file; keep one")
    parts = urlsplit(settings.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f'{where}.base_url must start with http:// or https://, for example "{OPENAI_URL}"')
    if parts.username or parts.password or parts.query:
        raise UserError(f"{where}.base_url must not carry a password or query; use api_key_env or api_key_file")
