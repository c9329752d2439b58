"""`modularrsi simulate` as a process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "evolution_pool" / "samples"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "modularrsi", "simulate", *arguments]


Start = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command with these arguments: (process, URL). A test that fails leaves nothing running."""
    with contextlib.ExitStack() as started:

        def begin(*arguments: str, before: Sequence[str] = ()) -> tuple[subprocess.Popen[str], str]:
            words = [*before, *command("--port", "0", *arguments)]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            started.enter_context(process)
            started.callback(process.kill)
            assert process.stdout is not None
            return process, process.stdout.readline().strip()

        yield begin


def refused(*arguments: str) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped(start: Start, number: signal.Signals) -> None:
    process, url = start(str(SAMPLES), "--seed", "3", "--simulate", "habits=none")
    instruction = (SAMPLES / "access-log" / "instruction.md").read_text()
    form = {"plan": "", "commands": [{"keystrokes": "ls", "duration": 1}], "done": False}
    prompt = f"Reply like {json.dumps(form)}\n{instruction}"
    body = json.dumps({"model": "simulated", "messages": [{"role": "user", "content": prompt}]}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        said = json.load(reply)
    assert "access.log" in said["choices"][0]["message"]["content"]
    process.send_signal(number)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "SIMULATED" in told
    assert "Traceback" not in told


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen at 127.0.0.1:{port}: address already in use" in refused("--port", str(port))


def test_mistakes_are_named(tmp_path: Path) -> None:
    assert "habits.x is unknown" in refused("--simulate", "habits.x=1")
    assert "cannot be read" in refused("--settings", str(tmp_path / "none.toml"))
    (tmp_path / "empty.toml").write_text("[models]\n")
    assert "has no table [simulation]" in refused("--settings", str(tmp_path / "empty.toml"))
    assert "none" in refused(str(tmp_path / "none"))


def test_settings_come_from_a_file(start: Start, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("[simulation]\ncontext_tokens = 300\n")
    process, url = start("--settings", str(tmp_path / "s.toml"))
    body = json.dumps({"model": "simulated", "messages": [{"role": "user", "content": "long " * 2000}]}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=30)
    assert json.load(error.value)["error"]["code"] == "context_length_exceeded"
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=30)


def test_an_address_that_others_reach_is_warned_of(start: Start) -> None:
    process, _ = start("--host", "0.0.0.0")
    process.send_signal(signal.SIGTERM)
    assert "no password is asked" in process.communicate(timeout=30)[1]


def test_it_takes_more_connections_than_the_shell_allows_files(start: Start) -> None:
    process, url = start(before=["sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh"])
    address = ("127.0.0.1", int(url.split(":")[2].split("/")[0]))
    with contextlib.ExitStack() as opened:
        ends = [opened.enter_context(socket.create_connection(address, timeout=30)) for _ in range(150)]
        for end in ends:
            end.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert all(end.recv(15) == b"HTTP/1.1 200 OK" for end in ends)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0
