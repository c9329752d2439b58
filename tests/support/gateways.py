"""Gateways for tests: a clock that does not wait, and settings for a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from modularrsi.gateway.caps import read_budget
from modularrsi.gateway.connect import GatewaySettings, connect
from modularrsi.gateway.gateway import Gateway
from modularrsi.gateway.messages import ChatMessage
from modularrsi.gateway.prices import read_prices
from modularrsi.gateway.settings import read_models
from support.openai_server import OpenAIServer, Reply, Request


class FakeClock:
    """Time passes only when somebody sleeps. `slept` lists the sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def epoch(self) -> float:
        return 1_700_000_000.0 + self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def settings_for(
    url: str, budget: dict[str, Any] | None = None, prices: dict[str, Any] | None = None, **model: Any
) -> GatewaySettings:
    """Every role on the model "m" of the server at `url`."""
    table = {"default": {"model": "m", "base_url": url, "timeout_sec": 20, **model}}
    return GatewaySettings(
        read_models(table, "test.toml"), read_budget(budget or {}, "test.toml"), read_prices(prices or {}, "test.toml"),
        "test.toml",
    )  # fmt: skip


def gateway_for(
    url: str, *, budget: dict[str, Any] | None = None, prices: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None, **options: Any,
) -> Gateway:  # fmt: skip
    options = {"run_id": "run", "clock": FakeClock(), **options}
    return connect(settings_for(url, budget, prices, **(model or {})), **options)


def user(text: str = "hi") -> list[ChatMessage]:
    return [ChatMessage("user", text)]


def ask(
    gateway: Gateway, ordinal: int = 0, text: str = "hi", role: str = "solver", scope: str = "s"
) -> Awaitable[Any]:
    return gateway.complete(role, user(text), scope=scope, ordinal=ordinal, purpose="turn")


def use_gateway(server: OpenAIServer, use: Callable[[Gateway], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        async with gateway_for(server.url, **options) as gateway:
            return await use(gateway)

    return asyncio.run(run())


def echo(request: Request) -> Reply:
    return Reply(f"reply to {request.last}")
