from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.gateways import FakeClock, ask, echo, settings_for, use_gateway, user
from support.openai_server import OpenAIServer, Reply

from modularrsi.errors import BudgetExhausted, UserError
from modularrsi.gateway.budget import Ledger
from modularrsi.gateway.caps import read_budget
from modularrsi.gateway.connect import connect, secrets
from modularrsi.gateway.gateway import Gateway, GatewayReply

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-" + "canary-0123456789abcdefghij"
PRICE = {"m": {"input": 1.0, "output": 2.0}}


# ------------------------------------------------------------------------------------------------------- what is sent


def test_only_what_is_set_is_sent() -> None:
    with OpenAIServer(echo) as server:
        use_gateway(server, ask)
        use_gateway(server, ask, model={
            "temperature": 0.0, "top_p": 0.9, "reasoning_effort": "low", "max_output_tokens": 50, "context_tokens": 99,
            "extra": {"seed": 7, "chat_template_kwargs": {"thinking": False}}, "requests_per_minute": 100,
        })  # fmt: skip
    plain, full = (request.body for request in server.requests)
    messages = [{"role": "user", "content": "hi"}]
    assert plain == {"model": "m", "messages": messages, "stream": False}
    assert full == {
        "model": "m", "messages": messages, "stream": False, "temperature": 0.0, "top_p": 0.9,
        "reasoning_effort": "low", "max_tokens": 50, "seed": 7, "chat_template_kwargs": {"thinking": False},
    }  # fmt: skip


def test_the_place_of_a_call_is_told_to_the_simulator_alone() -> None:
    with OpenAIServer(echo) as server:
        use_gateway(server, ask)
        use_gateway(server, lambda g: g.complete("editor", user(), scope="r/1 ü\n", ordinal=3, purpose="fix"),
              model={"model": "simulated"})  # fmt: skip
    plain, told = (request.headers for request in server.requests)
    assert not [name for name in plain if name.startswith("x-modularrsi")]
    assert told["x-modularrsi-scope"] == "r/1%20%C3%BC%0A"
    assert (told["x-modularrsi-ordinal"], told["x-modularrsi-role"]) == ("3", "editor")
    assert told["x-modularrsi-purpose"] == "fix"


def test_one_idempotency_key_for_a_call_and_another_for_every_other() -> None:
    with OpenAIServer(lambda r: Reply(status=500) if r.number == 0 else echo(r)) as server:
        use_gateway(server, ask)
        use_gateway(server, lambda g: ask(g, ordinal=1))
        use_gateway(server, lambda g: ask(g, text="other"))
        use_gateway(server, ask, run_id="other run")
        use_gateway(server, ask, model={"temperature": 0.5})
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert keys[0] == keys[1]
    assert len(set(keys[1:])) == 5
    assert server.repeats == 0


def test_ambient_settings_of_the_client_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer(echo) as server, OpenAIServer(echo) as ambient:
        monkeypatch.setenv("OPENAI_BASE_URL", ambient.url)
        use_gateway(server, ask)
    assert ambient.requests == [] and server.requests[0].key == "none"


# ------------------------------------------------------------------------------------------------- money and limits


def test_cost_is_unknown_free_or_exact() -> None:
    cached = {"cached_tokens": 400_000}
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 500_000, "prompt_tokens_details": cached}
    with OpenAIServer(lambda r: Reply(usage=usage)) as server:
        prices = {"m": {"input": 1.0, "cached_input": 0.1, "output": 2.0}}
        tables = ({}, {"m": {"input": 0, "output": 0}}, prices)
        costs = [use_gateway(server, ask, prices=table).cost_usd for table in tables]
    assert costs == [None, 0.0, pytest.approx(0.6 + 0.04 + 1.0)]


def test_a_money_cap_without_a_price_is_refused_before_the_run() -> None:
    with OpenAIServer(echo) as server:
        with pytest.raises(UserError, match=r'models\.solver: the price of m is not known.*\[prices\."m"\]'):
            use_gateway(server, ask, budget={"usd": 1.0}, model={"max_output_tokens": 10})
        with pytest.raises(UserError, match="max_output_tokens is not set"):
            use_gateway(server, ask, budget={"solver": {"tokens": 1000}})
        use_gateway(server, ask, budget={"calls": 5})
    assert len(server.requests) == 1


def test_fifty_at_once_stay_within_the_cap_and_the_concurrency() -> None:
    """Each call costs 30 tokens and could take about 126: the cap is used, never overrun; 8 at a time are under way."""
    usage = {"prompt_tokens": 10, "completion_tokens": 20}

    async def use(gateway: Gateway) -> tuple[list[Any], int]:
        calls = [ask(gateway, ordinal) for ordinal in range(50)]
        return await asyncio.gather(*calls, return_exceptions=True), gateway.ledger.spent().all_tokens

    with OpenAIServer(lambda r: Reply(usage=usage, delay=0.02)) as server:
        model = {"max_output_tokens": 93, "concurrency": 8}
        results, spent = use_gateway(server, use, budget={"tokens": 1000}, model=model)
    replies = [result for result in results if isinstance(result, GatewayReply)]
    assert {type(result) for result in results} == {GatewayReply, BudgetExhausted}
    assert spent == 30 * len(replies) <= 1000
    assert len(replies) == len(server.requests) == 30  # 29 × 30 leaves room for one worst case, 30 × 30 does not
    assert 1 < server.peak <= 8


