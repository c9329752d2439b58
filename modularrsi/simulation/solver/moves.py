"""How a step is put into keystrokes: as somebody does who knows how, and the ways of those who do not."""

from __future__ import annotations

import re
import shlex

from modularrsi.simulation.solver.walkthrough import Step

QUICK = 0.3
"""Seconds that a command gets which is over at once."""

Commands = tuple[tuple[str, float], ...]

_COUNTED = re.compile(r"\(\?P<\w+>")
_EXPANDED = re.compile(r"[$`]")


def seconds(step: Step) -> float:
    return round(step.seconds + QUICK, 2)


def typed(step: Step) -> Commands:
    """The command of a look or run, with the Enter that runs it."""
    return ((step.text.rstrip("\n") + "\n", seconds(step)),)


def narrow(step: Step, place: str = "") -> Commands:
    """A look at just the needed part; in the file that is said to hold all of an output, if there is one."""
    pattern = _COUNTED.sub("(", step.needs)
    if place:
        return ((f"grep -a -m3 -E -- {shlex.quote(pattern)} {shlex.quote(place)}\n", QUICK),)
    command = step.narrow or f"{step.text.rstrip()} | grep -a -m3 -E -- {shlex.quote(pattern)}"
    return ((command.rstrip("\n") + "\n", QUICK),)


def written_by_helper(step: Step) -> Commands:
    """With the harness's own `write_file`."""
    return ((f"write_file {step.text}\n{step.content}", QUICK), *_mode(step))


def written(step: Step) -> Commands:
    """As a quoted heredoc, which the shell leaves alone."""
    body, end = step.content, _delimiter(step.content)
    whole = body if body.endswith("\n") or not body else body + "\n"
    cut = f"truncate -s -1 {step.text}\n" if whole != body else ""
    return ((f"{_folder(step)}cat > {step.text} <<'{end}'\n{whole}{end}\n{cut}", QUICK), *_mode(step))


def written_clumsily(step: Step) -> Commands:
    """So that the shell gets at the content: with `$` and backticks filled in, or on one line."""
    if _EXPANDED.search(step.content):
        end = _delimiter(step.content)
        return ((f"{_folder(step)}cat > {step.text} <<{end}\n{step.content.rstrip()}\n{end}\n", QUICK), *_mode(step))
    line = step.content.rstrip("\n").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return ((f'{_folder(step)}echo "{line}" > {step.text}\n', QUICK), *_mode(step))


def mistyped(step: Step) -> Commands:
    """The command with two letters of its first word swapped; not found, whatever it was."""
    word = re.match(r"\s*([\w.-]+)", step.text)
    name = word[1] if word else "x"
    wrong = f"{name[1:2]}{name[0]}{name[2:]}e" if len(name) > 1 else f"{name}x"
    return ((wrong + step.text[word.end() :].splitlines()[0] + "\n" if word else f"{wrong}\n", QUICK),)


def unended(step: Step) -> Commands:
    """Without the Enter that runs it. The wait that follows is what makes a parser warn."""
    return ((step.text.rstrip("\n"), QUICK), ("", QUICK))


def one_line(step: Step) -> bool:
    """Whether it is a single plain line, which can be mistyped or left unended."""
    return step.kind != "write" and "\n" not in step.text.strip() and bool(re.match(r"\s*[\w.-]+(\s|$)", step.text))


def _mode(step: Step) -> Commands:
    return ((f"chmod {step.mode} {step.text}\n", QUICK),) if step.mode else ()


def _folder(step: Step) -> str:
    folder = step.text.rpartition("/")[0]
    return f"mkdir -p {folder} && " if folder and not step.text.startswith(("/tmp/", "/app/")) else ""


def _delimiter(content: str) -> str:
    end = "EOF"
    while re.search(rf"^{end}$", content, re.MULTILINE):
        end += "_"
    return end
