"""What an isolating sandbox keeps apart: files, processes, network, kernel settings, limits. A hostile root inside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.sandboxes import ISOLATING, Kind, output, require, started

from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import Resources
from modularrsi.sandbox.bwrap_root import Ids

pytestmark = pytest.mark.parametrize("kind", ISOLATING)


@pytest.fixture(autouse=True)
def _available(kind: Kind) -> None:
    require(kind)


# ---------------------------------------------------------------------------------------------------------------- files


def test_the_hosts_own_files_are_not_there(kind: Kind, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    own = Path(__file__).resolve()

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            for path in (secret, own, Path.home() / ".bashrc-of-nobody", Path("/etc/shadow-")):
                assert (await sandbox.exec(f"cat '{path}'")).exit_code != 0
            assert await output(sandbox, "ls -A /home /srv /media /mnt | grep -v ':$' | tr -d '\\n'") == ""
            shadow = await sandbox.exec("cat /etc/shadow")
            assert b":$" not in shadow.stdout

    asyncio.run(scenario())


def test_a_planted_link_reaches_nothing_of_the_host(kind: Kind, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    victim = tmp_path / "victim"
    victim.mkdir()

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            plant = f"""
                ln -s {secret} /app/read; ln -s {victim}/new /app/write; ln -s {victim} /app/folder
                ln -s ../../../../../../../../../..{secret} /app/up
                rm -rf /logs/artifacts; ln -s {victim} /logs/artifacts
            """
            await output(sandbox, plant)
            for path in ("/app/read", "/app/up", f"/proc/1/root{secret}", f"/proc/self/root{secret}"):
                with pytest.raises(SandboxError):
                    await sandbox.read_file(path)
            for attempt in (
                sandbox.write_file("/app/write", b"x"),
                sandbox.upload_dir(Path(__file__).parent, "/app/folder"),
                sandbox.download_dir("/logs/artifacts", tmp_path / "out"),
            ):
                # That it fails, or writes inside, is the sandbox's choice: nothing may happen outside.
                with contextlib.suppress(SandboxError):
                    await attempt
            assert list(victim.iterdir()) == []

    asyncio.run(scenario())


def test_a_path_that_climbs_stays_inside(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            await sandbox.write_file("/app/../../../../climbed", b"x")
            assert await sandbox.read_file("/climbed") == b"x"
            assert not Path("/climbed").exists()

    asyncio.run(scenario())


def test_programs_and_kernel_settings_cannot_be_changed(kind: Kind, tmp_path: Path) -> None:
    if kind.name == "docker":
        pytest.skip("a container has its own /usr")
    attempts = """
        touch /usr/bin/planted
        cp /bin/true /usr/lib/planted
        mount -o remount,rw /usr
        mount -t tmpfs none /mnt
        umount /usr
        echo x > /proc/sys/kernel/core_pattern
        echo h > /proc/sysrq-trigger
        mknod /tmp/disk b 254 0
        chroot / mount -t proc none /mnt
        unshare --mount true
        unshare --user true
        unshare --user --map-root-user --mount true
        hostname other
        echo -1000 > /proc/1/oom_score_adj
        date -s 2001-01-01
        ls /sys/fs/cgroup/*
        cat /proc/kcore
        dmesg
    """

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            for attempt in filter(None, map(str.strip, attempts.splitlines())):
                result = await sandbox.exec(attempt, timeout_sec=10)
                assert result.exit_code != 0, attempt

    asyncio.run(scenario())
    assert not Path("/usr/bin/planted").exists()


def test_kernel_settings_are_mounted_read_only(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where root inside is the kernel's own root, whom ownership alone would let write them."""
    if kind.name != "bubblewrap":
        pytest.skip("a matter of how the sandbox is started")

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            mounts = [line.split() for line in (await output(sandbox, "cat /proc/self/mounts")).splitlines()]
            assert [options.split(",")[0] for _, place, _, options, *_ in mounts if place == "/proc/sys"] == ["ro"]
            # A file that may be written without harm: the value it has is written back.
            harmless = "read -r now < /proc/sys/kernel/domainname; echo \"$now\" > /proc/sys/kernel/domainname"
            assert (await sandbox.exec(harmless)).exit_code != 0

    asyncio.run(scenario())
    monkeypatch.setattr("modularrsi.sandbox.bubblewrap.ids_for_this_user", lambda: Ids(None))
    asyncio.run(scenario())


def test_the_first_process_holds_no_way_out(kind: Kind, tmp_path: Path) -> None:
    if kind.name == "docker":
        pytest.skip("a matter of how the sandbox is started")

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            shown = await output(sandbox, "readlink /proc/1/fd/*")
            assert {line.split(":")[0] for line in shown.split()} <= {"pipe", "/dev/null"}
            for own in ("/proc/self/fd/*", "/proc/$$/fd/*"):
                assert "/" not in (await output(sandbox, f"readlink {own} | grep -v -e /dev/null -e ^/proc/ || true"))

    asyncio.run(scenario())


def test_rights_are_few_and_cannot_grow(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            lines = (await output(sandbox, "cat /proc/self/status")).splitlines()
            status = dict(line.split(":", 1) for line in lines if ":" in line)
            for field in ("CapPrm", "CapEff", "CapBnd"):
                rights = int(status[field], 16)
                for dangerous in (2, 12, 16, 17, 19, 21, 22, 25, 27, 38, 39, 40):
                    assert not rights >> dangerous & 1, (field, dangerous)
            if kind.name == "bubblewrap":
                assert status["NoNewPrivs"].strip() == "1"

    asyncio.run(scenario())


# ------------------------------------------------------------------------------------------------------------ processes


def test_processes_of_the_host_are_neither_seen_nor_reached(kind: Kind, tmp_path: Path) -> None:
    mine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            seen = await output(sandbox, "ls /proc | grep -c '^[0-9]'")
            assert int(seen) < 12
            await sandbox.exec(f"kill -9 {mine.pid} {os.getpid()} {os.getppid()}; kill -9 -1", timeout_sec=10)
            assert mine.poll() is None
            if kind.name == "bubblewrap":  # its first process cannot be killed from inside
                assert await output(sandbox, "echo alive") == "alive\n"

    try:
        asyncio.run(scenario())
    finally:
        mine.kill()
        mine.wait()


def test_orphans_are_reaped(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            await output(sandbox, "for i in 1 2 3 4 5; do (setsid sleep 0.01 &); done; sleep 0.3")
            await asyncio.sleep(0.3)
            states = await output(sandbox, "cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | cut -c1")
            assert "Z" not in states

    asyncio.run(scenario())


def test_hostname_is_fixed(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path, hostname="tb-box") as sandbox:
            assert await output(sandbox, "cat /proc/sys/kernel/hostname") == "tb-box\n"
            assert "tb-box" in await output(sandbox, "cat /etc/hosts")

    asyncio.run(scenario())


# -------------------------------------------------------------------------------------------------------------- network


def test_without_network_there_is_only_the_loopback(kind: Kind, tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    threading.Thread(target=_accept_forever, args=(listener,), daemon=True).start()

    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            devices = await output(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")
            assert devices.split() == ["lo"]
            for address in (f"127.0.0.1/{port}", "192.0.2.1/80"):
                reached = await sandbox.exec(f"exec 3<>/dev/tcp/{address}", timeout_sec=5)
                assert reached.exit_code not in (0, None)

    asyncio.run(scenario())
    listener.close()


def _accept_forever(listener: socket.socket) -> None:
    while True:
        try:
            listener.accept()
        except OSError:
            return


def test_two_sandboxes_have_two_loopbacks(kind: Kind, tmp_path: Path) -> None:
    serve = "import socket,time; s=socket.create_server(('127.0.0.1',4567)); open('/app/up','w'); time.sleep(99)"

    async def scenario() -> None:
        async with started(kind, tmp_path) as one, started(kind, tmp_path) as other:
            if (await one.exec("python3 -c ''")).exit_code != 0:
                pytest.skip("no python in the sandbox")
            await output(one, f'python3 -c "{serve}" >/dev/null 2>&1 & while [ ! -e /app/up ]; do sleep 0.05; done')
            assert (await one.exec("exec 3<>/dev/tcp/127.0.0.1/4567")).exit_code == 0
            assert (await other.exec("exec 3<>/dev/tcp/127.0.0.1/4567")).exit_code != 0

    asyncio.run(scenario())


def test_network_is_there_when_asked_for(kind: Kind, tmp_path: Path) -> None:
    if kind.name != "bubblewrap":
        pytest.skip("a container's network is its own")
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept_forever, args=(listener,), daemon=True).start()

    async def scenario() -> None:
        async with started(kind, tmp_path, network=True) as sandbox:
            reached = await sandbox.exec(f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}", timeout_sec=5)
            assert reached.exit_code == 0

    asyncio.run(scenario())
    listener.close()


# --------------------------------------------------------------------------------------------------------------- limits


def test_a_fork_bomb_is_contained(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path, resources=Resources(pids=64)) as sandbox:
            await sandbox.exec("b() { b | b & }; b 2>/dev/null; sleep 1", timeout_sec=3)
            counted = await sandbox.exec("set -- /proc/[0-9]*; echo $#", timeout_sec=20)
            assert int(counted.stdout or b"0") <= 70
            assert await sandbox.alive()

    asyncio.run(scenario())


def test_memory_is_limited(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path, resources=Resources(memory_mb=128, pids=64)) as sandbox:
            eat = "head -c {}M /dev/zero | tail -c {}M | wc -c"
            assert await output(sandbox, eat.format(20, 10)) == f"{10 * 1024 * 1024}\n"
            result = await sandbox.exec("set -o pipefail; " + eat.format(400, 390), timeout_sec=60)
            assert result.exit_code not in (0, None)
            assert await output(sandbox, "echo alive") == "alive\n"

    asyncio.run(scenario())


# ---------------------------------------------------------------------------------------------------------------- users


def test_another_user_is_real_or_refused(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(kind, tmp_path) as sandbox:
            if not kind.users:
                with pytest.raises(SandboxError) as refused:
                    await sandbox.exec("id", user="www-data")
                assert refused.value.cause == "unsupported"
                return
            assert await output(sandbox, "id -un; id -u", user="www-data") == "www-data\n33\n"
            assert await output(sandbox, "id -u", user=1234) == "1234\n"
            assert (await sandbox.exec("touch /root/x || touch /etc/x", user="www-data")).exit_code != 0
            await sandbox.write_file("/tmp/theirs", b"x", user="www-data")
            assert await output(sandbox, "stat -c %U /tmp/theirs") == "www-data\n"
            await output(sandbox, "printf x > /root/mine; chmod 600 /root/mine")
            with pytest.raises(SandboxError):
                await sandbox.read_file("/root/mine", user="www-data")
            with pytest.raises(SandboxError) as unknown:
                await sandbox.exec("id", user="no-such-user")
            assert unknown.value.cause == "unsupported"
            await output(sandbox, "touch /app/f; chown www-data:www-data /app/f; test $(stat -c %U /app/f) = www-data")

    asyncio.run(scenario())
