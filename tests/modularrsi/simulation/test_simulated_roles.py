"""Analyst, editor, reviewer and composer: by rule, pure, and wrong as often as they are told to be."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.loader import read_tree, seed_library_path
from modularrsi.gateway.messages import ChatMessage
from modularrsi.gateway.settings import ModelRole
from modularrsi.instrument.labels import labels, of_kind
from modularrsi.signals import SIGNALS
from modularrsi.simulation.brain import Brain
from modularrsi.simulation.candidates import candidates, of_module
from modularrsi.simulation.question import Question
from modularrsi.simulation.settings import ERRORS, parse_assignments, read_simulation

FLAWLESS = [f"{role}.{kind}=0" for role, kinds in ERRORS.items() for kind in kinds]


def ask(role: ModelRole, text: str, *items: str) -> str:
    simulation = read_simulation(parse_assignments([*FLAWLESS, *items]), "test")
    return Brain(simulation, [])(Question(role, (ChatMessage("user", text),))).text


def told(role: ModelRole, text: str, *items: str) -> Any:
    return json.loads(ask(role, text, *items))


# ---------------------------------------------------------------------------------------------------------- analyst

EVIDENCE = """
module: tools
group: contrastive

Signals of the failing rollout:
- unreadable_reply (steps 3, 4, 5): a trailing comma
- early_completion (step 9): /app/x was missing

Functions of this module:
- tools/grammar/json_object: Replies are one JSON object.
- tools/route/keystrokes: Type every command.
"""


def test_the_analyst_names_the_function_at_the_signals_point() -> None:
    found = told("analyst", EVIDENCE)
    assert (found["verdict"], found["module"], found["function"]) == (True, "tools", "tools/grammar/json_object")
    assert (found["steps"], found["signals"]) == ([3, 4, 5], ["unreadable_reply"])
    assert 0.5 <= found["confidence"] <= 0.9


def test_the_analyst_knows_when_another_module_is_meant() -> None:
    found = told("analyst", EVIDENCE.replace("module: tools", "module: context"))
    assert (found["verdict"], found["other_module"]) == (False, "tools")


def test_no_evidence_is_no_culprit() -> None:
    assert told("analyst", "module: tools\nnothing was seen")["verdict"] is False


def test_the_analysts_errors() -> None:
    assert told("analyst", EVIDENCE, "analyst.missed=1")["verdict"] is False
    assert told("analyst", EVIDENCE, "analyst.wrong_function=1")["function"] == "tools/route/keystrokes"
    wrong = told("analyst", EVIDENCE.replace("module: tools", "module: context"), "analyst.wrong_module=1")
    assert (wrong["verdict"], wrong["module"]) == (True, "context")
    with pytest.raises(json.JSONDecodeError):
        told("analyst", EVIDENCE, "analyst.unreadable=1")


@pytest.mark.parametrize("name", SIGNALS)
def test_every_signal_leads_to_its_module(name: str) -> None:
    signal = SIGNALS[name]
    found = told("analyst", f"module: {signal.module}\n- {name} (steps 2): it was seen\n- {signal.point}/some: does it")
    assert (found["verdict"], found["function"]) == (True, f"{signal.point}/some")


# ----------------------------------------------------------------------------------------------------------- editor

REQUEST = "module: observation\nfunction: observation/refine/clean_controls\nsignals: idle_wait\n"


def proposed(text: str) -> str:
    match = re.search(r"<candidate>(\w+)</candidate>", text)
    return match[1] if match else ""


def test_the_editor_proposes_what_answers_the_signal() -> None:
    fitting = {name for name, one in candidates().items() if "idle_wait" in one.answers}
    names = {proposed(ask("editor", REQUEST + shown(), f"seed={seed}")) for seed in range(40)}
    assert len(names) >= 3
    assert names <= fitting


def shown() -> str:
    """The function's source, as it stands in the seed: nothing is to be mended."""
    return read_tree(seed_library_path())["modules/observation/refine/clean_controls.py"].decode()


def test_weights_decide_what_is_likely() -> None:
    names = {proposed(ask("editor", REQUEST + shown(), f"seed={s}", "weights.shell_status=1e9")) for s in range(20)}
    assert names == {"shell_status"}
    none = {proposed(ask("editor", REQUEST + shown(), f"seed={s}", "weights.shell_status=0")) for s in range(20)}
    assert "shell_status" not in none


