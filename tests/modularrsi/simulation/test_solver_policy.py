"""The solver's moves, one question after another, against a shell of a few lines and the seed's own grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.taskfolders import write_task

from harness.modules.tools.grammar.json_object import json_object
from harness.scripted import make_context
from harness.types import Reply
from modularrsi.gateway.messages import ChatMessage
from modularrsi.simulation.question import Question
from modularrsi.simulation.settings import parse_assignments, read_simulation
from modularrsi.simulation.solver.policy import Solver
from modularrsi.tasks.load import find_tasks

GRAMMAR = json_object(make_context())
PROMPT = "root@box:/app#"
CODE = "release code: 4fa81c22"

WALK = r"""
[[step]]
does = "find the code"
look = "cat /app/log"
needs = 'release code: (?P<code>[0-9a-f]+)'

[[step]]
does = "write the code down"
run = "echo @code@ > /app/code.txt"

[[step]]
does = "write the script"
write = "/app/run.sh"
content = '''
#!/bin/sh
echo "$1"
exit 0
'''
mode = "755"

[[step]]
does = "sum up"
run = "wc -l /app/log > /app/sum.txt"
"""

Shell = Callable[[str], str]


@dataclass
class World:
    """A conversation. `helpers` is what the first prompt offers; what the shell prints is up to each test."""

    solver: Solver
    helpers: str = ""
    messages: list[ChatMessage] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)

    def ask(self, prompt: str) -> Reply:
        first = f"{GRAMMAR.prompt}\n{self.helpers}\n\nYour task:\nDo it all.\n\n{prompt}"
        self.messages.append(ChatMessage("user", prompt if self.messages else first))
        text = self.solver(Question("solver", tuple(self.messages), "job/1/0", purpose="turn")).text
        self.messages.append(ChatMessage("assistant", text))
        reply = GRAMMAR.parse(text)
        self.typed += [command.keystrokes for command in reply.commands]
        return reply

    def play(self, shell: Shell, most: int = 40) -> list[str]:
        """Until completion is claimed twice; the kinds of all moves."""
        prompt, claims = f"Current Terminal Screen:\n{PROMPT}", 0
        for _ in range(most):
            reply = self.ask(prompt)
            claims = claims + 1 if reply.complete else 0
            if claims == 2:
                break
            shown = "".join(f"\n{PROMPT} {c.keystrokes.rstrip()}\n{shell(c.keystrokes)}" for c in reply.commands)
            prompt = f"New Terminal Output:{shown}{PROMPT}"
            if reply.error:
                prompt = f"Your last reply could not be read:\nERROR: {reply.error}"
            if reply.complete:
                prompt += "\n\nAre you sure that the task is done?"
        return self.kinds

    @property
    def kinds(self) -> list[str]:
        own = [message.content for message in self.messages if message.role == "assistant"]
        return [f"{match[2]}{match[1]}" for text in own if (match := re.search(r"\(step (\d) of 4: (\w+)\)", text))]


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    def make(*items: str, helpers: str = "") -> World:
        task = write_task(tmp_path / "job")
        (task / "solution").mkdir(exist_ok=True)
        (task / "solution" / "walkthrough.toml").write_text(WALK)
        simulation = read_simulation(parse_assignments(["habits=none", *items]), "test")
        return World(Solver(simulation, find_tasks([task])), helpers)

    return make


def competent(keys: str) -> str:
    return f"1: begin\n{CODE}\n" if keys.startswith("cat /app/log") else ""


def cut(keys: str) -> str:
    """The log is too long to be shown whole; a look at just the line is not."""
    if "grep" in keys:
        return f"{CODE}\n"
    return "1: begin\n[... 900 bytes left out: at most 100 are shown ...]\n" if "cat /app/log" in keys else ""


def test_without_habits_every_step_is_done_once(world: Callable[..., World]) -> None:
    one = world()
    assert one.play(competent) == ["look1", "do2", "do3", "do4", "claim0", "claim0"]
    assert "echo 4fa81c22 > /app/code.txt\n" in one.typed
    assert any(keys.startswith("cat > /app/run.sh <<'EOF'\n#!/bin/sh\n") for keys in one.typed)
    assert "chmod 755 /app/run.sh\n" in one.typed


def test_the_same_question_has_the_same_answer(world: Callable[..., World]) -> None:
    first, second = world("habits=default", "seed=4"), world("habits=default", "seed=4")
    assert first.play(competent) == second.play(competent)
    assert first.messages == second.messages
    assert any(world("habits=default", f"seed={s}").play(competent) != first.kinds for s in range(5, 15))


def test_it_waits_for_what_runs(world: Callable[..., World]) -> None:
    one = world()
    one.ask(f"Current Terminal Screen:\n{PROMPT}")
    reply = one.ask(f"New Terminal Output:\n{PROMPT} cat /app/log")
    assert [c.keystrokes for c in reply.commands] == [""]
    one.ask(f"{CODE}\n{PROMPT}")
    assert one.kinds == ["look1", "wait1", "do2"]


def test_a_busy_line_makes_one_long_wait(world: Callable[..., World]) -> None:
    one = world()
    one.ask(PROMPT)
    assert one.ask(f"{PROMPT} cat /app/log\n[a program is still running]").commands[0].duration == 10.0


def test_early_completion_leaves_requirements_out_until_one_is_named(world: Callable[..., World]) -> None:
    early = world("habits.early_completion=1")
    kinds = early.play(competent)
    assert kinds[-2:] == ["claim0", "claim0"]
    assert "do4" not in kinds
    reply = early.ask(f"{PROMPT}\n\nNot taken as complete: /app/sum.txt does not exist.")
    assert [c.keystrokes for c in reply.commands] == ["wc -l /app/log > /app/sum.txt\n"]
    assert early.ask(f"{PROMPT} wc\n{PROMPT}").complete


def test_asked_whether_it_is_sure_some_early_solvers_go_back_to_work(world: Callable[..., World]) -> None:
    back = sum("do4" in world("habits.early_completion=1", f"seed={seed}").play(competent) for seed in range(40))
    assert 8 <= back <= 24  # four in ten


def test_a_warning_about_more_text_is_heeded_every_other_time(world: Callable[..., World]) -> None:
    heeded = 0
    for seed in range(40):
        twice = world("habits.answers_twice=1", f"seed={seed}")
        twice.ask(PROMPT)
        twice.ask(f"{PROMPT} cat /app/log\n{CODE}\n{PROMPT}")
        warned = twice.ask(f"Your last reply was used, but:\n- There is text after the JSON object\n\n{PROMPT}")
        heeded += warned.commands[-1].keystrokes.endswith("code.txt\n")
    assert 10 <= heeded <= 30


def test_a_clumsy_write_is_averted_by_an_offered_command(world: Callable[..., World]) -> None:
    clumsy = world("habits.clumsy_write=1")
    clumsy.play(competent)
    assert any(keys.startswith("cat > /app/run.sh <<EOF\n") for keys in clumsy.typed)
    helped = world(
        "habits.clumsy_write=1", helpers="Besides keystrokes you can use these commands:\n- write_file: Write a file.\n"
    )
    helped.play(competent)
    assert '#!/bin/sh\necho "$1"\nexit 0\n' in [k.removeprefix("write_file /app/run.sh\n") for k in helped.typed]


def test_a_cut_look_is_narrowed_by_the_competent(world: Callable[..., World]) -> None:
    one = world()
    assert one.play(cut)[:3] == ["look1", "narrow1", "do2"]
    assert "echo 4fa81c22 > /app/code.txt\n" in one.typed


def test_who_is_lost_looks_again_and_guesses(world: Callable[..., World]) -> None:
    lost = world("habits.lost_when_cut=1")
    assert lost.play(cut)[:3] == ["look1", "look1", "do2"]
    assert "echo unknown > /app/code.txt\n" in lost.typed


def test_who_is_lost_is_found_by_a_note_that_names_the_rest(world: Callable[..., World]) -> None:
    def shell(keys: str) -> str:
        return cut(keys).replace("at most 100 are shown", "the whole output is in /tmp/all.txt")

    lost = world("habits.lost_when_cut=1")
    assert lost.play(shell)[:3] == ["look1", "narrow1", "do2"]
    assert any(keys.startswith("grep") and keys.endswith(" /tmp/all.txt\n") for keys in lost.typed)


def test_polling_stops_at_a_word_about_idleness(world: Callable[..., World]) -> None:
    polling = world("habits.idle_polling=1")
    assert sum(kind.startswith("poll") for kind in polling.play(competent)) >= 4
    told = world("habits.idle_polling=1")
    kinds = told.play(lambda keys: competent(keys) + "[the shell is idle]\n")
    assert not any(kind.startswith("poll") for kind in kinds)


def not_found(keys: str) -> str:
    known = keys.startswith(("cat", "echo", "wc"))
    return competent(keys) if known else f"bash: {keys.split()[0]}: command not found\n"


def test_a_failed_command_is_repeated_and_its_step_left_out(world: Callable[..., World]) -> None:
    stubborn = world("habits.repeated_command=1")
    kinds = stubborn.play(not_found)
    assert kinds[1:6] == ["typo2"] * 5
    assert "do2" not in kinds


def test_told_that_it_repeats_itself_it_types_it_right(world: Callable[..., World]) -> None:
    def shell(keys: str) -> str:
        shown = not_found(keys)
        return shown + "[You have sent the same command before, and it failed.]\n" if "not found" in shown else shown

    told = world("habits.repeated_command=1")
    assert told.play(shell)[:3] == ["look1", "typo2", "do2"]


def test_answering_twice_loses_the_step_that_the_seed_does_not_read(world: Callable[..., World]) -> None:
    twice = world("habits.answers_twice=1")
    kinds = twice.play(competent)
    assert "twice2" in kinds
    assert not any("code.txt" in keys for keys in twice.typed)


def test_told_what_was_left_out_it_sends_it_again(world: Callable[..., World]) -> None:
    twice = world("habits.answers_twice=1")
    twice.ask(PROMPT)
    twice.ask(f"{PROMPT} cat /app/log\n{CODE}\n{PROMPT}")
    reply = twice.ask(f"Only the first of two objects was used.\n\n{PROMPT} pwd\n{PROMPT}")
    assert [c.keystrokes for c in reply.commands] == ["echo 4fa81c22 > /app/code.txt\n"]


def test_a_line_is_left_without_its_enter(world: Callable[..., World]) -> None:
    hasty = world("habits.ignores_warning=1")
    hasty.play(competent)
    assert "echo 4fa81c22 > /app/code.txt" in hasty.typed
    assert "\n" not in hasty.typed


def test_told_that_a_line_was_not_run_it_presses_enter(world: Callable[..., World]) -> None:
    hasty = world("habits.ignores_warning=1")
    hasty.ask(PROMPT)
    warned = hasty.ask(f"{PROMPT} cat /app/log\n{CODE}\n{PROMPT}")
    assert any("does not end with a newline" in warning for warning in warned.warnings)
    told = hasty.ask(f"[The line was typed but not run: press Enter.]\n\n{PROMPT} echo 4fa81c22 > /app/code.txt")
    assert [command.keystrokes for command in told.commands] == ["\n"]


def test_unreadable_replies_waste_patience(world: Callable[..., World]) -> None:
    broken = world("habits.unreadable_reply=1", "patience=3")
    kinds = broken.play(competent, most=30)
    assert "do4" not in kinds


def handed_over(world: World, listed: str) -> World:
    """The history is replaced after the first look by what the solver says of it."""
    world.ask(PROMPT)
    world.ask(f"{PROMPT} cat /app/log\n{CODE}\n{PROMPT}")
    asked = (*world.messages, ChatMessage("user", "Summarise."))
    summary = world.solver(Question("solver", asked, "job/1/0", purpose="summary")).text
    questions = world.solver(Question("solver", (ChatMessage("user", summary),), "job/1/0", purpose="questions")).text
    opening = ChatMessage("user", f"The task: do it all.\n{listed}\n{summary}")
    world.messages[1:] = [opening, ChatMessage("assistant", questions)]
    return world


def test_a_hand_over_tells_what_is_done_and_what_was_found(world: Callable[..., World]) -> None:
    one = handed_over(world(), "")
    reply = one.ask(f"The answers.\n{PROMPT}")
    assert one.kinds[-1] == "do3"
    assert reply.commands


def test_what_is_not_listed_is_forgotten(world: Callable[..., World]) -> None:
    assert handed_over(world("habits.forgets_after_compression=1"), "").ask(PROMPT).complete
    listed = "- write /app/run.sh\n- write the number of lines to /app/sum.txt"
    kept = handed_over(world("habits.forgets_after_compression=1"), listed)
    assert not kept.ask(PROMPT).complete
    assert kept.kinds[-1] == "do3"


def test_a_history_that_is_gone_is_gone(world: Callable[..., World]) -> None:
    one = world()
    one.play(competent)
    del one.messages[1:]
    one.ask(PROMPT)
    assert one.kinds == ["look1"]


def test_an_open_quote_is_given_up(world: Callable[..., World]) -> None:
    one = world()
    one.ask(PROMPT)
    reply = one.ask(f"{PROMPT} cat /app/log\n[The shell is waiting for the rest of your input: a quote is still open.]")
    assert [c.keystrokes for c in reply.commands] == ["C-c"]


def test_a_damaged_step_that_is_called_open_is_done_again_carefully(world: Callable[..., World]) -> None:
    clumsy = world("habits.clumsy_write=1")
    clumsy.play(competent)
    clumsy.ask(f"{PROMPT}\n\nStill open: /app/run.sh is incomplete")
    assert any(keys.startswith("cat > /app/run.sh <<'EOF'\n") for keys in clumsy.typed)
    assert clumsy.kinds[-1] == "redo3"


def test_all_replies_are_json(world: Callable[..., World]) -> None:
    one = world()
    one.play(competent)
    assert all(json.loads(message.content) for message in one.messages if message.role == "assistant")
