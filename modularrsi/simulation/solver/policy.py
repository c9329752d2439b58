"""What the solver does next.

Competent by itself: it plays the walkthrough step by step, waits for what runs, looks more closely where an output was
cut, does what it is told is missing, and declares completion at the end. On top of that its habits (`habits.py`), each
drawn for its occasion by (seed, rollout, habit, place).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from modularrsi.simulation.chance import Chance
from modularrsi.simulation.question import Answer, CannotAnswer, Question
from modularrsi.simulation.settings import Simulation
from modularrsi.simulation.solver import moves
from modularrsi.simulation.solver.handover import hand_over, wanted
from modularrsi.simulation.solver.memory import MOST_TYPOS, Memory, mark, recall
from modularrsi.simulation.solver.moves import Commands
from modularrsi.simulation.solver.reading import Offer, Signs, lists, names_as_open, offer, signs
from modularrsi.simulation.solver.speech import KINDS, Said, speak, spoil
from modularrsi.simulation.solver.tasks import Ways
from modularrsi.simulation.solver.walkthrough import Step, Walkthrough
from modularrsi.tasks.model import Task

GUESS = "unknown"
MOST_WAITS = 14
LONGEST_WAIT = 10.0
"""Seconds. Waits double from half a second up to this."""
_POLLS = 3
_MAY_POLL = ("look", "narrow", "do", "redo", "enter", "poll")
_LOOKS = 2
_HEEDS = 0.5
"""How likely a general warning (there was text beside the reply) is heeded."""
_THINKS_AGAIN = 0.4
"""How likely the question whether it is sure brings an early solver back to work."""
_REPEATS = {"vague": 0.9, "named": 0.5, "shown": 0.0, "": 0.0}
"""How likely an unreadable reply is followed by another, by how well the complaint says what was wrong."""


@dataclass(frozen=True, slots=True)
class Move:
    """One reply, before it is put into words. `kind` goes into its mark:

    look, narrow  a look; a look at just the needed part    do, redo  a step; a step that was called open
    typo          a step with its command mistyped           unended   a step without the Enter that runs it
    twice         a draft, then the step                     poll      empty keystrokes though nothing runs
    wait          empty keystrokes while something runs      clear     C-c, for the shell waits for more input
    enter         the Enter that a line lacked               claim     the task is complete
    """

    kind: str
    step: int
    commands: Commands = ()
    says: str = ""
    draft: Commands = ()


class Solver:
    """The policy of the role `solver`."""

    def __init__(self, simulation: Simulation, tasks: Sequence[Task]) -> None:
        self._simulation = simulation
        self._ways = Ways(tasks)

    def __call__(self, question: Question) -> Answer:
        """Raises CannotAnswer for a task that is not known, or that has no solution."""
        if question.purpose == "questions":
            return Answer(hand_over(question, Memory(), Walkthrough(())))
        walk = self._ways.find(question)
        offered = offer(question.messages)
        if offered is None:
            raise CannotAnswer("the prompt teaches no form of reply that has an example: a JSON object with a list of "
                               "commands, tags with a duration, or a fenced block of shell")
        memory = recall(question.messages, walk, offered.form)
        if wanted(question):
            return Answer(hand_over(question, memory, walk))
        rollout = Chance(self._simulation.seed).at(question.scope or question.messages[0].content)
        turn = _Turn(self._simulation, walk, offered, memory, signs(question.last, offered.form), rollout)
        return Answer(turn.reply())


@dataclass(frozen=True)
class _Turn:
    """One question on the way to its answer."""

    simulation: Simulation
    walk: Walkthrough
    offer: Offer
    memory: Memory
    signs: Signs
    chance: Chance

    def reply(self) -> str:
        move = self._move()
        words = self._words(move)
        form = self.offer.form
        kind = self._spoilt(move)
        if kind:
            return spoil(words, form, kind)
        if move.draft:
            draft = replace(words, plan="First a look around.", commands=move.draft)
            return f"{speak(draft, form)}\n{speak(words, form)}"
        return speak(words, form)

    # ----------------------------------------------------------------------------------------------------- what to do

    def _move(self) -> Move:
        if self.memory.wasted >= self.simulation.patience:
            return Move("claim", 0, says="This leads nowhere; it will have to do.")
        first = self._unfinished() or self._enter() or self._waiting() or self._mistyped_again()
        return first or self._next()

    def _unfinished(self) -> Move | None:
        if not self.signs.unfinished or self.memory.counts[self.memory.last[0], "clear"] >= 2:
            return None
        return Move("clear", self.memory.last[0], (("C-c", moves.QUICK),), "The shell waits for more; I give that up.")

    def _enter(self) -> Move | None:
        number, kind = self.memory.last
        if kind != "unended" or not self.signs.not_run or self.signs.complaint:
            return None
        return Move("enter", number, (("\n", moves.seconds(self.walk.steps[number - 1])),), "I press Enter.")

    def _waiting(self) -> Move | None:
        number, kind = self.memory.last
        if kind in ("", "claim", "unended") or self.signs.complaint:
            return None
        waits = self.memory.counts[number, "wait"]
        if self.signs.finished is False and waits < MOST_WAITS:
            time = LONGEST_WAIT if self.signs.told_busy else min(LONGEST_WAIT, 0.5 * 2**waits)
            return Move("wait", number, (("", time),), "It still runs; I wait.")
        if kind in _MAY_POLL and not self.signs.told_idle and self._polls(number):
            return Move("poll", number, (("", 0.5),), "Perhaps it still runs; I wait a little.")
        return None

    def _polls(self, number: int) -> bool:
        wanted_polls = 1 + int(_POLLS * self.chance.draw("polls", number))
        return self._habit("idle_polling", number) and self.memory.counts[number, "poll"] < wanted_polls

    def _mistyped_again(self) -> Move | None:
        number, kind = self.memory.last
        again = kind == "typo" and not self.signs.repeated and self.memory.counts[number, kind] < MOST_TYPOS
        if not again or self.signs.complaint:
            return None
        step = self._filled(number)
        return Move("typo", number, moves.mistyped(step), "That must work; once more.")

    def _next(self) -> Move:
        for step in self.walk.steps:
            if self._redo(step):
                return self._do(step, again=True)
        for step in self.walk.steps:
            if step.kind != "look" and not self._done(step) and not self._withheld(step):
                return self._look_for(step) or self._do(step)
        return Move("claim", 0, says="All of it is done.")

    def _done(self, step: Step) -> bool:
        """A warning that there was more than one text makes every other solver send the second again."""
        heeded = step.number in self.memory.warned and self.chance.happens(_HEEDS, "heeds", step.number)
        return step.number in self.memory.done and not heeded

    def _redo(self, step: Step) -> bool:
        """A step that is believed to be done and has just been called open is done again, properly."""
        believed = step.requirement and step.number in self.memory.done
        return believed and names_as_open(self.signs.text, step) and self.memory.counts[step.number, "redo"] < 2

    def _withheld(self, step: Step) -> bool:
        """Left out by habit, unless somebody has called it open."""
        if step.number in self.memory.named:
            return False
        return step.number >= self._stops_at or self._forgotten(step)

    @functools.cached_property
    def _stops_at(self) -> int:
        """The step before which this rollout declares completion: any requirement but the first."""
        steps = self.walk.requirements[1:] or self.walk.requirements
        thinks_again = self.memory.asked_sure and self.chance.happens(_THINKS_AGAIN, "thinks again")
        if not steps or thinks_again or not self._habit("early_completion"):
            return len(self.walk.steps) + 1
        return self.chance.pick(steps, "stops at").number

    def _forgotten(self, step: Step) -> bool:
        handed = self.memory.since_handover
        return bool(handed) and step.requirement and self._habit("forgets_after_compression", step.number) and (
            not lists(handed, step)
        )

    # -------------------------------------------------------------------------------------------------------- looking

    def _look_for(self, step: Step) -> Move | None:
        """The next look that comes before this step, or that it needs; None when there is nothing to look for."""
        for look in self.walk.steps[: step.number - 1]:
            if look.kind == "look" and (look.number > self._last_done or set(look.finds_names) & set(step.slots)):
                move = self._look(look)
                if move is not None:
                    return move
        return None

    @property
    def _last_done(self) -> int:
        return max(self.memory.done, default=0)

    def _look(self, look: Step) -> Move | None:
        """None when it has been seen, or is given up: then a guess stands for it."""
        looks, narrow = self.memory.counts[look.number, "look"], self.memory.counts[look.number, "narrow"]
        look = self._filled(look.number)
        if not looks:
            return Move("look", look.number, moves.typed(look), "First a look.")
        if not look.needs or look.number in self.memory.seen:
            return None
        if narrow < _LOOKS and self.signs.rest_in:
            return Move("narrow", look.number, moves.narrow(look, self.signs.rest_in), "The rest is in that file.")
        if narrow < _LOOKS and not self._habit("lost_when_cut", look.number):
            return Move("narrow", look.number, moves.narrow(look), "It was cut; I look for just that.")
        if looks < _LOOKS:
            return Move("look", look.number, moves.typed(look), "I do not see it; once more.")
        return None

    # ---------------------------------------------------------------------------------------------------------- doing

    def _filled(self, number: int) -> Step:
        step = self.walk.steps[number - 1]
        guesses = dict.fromkeys((name for other in self.walk.steps for name in other.finds_names), GUESS)
        return step.filled({**guesses, **self.memory.found})

    def _do(self, step: Step, again: bool = False) -> Move:
        step = self._filled(step.number)
        kind = "redo" if again else "do"
        if step.kind == "write":
            move = Move(kind, step.number, self._write(step, careful=again), f"Now: {step.does}.")
        else:
            move = Move(kind, step.number, moves.typed(step), f"Now: {step.does}.")
        return move if again else self._with_habits(move, step)

    def _write(self, step: Step, careful: bool) -> Commands:
        several = step.content.count("\n") > 1
        if several and "write_file" in self.offer.helpers and step.text.startswith("/"):
            return moves.written_by_helper(step)
        if several and not careful and self._habit("clumsy_write", step.number):
            return moves.written_clumsily(step)
        return moves.written(step)

    def _with_habits(self, move: Move, step: Step) -> Move:
        number = step.number
        plain = moves.one_line(step)
        if plain and not self.memory.counts[number, "typo"] and self._habit("repeated_command", number):
            return replace(move, kind="typo", commands=moves.mistyped(step))
        if plain and self._habit("ignores_warning", number):
            return replace(move, kind="unended", commands=moves.unended(step))
        if not self.memory.counts[number, "twice"] and self._habit("answers_twice", number):
            return replace(move, kind="twice", draft=(("pwd\n", moves.QUICK),))
        return move

    # ---------------------------------------------------------------------------------------------------------- words

    def _words(self, move: Move) -> Said:
        analysis = f"{mark(move.step, len(self.walk.steps), move.kind)} {self._seen()}"
        return Said(analysis, move.says, move.commands, complete=move.kind == "claim")

    def _seen(self) -> str:
        if self.signs.complaint:
            return "My last reply could not be used."
        if self.signs.not_found:
            return "The shell does not know that command."
        return "So far so good." if self.memory.replies else "I begin."

    def _spoilt(self, move: Move) -> str:
        """The kind in which this reply is unreadable; "" when it is readable. One kind for one streak."""
        rate = self.simulation.habits["unreadable_reply"]
        if rate <= 0:
            return ""
        place = ("unreadable", self.memory.replies - self.memory.streak, move.step, move.kind)
        if self.memory.streak:
            again = self.chance.happens(_REPEATS[self.signs.complaint], *place, "again", self.memory.streak)
        else:
            again = self.chance.happens(rate, *place)
        return self.chance.pick(KINDS, *place, "kind") if again else ""

    def _habit(self, name: str, *place: object) -> bool:
        return self.chance.happens(self.simulation.habits[name], name, *place)