def test_a_proposal_is_whole_files_and_what_is_active() -> None:
    text = ask("editor", REQUEST + shown(), "weights.shell_status=1e9")
    source = candidates()["shell_status"].files["modules/observation/refine/shell_status.py"]
    assert f'<file path="modules/observation/refine/shell_status.py">\n{source}</file>' in text
    assert '<activate point="observation/refine">shell_status</activate>' in text


def test_a_damaged_seed_function_can_be_mended() -> None:
    damaged = shown().replace("return clean_text(text)", 'return ""')
    off = [f"weights.{one.name}=0" for one in of_module("observation")]
    text = ask("editor", REQUEST + damaged, *off)
    assert proposed(text) == "mend"
    assert shown() in text


def test_after_a_refusal_something_else_is_proposed() -> None:
    refused = REQUEST + shown() + "\nrefused by conformance: it grows\ntried: shell_status\n"
    assert "shell_status" not in {proposed(ask("editor", refused, f"seed={seed}")) for seed in range(30)}
    stubborn = {proposed(ask("editor", refused, f"seed={s}", "editor.ignores_verdict=1")) for s in range(30)}
    assert "shell_status" in stubborn


def test_the_editor_stays_in_its_module_even_off_target() -> None:
    for seed in range(20):
        name = proposed(ask("editor", REQUEST + shown(), f"seed={seed}", "editor.off_target=1"))
        assert candidates()[name].module == "observation"


# --------------------------------------------------------------------------------------------------------- reviewer


def diff(name: str) -> str:
    lines = [f"--- /dev/null\n+++ b/{path}\n" + "\n".join(f"+{line}" for line in source.splitlines())
             for path, source in candidates()[name].files.items()]
    return "tasks: access-log, config-merge\n" + "\n".join(lines)


@pytest.mark.parametrize("name", [name for name in of_kind("good") if candidates()[name].files])
def test_the_reviewer_passes_the_good(name: str) -> None:
    assert told("reviewer", diff(name)) == {"verdict": "pass", "reasons": []}


@pytest.mark.parametrize("name", [name for name, label in labels().items() if label.refused == "D"])
def test_the_reviewer_refuses_the_overfitted(name: str) -> None:
    found = told("reviewer", diff(name))
    assert found["verdict"] == "refuse"
    assert found["reasons"]


def test_the_reviewers_errors() -> None:
    assert told("reviewer", diff("release_hint"), "reviewer.false_accept=1")["verdict"] == "pass"
    assert told("reviewer", diff("shell_status"), "reviewer.false_refuse=1")["verdict"] == "refuse"
    assert told("reviewer", "no diff")["verdict"] == "refuse"


def test_the_reviewer_refuses_names_of_tasks() -> None:
    assert told("reviewer", "tasks: odd-job\n+ if name == 'odd-job':")["reasons"] == ["it names the task odd-job"]


# --------------------------------------------------------------------------------------------------------- composer

OFFERED = """
- tools/command/write_file: Write a file exactly as given.
- tools/command/grep_search: Search a pattern in the sources of a project.
- observation/refine/progress: Collapse progress bars of package installation.

instruction: Search the project's sources for the pattern that breaks the build.
"""


def test_the_composer_chooses_by_words() -> None:
    assert told("composer", OFFERED)["functions"] == ["tools/command/grep_search"]


def test_the_composers_errors() -> None:
    assert told("composer", OFFERED, "composer.missed=1")["functions"] == []
    assert len(told("composer", OFFERED, "composer.needless=1")["functions"]) == 2
    assert "tools/command/not_there" in told("composer", OFFERED, "composer.unknown_function=1")["functions"]


# -------------------------------------------------------------------------------------------------------------- all

ROLES: list[ModelRole] = ["analyst", "editor", "reviewer", "composer"]


@pytest.mark.parametrize("role", ROLES)
def test_the_same_question_has_the_same_answer_in_any_thread(role: ModelRole) -> None:
    brain = Brain(read_simulation({"seed": 2}, "test"), [])
    questions = [Question(role, (ChatMessage("user", f"{EVIDENCE}{REQUEST}{OFFERED}{n}"),)) for n in range(20)]
    once = [brain(question).text for question in questions]
    with ThreadPoolExecutor(8) as pool:
        assert [answer.text for answer in pool.map(brain, questions)] == once


@given(st.sampled_from(ROLES), st.text(max_size=400))
def test_no_text_breaks_a_role(role: ModelRole, text: str) -> None:
    assert ask(role, text)
    assert ask(role, EVIDENCE + text + REQUEST)
