"""The solver's habits: what real agents do wrong, each with a name, a probability, a source and what averts it.

A probability is that of one *occasion* (named in `occasion`). 0 switches a habit off, 1 makes it certain. Without
habits the solver is competent: it plays the reference solution, waits for its commands, and declares completion when
all of it is done.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Habit:
    """`module`: the module of the harness that can avert it. `averted_by`: what of the harness makes a difference,
    in the words that the solver reacts to."""

    name: str
    probability: float
    occasion: str
    does: str
    averted_by: str
    module: str
    source: str


HABITS: dict[str, Habit] = {
    habit.name: habit
    for habit in (
        Habit(
            "unreadable_reply", 0.08, "each reply",
            "sends the reply in one of six broken forms: a trailing comma, raw line breaks inside a string, Python's "
            "quotes, a thought with braces first, renamed fields, prose only; and the same form again as long as the "
            "complaint is vague",
            "a grammar that reads what can be read; a complaint that names the error (half of the repetitions), or "
            "shows the form once more (all of them)",
            "tools",
            "public issues: endless format errors (mini-swe-agent#863), fences and thoughts (smolagents#1219, #1404); "
            "one of 23 recorded runs of a 1.5B model sent nothing readable",
        ),
        Habit(
            "early_completion", 0.15, "each rollout",
            "declares the task complete with a requirement open; asked whether it is sure, it says yes in six of ten "
            "rollouts",
            "feedback that names an open requirement, by a file or word of it: then it does that first",
            "completion",
            "15 of 20 failures of a recorded 1.5B model declared completion; stella#1477, #2663",
        ),
        Habit(
            "clumsy_write", 0.15, "each file of several lines",
            "types the file as a heredoc whose delimiter is not quoted (the shell fills in `$` and backticks), or, "
            "without such characters, as one `echo` with \\n in it",
            "an offered command write_file, which takes the content as it is",
            "tools",
            "multi-line writes through a shell are the commonest source of damaged files: software-agent-sdk#2181, "
            "thurbox#651",
        ),
        Habit(
            "lost_when_cut", 0.25, "each look whose needed text was cut away",
            "looks once more the same way, then goes on with a guess",
            "an observation that still holds the text, or a note about the cut that names a file with the rest",
            "observation",
            "huge output: mini-swe-agent#873, agent-zero#833",
        ),
        Habit(
            "idle_polling", 0.10, "each step that has finished",
            "waits with empty keystrokes, up to three turns, though nothing runs any more",
            "a line that says that the shell is idle; a line that says that it is busy makes one long wait of many "
            "short ones",
            "observation",
            "a silent hang taken for an interactive wait: Decepticon#498; one of 23 recorded runs of a 1.5B model",
        ),
        Habit(
            "repeated_command", 0.03, "each command",
            "mistypes the command's name, and sends the same again though it was not found, up to four times; then it "
            "leaves that step out",
            "feedback that says that the command was sent before or keeps failing",
            "agent_loop",
            "8 of 23 recorded runs of a 1.5B model sent the same commands twice running; loop detectors: "
            "tolokaforge#1141, stella#3292",
        ),
        Habit(
            "forgets_after_compression", 0.30, "each requirement still open at a hand-over of the context",
            "leaves the requirement out",
            "a line of its own for the requirement in what was handed over: a list, not a paragraph",
            "context",
            "condensation loses state: OpenHands#8630, #10873, verifiers#2458",
        ),
        Habit(
            "answers_twice", 0.03, "each reply with commands",
            "sends a draft (a look around) and then the reply that counts, and goes on as if the second had been used; "
            "a warning that there was more text is heeded every other time",
            "a grammar that takes the last of several replies; feedback that says which of them was left out",
            "tools",
            "a thought with an object first, then the answer: smolagents#1428 and probes of public parsers",
        ),
        Habit(
            "ignores_warning", 0.03, "each command",
            "leaves out the line break that runs the command, and does not heed the parser's warning about it: the "
            "next command lands on the same line",
            "feedback that says plainly that a line was typed and not run: then it presses Enter",
            "agent_loop",
            "Terminus-2's parser has a warning of its own for it; seen in one of 23 recorded runs of a 1.5B model",
        ),
    )
}


def none() -> dict[str, float]:
    """All habits off."""
    return dict.fromkeys(HABITS, 0.0)


def defaults() -> dict[str, float]:
    return {name: habit.probability for name, habit in HABITS.items()}
