"""Writes down what the engine served, as it serves it: the record that a worker cannot forge.

The engine's session calls one method for each thing that passes. Traces and notes are the worker's own words and are
kept apart as such. Every text is redacted before it is cut and before it touches the disk.

Requests repeat the whole history; only what is new against the last turn is kept, and how much of the history was the
same. So the record grows with the conversation, not with its square, and a rewritten history shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from harness.types import Key, Snapshot, Usage
from modularrsi.recorder.assemble import assemble
from modularrsi.recorder.bounds import NOTE_CHARS, SUMMARY_CHARS, TEXT_CHARS, Redact, bounded, clean, cut
from modularrsi.recorder.part import PartFile, read_part
from modularrsi.recorder.totals import Totals

MAX_PART_BYTES = 64 * 1024 * 1024
_AFTER_LIMIT_CHARS = 500
_READING_CHARS = 20_000
_TRACE_CALLS = 500
_TRACE_FIELDS = ("turn", "module", "point", "function", "milliseconds", "outcome")
TURN = "turn"


def unchanged(text: str) -> str:
    return text


class Recorder:
    """One per rollout step. `path` is the growing part file (an earlier one there is replaced).

    All methods raise StoreError when the disk refuses, and nothing else. The record is bounded: texts to `TEXT_CHARS`
    characters, and to a few hundred once the file has `MAX_PART_BYTES`.
    """

    def __init__(
        self, path: Path, *, session_id: str, agent_name: str, agent_version: str, model_name: str | None = None,
        redact: Redact = unchanged, extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._path, self._redact = path, redact
        self._part = PartFile(path)
        self._turn: list[bytes] = []
        self._purpose = TURN
        self._totals = Totals()
        agent = {"name": agent_name, "version": agent_version, "model_name": model_name}
        self._part.write("header", session_id=session_id, agent=agent, extra=bounded(dict(extra or {}), redact, 1_000))

    def request(self, messages: Sequence[Mapping[str, Any]], purpose: str = TURN) -> None:
        """The model is asked. `messages`: role and content each, the whole history with the prompt at its end."""
        digests = [_digest(message["role"], message["content"]) for message in messages]
        kept = _common(self._turn, digests)
        new = [{"role": message["role"], "content": self._text(message["content"])} for message in messages[kept:]]
        self._part.write("request", purpose=self._text(purpose, 40), kept=kept, before=len(self._turn), messages=new)
        self._purpose = purpose
        if purpose == TURN:
            self._turn = digests

    def reply(
        self, text: str, reasoning: str = "", usage: Usage | None = None, cost: float | None = None,
        model: str | None = None, finish_reason: str | None = None,
    ) -> None:
        """It answered. `cost` in US dollars; None = unknown."""
        metrics = {
            "prompt_tokens": usage.prompt_tokens if usage else None,
            "completion_tokens": usage.completion_tokens if usage else None,
            "cached_tokens": usage.cached_tokens if usage else None,
            "cost_usd": None if cost is None else bounded(float(cost), self._redact, 0),
        }
        self._totals.add(metrics)
        details = {name: getattr(usage, name, None) for name in ("cache_write_tokens", "reasoning_tokens")}
        self._part.write(
            "reply", text=self._text(text), reasoning=self._text(reasoning), metrics=metrics,
            details={name: value for name, value in details.items() if value is not None},
            model=model and self._text(model, 200), finish_reason=finish_reason and self._text(finish_reason, 80),
        )
        if self._purpose == TURN:
            self._turn.append(_digest("assistant", text))

    def model_error(self, kind: str, message: str) -> None:
        """It did not answer. `kind` is of `harness.wire.ERROR_KINDS`."""
        self._part.write("error", error=self._text(kind, 80), message=self._text(message, SUMMARY_CHARS))

    def sent(self, keys: Sequence[str | Key], wait: float) -> None:
        """Keys were typed, and `wait` seconds let pass."""
        named = [key.name for key in keys if isinstance(key, Key)]
        self._part.write("sent", keystrokes=self._text(_keystrokes(keys)), wait=bounded(wait, self._redact, 0),
                         named=bounded(named, self._redact, 40))

    def read(self, snapshot: Snapshot) -> None:
        flags = {name: value for name in ("recreated", "waiting", "alternate", "busy")
                 if (value := getattr(snapshot, name))}
        self._part.write("read", scope=snapshot.scope, text=self._text(snapshot.text, _READING_CHARS), flags=flags)

    def sandbox_call(self, method: str, params: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """`exec`, `read_file` or `write_file` was served; texts in `params` and `result` are kept to a few thousand
        characters each."""
        self._part.write("call", method=self._text(method, 80),
                         params=bounded(dict(params), self._redact, self._limit(SUMMARY_CHARS)),
                         result=bounded(dict(result), self._redact, self._limit(SUMMARY_CHARS)))

    def trace(self, calls: Sequence[Any]) -> None:
        """What the worker says of its own calls (`harness.types.TraceCall` as objects); anything else is left out."""
        traced = [{name: bounded(call.get(name), self._redact, 200) for name in _TRACE_FIELDS}
                  for call in (cast(dict[str, Any], item) for item in calls[:_TRACE_CALLS] if isinstance(item, dict))]
        self._part.write("trace", calls=traced, left_out=len(calls) - len(traced))

    def note(self, text: str) -> None:
        """The worker's own words."""
        self._part.write("note", text=self._text(text, NOTE_CHARS))

    def violation(self, message: str) -> None:
        """The worker broke the protocol."""
        self._part.write("violation", message=self._text(message, NOTE_CHARS))

    def totals(self) -> dict[str, Any]:
        """Of all replies so far: prompt_tokens, completion_tokens, cached_tokens, cost_usd (None = unknown); calls."""
        return self._totals.to_json()

    def finish(self, ending: str) -> dict[str, Any]:
        """Close the record and assemble it: one trajectory of ATIF 1.8, ready to be written as JSON."""
        self._part.write("end", ending=self._text(ending, 200))
        self._part.close()
        return assemble(read_part(self._path))

    def _limit(self, limit: int) -> int:
        return limit if self._part.size < MAX_PART_BYTES else min(limit, _AFTER_LIMIT_CHARS)

    def _text(self, text: str, limit: int = TEXT_CHARS) -> str:
        return cut(self._redact(clean(text)), self._limit(limit))


def salvage(path: Path) -> dict[str, Any]:
    """The trajectory of a part file that nobody finished: every turn that was whole when the engine died.

    Raises StoreError when the file cannot be read.
    """
    return assemble(read_part(path))


def _digest(role: str, content: str) -> bytes:
    return hashlib.blake2b(f"{role}\0{content}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _keystrokes(keys: Sequence[str | Key]) -> str:
    """As a reply would write them: one named key is its name, among text it stands in angle brackets."""
    if len(keys) == 1 and isinstance(keys[0], Key):
        return keys[0].name
    return "".join(key if isinstance(key, str) else "\n" if key.name == "Enter" else f"<{key.name}>" for key in keys)
