"""Putting the tests in, running them, reading the reward.

Called only when the worker is dead. The tests' folder is made anew, so nothing an agent planted at `/tests` or
`/logs/verifier` takes part; the test script's exit code is not a reward.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from modularrsi.errors import Failure, SandboxError
from modularrsi.sandbox.base import Sandbox
from modularrsi.tasks.scripts import staged_scripts
from modularrsi.verifier.protect import Protected
from modularrsi.verifier.reward import MAX_BYTES, REWARD_JSON, REWARD_TXT, Reward, parse_json, parse_text, unscored

OUTPUT = "/logs/verifier/test-stdout.txt"
_OUTPUT_BYTES = 200_000
_FILE_SECONDS = 60.0

# An agent may have put a file or a link in the place of /logs, and removed the folder that commands start in.
_CLEAN = "{ [ -d /logs ] && [ ! -L /logs ] || rm -rf /logs; } && rm -rf /tests /logs/verifier"
_START = '{ [ -d "$1" ] || { rm -rf -- "$1" && mkdir -p -- "$1"; }; }'
_MAKE = "mkdir -p /tests /logs/verifier && chmod 777 /logs/verifier"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reward and what the tests printed (for people; never shown to an agent)."""

    reward: Reward
    output: str = ""


@dataclass(frozen=True, slots=True)
class Judging:
    """What to run: the folder that holds `test.sh`, its time limit in seconds, environment and user."""

    tests: Path
    timeout_sec: float
    env: Mapping[str, str]
    user: str | int | None = None


async def verify(sandbox: Sandbox, judging: Judging, protected: Protected) -> Verdict:
    """Score the sandbox as it stands. Never raises for a broken task or sandbox: that is a None with its owner."""
    if not (judging.tests / "test.sh").is_file():
        return Verdict(unscored("tests_missing", f"{judging.tests / 'test.sh'} does not exist"))
    try:
        await protected.restore()
        await _put_tests_in(sandbox, judging.tests)
        return await _run(sandbox, judging)
    except SandboxError as error:
        return Verdict(Reward(None, {}, Failure("sandbox", error.cause, str(error))))


async def clear_tests(sandbox: Sandbox) -> None:
    """Empty folders for tests and their reward. Also for after a step: what judged it may judge the next, whose agent
    must not read it. Raises SandboxError."""
    cleaned = await sandbox.exec(
        f"set -- {shlex.quote(sandbox.workdir)}; {_CLEAN} && {_MAKE} && {_START}",
        cwd="/", user="root", timeout_sec=_FILE_SECONDS,
    )
    if cleaned.exit_code != 0:
        why = cleaned.stderr.decode("utf-8", "replace").strip()[-300:]
        raise SandboxError(f"the tests' folder cannot be made anew: {why}", "upload_failed")


async def _put_tests_in(sandbox: Sandbox, tests: Path) -> None:
    await clear_tests(sandbox)
    with staged_scripts(tests) as staged:
        await sandbox.upload_dir(staged, "/tests")
    await sandbox.exec("chmod +x /tests/test.sh", cwd="/", user="root", timeout_sec=_FILE_SECONDS)


async def _run(sandbox: Sandbox, judging: Judging) -> Verdict:
    result = await sandbox.exec(
        f"(/tests/test.sh) > {OUTPUT} 2>&1", env=judging.env, user=judging.user, timeout_sec=judging.timeout_sec
    )
    output = await _read(sandbox, OUTPUT, _OUTPUT_BYTES)
    text = (output or b"").decode("utf-8", "replace")
    if result.timed_out:
        reason = f"the tests did not end within {judging.timeout_sec:.0f} s"
        return Verdict(unscored("verifier_timeout", reason), text)
    return Verdict(await _reward(sandbox), text)


async def _reward(sandbox: Sandbox) -> Reward:
    if (data := await _read(sandbox, REWARD_JSON, MAX_BYTES)) is not None:
        return parse_json(data)
    if (data := await _read(sandbox, REWARD_TXT, MAX_BYTES)) is not None:
        return parse_text(data)
    return unscored("reward_missing", f"the tests wrote neither {REWARD_JSON} nor {REWARD_TXT}")


async def _read(sandbox: Sandbox, path: str, limit: int) -> bytes | None:
    """The file's bytes, None when it is not there. A sandbox that is gone still raises."""
    try:
        return await sandbox.read_file(path, limit, user="root")
    except SandboxError as error:
        if error.cause == "lost":
            raise
        return None
