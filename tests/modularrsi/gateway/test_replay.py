"""What is recorded, what is answered from the record, and what a killed engine leaves behind."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support.gateways import ask, echo, use_gateway
from support.openai_server import OpenAIServer, Reply, overflow

from modularrsi.errors import ModelServiceError
from modularrsi.gateway.errors import ContextOverflowError, ReplayMiss, ReplyTruncatedError
from modularrsi.gateway.gateway import Gateway
from modularrsi.gateway.journal import CallOutcome, CallStart, FileJournal, MemoryJournal

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-" + "canary-0123456789abcdefghij"
PRICE = {"m": {"input": 1.0, "output": 2.0}}


def test_a_recorded_call_is_neither_sent_nor_paid_again(tmp_path: Path) -> None:
    with OpenAIServer(echo) as server:
        first = use_gateway(server, ask, journal=FileJournal(tmp_path / "j"), prices=PRICE)

        async def use(gateway: Gateway) -> tuple[Any, Any]:
            return await ask(gateway), gateway.ledger.spent()

        second, spent = use_gateway(server, use, journal=FileJournal(tmp_path / "j"), prices=PRICE)
    assert (first.replayed, second.replayed) == (False, True)
    assert (second.text, second.cost_usd, second.usage) == (first.text, first.cost_usd, first.usage)
    assert len(server.requests) == 1 and spent.calls == 1


@pytest.mark.parametrize("change", [{"text": "other"}, {"ordinal": 1}, {"scope": "t"}])
def test_another_question_is_another_call(change: dict[str, Any]) -> None:
    journal = MemoryJournal()
    with OpenAIServer(echo) as server:
        use_gateway(server, ask, journal=journal)
        assert not use_gateway(server, lambda g: ask(g, **change), journal=journal).replayed
        assert not use_gateway(server, ask, journal=journal, model={"temperature": 1.0}).replayed
    assert len(server.requests) == 3


def test_the_address_of_the_service_does_not_matter_to_a_recording() -> None:
    journal = MemoryJournal()
    with OpenAIServer(echo) as one, OpenAIServer(echo) as two:
        use_gateway(one, ask, journal=journal)
        assert use_gateway(two, ask, journal=journal).replayed


def test_replay_sends_nothing_and_needs_no_key() -> None:
    journal = MemoryJournal()
    with OpenAIServer(echo) as server:
        use_gateway(server, ask, journal=journal)
        options: dict[str, Any] = {"journal": journal, "mode": "replay", "model": {"api_key_env": "NOT_THERE"}}
        assert use_gateway(server, ask, **options).text == "reply to hi"
        with pytest.raises(ReplayMiss, match="no call 1 of s"):
            use_gateway(server, lambda g: ask(g, 1), **options)
    assert len(server.requests) == 1


def test_record_asks_afresh() -> None:
    journal = MemoryJournal()
    with OpenAIServer(["old", "new"]) as server:
        use_gateway(server, ask, journal=journal)
        assert use_gateway(server, ask, journal=journal, mode="record", run_id="again").text == "new"
        assert use_gateway(server, ask, journal=journal, mode="replay").text == "new"


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
                use_gateway(server, ask, journal=journal)
            messages.append((str(caught.value), getattr(caught.value, "text", "")))
    assert messages[0] == messages[1] and len(server.requests) == 1


@pytest.mark.parametrize(("role", "status"), [("analyst", 404), ("solver", 401)])
def test_what_the_user_can_mend_is_asked_again(role: str, status: int) -> None:
    journal = MemoryJournal()
    with OpenAIServer([Reply(status=status), "mended"]) as server:
        with pytest.raises(ModelServiceError):
            use_gateway(server, lambda g: ask(g, role=role), journal=journal)
        assert use_gateway(server, lambda g: ask(g, role=role), journal=journal).text == "mended"


def test_the_reply_is_recorded_before_it_is_handed_on() -> None:
    class Full(MemoryJournal):
        def commit(self, outcome: CallOutcome) -> None:
            raise OSError("disk full")

    with OpenAIServer(echo) as server, pytest.raises(OSError, match="disk full"):
        use_gateway(server, ask, journal=Full())


def test_nothing_is_sent_before_it_is_recorded() -> None:
    class Full(MemoryJournal):
        def begin(self, start: CallStart) -> None:
            raise OSError("disk full")

    async def use(gateway: Gateway) -> Any:
        with pytest.raises(OSError, match="disk full"):
            await ask(gateway)
        return gateway.ledger.try_reserve("solver", 1, None)

    with OpenAIServer(echo) as server:
        assert use_gateway(server, use, journal=Full(), budget={"calls": 1})
    assert server.requests == []


def test_a_cancelled_call_may_have_been_paid() -> None:
    journal = MemoryJournal()

    async def use(gateway: Gateway) -> Any:
        task = asyncio.ensure_future(ask(gateway))
        await asyncio.to_thread(server.wait_for, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return gateway.ledger.spent()

    with OpenAIServer([Reply(hang=True)]) as server:
        spent = use_gateway(server, use, journal=journal)
        assert (spent.calls, spent.possible_calls) == (0, 1)
        assert use_gateway(server, _spent, journal=journal).possible_calls == 1


async def _spent(gateway: Gateway) -> Any:
    return gateway.ledger.spent()


def test_books_after_any_history_equal_the_books_that_were_kept() -> None:
    journal = MemoryJournal()
    half = Reply("b", finish_reason="length")
    script = [Reply(status=500), Reply(cut=5), "a", half, Reply(choices=[]), "c", overflow()]

    async def use(gateway: Gateway) -> Any:
        for ordinal in range(5):
            try:
                await ask(gateway, ordinal)
            except (ReplyTruncatedError, ContextOverflowError):
                continue
        return gateway.ledger.spent()

    with OpenAIServer([*script, "d"]) as server:
        kept = use_gateway(server, use, journal=journal, prices=PRICE)
        assert use_gateway(server, _spent, journal=journal, prices=PRICE) == kept
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
