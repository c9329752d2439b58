"""What every sandbox does, whatever it is made of: commands, time limits, files, lifecycle."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
from support.sandboxes import KINDS, Kind, output, require, spec, started

from modularrsi.errors import SandboxError
from modularrsi.sandbox import make_sandbox

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _available(kind: Kind) -> None:
    require(kind)


# ------------------------------------------------------------------------------------------------------------ lifecycle


def test_start_and_stop_may_be_repeated(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        sandbox = make_sandbox(kind.name, spec(kind, tmp_path))
        assert not await sandbox.alive()
        await sandbox.stop()
        await sandbox.start()
        await sandbox.start()
        assert await sandbox.alive()
        await sandbox.stop()
        await sandbox.stop()
        assert not await sandbox.alive()
        with pytest.raises(SandboxError):
            await sandbox.exec("true")

    asyncio.run(scenario())


def test_a_stopped_sandbox_starts_afresh(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        sandbox = make_sandbox(kind.name, spec(kind, tmp_path))
        await sandbox.start()
        await sandbox.exec("touch /app/left")
        await sandbox.stop()
        await sandbox.start()
        assert await output(sandbox, "ls /app") == ""
        await sandbox.stop()

    asyncio.run(scenario())


def test_the_folders_of_the_contract_are_there(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            await output(sandbox, "test -d /logs/agent -a -d /logs/verifier -a -d /logs/artifacts -a -d /tests")
            assert sandbox.workdir == "/app"
            for folder in ("/logs/agent", "/logs/verifier", "/logs/artifacts", "/tests", "/app"):
                await output(sandbox, f"touch {folder}/probe")

    asyncio.run(scenario())


def test_stop_while_a_command_runs(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        sandbox = make_sandbox(kind.name, spec(kind, tmp_path))
        await sandbox.start()
        running = asyncio.create_task(sandbox.exec("sleep 300"))
        await asyncio.sleep(0.3)
        await asyncio.wait_for(sandbox.stop(), 60)
        with pytest.raises(SandboxError):
            result = await asyncio.wait_for(running, 60)
            if result.exit_code != 0:  # killed: as good an answer as an error
                raise SandboxError("killed", "lost")

    asyncio.run(scenario())


def test_a_cancelled_command_is_killed(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            running = asyncio.create_task(sandbox.exec("sleep 31.4159; touch /app/late"))
            await asyncio.sleep(0.3)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await _gone(sandbox, "[s]leep 31.4159")

    asyncio.run(scenario())


async def _gone(sandbox, pattern: str) -> None:
    for _ in range(100):
        found = await sandbox.exec(
            "for f in /proc/[0-9]*/cmdline; do "
            f"tr '\\0' ' ' <$f 2>/dev/null | grep -q '{pattern}' && exit 1; done; exit 0"
        )
        if found.exit_code == 0:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{pattern} still runs")


# ------------------------------------------------------------------------------------------------------------- commands


def test_exit_code_and_both_streams(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            result = await sandbox.exec("echo out; echo err >&2; exit 7")
            assert (result.exit_code, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
            assert not result.timed_out
            assert not result.truncated
            assert (await sandbox.exec("kill -9 $$")).exit_code == 137
            assert (await sandbox.exec("no-such-program-anywhere")).exit_code == 127

    asyncio.run(scenario())


def test_bytes_come_through_unchanged(kind: Kind, tmp_path: Path) -> None:
    data = bytes(range(256)) * 300

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            result = await sandbox.exec("cat; cat >&2 </dev/null", stdin=data)
            assert result.stdout == data
            assert (await sandbox.exec("cat")).stdout == b""

    asyncio.run(scenario())


def test_output_is_cut_at_its_limit_and_the_command_still_ends(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            much = "head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2; exit 3"
            result = await sandbox.exec(much, output_limit=1000)
            assert result.exit_code == 3
            assert result.truncated
            assert result.stdout == b"x" * 1000
            assert result.stderr == b"end\n"

    asyncio.run(scenario())


def test_output_of_exactly_the_limit_is_not_truncated(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            result = await sandbox.exec("printf 12345", output_limit=5)
            assert result.stdout == b"12345"
            assert not result.truncated

    asyncio.run(scenario())


def test_cwd_and_environment(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path, env={"FROM_TASK": "a b"}) as sandbox:
            await output(sandbox, "mkdir -p '/app/x y'")
            inside = await output(sandbox, "pwd", cwd="/app/x y")
            assert inside.endswith("/app/x y\n")
            shown = await output(sandbox, 'echo "$FROM_TASK|$MINE|$HOME"', env={"MINE": "q'\"$x"})
            assert shown.startswith("a b|q'\"$x|/")
            assert (await output(sandbox, "pwd")).endswith("/app\n")
            missing = await sandbox.exec("true", cwd="/app/nowhere")
            assert missing.exit_code not in (0, None)

    asyncio.run(scenario())


def test_nothing_of_the_engines_environment_comes_in(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_SECRET", "hunter2")

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            assert "hunter2" not in await output(sandbox, "env")

    asyncio.run(scenario())


def test_a_very_long_command_is_refused_or_done_but_never_a_fault(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            result = await sandbox.exec("true " + "x" * 300_000)
            assert result.exit_code is not None
            assert await output(sandbox, "echo still here") == "still here\n"

    asyncio.run(scenario())


def test_many_commands_at_once(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            results = await asyncio.gather(*(sandbox.exec(f"sleep 0.1; echo {number}") for number in range(12)))
            assert [result.stdout for result in results] == [f"{number}\n".encode() for number in range(12)]

    asyncio.run(scenario())


# ---------------------------------------------------------------------------------------------- time limits and daemons


def test_the_time_limit_kills_everything_the_command_started(kind: Kind, tmp_path: Path) -> None:
    command = """
        sleep 271.1 &
        setsid sleep 271.2 &
        (setsid sh -c 'sleep 271.3; :' >/dev/null 2>&1 &)
        echo before
        sleep 271.4
    """

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            result = await sandbox.exec(command, timeout_sec=1.0)
            assert result.exit_code is None
            assert result.timed_out
            assert result.stdout == b"before\n"
            await _gone(sandbox, "[s]leep 271")

    asyncio.run(scenario())


def test_the_time_limit_holds_for_one_that_ignores_signals(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            command = "trap '' TERM INT HUP; while :; do sleep 0.05; done"
            result = await asyncio.wait_for(sandbox.exec(command, timeout_sec=0.5), 60)
            assert result.timed_out

    asyncio.run(scenario())


def test_a_daemon_does_not_hold_the_command_and_outlives_it(kind: Kind, tmp_path: Path) -> None:
    # It keeps the command's own streams: neither may it hold them up nor die when they are read no more.
    command = "(while :; do echo tick; sleep 0.05; done) & disown; echo $! > /app/pid; echo started"

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            result = await asyncio.wait_for(sandbox.exec(command, timeout_sec=30), 20)
            assert result.exit_code == 0
            assert result.stdout.startswith(b"started") or result.stdout.startswith(b"tick")
            await asyncio.sleep(0.5)
            await output(sandbox, "kill -0 $(cat /app/pid)")
            await output(sandbox, "kill -9 $(cat /app/pid)")

    asyncio.run(scenario())


def test_a_service_is_reached_by_later_commands(kind: Kind, tmp_path: Path) -> None:
    serve = """
