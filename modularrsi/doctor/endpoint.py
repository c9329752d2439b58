"""Whether a model's endpoint can be reached with the key that is set. The key itself is never shown."""

from __future__ import annotations

from modularrsi.doctor.checks import Row
from modularrsi.errors import UserError
from modularrsi.gateway.connect import GatewaySettings, connect
from modularrsi.gateway.settings import model_settings
from modularrsi.simulation.embedded import URL, serving
from modularrsi.simulation.names import EMBEDDED
from modularrsi.simulation.settings import Simulation


async def endpoint(model: str, base_url: str | None, api_key_env: str | None, ask: bool) -> Row:
    """One row. `ask` allows a call of one output token (it may cost a fraction of a cent)."""
    named = {"model": model, "base_url": base_url, "api_key_env": api_key_env}
    table = {name: value for name, value in named.items() if value is not None}
    if model == EMBEDDED:
        table["base_url"] = URL
    try:
        settings = GatewaySettings({"solver": model_settings(table, "command line: model")}, where="command line")
        async with serving(settings, Simulation(), []) as served, connect(served, run_id="doctor") as gateway:
            found = await gateway.check("solver", ask_model=ask and model != EMBEDDED)
    except UserError as error:
        return Row("model", model, "broken", str(error), "export the key, or name its variable with --api-key-env")
    fix = "" if found.ok else "check --base-url, --model and the key"
    return Row("model", model, "ok" if found.ok else "broken", f"{found.url}: {found.detail}", fix)
