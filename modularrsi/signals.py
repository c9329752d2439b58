"""The signals that evidence is written in: what can be seen in a trajectory without a model, and whose affair it is.

One vocabulary for those who extract evidence, those who judge it and those who measure the judges.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signal:
    """`point` is `module/point`: where a change would most likely have made the difference."""

    name: str
    point: str
    means: str

    @property
    def module(self) -> str:
        return self.point.partition("/")[0]


SIGNALS: dict[str, Signal] = {
    signal.name: signal
    for signal in (
        Signal("unreadable_reply", "tools/grammar", "a reply could not be read, though its meaning was plain"),
        Signal("reply_left_out", "tools/grammar", "a reply held several answers, and another than the last was used"),
        Signal("repeated_format_error", "agent_loop/recover", "the same format error came again after the complaint"),
        Signal("ended_at_fault", "agent_loop/recover", "the run ended at a fault that could have been recovered from"),
        Signal("repeated_command", "agent_loop/guard", "a failing command was sent again unchanged"),
        Signal("line_not_run", "agent_loop/guard", "a line was typed without Enter, and the next landed on it"),
        Signal("stopped_early", "agent_loop/drive", "the run ended before completion was declared and confirmed"),
        Signal("early_completion", "completion/check", "completion was declared with a requirement open"),
        Signal("completion_refused", "completion/check", "completion was declared again and again, and never accepted"),
        Signal("objection_ignored", "completion/decide", "the run ended though a check objected"),
        Signal("damaged_file", "tools/command", "a file was written through the shell, and came out different"),
        Signal("misrouted_command", "tools/route", "what was typed is not what was sent, or went elsewhere"),
        Signal("output_cut", "observation/limit", "the text that was needed was cut out of the observation"),
        Signal("stale_screen", "observation/capture", "the observation did not show what had come"),
        Signal("idle_wait", "observation/refine", "turns were spent waiting for what had finished"),
        Signal("noisy_output", "observation/refine", "control sequences or repeats hid what mattered"),
        Signal("lost_requirement", "context/retain", "a requirement was forgotten after the context was handed over"),
        Signal("lost_history", "context/fit", "what had been done was forgotten, or the context compressed too early"),
    )
}
