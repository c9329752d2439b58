"""What an import of the gateway may do: nothing on the network, and nothing slow outside `client.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OFFLINE = """
import socket
def refuse(*_, **__):
    raise SystemExit("an import opened a connection")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
"""


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_gateway_starts_offline_with_all_its_prices() -> None:
    code = OFFLINE + """
from modularrsi.gateway.connect import GatewaySettings, connect
from modularrsi.gateway.caps import read_budget
from modularrsi.gateway.settings import read_models
models = read_models({"default": {"model": "gpt-5-mini", "max_output_tokens": 5}}, "f")
connect(GatewaySettings(models, read_budget({"usd": 1.0}, "f")), run_id="r", environ={"OPENAI_API_KEY": "k" * 20})
print("ready")
"""
    assert _python(code) == "ready"


def test_only_the_client_imports_openai() -> None:
    names = [path.stem for path in (ROOT / "modularrsi" / "gateway").glob("*.py")]
    light = [name for name in names if name not in ("__init__", "client", "connect")]
    assert len(light) >= 15
    code = "import sys\n" + "".join(f"import modularrsi.gateway.{name}\n" for name in light)
    assert _python(code + "print('openai' in sys.modules)") == "False"
