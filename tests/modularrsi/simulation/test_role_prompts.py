"""Prompts as they really come: marked up, with long lines of terminal output in them, after refusals."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from modularrsi.gateway.messages import ChatMessage
from modularrsi.gateway.settings import ModelRole
from modularrsi.simulation.brain import Brain
from modularrsi.simulation.candidates import candidates, of_module
from modularrsi.simulation.question import Question
from modularrsi.simulation.settings import ERRORS, parse_assignments, read_simulation

FLAWLESS = [f"{role}.{kind}=0" for role, kinds in ERRORS.items() for kind in kinds]
ROLES: list[ModelRole] = ["analyst", "editor", "reviewer", "composer"]
SEEDS = range(25)


def ask(role: ModelRole, text: str, *items: str) -> str:
    simulation = read_simulation(parse_assignments([*FLAWLESS, *items]), "test")
    return Brain(simulation, [])(Question(role, (ChatMessage("user", text),))).text


def told(role: ModelRole, text: str, *items: str) -> Any:
    return json.loads(ask(role, text, *items))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("line", ["*" * 300_000, "\n" * 300_000, " \t" * 150_000, "- * " * 75_000, "-\n" * 100_000])
def test_long_output_in_a_prompt_is_read_in_linear_time(role: ModelRole, line: str) -> None:
    """With a pattern that takes the square of the line's length this would not come to its end."""
    assert ask(role, f"module: tools\n{line}\nsignals: damaged_file\n")


@pytest.mark.parametrize(
    "evidence",
    [
        "**module:** `observation`\n\n* **idle_wait** (steps 4, 5): waited for nothing\n",
        "## module: observation\n- `idle_wait` (turns 4, 5): waited for nothing\n",
        "> module : observation\n>\n\n\n  - idle_wait (steps 4, 5)\n",
    ],
)
def test_mark_up_does_not_matter(evidence: str) -> None:
    found = told("analyst", evidence + "- `observation/refine/clean_controls`: takes out controls\n")
    assert (found["verdict"], found["function"]) == (True, "observation/refine/clean_controls")
    assert found["steps"] == [4, 5]


def proposed(text: str) -> str:
    match = re.search(r"<candidate>(\w+)</candidate>", text)
    return match[1] if match else ""


REQUEST = "module: completion\nfunction: completion/check/new\nsignals: completion_refused\n"


def test_an_editor_off_target_is_always_off_target() -> None:
    names = {proposed(ask("editor", REQUEST, f"seed={seed}", "editor.off_target=1")) for seed in SEEDS}
    fitting = {one.name for one in of_module("completion") if "completion_refused" in one.answers}
    assert names
    assert not names & fitting


def test_an_editor_that_ignores_a_verdict_proposes_the_same_again() -> None:
    refused = REQUEST + "tried: second_look\nrefused by conformance: it has none\n"
    again = {proposed(ask("editor", refused, f"seed={seed}", "editor.ignores_verdict=1")) for seed in SEEDS}
    assert again == {"second_look"}
    assert "second_look" not in {proposed(ask("editor", refused, f"seed={seed}")) for seed in SEEDS}


def test_an_editor_that_has_tried_everything_says_so() -> None:
    tried = "".join(f"tried: {one.name}\n" for one in of_module("completion"))
    text = ask("editor", REQUEST + tried)
    assert "<file" not in text
    assert "<rationale>" in text


@pytest.mark.parametrize("name", candidates())
def test_what_is_proposed_lies_inside_the_module(name: str) -> None:
    one = candidates()[name]
    assert all(path.startswith(f"modules/{one.module}/") for path in one.files)
    assert all(point.startswith(f"{one.module}/") for point in one.activates)
