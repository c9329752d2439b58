"""Ways to a solution: read from a file, and derived from a script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modularrsi.errors import UserError
from modularrsi.simulation.solver.script import read_script, split
from modularrsi.simulation.solver.walkthrough import Walkthrough, paths_in, read_walkthrough

GOOD = r"""
[[step]]
look = "cat /app/log"
needs = 'code (?P<code>\w+)'

[[step]]
does = "write it"
write = "/app/x.sh"
content = '''
#!/bin/sh
echo @code@ @other@x
'''
mode = "755"

[[step]]
run = "make -C /app all > /app/out.txt 2>&1"
seconds = 2
"""


def read(folder: Path, text: str) -> Walkthrough:
    (folder / "walkthrough.toml").write_text(text)
    return read_walkthrough(folder / "walkthrough.toml")


def test_the_three_kinds(tmp_path: Path) -> None:
    look, write, run = read(tmp_path, GOOD.replace("@other@", "")).steps
    assert (look.kind, look.finds_names, look.requirement) == ("look", ("code",), False)
    assert (write.kind, write.names, write.mode, write.slots) == ("write", ("/app/x.sh",), "755", ("code",))
    assert write.content.startswith("#!/bin/sh\n")
    assert (run.kind, run.names, run.seconds, run.requirement) == ("run", ("/app", "/app/out.txt"), 2.0, True)


def test_slots_are_filled_with_what_was_found(tmp_path: Path) -> None:
    look, write, _ = read(tmp_path, GOOD.replace("@other@", "")).steps
    found = look.finds("12: nothing\n13: the code ab12 is here")
    assert found == {"code": "ab12"}
    assert "echo ab12 x" in write.filled(found).content
    assert look.finds("nothing") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("step = 3", "one or more tables"),
        ("x = 1", "one or more tables"),
        ("[[step]]", "exactly one of look, write and run"),
        ('[[step]]\nlook = "a"\nrun = "b"', "exactly one"),
        ('[[step]]\nrun = "a"\nslow = 1', "slow is unknown"),
        ('[[step]]\nrun = 3', "run must be a text"),
        ('[[step]]\nwrite = "/a"', "content is missing"),
        ('[[step]]\nlook = "a"\nneeds = "("', "no regular expression"),
        ('[[step]]\nrun = "a"\nneeds = "b"', "needs belongs to a look"),
        ('[[step]]\nrun = "a"\nseconds = -1', "seconds must be"),
        ('[[step]]\nrun = "echo @x@"', "@x@ is found by no earlier step"),
        ("[[step", "not TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as refused:
        read(tmp_path, text)
    assert "walkthrough.toml" in str(refused.value)


def test_paths_are_those_that_a_requirement_is_about() -> None:
    assert paths_in("sort /app/a.txt > /srv/out/b.csv 2>/dev/null; /usr/bin/env x") == ("/app/a.txt", "/srv/out/b.csv")
    assert paths_in("awk '{print $1/2}' \"$DIR/x\" ${Y}/z") == ()


SCRIPT = """\
#!/bin/bash
# a comment
set -eu
cd /app
cat > one.sh <<'EOF'
echo "$1"
EOF
chmod +x one.sh
for x in 1 2; do
  echo $x
done > two.txt
if [ -e /x ]; then
  true
fi
awk '{
  print
}' \\
  two.txt > three.txt
exit 0
"""


def test_a_script_is_taken_apart_statement_by_statement() -> None:
    statements = split(SCRIPT)
    assert statements is not None
    assert [s.splitlines()[0] for s in statements] == [
        "cd /app", "cat > one.sh <<'EOF'", "chmod +x one.sh", "for x in 1 2; do", "if [ -e /x ]; then", "awk '{",
    ]  # fmt: skip


def test_what_is_taken_apart_does_what_the_script_does(tmp_path: Path) -> None:
    text = SCRIPT.replace("/app", str(tmp_path))
    subprocess.run(["bash", "-c", text], check=True)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        path.unlink()
    statements = split(text)
    assert statements is not None
    subprocess.run(["bash", "-s"], input="\n".join(statements).encode(), check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole


def script(folder: Path, text: str, **env: str) -> Walkthrough:
    (folder / "solve.sh").write_text(text)
    return read_script(folder / "solve.sh", env)


def test_a_heredoc_into_a_file_is_a_file(tmp_path: Path) -> None:
    way = script(tmp_path, SCRIPT)
    assert [step.kind for step in way.steps] == ["run", "write", "run", "run", "run", "run"]
    assert way.steps[1].content == 'echo "$1"\n'
    assert [step.number for step in way.steps] == [1, 2, 3, 4, 5, 6]
    assert way.steps[0].chore


def test_a_heredoc_that_the_shell_fills_in_stays_a_command(tmp_path: Path) -> None:
    way = script(tmp_path, "x=1\ncat > /app/f <<EOF\n$x\nEOF\n")
    assert [step.kind for step in way.steps] == ["run", "run"]


def test_variables_of_the_solution_come_first(tmp_path: Path) -> None:
    way = script(tmp_path, "echo $A > /app/f\n", A="it's")
    assert way.steps[0].text == "export A='it'\"'\"'s'"
    assert way.steps[0].chore


@pytest.mark.parametrize("text", ["f() {\n return 1\n}\nf > /app/x", "test -e /x || exit 1\necho > /app/x", 'echo "'])
def test_what_cannot_be_typed_is_run_as_a_whole(tmp_path: Path, text: str) -> None:
    way = script(tmp_path, text)
    assert [step.kind for step in way.steps] == ["write", "run"]
    assert way.steps[0].content == text
    assert way.steps[0].chore


def test_files_beside_the_solution_are_put_there_first(tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text("--- a\n")
    (tmp_path / "data.bin").write_bytes(b"\xff\x00")
    way = script(tmp_path, "patch < /solution/fix.patch\n")
    assert [step.does for step in way.steps][:2] == ["write /solution/data.bin", "write /solution/fix.patch"]
    assert way.steps[-1].text == "bash /solution/solve.sh"