import socket, sys
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
open("/app/port", "w").write(str(server.getsockname()[1]))
while True:
    peer, _ = server.accept(); peer.sendall(b"served"); peer.close()
"""
    ask = """
import socket
print(socket.create_connection(("127.0.0.1", int(open("/app/port").read())), 5).recv(99).decode())
"""

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            if (await sandbox.exec("python3 -c 'import socket'")).exit_code != 0:
                pytest.skip("no python in the sandbox")
            await output(sandbox, f"cat > /app/serve.py <<'END'\n{serve}\nEND\ncat > /app/ask.py <<'END'\n{ask}\nEND")
            start = "nohup python3 /app/serve.py >/dev/null 2>&1 & while [ ! -s /app/port ]; do sleep 0.05; done"
            await output(sandbox, start)
            assert await output(sandbox, "python3 /app/ask.py") == "served\n"

    asyncio.run(scenario())


# ---------------------------------------------------------------------------------------------------------------- files


CONTENTS = {
    "empty": b"",
    "text": b"no newline",
    "paths": b"/app and /tests stay\n",
    "binary": bytes(range(256)),
    "5MB": os.urandom(5_000_000),
}


def test_files_are_byte_exact(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            for name, data in CONTENTS.items():
                await sandbox.write_file(f"/app/{name}", data)
                assert await sandbox.read_file(f"/app/{name}", 6_000_000) == data, name
                assert await output(sandbox, f"wc -c < /app/{name}") == f"{len(data)}\n"

    asyncio.run(scenario())


def test_any_file_name(kind: Kind, tmp_path: Path) -> None:
    names = ["a b", "it's", 'a"b', "a\nb", "-n", "$HOME", "ü—✓", "*", "`id`", "x;y"]

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            for name in names:
                await sandbox.write_file(f"/app/in/{name}", name.encode())
            for name in names:
                assert await sandbox.read_file(f"/app/in/{name}") == name.encode()
            assert await output(sandbox, "set -- /app/in/*; echo $#") == f"{len(names)}\n"

    asyncio.run(scenario())


def test_append_mode_and_overwriting(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            await sandbox.write_file("/app/run.sh", b"#!/bin/sh\n", mode=0o755)
            await sandbox.write_file("/app/run.sh", b"echo ran\n", append=True)
            assert await output(sandbox, "/app/run.sh") == "ran\n"
            await sandbox.write_file("/app/run.sh", b"x")
            assert await sandbox.read_file("/app/run.sh") == b"x"
            assert await output(sandbox, "stat -c %a /app/run.sh") == "755\n"

    asyncio.run(scenario())


def test_reading_is_bounded(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            await output(sandbox, "head -c 100000 /dev/zero > /app/big")
            assert await sandbox.read_file("/app/big", 10) == b"\0" * 10

    asyncio.run(scenario())


def test_what_cannot_be_read_or_written_is_an_error_of_its_own(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            await output(sandbox, "mkfifo /app/pipe && mkdir /app/folder")
            for path in ("/app/missing", "/app/folder", "/app/pipe"):
                with pytest.raises(SandboxError) as read:
                    await asyncio.wait_for(sandbox.read_file(path), 20)
                assert read.value.cause == "read_failed"
            for path in ("/app/folder", "/app/pipe"):
                with pytest.raises(SandboxError) as written:
                    await asyncio.wait_for(sandbox.write_file(path, b"x"), 20)
                assert written.value.cause == "write_failed"
            assert await sandbox.alive()

    asyncio.run(scenario())


# -------------------------------------------------------------------------------------------------------------- folders


def _source(folder: Path) -> Path:
    (folder / "sub/empty").mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\necho hello\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "sub/data.bin").write_bytes(bytes(range(256)))
    (folder / "sub/a b'c\nd").write_text("odd")
    (folder / "link").symlink_to("run.sh")
    (folder / "away").symlink_to("/nonexistent/elsewhere")
    os.mkfifo(folder / "pipe")
    return folder


def test_a_folder_goes_in_with_modes_and_links(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            await sandbox.upload_dir(_source(tmp_path / "source"), "/tests/deep/er")
            assert await output(sandbox, "/tests/deep/er/run.sh && /tests/deep/er/link") == "hello\nhello\n"
            assert await sandbox.read_file("/tests/deep/er/sub/data.bin") == bytes(range(256))
            assert await sandbox.read_file("/tests/deep/er/sub/a b'c\nd") == b"odd"
            assert await output(sandbox, "readlink /tests/deep/er/away") == "/nonexistent/elsewhere\n"
            listed = await output(sandbox, "test -d /tests/deep/er/sub/empty && ls /tests/deep/er")
            assert listed == "away\nlink\nrun.sh\nsub\n"
            owner = await output(sandbox, "stat -c %u /tests/deep/er/run.sh")
            assert owner == "0\n" or not kind.isolated

    asyncio.run(scenario())


def test_a_folder_comes_out_as_files_and_folders_only(kind: Kind, tmp_path: Path) -> None:
    plant = """
        cd /logs/artifacts && mkdir -p sub/empty && printf data > sub/file && printf x > 'a b'
        ln -s /etc/passwd absolute; ln -s ../../../../../../etc up; ln -s sub/file inside; mkfifo pipe
        printf run > tool; chmod 755 tool
    """

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            await output(sandbox, plant)
            target = tmp_path / "out"
            await sandbox.download_dir("/logs/artifacts", target)
            found = {path.relative_to(target).as_posix() for path in target.rglob("*")}
            assert found == {"sub", "sub/empty", "sub/file", "a b", "tool"}
            assert (target / "sub/file").read_bytes() == b"data"
            assert stat.S_IMODE((target / "tool").stat().st_mode) & 0o100
            assert not any(path.is_symlink() for path in target.rglob("*"))
            with pytest.raises(SandboxError) as missing:
                await sandbox.download_dir("/logs/missing", tmp_path / "out2")
            assert missing.value.cause == "download_failed"

    asyncio.run(scenario())


# ---------------------------------------------------------------------------------------------------------- environment


def test_the_dockerfile_is_carried_out(kind: Kind, tmp_path: Path) -> None:
    if kind.image:
        pytest.skip("needs a base image with a shell of that name")
    dockerfile = """\
