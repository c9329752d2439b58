"""Commands and files in a real container, on an image with nothing but busybox and on a Debian one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.docker_engine import FULL, TINY, docker_engine, spec  # noqa: F401

from modularrsi.errors import SandboxError
from modularrsi.sandbox import docker_exec
from modularrsi.sandbox.base import ExecResult, Resources
from modularrsi.sandbox.docker import DockerSandbox

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker_engine")]


@pytest.fixture(scope="module", params=[TINY, FULL])
def box(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    docker_engine: object,  # noqa: F811
) -> Iterator[DockerSandbox]:
    made = DockerSandbox(spec(tmp_path_factory.mktemp("box"), request.param, workdir="/app", env={"GIVEN": "by spec"}))
    asyncio.run(made.start())
    yield made
    asyncio.run(made.stop())


def run(box: DockerSandbox, command: str, **options: object) -> ExecResult:
    return asyncio.run(box.exec(command, **options))  # type: ignore[arg-type]


def test_streams_apart_and_exit_code(box: DockerSandbox) -> None:
    assert run(box, "echo out; echo err >&2; exit 3") == ExecResult(3, b"out\n", b"err\n")


def test_binary_output_is_exact(box: DockerSandbox) -> None:
    data = os.urandom(300_000)
    assert run(box, "cat", stdin=data).stdout == data


def test_large_stdin_that_is_not_read_is_no_fault(box: DockerSandbox) -> None:
    assert run(box, "exit 4", stdin=b"x" * 5_000_000).exit_code == 4


def test_no_stdin_is_end_of_file(box: DockerSandbox) -> None:
    assert run(box, "cat; echo end", timeout_sec=20).stdout == b"end\n"


def test_output_without_a_newline_is_not_changed(box: DockerSandbox) -> None:
    assert run(box, "printf 'a;b:0;'; printf '' >&2") == ExecResult(0, b"a;b:0;", b"")


def test_output_limit_cuts_and_says_so_and_the_command_still_ends(box: DockerSandbox) -> None:
    result = run(box, "head -c 5000000 /dev/zero; echo done >&2; exit 5", output_limit=1000)
    assert (result.exit_code, result.stdout, result.stderr, result.truncated) == (5, bytes(1000), b"done\n", True)


def test_output_of_exactly_the_limit_is_not_truncated(box: DockerSandbox) -> None:
    assert run(box, "printf 12345", output_limit=5) == ExecResult(0, b"12345", b"")


def test_workdir_env_and_user(box: DockerSandbox) -> None:
    assert run(box, "pwd; echo $GIVEN $EXTRA", env={"EXTRA": "a b'c"}).stdout == b"/app\nby spec a b'c\n"
    assert run(box, "pwd; id -u", cwd="/tmp", user=1000).stdout == b"/tmp\n1000\n"
    assert run(box, "id -u", user="root").stdout == b"0\n"


def test_environment_is_the_same_in_every_run(box: DockerSandbox) -> None:
    """Prompts must repeat across a resume: nothing random may show."""
    shown = run(box, "env | sort; hostname; cat /etc/hostname").stdout.decode()
    assert "HOSTNAME=sandbox" in shown
    assert not [word for word in shown.split() if len(word) > 40 and "=" not in word]


def test_missing_folder_is_the_commands_failure(box: DockerSandbox) -> None:
    result = run(box, "echo never", cwd="/does/not/exist")
    assert result.exit_code == 126
    assert b"/does/not/exist" in result.stderr
    assert result.stdout == b""


def test_unknown_user_is_a_sandbox_error(box: DockerSandbox) -> None:
    with pytest.raises(SandboxError, match="nobody-of-that-name") as caught:
        run(box, "true", user="nobody-of-that-name")
    assert caught.value.cause == "unsupported"


def test_detached_child_does_not_hold_up_the_call_and_lives_on(box: DockerSandbox) -> None:
    """The child goes on writing to an output that nobody reads any more: it must not die of that."""
    loop = "while :; do echo tick; echo tick >> /tmp/ticks; sleep 0.1; done"
    assert b"up\n" in run(box, f"({loop}) & echo up", timeout_sec=60).stdout
    time.sleep(3)
    before = int(run(box, "wc -l < /tmp/ticks").stdout)
    time.sleep(1)
    assert int(run(box, "wc -l < /tmp/ticks").stdout) > before


def test_time_limit_kills_everything_the_command_started(box: DockerSandbox) -> None:
    script = """
    sh -c 'trap "" TERM HUP; while :; do echo x >> /tmp/alive1; sleep 0.1; done' &
    (setsid sh -c 'while :; do echo x >> /tmp/alive2; sleep 0.1; done' &)
    env -i PATH=$PATH sh -c 'while :; do echo x >> /tmp/alive3; sleep 0.1; done' &
    echo begun; sleep 100
    """
    result = run(box, script, timeout_sec=2)
    assert (result.exit_code, result.stdout, result.timed_out) == (None, b"begun\n", True)
    times = "wc -l < /tmp/alive1; wc -l < /tmp/alive2; wc -l < /tmp/alive3"
    before = run(box, times).stdout
    assert all(int(count) > 1 for count in before.split()) and len(before.split()) == 3
    time.sleep(0.7)
    assert run(box, times).stdout == before


def test_time_limit_kills_another_users_command_and_spares_other_commands(box: DockerSandbox) -> None:
    async def both() -> tuple[ExecResult, ExecResult]:
        beat = "while :; do echo x >> /tmp/beat; sleep 0.1; done"
        slow = box.exec(f"(setsid sh -c '{beat}' &); sleep 100", user=1000, timeout_sec=1)
        spared = box.exec("sleep 3; echo finished", timeout_sec=30)
        return await asyncio.gather(slow, spared)  # type: ignore[return-value]

    slow, spared = asyncio.run(both())
    assert slow.timed_out
    assert spared.stdout == b"finished\n"
    before = run(box, "cat /tmp/beat").stdout
    time.sleep(0.5)
    assert run(box, "cat /tmp/beat").stdout == before != b""


def test_a_flood_of_output_ends_at_the_time_limit(box: DockerSandbox) -> None:
    result = run(box, "yes", timeout_sec=2, output_limit=100_000)
    assert result.timed_out and result.truncated and len(result.stdout) == 100_000


def test_cancelled_command_is_killed(box: DockerSandbox) -> None:
    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await box.exec("while :; do echo x >> /tmp/cancelled; sleep 0.1; done")

    asyncio.run(cancelled())
    before = run(box, "cat /tmp/cancelled").stdout
    time.sleep(0.5)
    assert run(box, "cat /tmp/cancelled").stdout == before != b""


def test_command_that_kills_its_shell_still_ends(box: DockerSandbox) -> None:
    result = run(box, "echo before; kill -9 $PPID; sleep 0.2; echo after", timeout_sec=30)
    assert result.exit_code == 137
    assert result.stdout == b"before\nafter\n"


def test_command_killed_by_a_signal(box: DockerSandbox) -> None:
    assert run(box, "kill -9 $$").exit_code == 137


def test_command_that_cannot_be_passed_fails_like_a_command(box: DockerSandbox) -> None:
    assert run(box, "#" * 200_000).exit_code == 126
    assert run(box, "echo a\0b").exit_code == 126


def test_a_long_command_and_odd_bytes_arrive(box: DockerSandbox) -> None:
    text = "x" * 100_000
    assert run(box, f"printf %s '{text}' | wc -c").stdout.strip() == b"100000"
    assert run(box, "printf '%s' 'ä€\U0001f600\\n'").stdout.decode() == "ä€\U0001f600\\n"


def test_many_commands_at_once(box: DockerSandbox) -> None:
    async def all_at_once() -> list[ExecResult]:
        return await asyncio.gather(*(box.exec(f"sleep 0.2; echo {number}") for number in range(12)))

    assert [result.stdout for result in asyncio.run(all_at_once())] == [b"%d\n" % number for number in range(12)]


# --------------------------------------------------------------------------------------------------------------- files


def test_files_round_trip_with_mode_and_append(box: DockerSandbox) -> None:
    async def go() -> tuple[bytes, bytes, bytes]:
        await box.write_file("/made/on the way/fi'le", b"\0\xffone", mode=0o640)
        await box.write_file("/made/on the way/fi'le", b"two", append=True)
        stat = await box.exec("stat -c '%a %U' \"/made/on the way/fi'le\"")
        whole = await box.read_file("/made/on the way/fi'le")
        return whole, await box.read_file("/made/on the way/fi'le", 3), stat.stdout

    assert asyncio.run(go()) == (b"\0\xffonetwo", b"\0\xffo", b"640 root\n")


def test_files_as_a_user(box: DockerSandbox) -> None:
    async def go() -> ExecResult:
        await box.write_file("/tmp/of-user", b"x", user=1000)
        with pytest.raises(SandboxError) as caught:
            await box.write_file("/etc/of-user", b"x", user=1000)
        assert caught.value.cause == "write_failed"
        return await box.exec("stat -c %u /tmp/of-user")

    assert asyncio.run(go()).stdout == b"1000\n"


@pytest.mark.parametrize("path", ["/missing", "/etc", "/dev/zero", "/a-pipe"])
def test_only_regular_files_are_read(box: DockerSandbox, path: str) -> None:
    run(box, "[ -p /a-pipe ] || mkfifo /a-pipe")
    with pytest.raises(SandboxError, match=path) as caught:
        asyncio.run(box.read_file(path))
    assert caught.value.cause == "read_failed"


def test_a_planted_link_is_followed_inside_only(box: DockerSandbox, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("host")
    run(box, f"mkdir -p {tmp_path} && rm -f /link && ln -s {victim} /link")
    asyncio.run(box.write_file("/link", b"planted"))
    assert victim.read_text() == "host"
    assert run(box, f"cat {victim}").stdout == b"planted"


def test_upload_is_roots_with_modes_kept(box: DockerSandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    (source / "sub" / "data").write_bytes(bytes(range(256)))
    (source / "sub" / "data").chmod(0o600)
    (source / "link").symlink_to("/etc/shadow")
    os.chown(source / "run.sh", 1234, 1234)
    asyncio.run(box.upload_dir(source, "/new/target"))
    stat = "stat -c '%n %a %u %g' run.sh sub sub/data sub/empty"
    listing = run(box, f"cd /new/target && {stat} && ./run.sh && readlink link")
    assert listing.stdout.decode().splitlines() == [
        "run.sh 755 0 0", "sub 755 0 0", "sub/data 600 0 0", "sub/empty 755 0 0", "ran", "/etc/shadow",
    ]  # fmt: skip
    assert asyncio.run(box.read_file("/new/target/sub/data")) == bytes(range(256))


def test_upload_over_a_planted_link_stays_inside(box: DockerSandbox, tmp_path: Path) -> None:
    source, victim = tmp_path / "source", tmp_path / "victim"
    source.mkdir()
    victim.mkdir()
    (source / "file").write_text("x")
    run(box, f"mkdir -p {victim} && ln -sfn {victim} /planted")
    asyncio.run(box.upload_dir(source, "/planted"))
    assert list(victim.iterdir()) == []
    assert run(box, f"ls {victim}").stdout == b"file\n"


def test_download_takes_regular_files_and_folders_only(box: DockerSandbox, tmp_path: Path) -> None:
    run(box, """
        rm -rf /out && mkdir -p /out/sub/empty && cd /out && printf data > sub/file && chmod 755 sub/file
        ln -s /etc/passwd link && ln -s /etc folder-link && mkfifo pipe && printf hard > a && ln a b
        printf odd > "$(printf 'new\\nline')"
    """)  # fmt: skip
    target = tmp_path / "got"
    asyncio.run(box.download_dir("/out", target))
    names = sorted(path.relative_to(target).as_posix() for path in target.rglob("*"))
    assert [name for name in names if name != "b"] == ["a", "new\nline", "sub", "sub/empty", "sub/file"]
    assert (target / "sub/file").read_text() == "data"
    assert os.access(target / "sub/file", os.X_OK)
    assert not [path for path in target.rglob("*") if path.is_symlink()]


def test_download_of_a_planted_link_shows_the_containers_files(box: DockerSandbox, tmp_path: Path) -> None:
    run(box, "rm -rf /other /swapped && mkdir /other && echo inside > /other/f && ln -s /other /swapped")
    asyncio.run(box.download_dir("/swapped", tmp_path / "got"))
    assert (tmp_path / "got" / "f").read_text() == "inside\n"


def test_download_of_a_missing_folder_says_so(box: DockerSandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="/missing") as caught:
        asyncio.run(box.download_dir("/missing", tmp_path / "got"))
    assert caught.value.cause == "download_failed"


def test_a_folder_of_some_size_round_trips(box: DockerSandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(50):
        (source / f"{number}").write_bytes(os.urandom(200_000))
    asyncio.run(box.upload_dir(source, "/big"))
    asyncio.run(box.download_dir("/big", tmp_path / "back"))
    for number in range(50):
        assert (tmp_path / "back" / f"{number}").read_bytes() == (source / f"{number}").read_bytes()


# ----------------------------------------------------------------------------------------- no process left for a start

_REFUSAL = "OCI runtime exec failed: exec failed: unable to start container process: read init-p: connection reset"


def _refusing(monkeypatch: pytest.MonkeyPatch, times: int) -> list[float]:
    """Let the runtime refuse the first `times` starts, as runc does in a container without a process to spare."""
    real, starts = docker_exec._Running.finish, []

    async def finish(self: docker_exec._Running) -> ExecResult:
        starts.append(time.monotonic())
        if len(starts) > times:
            return await real(self)
        raise self._fault(_REFUSAL.encode())

    monkeypatch.setattr(docker_exec._Running, "finish", finish)
    monkeypatch.setattr(docker_exec, "_PAUSES", (0.01, 0.01, 0.01))
    return starts


def test_a_start_that_the_runtime_refused_is_tried_again(box: DockerSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = _refusing(monkeypatch, 2)
    assert run(box, "echo here").stdout == b"here\n"
    assert len(starts) == 3


def test_a_container_with_room_that_starts_nothing_is_lost(box: DockerSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = _refusing(monkeypatch, 99)
    with pytest.raises(SandboxError, match="runs no commands") as lost:
        run(box, "echo here")
    assert (lost.value.cause, len(starts)) == ("lost", 4)


def test_in_a_full_container_a_command_fails_and_the_container_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        box = DockerSandbox(spec(tmp_path, FULL, resources=Resources(pids=32)))
        await box.start()
        try:
            await box.exec("for i in $(seq 40); do sleep 60 >/dev/null 2>&1 </dev/null & done", timeout_sec=2)
            _refusing(monkeypatch, 99)
            refused = await box.exec("echo here")
            assert refused.exit_code == 126
            assert b"no process left" in refused.stderr
        finally:
            await box.stop()

    asyncio.run(scenario())