def test_roles_that_share_a_model_share_its_limits() -> None:
    async def use(gateway: Gateway) -> None:
        roles = ("solver", "analyst", "editor", "reviewer")
        await asyncio.gather(*(ask(gateway, n, role=role) for n in range(4) for role in roles))

    with OpenAIServer(lambda r: Reply(delay=0.02)) as server:
        use_gateway(server, use, model={"concurrency": 2})
    assert server.peak <= 2


def test_requests_per_minute_count_every_attempt() -> None:
    clock = FakeClock()

    async def use(gateway: Gateway) -> None:
        for ordinal in range(3):
            await ask(gateway, ordinal)

    with OpenAIServer(lambda r: Reply(status=500) if r.number == 0 else Reply()) as server:
        use_gateway(server, use, model={"requests_per_minute": 2}, clock=clock)
    assert len(server.requests) == 4 and clock.now() >= 1060


def test_time_runs_out_during_a_call() -> None:
    clock = FakeClock()
    with OpenAIServer([Reply(status=429, headers={"Retry-After": "30"}), "never"]) as server:
        with pytest.raises(BudgetExhausted, match="seconds"):
            use_gateway(server, ask, budget={"seconds": 20}, clock=clock)
    assert len(server.requests) == 1


def test_spending_is_kept_by_role() -> None:
    async def use(gateway: Gateway) -> list[Any]:
        await ask(gateway)
        await ask(gateway, role="analyst")
        await ask(gateway, 1, role="analyst")
        return [gateway.ledger.spent(name).calls for name in ("total", "solver", "analyst", "editor")]

    with OpenAIServer(echo) as server:
        assert use_gateway(server, use) == [3, 1, 2, 0]


def test_a_fault_of_pricing_never_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with OpenAIServer(echo) as server:
        monkeypatch.setattr("modularrsi.gateway.prices.Price.cost", broken)
        with pytest.raises(ZeroDivisionError):
            use_gateway(server, ask, prices=PRICE)
    assert len(server.requests) == 1


# --------------------------------------------------------------------------------------------------- the other things


def test_check_asks_for_the_list_and_spends_nothing() -> None:
    with OpenAIServer(echo, models=["m", "n"]) as server:
        check = use_gateway(server, lambda g: g.check("solver"))
        assert (check.ok, check.listed, server.requests) == (True, True, [])
        assert not use_gateway(server, lambda g: g.check("solver"), model={"model": "zz"}).ok
        spoken = use_gateway(server, lambda g: g.check("solver", ask_model=True), model={"max_output_tokens": 500})
        assert spoken.ok and server.requests[0].body["max_tokens"] == 1


def test_check_reports_faults_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", KEY)
    with OpenAIServer(echo, key="other") as server:
        check = use_gateway(server, lambda g: g.check("solver"), model={"api_key_env": "CANARY"})
    assert not check.ok and check.detail.startswith("auth") and KEY not in repr(check)


def test_a_role_without_a_model_is_named() -> None:
    with OpenAIServer(echo) as server, pytest.raises(UserError, match="no model is set for the role judge"):
        use_gateway(server, lambda g: ask(g, role="judge"))


def test_names_and_windows() -> None:
    async def use(gateway: Gateway) -> tuple[str, int]:
        return gateway.model_name("solver"), gateway.context_tokens("solver")

    with OpenAIServer(echo) as server:
        assert use_gateway(server, use) == ("m", 1_000_000)
        assert use_gateway(server, use, model={"context_tokens": 5}) == ("m", 5)


def test_secrets_are_for_the_redactor_only() -> None:
    settings = settings_for("http://127.0.0.1:9/v1", api_key_env="CANARY")
    assert secrets(settings, {"CANARY": KEY}) == [KEY]
    assert secrets(settings_for("http://127.0.0.1:9/v1"), {}) == []
    gateway = connect(settings, run_id="r", environ={"CANARY": KEY})
    assert KEY not in repr(vars(gateway))
    asyncio.run(gateway.close())


def test_the_worst_case_is_bounded_by_the_window() -> None:
    ledger = Ledger(read_budget({"tokens": 300}, "s"))
    assert ledger.try_reserve("solver", 300, None)
    with OpenAIServer(echo) as server:
        options: dict[str, Any] = {"budget": {"tokens": 300}}

        async def long(gateway: Gateway) -> Any:
            return await ask(gateway, text="x" * 5000)

        with pytest.raises(BudgetExhausted):
            use_gateway(server, long, model={"max_output_tokens": 50}, **options)
        use_gateway(server, long, model={"max_output_tokens": 50, "context_tokens": 200}, **options)
