from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.gateways import FakeClock, gateway_for, settings_for, user
from support.openai_server import OpenAIServer, Reply, Request, overflow

from modularrsi.errors import BudgetExhausted, ModelServiceError, UserError
from modularrsi.gateway import call as call_module
from modularrsi.gateway.budget import Ledger
from modularrsi.gateway.caps import read_budget
from modularrsi.gateway.connect import connect, secrets
from modularrsi.gateway.errors import ContextOverflowError, ReplayMiss, ReplyTruncatedError
from modularrsi.gateway.gateway import Gateway, GatewayReply
from modularrsi.gateway.journal import CallOutcome, CallStart, FileJournal, MemoryJournal

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-" + "canary-0123456789abcdefghij"
PRICE = {"m": {"input": 1.0, "output": 2.0}}


def _ask(
    gateway: Gateway, ordinal: int = 0, text: str = "hi", role: str = "solver", scope: str = "s"
) -> Awaitable[Any]:
    return gateway.complete(role, user(text), scope=scope, ordinal=ordinal, purpose="turn")


def _with(server: OpenAIServer, use: Callable[[Gateway], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        async with gateway_for(server.url, **options) as gateway:
            return await use(gateway)

    return asyncio.run(run())


def _echo(request: Request) -> Reply:
    return Reply(f"reply to {request.last}")


# ------------------------------------------------------------------------------------------------------- what is sent


def test_only_what_is_set_is_sent() -> None:
    with OpenAIServer(_echo) as server:
        _with(server, _ask)
        _with(server, _ask, model={
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
    with OpenAIServer(_echo) as server:
        _with(server, _ask)
        _with(server, lambda g: g.complete("editor", user(), scope="r/1 ü\n", ordinal=3, purpose="fix"),
              model={"simulated": True})  # fmt: skip
    plain, told = (request.headers for request in server.requests)
    assert not [name for name in plain if name.startswith("x-modularrsi")]
    assert told["x-modularrsi-scope"] == "r/1%20%C3%BC%0A"
    assert (told["x-modularrsi-ordinal"], told["x-modularrsi-role"]) == ("3", "editor")
    assert told["x-modularrsi-purpose"] == "fix"


def test_one_idempotency_key_for_a_call_and_another_for_every_other() -> None:
    with OpenAIServer(lambda r: Reply(status=500) if r.number == 0 else _echo(r)) as server:
        _with(server, _ask)
        _with(server, lambda g: _ask(g, ordinal=1))
        _with(server, lambda g: _ask(g, text="other"))
        _with(server, _ask, run_id="other run")
        _with(server, _ask, model={"temperature": 0.5})
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert keys[0] == keys[1]
    assert len(set(keys[1:])) == 5
    assert server.repeats == 0


def test_ambient_settings_of_the_client_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer(_echo) as server, OpenAIServer(_echo) as ambient:
        monkeypatch.setenv("OPENAI_BASE_URL", ambient.url)
        _with(server, _ask)
    assert ambient.requests == [] and server.requests[0].key == "none"


# ------------------------------------------------------------------------------------------------- money and limits


def test_cost_is_unknown_free_or_exact() -> None:
    cached = {"cached_tokens": 400_000}
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 500_000, "prompt_tokens_details": cached}
    with OpenAIServer(lambda r: Reply(usage=usage)) as server:
        prices = {"m": {"input": 1.0, "cached_input": 0.1, "output": 2.0}}
        costs = [_with(server, _ask, prices=table).cost_usd for table in ({}, {"m": {"input": 0, "output": 0}}, prices)]
    assert costs == [None, 0.0, pytest.approx(0.6 + 0.04 + 1.0)]


def test_a_money_cap_without_a_price_is_refused_before_the_run() -> None:
    with OpenAIServer(_echo) as server:
        with pytest.raises(UserError, match=r'models\.solver: the price of m is not known.*\[prices\."m"\]'):
            _with(server, _ask, budget={"usd": 1.0}, model={"max_output_tokens": 10})
        with pytest.raises(UserError, match="max_output_tokens is not set"):
            _with(server, _ask, budget={"solver": {"tokens": 1000}})
        _with(server, _ask, budget={"calls": 5})
    assert len(server.requests) == 1


def test_fifty_at_once_stay_within_the_cap_and_the_concurrency() -> None:
    """Each call costs 30 tokens and could take about 126: the cap is used, never overrun; 8 at a time are under way."""
    usage = {"prompt_tokens": 10, "completion_tokens": 20}

    async def use(gateway: Gateway) -> tuple[list[Any], int]:
        calls = [_ask(gateway, ordinal) for ordinal in range(50)]
        return await asyncio.gather(*calls, return_exceptions=True), gateway.ledger.spent().all_tokens

    with OpenAIServer(lambda r: Reply(usage=usage, delay=0.02)) as server:
        results, spent = _with(server, use, budget={"tokens": 1000}, model={"max_output_tokens": 93, "concurrency": 8})
    replies = [result for result in results if isinstance(result, GatewayReply)]
    assert {type(result) for result in results} == {GatewayReply, BudgetExhausted}
    assert spent == 30 * len(replies) <= 1000
    assert len(replies) == len(server.requests) == 30  # 29 × 30 leaves room for one worst case, 30 × 30 does not
    assert 1 < server.peak <= 8


def test_roles_that_share_a_model_share_its_limits() -> None:
    async def use(gateway: Gateway) -> None:
        roles = ("solver", "analyst", "editor", "reviewer")
        await asyncio.gather(*(_ask(gateway, n, role=role) for n in range(4) for role in roles))

    with OpenAIServer(lambda r: Reply(delay=0.02)) as server:
        _with(server, use, model={"concurrency": 2})
    assert server.peak <= 2


def test_requests_per_minute_count_every_attempt() -> None:
    clock = FakeClock()

    async def use(gateway: Gateway) -> None:
        for ordinal in range(3):
            await _ask(gateway, ordinal)

    with OpenAIServer(lambda r: Reply(status=500) if r.number == 0 else Reply()) as server:
        _with(server, use, model={"requests_per_minute": 2}, clock=clock)
    assert len(server.requests) == 4 and clock.now() >= 1060


def test_time_runs_out_during_a_call() -> None:
    clock = FakeClock()
    with OpenAIServer([Reply(status=429, headers={"Retry-After": "30"}), "never"]) as server:
        with pytest.raises(BudgetExhausted, match="seconds"):
            _with(server, _ask, budget={"seconds": 20}, clock=clock)
    assert len(server.requests) == 1


def test_spending_is_kept_by_role() -> None:
    async def use(gateway: Gateway) -> list[Any]:
        await _ask(gateway)
        await _ask(gateway, role="analyst")
        await _ask(gateway, 1, role="analyst")
        return [gateway.ledger.spent(name).calls for name in ("total", "solver", "analyst", "editor")]

    with OpenAIServer(_echo) as server:
        assert _with(server, use) == [3, 1, 2, 0]


def test_a_fault_of_pricing_never_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with OpenAIServer(_echo) as server:
        monkeypatch.setattr("modularrsi.gateway.prices.Price.cost", broken)
        with pytest.raises(ZeroDivisionError):
            _with(server, _ask, prices=PRICE)
    assert len(server.requests) == 1


# ------------------------------------------------------------------------------------------------ journal and replay


def test_a_recorded_call_is_neither_sent_nor_paid_again(tmp_path: Path) -> None:
    with OpenAIServer(_echo) as server:
        first = _with(server, _ask, journal=FileJournal(tmp_path / "j"), prices=PRICE)

        async def use(gateway: Gateway) -> tuple[Any, Any]:
            return await _ask(gateway), gateway.ledger.spent()

        second, spent = _with(server, use, journal=FileJournal(tmp_path / "j"), prices=PRICE)
    assert (first.replayed, second.replayed) == (False, True)
    assert (second.text, second.cost_usd, second.usage) == (first.text, first.cost_usd, first.usage)
    assert len(server.requests) == 1 and spent.calls == 1


@pytest.mark.parametrize("change", [{"text": "other"}, {"ordinal": 1}, {"scope": "t"}])
def test_another_question_is_another_call(change: dict[str, Any]) -> None:
    journal = MemoryJournal()
    with OpenAIServer(_echo) as server:
        _with(server, _ask, journal=journal)
        assert not _with(server, lambda g: _ask(g, **change), journal=journal).replayed
        assert not _with(server, _ask, journal=journal, model={"temperature": 1.0}).replayed
    assert len(server.requests) == 3


def test_the_address_of_the_service_does_not_matter_to_a_recording() -> None:
    journal = MemoryJournal()
    with OpenAIServer(_echo) as one, OpenAIServer(_echo) as two:
        _with(one, _ask, journal=journal)
        assert _with(two, _ask, journal=journal).replayed


def test_replay_sends_nothing_and_needs_no_key() -> None:
    journal = MemoryJournal()
    with OpenAIServer(_echo) as server:
        _with(server, _ask, journal=journal)
        options: dict[str, Any] = {"journal": journal, "mode": "replay", "model": {"api_key_env": "NOT_THERE"}}
        assert _with(server, _ask, **options).text == "reply to hi"
        with pytest.raises(ReplayMiss, match="no call 1 of s"):
            _with(server, lambda g: _ask(g, 1), **options)
    assert len(server.requests) == 1


def test_record_asks_afresh() -> None:
    journal = MemoryJournal()
    with OpenAIServer(["old", "new"]) as server:
        _with(server, _ask, journal=journal)
        assert _with(server, _ask, journal=journal, mode="record", run_id="again").text == "new"
        assert _with(server, _ask, journal=journal, mode="replay").text == "new"


@pytest.mark.parametrize(
    ("reply", "error"),
    [(overflow(), ContextOverflowError), (Reply("half", finish_reason="length"), ReplyTruncatedError),
     (Reply(status=404), ModelServiceError)],
)  # fmt: skip
def test_a_solver_is_told_the_same_failure_again(reply: Reply, error: type[Exception]) -> None:
    journal = MemoryJournal()
    with OpenAIServer([reply]) as server:
        messages = []
        for _ in range(2):
            with pytest.raises(error) as caught:
                _with(server, _ask, journal=journal)
            messages.append((str(caught.value), getattr(caught.value, "text", "")))
    assert messages[0] == messages[1] and len(server.requests) == 1


@pytest.mark.parametrize(("role", "status"), [("analyst", 404), ("solver", 401)])
def test_what_the_user_can_mend_is_asked_again(role: str, status: int) -> None:
    journal = MemoryJournal()
    with OpenAIServer([Reply(status=status), "mended"]) as server:
        with pytest.raises(ModelServiceError):
            _with(server, lambda g: _ask(g, role=role), journal=journal)
        assert _with(server, lambda g: _ask(g, role=role), journal=journal).text == "mended"


def test_the_reply_is_recorded_before_it_is_handed_on() -> None:
    class Full(MemoryJournal):
        def commit(self, outcome: CallOutcome) -> None:
            raise OSError("disk full")

    with OpenAIServer(_echo) as server, pytest.raises(OSError, match="disk full"):
        _with(server, _ask, journal=Full())


def test_nothing_is_sent_before_it_is_recorded() -> None:
    class Full(MemoryJournal):
        def begin(self, start: CallStart) -> None:
            raise OSError("disk full")

    async def use(gateway: Gateway) -> Any:
        with pytest.raises(OSError, match="disk full"):
            await _ask(gateway)
        return gateway.ledger.try_reserve("solver", 1, None)

    with OpenAIServer(_echo) as server:
        assert _with(server, use, journal=Full(), budget={"calls": 1})
    assert server.requests == []


def test_a_cancelled_call_may_have_been_paid() -> None:
    journal = MemoryJournal()

    async def use(gateway: Gateway) -> Any:
        task = asyncio.ensure_future(_ask(gateway))
        await asyncio.to_thread(server.wait_for, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return gateway.ledger.spent()

    with OpenAIServer([Reply(hang=True)]) as server:
        spent = _with(server, use, journal=journal)
        assert (spent.calls, spent.possible_calls) == (0, 1)
        assert _with(server, _spent, journal=journal).possible_calls == 1


async def _spent(gateway: Gateway) -> Any:
    return gateway.ledger.spent()


def test_books_after_any_history_equal_the_books_that_were_kept() -> None:
    journal = MemoryJournal()
    half = Reply("b", finish_reason="length")
    script = [Reply(status=500), Reply(cut=5), "a", half, Reply(choices=[]), "c", overflow()]

    async def use(gateway: Gateway) -> Any:
        for ordinal in range(5):
            try:
                await _ask(gateway, ordinal)
            except (ReplyTruncatedError, ContextOverflowError):
                continue
        return gateway.ledger.spent()

    with OpenAIServer([*script, "d"]) as server:
        kept = _with(server, use, journal=journal, prices=PRICE)
        assert _with(server, _spent, journal=journal, prices=PRICE) == kept
    assert kept.calls == 5 - 1 and kept.possible_calls == 2


ENGINE = """
import asyncio, sys
from pathlib import Path
from support.gateways import gateway_for, user
from modularrsi.gateway.journal import FileJournal
async def main():
    async with gateway_for(sys.argv[1], journal=FileJournal(Path(sys.argv[2])), prices={"m": {"input": 1, "output": 1}},
                           budget={"usd": 1.0}, model={"max_output_tokens": 100}) as gateway:
        for ordinal in range(4):
            reply = await gateway.complete("solver", user(f"q{ordinal}"), scope="s", ordinal=ordinal, purpose="turn")
            print(reply.text, flush=True)
        spent = gateway.ledger.spent()
        print("spent", spent.calls, spent.possible_calls)
asyncio.run(main())
"""


@pytest.mark.slow
def test_kill_and_resume_pays_for_nothing_twice(tmp_path: Path) -> None:
    """The engine is killed while its third call is under way; the server goes on, as a real one would."""
    replies = [{"text": f"a{n}", "delay": 30 if n == 2 else 0} for n in range(4)]
    script = {"rules": [{"contains": f"q{n}", "reply": reply} for n, reply in enumerate(replies)]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    server = _start("tests/support/openai_server.py", "--script", str(tmp_path / "script.json"), "--port", "0")
    try:
        url = _line(server)
        arguments = ("-c", ENGINE, url, str(tmp_path / "calls.jsonl"))
        engine = _start(*arguments)
        assert [_line(engine), _line(engine)] == ["a0", "a1"]
        while _stats(url)["requests"] < 3:
            time.sleep(0.05)
        engine.kill()
        engine.wait()
        output, _ = _start(*arguments).communicate(timeout=60)
        assert output.split("\n")[:5] == ["a0", "a1", "a2", "a3", "spent 4 1"]
        assert {**_stats(url), "active": 0, "peak": 0} == {
            "requests": 5, "generated": 4, "repeats": 1, "active": 0, "peak": 0,
        }  # fmt: skip
    finally:
        server.kill()
        server.wait()


def _start(*arguments: str) -> subprocess.Popen[str]:
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _stats(url: str) -> dict[str, int]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/__stats") as reply:
        return json.load(reply)


# --------------------------------------------------------------------------------------------------- the other things


def test_check_asks_for_the_list_and_spends_nothing() -> None:
    with OpenAIServer(_echo, models=["m", "n"]) as server:
        check = _with(server, lambda g: g.check("solver"))
        assert (check.ok, check.listed, server.requests) == (True, True, [])
        assert not _with(server, lambda g: g.check("solver"), model={"model": "zz"}).ok
        spoken = _with(server, lambda g: g.check("solver", ask_model=True), model={"max_output_tokens": 500})
        assert spoken.ok and server.requests[0].body["max_tokens"] == 1


def test_check_reports_faults_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", KEY)
    with OpenAIServer(_echo, key="other") as server:
        check = _with(server, lambda g: g.check("solver"), model={"api_key_env": "CANARY"})
    assert not check.ok and check.detail.startswith("auth") and KEY not in repr(check)


def test_a_role_without_a_model_is_named() -> None:
    with OpenAIServer(_echo) as server, pytest.raises(UserError, match="no model is set for the role judge"):
        _with(server, lambda g: _ask(g, role="judge"))


def test_names_and_windows() -> None:
    async def use(gateway: Gateway) -> tuple[str, int]:
        return gateway.model_name("solver"), gateway.context_tokens("solver")

    with OpenAIServer(_echo) as server:
        assert _with(server, use) == ("m", 1_000_000)
        assert _with(server, use, model={"context_tokens": 5}) == ("m", 5)


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
    with OpenAIServer(_echo) as server:
        options: dict[str, Any] = {"budget": {"tokens": 300}}
        ask: Callable[[Gateway], Awaitable[Any]] = lambda g: _ask(g, text="x" * 5000)  # noqa: E731
        with pytest.raises(BudgetExhausted):
            _with(server, ask, model={"max_output_tokens": 50}, **options)
        _with(server, ask, model={"max_output_tokens": 50, "context_tokens": 200}, **options)
    assert call_module.prompt_token_bound([{"role": "user", "content": "x" * 5000}]) > 2500
