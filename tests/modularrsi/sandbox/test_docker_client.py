"""Finding the Engine and saying what is wrong, without an Engine."""

from __future__ import annotations

import http.server
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modularrsi.errors import SandboxError
from modularrsi.relay.start import relay_command
from modularrsi.sandbox.docker import container_name
from modularrsi.sandbox.docker_classic import needs_buildkit
from modularrsi.sandbox.docker_client import docker_availability, engine_url

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def engine_that_says(path: Path, status: int, body: bytes) -> Iterator[str]:
    """A server on a unix socket that answers everything alike."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *args: object) -> None: ...

    with socketserver.UnixStreamServer(str(path), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"unix://{path}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("url", "word"),
    [("ssh://user@host", "ssh"), ("https://host:2376", "TLS"), ("npipe:////./pipe/d", "npipe"), ("odd", "odd")],
)
def test_hosts_that_are_not_supported_are_named(url: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", url)
    with pytest.raises(SandboxError, match=word) as caught:
        engine_url()
    assert caught.value.cause == "unsupported"
    answer = docker_availability()
    assert (answer.kind, answer.usable) == ("docker", False)
    assert "DOCKER_HOST" in answer.fix


def test_tls_is_not_supported_even_for_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://host:2376")
    assert engine_url() == "tcp://host:2376"
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    with pytest.raises(SandboxError, match="TLS"):
        engine_url()


def test_the_first_usual_socket_that_exists_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.path.exists("/var/run/docker.sock"):
        pytest.skip("this machine has an Engine at the standard place")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert engine_url() == "unix:///var/run/docker.sock"
    (tmp_path / ".docker/run").mkdir(parents=True)
    (tmp_path / ".docker/run/docker.sock").touch()
    assert engine_url() == f"unix://{tmp_path}/.docker/run/docker.sock"


def test_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    answer = docker_availability()
    assert not answer.usable
    assert "no socket" in answer.detail and str(tmp_path) in answer.detail
    assert "start" in answer.fix


def test_daemon_down_behind_its_old_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "s"))
    dead.close()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
    answer = docker_availability()
    assert not answer.usable
    assert "no Docker Engine answers" in answer.detail


def test_daemon_down_on_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{taken.getsockname()[1]}")
        assert "no Docker Engine answers" in docker_availability().detail


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody without permission")
def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (  # everything is imported before: the interpreter itself may be root's alone
        "from modularrsi.sandbox.docker_client import docker_availability; import os, encodings.idna\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "a = docker_availability(); print(a.usable, a.detail, '|', a.fix)"
    )
    home = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home))
        listening.listen()
        home.chmod(0o600)
        said = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "DOCKER_HOST": f"unix://{home}", "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert said.stdout.startswith("False no permission"), said
    assert "usermod" in said.stdout


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        (200, {"ApiVersion": "1.24", "Version": "1.12"}, "too old"),
        (200, {"ApiVersion": "1.41", "Os": "windows"}, "windows"),
        (500, {"message": "broken"}, "500"),
        (200, ["odd"], "no Docker Engine answers"),
        (200, None, "no Docker Engine answers"),
    ],
)
def test_engines_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, body: object, word: str
) -> None:
    with engine_that_says(tmp_path / "s", status, b"<html>" if body is None else json.dumps(body).encode()) as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        answer = docker_availability()
    assert not answer.usable
    assert word in answer.detail


def test_a_usable_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"ApiVersion": "1.41", "Version": "20.10.24", "Os": "linux"}).encode()
    with engine_that_says(tmp_path / "s", 200, body) as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        answer = docker_availability()
    assert answer.usable
    assert "20.10.24" in answer.detail and answer.isolation


def test_the_sdk_is_not_imported_before_it_is_needed() -> None:
    """`--help` and the preflight must not pay for it."""
    code = "import sys; import modularrsi.sandbox.docker as d; from modularrsi.sandbox.docker_client import "
    code += "docker_availability; docker_availability(); sys.exit('docker' in sys.modules or 'requests' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False).returncode == 0


def test_the_relay_needs_nothing_but_the_standard_library() -> None:
    argv = relay_command("terminal", {})
    said = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert "ModuleNotFoundError" not in said.stderr
    assert said.returncode == 125
    assert "no terminal" in said.stderr


def test_container_names_are_docker_names_and_stay_different() -> None:
    assert container_name("run-1_task.2") == "mrsi-run-1_task.2"
    odd = [container_name(name) for name in ("a/b", "a b", "a-b", "x" * 300, "x" * 301, "ü")]
    assert len(set(odd)) == len(odd)
    assert all(len(name) < 128 and name.replace("mrsi-", "").replace("-", "").isalnum() for name in odd)


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("# syntax=docker/dockerfile:1", True), ("RUN --mount=type=cache,target=/x make", True),
        ("COPY --chmod=755 a b", True), ("copy --link a b", True), ("RUN <<EOF", True), ("COPY <<-'EOF' /x", True),
        ("RUN cat < file", False), ("COPY --chown=1:1 a b", False), ("RUN echo $((1 << 3))", False),
        ("# --mount=", False),
        ("FROM debian", False), ("RUN apt-get update && \\\n    apt-get install x", False),
    ],
)  # fmt: skip
def test_what_needs_buildkit(line: str, needed: bool) -> None:
    assert needs_buildkit(f"FROM debian\n{line}\n") is needed
