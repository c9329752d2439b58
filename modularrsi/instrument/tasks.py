"""Twenty small tasks, generated: five families in four variants, the same bytes each time.

Each has a log with a code in its middle (an observation limit of 10,000 bytes cuts it out of three of four), a script
of several lines that a shell would damage, a step that takes a second, and five requirements with a file each.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from modularrsi.errors import UserError
from modularrsi.instrument.families import FAMILIES, Family

COUNT = 20
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
_LINES = (620, 700, 780, 150)
"""The last variant's log fits into an observation of 10,000 bytes; the others' do not."""

_TOML = """\
schema_version = "1.4"

[agent]
timeout_sec = 300.0

[verifier]
timeout_sec = 60.0

[environment]
workdir = "«home»"
network_mode = "no-network"
"""
_DOCKERFILE = """\
FROM debian:12-slim
WORKDIR «home»
COPY make.sh /tmp/make.sh
RUN sh /tmp/make.sh && rm /tmp/make.sh
"""


def write_tasks(folder: Path, count: int = COUNT) -> list[Path]:
    """Write the first `count` tasks (1 to 20) below `folder`; returns their folders. Files that are there already are
    overwritten with the same bytes. Raises UserError for another count."""
    if not 1 <= count <= COUNT:
        raise UserError(f"there are {COUNT} instrument tasks; ask for 1 to {COUNT}, not {count}")
    return [_write(folder, *_kind(number)) for number in range(count)]


def _kind(number: int) -> tuple[Family, int]:
    """Family and variant of a task. The first five are of five families, and of all four variants."""
    row, place = divmod(number, len(FAMILIES))
    return FAMILIES[place], (row + place) % len(_LINES)


def _write(folder: Path, family: Family, variant: int) -> Path:
    values = _values(family, variant)
    task = folder / f"{family.name}-{variant + 1}"
    for name, text in _files(family, variant).items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_filled(text, values), encoding="utf-8")
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    return task


def _values(family: Family, variant: int) -> Mapping[str, str]:
    digest = hashlib.sha256(f"{family.name}/{variant}".encode()).hexdigest()
    count = 11 + int(digest[:4], 16) % 80
    word = _WORDS[int(digest[4:8], 16) % len(_WORDS)]
    home = ("/app", "/srv/job", "/work", "/opt/task")[variant]
    return {"code": digest[8:16], "count": str(count), "word": word, "home": home, "total": str(750 + count)}


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"«{name}»", value)
    return text


def _files(family: Family, variant: int) -> Mapping[str, str]:
    return {
        "task.toml": _TOML,
        "instruction.md": _instruction(family),
        "environment/Dockerfile": _DOCKERFILE,
        "environment/make.sh": _make(family, _LINES[variant]),
        "solution/solve.sh": _solve(family),
        "solution/walkthrough.toml": _walkthrough(family),
        "tests/test.sh": _test(family),
    }


def _instruction(family: Family) -> str:
    wanted = [f"Write {output.asks} to {output.path}." for output in family.outputs]
    return "\n".join(
        [
            family.story,
            f"Write the code that follows `{family.marker}` in {family.log} to {family.code_path}.",
            f"Write an executable shell script {family.script_path} that {family.script_asks}.",
            f"Run {family.slow}, which makes {family.slow_path}.",
            *wanted,
            "",
        ]
    )


def _make(family: Family, lines: int) -> str:
    found = f'if (i == {lines // 2}) print "{family.marker} «code»"'
    return f"""set -eu
mkdir -p «home»
{family.setup}
awk 'BEGIN {{for (i = 1; i <= {lines}; i++) {found}; else {family.log_line}}}' > {family.log}
cat > {family.slow} <<'EOF'
#!/bin/sh
sleep 1
echo finished «word» > {family.slow_path}
EOF
chmod 755 {family.slow}
"""


def _solve(family: Family) -> str:
    commands = [f"{output.run} > {output.path}" for output in family.outputs]
    return "\n".join(
        [
            "#!/bin/bash", "set -eu", f"sed -n 's/^{family.marker} //p' {family.log} > {family.code_path}",
            f"cat > {family.script_path} <<'EOF'\n{family.script}EOF", f"chmod 755 {family.script_path}", family.slow,
            *commands, "",
        ]
    )  # fmt: skip


def _walkthrough(family: Family) -> str:
    steps = [
        _step("find the code", look=f"cat {family.log}", needs=f"^{family.marker} (?P<code>[0-9a-f]{{8}})$",
              narrow=f"grep '^{family.marker}' {family.log}"),
        _step("write the code down", run=f"echo @code@ > {family.code_path}", names=[family.code_path]),
        _step("write the script", write=family.script_path, content=family.script, mode="755"),
        _step("run what takes its time", run=family.slow, seconds=1.0, names=[family.slow_path]),
        *(_step(f"make {output.path}", run=f"{output.run} > {output.path}", names=[output.path])
          for output in family.outputs),
    ]  # fmt: skip
    return "\n".join(steps)


def _step(does: str, **fields: object) -> str:
    """JSON's strings, lists and numbers are TOML's as well."""
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in {"does": does, **fields}.items()]
    return "\n".join(["[[step]]", *lines, ""])


def _test(family: Family) -> str:
    checks = [f'[ "$(cat {output.path} 2>/dev/null)" = "$({output.expected})" ] || ok=0' for output in family.outputs]
    tried = f"{family.script_path} {shlex.quote(family.script_try)}"
    return "\n".join(
        [
            "#!/bin/bash", "ok=1",
            f'[ "$(cat {family.code_path} 2>/dev/null)" = «code» ] || ok=0',
            "mkdir -p /tmp/place && cd /tmp/place",
            f'[ "$({tried} 2>/dev/null)" = "{family.script_prints}" ] || ok=0',
            f'[ "$(cat {family.slow_path} 2>/dev/null)" = "finished «word»" ] || ok=0',
            *checks,
            "echo $ok > /logs/verifier/reward.txt", "",
        ]
    )  # fmt: skip