FROM debian:bookworm-slim
ENV GREETING="hello there"
WORKDIR /app/work
COPY data /app/data
COPY one.txt two.txt ./
COPY --chmod=755 tool.sh /app/tool
RUN <<END
echo "$GREETING from $(basename $PWD)" > made
END
RUN /app/tool && \\
    # a comment
    ls > listed
"""
    environment = tmp_path / "environment"
    (environment / "data/sub").mkdir(parents=True)
    (environment / "data/sub/x").write_text("x")
    (environment / "one.txt").write_text("1")
    (environment / "two.txt").write_text("2")
    (environment / "tool.sh").write_text("#!/bin/sh\ntouch by-tool\n")
    (environment / "Dockerfile").write_text(dockerfile)

    async def scenario() -> None:
        async with started(kind, tmp_path, workdir=None) as sandbox:
            assert sandbox.workdir == "/app/work"
            assert await output(sandbox, "cat made") == "hello there from work\n"
            assert await output(sandbox, "cat listed") == "by-tool\nlisted\nmade\none.txt\ntwo.txt\n"
            assert await output(sandbox, "cat /app/data/sub/x; echo $GREETING") == "xhello there\n"

    asyncio.run(scenario())


def test_a_build_that_fails_says_why(kind: Kind, tmp_path: Path) -> None:
    if kind.image:
        pytest.skip("needs a base image with a shell of that name")

    async def scenario() -> None:
        sandbox = make_sandbox(
            kind.name, spec(kind, tmp_path, "FROM debian\nRUN echo the-reason >&2; exit 9\n")
        )
        with pytest.raises(SandboxError, match="the-reason") as failed:
            await sandbox.start()
        assert failed.value.cause == "build_failed"
        await sandbox.stop()

    asyncio.run(scenario())


def test_two_sandboxes_do_not_see_each_other(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as one, started(kind, tmp_path) as other:
            await output(one, "echo mine > /app/file; echo mine > /tmp/file")
            assert await output(other, "ls /app /tmp | grep -c file || true") == "0\n"

    asyncio.run(scenario())
